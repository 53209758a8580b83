"""The receiver double: each mood as its name says, and HTTP/1.1 as a sender's pool will use it."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from duly.testing.http1 import BODY_BYTES_MAX, BUFFER_BYTES_MAX, HEAD_BYTES_MAX
from duly.testing.receiver import MOODS, Receiver

KEY = b"key of thirty-two bytes, no less"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
SILENCE_SECONDS = 0.15  # without an answer
PATIENCE_SECONDS = 10.0


class Wire:
    """One connection, and what comes back on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, data: bytes, patience: float = PATIENCE_SECONDS) -> int | str:
        """Write, and read one answer: its status, `silence` for so long, `reset` or `end`."""
        self.writer.write(data)
        return await self.read(patience)

    async def read(self, patience: float = PATIENCE_SECONDS) -> int | str:
        try:
            async with asyncio.timeout(patience):
                head = await self.reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
                self.body = await self.reader.readexactly(length)
        except TimeoutError:
            return "silence"
        except asyncio.IncompleteReadError:
            return "end"
        except ConnectionError:
            return "reset"
        return int(head.split(b" ")[1])


def post(path: str, message_id: str = "m1", body: bytes = b"{}", *fields: str, version: str = "1.1") -> bytes:
    lines = [
        f"POST {path} HTTP/{version}",
        f"Webhook-Id: {message_id}",
        f"Content-Length: {len(body)}",
        *fields,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def on_a_wire(story: Callable[[Receiver, Callable[[], Awaitable[Wire]]], Awaitable[None]], receiver: Receiver) -> None:
    """Run a story against a receiver, with as many connections as it opens."""

    async def run() -> None:
        wires: list[Wire] = []

        async def connect() -> Wire:
            wires.append(Wire(*await asyncio.open_connection("127.0.0.1", receiver.port)))
            return wires[-1]

        async with receiver:
            try:
                await story(receiver, connect)
            finally:
                for wire in wires:
                    wire.writer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mood", "first", "second", "accepted", "dropped"),
    [
        ("ok", 200, 200, 1, 1),
        ("gone", 410, 410, 0, 0),
        ("busy", 429, 200, 1, 0),
        ("closed", 503, 200, 1, 0),
        ("down", 503, 200, 1, 0),
        ("broken", 500, 200, 1, 1),
        ("reset", "reset", 200, 1, 0),
        ("dropped", "reset", 200, 1, 1),
        ("silent", "silence", 200, 1, 0),
        ("lost", "silence", 200, 1, 1),
        ("denied", 401, 401, 0, 0),
        ("slow", 200, 200, 1, 1),
        ("redirect", 302, 302, 0, 0),
    ],
)
def test_moods(mood: str, first: int | str, second: int | str, accepted: int, dropped: int) -> None:
    """A message sent twice meets the mood's first and later answer, and is accepted no more than once."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        patience = SILENCE_SECONDS if first == "silence" else PATIENCE_SECONDS
        assert await (await connect()).ask(post(f"/{mood}/7"), patience) == first
        assert await (await connect()).ask(post(f"/{mood}/7")) == second
        assert receiver.accepted == ["m1"] * accepted
        assert receiver.duplicates_dropped == dropped
        assert receiver.count(mood, "7") == receiver.requests == len(receiver.received(mood, "7")) == 2

    on_a_wire(story, Receiver(slow_seconds=0.01))


def test_every_mood_is_tested() -> None:
    """The table of moods and the test above name the same moods."""
    tested = next(mark for mark in test_moods.pytestmark if mark.name == "parametrize").args[1]  # type: ignore[attr-defined]
    assert {row[0] for row in tested} == set(MOODS)


def test_a_plan_is_followed_and_its_last_step_stays() -> None:
    """A message that comes again meets the next mood of the plan, and what it accepted once stays accepted."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        met = [await (await connect()).ask(post("/busy-dropped-down-ok/7"), SILENCE_SECONDS) for _ in range(5)]
        assert met == [429, "reset", 503, 200, 200]
        assert (receiver.accepted, receiver.duplicates_dropped) == (["m1"], 2)
        assert await (await connect()).ask(post("/busy-cheerful/7")) == 404

    on_a_wire(story, Receiver())


def test_a_receiver_that_forgets_accepts_what_comes_again() -> None:
    """Without the promise to drop repeats every accepted request is one more message."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        met = [await (await connect()).ask(post("/dropped-down-ok/7")) for _ in range(4)]
        assert met == ["reset", 503, 200, 200]
        assert receiver.accepted == ["m1"] * 3
        assert (receiver.duplicates_accepted, receiver.duplicates_dropped) == (2, 0)
        assert receiver.counts()["accepted"] == 3

    on_a_wire(story, Receiver(deduplicates=False))


def test_first_and_later_are_a_messages_own() -> None:
    """Another message on the same path, and the same message on another path, come for the first time."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        sent = [post("/busy/7", "m1"), post("/busy/7", "m2"), post("/busy/8", "m1"), post("/busy/7", "m1")]
        assert [await wire.ask(one) for one in sent] == [429, 429, 429, 200]
        assert receiver.accepted == ["m1"]

    on_a_wire(story, Receiver())


def test_denied_until_mended() -> None:
    """A mended receiver accepts what it had denied."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert await wire.ask(post("/denied/7")) == 401
        receiver.mend()
        assert await wire.ask(post("/denied/7")) == 200
        assert receiver.accepted == ["m1"]

    on_a_wire(story, Receiver())


def test_requests_are_recorded_as_they_came() -> None:
    """Recorded headers have lower-case names, and bodies their bytes."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        assert await (await connect()).ask(post("/ok/7", "m1", b"\x00\xff", "X-Own:  yes ")) == 200
        (one,) = receiver.received("ok", "7")
        assert one.headers == {"webhook-id": "m1", "content-length": "2", "x-own": "yes"}
        assert one.body == b"\x00\xff"

    on_a_wire(story, Receiver())


def test_without_recording_it_only_counts() -> None:
    """A receiver that does not record still counts, and forgets no acceptance."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        assert await (await connect()).ask(post("/ok/7")) == 200
        assert (receiver.received("ok", "7"), receiver.count("ok", "7"), receiver.accepted) == ([], 1, ["m1"])

    on_a_wire(story, Receiver(recording=False))


def signed(timestamp: int, key: bytes = KEY, body: bytes = b"{}") -> bytes:
    """A request whose signature is written out as the specification says it."""
    mac = hmac.digest(key, f"m1.{timestamp}.".encode() + body, "sha256")
    signature = "v1,AAAA v1," + base64.b64encode(mac).decode()
    return post("/ok/7", "m1", b"{}", f"Webhook-Timestamp: {timestamp}", f"Webhook-Signature: {signature}")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (signed(1000), 200),
        (signed(1300), 200),
        (signed(1301), 401),
        (signed(699), 401),
        (signed(1000, key=b"x" * 32), 401),
        (signed(1000, body=b"{} "), 401),
        (post("/ok/7"), 401),
    ],
)
def test_signatures_are_checked(request_bytes: bytes, status: int) -> None:
    """With a secret, what it did not sign lately is denied, counted, and not accepted."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        assert await (await connect()).ask(request_bytes) == status
        assert (receiver.bad_signatures, len(receiver.accepted)) == ((0, 1) if status == 200 else (1, 0))

    on_a_wire(story, Receiver(secrets=[SECRET], clock=lambda: 1000.0))


def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests that come together are answered one after the other, also behind a slow one."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        together = post("/ok/1") + post("/slow/2") + post("/gone/3") + post("/busy/4")
        assert [await wire.ask(together), await wire.read(), await wire.read(), await wire.read()] == [
            200,
            200,
            410,
            429,
        ]
        assert receiver.connections == 1

    on_a_wire(story, Receiver(slow_seconds=0.01))


def test_nothing_is_answered_behind_a_silence() -> None:
    """A request behind one that gets no answer is not answered in its stead, and not taken in."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        assert await (await connect()).ask(post("/silent/1") + post("/ok/2"), SILENCE_SECONDS) == "silence"
        assert (receiver.count("silent", "1"), receiver.count("ok", "2")) == (1, 0)

    on_a_wire(story, Receiver())


def test_what_piles_up_behind_a_silence_is_bounded() -> None:
    """A sender that never stops writing behind a silence is cut off, and its bytes are not kept."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        wire.writer.write(post("/silent/1"))
        assert await wire.ask(b"x" * (BUFFER_BYTES_MAX + 1)) in {"reset", "end"}
        assert receiver.requests == 1

    on_a_wire(story, Receiver())


def test_a_reset_answers_what_came_before_it() -> None:
    """The answer before a reset is sent first."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert await wire.ask(post("/ok/1")) == 200
        assert await wire.ask(post("/reset/2")) == "reset"
        assert receiver.accepted == ["m1"]

    on_a_wire(story, Receiver())


def test_requests_may_come_in_pieces() -> None:
    """A request cut at any byte is read as one."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        whole = post("/ok/7", "m1", b'{"a": 1}')
        for at in range(1, len(whole)):
            wire.writer.write(whole[:at])
            await asyncio.sleep(0.0005)
            assert await wire.ask(whole[at:]) == 200
        assert {one.body for one in receiver.received("ok", "7")} == {b'{"a": 1}'}
        assert receiver.accepted == ["m1"]

    on_a_wire(story, Receiver())


def test_a_sender_may_wait_to_be_asked_for_its_body() -> None:
    """Expect: 100-continue is answered once, before the body."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        whole = post("/ok/7", "m1", b"body", "Expect: 100-continue")
        wire.writer.write(whole[:10])
        await asyncio.sleep(0.01)
        assert await wire.ask(whole[10:-4]) == 100
        assert await wire.ask(b"bo", SILENCE_SECONDS) == "silence"
        assert await wire.ask(b"dy") == 200
        assert receiver.received("ok", "7")[0].body == b"body"

    on_a_wire(story, Receiver())


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /ok/7 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /ok/7 HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /ok/7 HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n", 400),
        (b"POST /ok/7 HTTP/1.1\r\nContent-Length: " + b"9" * 11 + b"\r\n\r\n", 400),
        (b"POST /ok/7 HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"POST /ok/7\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"POST /ok/7 HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX, 431),
    ],
)
def test_what_it_does_not_read_ends_the_connection(raw: bytes, status: int) -> None:
    """Chunked, malformed and oversized requests are answered with their status, and then it hangs up."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert [await wire.ask(raw), await wire.read()] == [status, "end"]
        assert receiver.requests == 0

    on_a_wire(story, Receiver())


@pytest.mark.parametrize(("fields", "version"), [(["Connection: Close"], "1.1"), ([], "1.0")])
def test_it_hangs_up_where_the_sender_wants_it(fields: list[str], version: str) -> None:
    """After a last request, or one of HTTP/1.0, the connection is closed."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert [await wire.ask(post("/ok/7", "m1", b"", *fields, version=version)), await wire.read()] == [200, "end"]
        assert receiver.connections == 1

    on_a_wire(story, Receiver())


# --- look-ups --------------------------------------------------------------------------------------


def get(target: str, *fields: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", *fields, "", ""]).encode()


def test_a_look_up_tells_what_was_accepted() -> None:
    """Accepted anywhere, answered or not, is there, under a name of the receiver's; nothing else is."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        for mood, message_id in (("lost", "m1"), ("down", "m2"), ("dropped", "m3")):
            await (await connect()).ask(post(f"/{mood}/7", message_id), SILENCE_SECONDS)
        wire, found = await connect(), {}
        for message_id in ("m1", "m2", "m3", "m4"):
            status = await wire.ask(get(f"/deliveries/{message_id}"))
            found[message_id] = (status, json.loads(wire.body).get("id"))
        assert found == {"m1": (200, "accepted-1"), "m2": (404, None), "m3": (200, "accepted-2"), "m4": (404, None)}
        assert (receiver.questions, receiver.asked) == (4, ["m1", "m2", "m3", "m4"])
        assert receiver.counts()["questions"] == 4
        assert receiver.lookup_url() == f"http://127.0.0.1:{receiver.port}/deliveries/{{delivery}}"

    on_a_wire(story, Receiver(lookup=True))


def test_a_look_up_settles() -> None:
    """What was accepted is shown after the settling time, and not before."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert await wire.ask(post("/ok/7")) == 200
        assert await wire.ask(get("/deliveries/m1")) == 404
        await asyncio.sleep(receiver.settling_seconds)
        assert await wire.ask(get("/deliveries/m1")) == 200

    on_a_wire(story, Receiver(lookup=True, settling_seconds=0.2))


def test_a_look_up_has_moods_of_its_own() -> None:
    """A planned question meets trouble first and then the truth, counted for each delivery."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        assert await (await connect()).ask(post("/ok/7")) == 200
        assert receiver.lookup_url("busy-ok").endswith("/deliveries/busy-ok/{delivery}")
        target = "/deliveries/busy-broken-reset-silent-slow/{}"
        met = [await (await connect()).ask(get(target.format("m1")), SILENCE_SECONDS) for _ in range(6)]
        assert met == [429, 500, "reset", "silence", 200, 200]
        assert await (await connect()).ask(get(target.format("m2"))) == 429
        assert await (await connect()).ask(get("/deliveries/ok/m2")) == 404

    on_a_wire(story, Receiver(lookup=True, slow_seconds=0.01))


@pytest.mark.parametrize(("lookup", "target", "status"), [(False, "m1", 404), (True, "cheerful/m1", 405)])
def test_a_question_that_was_not_promised_an_answer(lookup: bool, target: str, status: int) -> None:
    """Who cannot be asked has no such page, and an unknown mood is no answer that could be taken for one."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert await wire.ask(post("/ok/7")) == 200
        assert await wire.ask(get(f"/deliveries/{target}")) == status
        assert receiver.questions == int(lookup)

    on_a_wire(story, Receiver(lookup=lookup))


def test_a_question_is_signed_too() -> None:
    """With a secret, a stranger learns nothing about what was accepted."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert await wire.ask(signed(1000)) == 200
        assert await wire.ask(get("/deliveries/m1", "Webhook-Id: q1")) == 401
        signature = base64.b64encode(hmac.digest(KEY, b"q1.1000.", "sha256")).decode()
        fields = ("Webhook-Id: q1", "Webhook-Timestamp: 1000", f"Webhook-Signature: v1,{signature}")
        assert await wire.ask(get("/deliveries/m1", *fields)) == 200
        assert (receiver.questions, receiver.bad_signatures) == (2, 1)

    on_a_wire(story, Receiver(secrets=[SECRET], lookup=True))


def test_a_get_answers_with_the_counts() -> None:
    """Whoever runs it in another process can read the counts over HTTP."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert [await wire.ask(post("/ok/7")) for _ in range(2)] == [200, 200]
        assert await wire.ask(b"GET / HTTP/1.1\r\n\r\n") == 200
        assert json.loads(wire.body) == receiver.counts()
        assert (receiver.counts()["accepted"], receiver.counts()["duplicates_dropped"]) == (1, 1)

    on_a_wire(story, Receiver())


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"PUT /ok/7 HTTP/1.1\r\n\r\n", 405),
        (post("/cheerful/7"), 404),
        (post("ok"), 404),
        (b"POST /\xff HTTP/1.1\r\n\r\n", 404),
    ],
)
def test_strange_requests_are_said_to_be_so(raw: bytes, status: int) -> None:
    """Other methods and unknown moods get an answer of their own."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        assert await (await connect()).ask(raw) == status
        assert receiver.accepted == []

    on_a_wire(story, Receiver())


def test_messages_without_an_id_cannot_be_told_apart() -> None:
    """Without a webhook-id every request is answered, and none counts as a repeat."""

    async def story(receiver: Receiver, connect: Callable[[], Awaitable[Wire]]) -> None:
        wire = await connect()
        assert [await wire.ask(b"POST /ok/7 HTTP/1.1\r\n\r\n") for _ in range(2)] == [200, 200]
        assert (receiver.accepted, receiver.duplicates_dropped, receiver.count("ok", "7")) == ([], 0, 2)

    on_a_wire(story, Receiver())


def test_it_runs_in_a_process_of_its_own() -> None:
    """`python -m duly.testing.receiver` prints its port as JSON, keeps its promises, and ends when asked to."""
    command = [sys.executable, "-m", "duly.testing.receiver", "--port", "0", "--forgets", "--lookup"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            port = json.loads(served.stdout.readline())["port"]
            asked = [post("/ok/7"), post("/ok/7"), get("/deliveries/m1"), get("/deliveries/m2"), get("/")]
            assert asyncio.run(_ask(port, asked)) == [200, 200, 200, 404, 200]
        finally:
            served.send_signal(signal.SIGTERM)
        assert served.wait(timeout=60) == 0


async def _ask(port: int, asked: list[bytes]) -> list[int | str]:
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    answers = [await wire.ask(one) for one in asked]
    wire.writer.close()
    await wire.writer.wait_closed()
    assert json.loads(wire.body)["duplicates_accepted"] == 1
    return answers
