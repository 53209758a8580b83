"""The HTTP transport against real sockets: what is sent, what comes back, and how far a failure got."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from duly.errors import ConfigError
from duly.ports import Answer, HttpRequest, Mail, Request, Sent
from duly.transports.http import HttpTransport, host_of
from tests.transports.raw_server import OK, RawServer, Received, answering, reset
from tests.transports.sending import NEVER, answers, landed, one_answer, post, transport, with_transport

NOWHERE = "http://127.0.0.1:1/"


@pytest.fixture
def server() -> Iterator[RawServer]:
    """A receiver that says 200 to everything, until a test gives it another script."""
    with RawServer(answering(OK)) as running:
        yield running


def unsent(error: str, answer: Answer) -> bool:
    return answer.error == error and answer.sent is Sent.NOTHING and answer.status is None


def unknown(error: str, answer: Answer) -> bool:
    return answer.error == error and answer.sent is Sent.SOME and answer.status is None


# --- what is sent ----------------------------------------------------------------------------------


def test_a_request_arrives_as_it_was_given(server: RawServer) -> None:
    """Path, headers and body arrive unchanged, with a length, and with nothing that asks for a second step."""
    answer = one_answer(post(server.url("/a?b=c"), b'{"x": 1}', (("Content-Type", "application/json"), ("X-One", "1"))))
    assert (answer.status, answer.body, answer.error) == (200, b"ok", None)
    (received,) = server.received
    lines = received.head.lower().split(b"\r\n")
    assert received.head.startswith(b"POST /a?b=c HTTP/1.1\r\n")
    assert received.body == b'{"x": 1}'
    assert {b"content-type: application/json", b"x-one: 1", b"content-length: 8"} <= set(lines)
    assert b"user-agent: duly/" in received.head.lower()
    assert not any(line.startswith((b"expect", b"transfer-encoding", b"upgrade")) for line in lines)


def test_an_empty_body_and_an_empty_header_are_sent(server: RawServer) -> None:
    """No body is a length of nothing, no value is a header without one, and no content type is made up."""
    assert one_answer(post(server.url(), b"", (("X-Empty", ""),))).status == 200
    lines = server.received[0].head.lower().split(b"\r\n")
    assert b"content-length: 0" in lines
    assert b"x-empty:" in lines
    assert not any(line.startswith(b"content-type") for line in lines)


def test_a_long_body_arrives_whole_and_without_asking_first(server: RawServer) -> None:
    """A body that takes many reads arrives whole and without pauses, and no interim answer is asked for."""
    body = bytes(range(256)) * 8192
    began = time.monotonic()
    assert one_answer(post(server.url(), body)).status == 200
    assert time.monotonic() - began < 3
    assert server.received[0].body == body
    assert b"expect" not in server.received[0].head.lower()


@pytest.mark.parametrize(
    "content",
    [
        post("http://127.0.0.1:1/a\r\nX-Smuggled: 1"),
        post("http://127.0.0.1:1/\x00"),
        post("http://127.0.0.1:1/a b"),
        post("http://127.0.0.1:1/\u00fc"),
        post("ftp://127.0.0.1:1/"),
        post("file:///etc/passwd"),
        post("127.0.0.1:1/"),
        post(""),
        post("http://"),
        post("http://127.0.0.1:99999/"),
        post("http://[::1/"),
        post("http://127.0.0.1:1/" + "a" * 5000),
        post(NOWHERE, headers=(("x-one", "1\r\nx-smuggled: 1"),)),
        post(NOWHERE, headers=(("x-one", "1\nx-smuggled: 1"),)),
        post(NOWHERE, headers=(("x-one", "1\x002"),)),
        post(NOWHERE, headers=(("x-one", "\u20ac"),)),
        post(NOWHERE, headers=(("x-one\r\nx-smuggled", "1"),)),
        post(NOWHERE, headers=(("x one", "1"),)),
        post(NOWHERE, headers=(("x-one:", "1"),)),
        post(NOWHERE, headers=(("", "1"),)),
        post(NOWHERE, headers=(("Transfer-Encoding", "chunked"),)),
        post(NOWHERE, headers=(("content-length", "5"),)),
        post(NOWHERE, headers=(("Expect", "100-continue"),)),
        post(NOWHERE, headers=(("Host", "elsewhere.example"),)),
        Mail("a@example.com", "b@example.com", b"", ""),
    ],
)
def test_what_cannot_be_sent_as_it_stands_is_refused(content: HttpRequest | Mail) -> None:
    """Line breaks, blanks, other protocols and headers of the transport's own are refused, and nothing leaves."""
    answer = one_answer(content)
    assert unsent("protocol", answer)
    assert "smuggled" not in answer.detail


def test_a_refused_request_does_not_hold_up_its_neighbours(server: RawServer) -> None:
    """In one batch the good are sent and the bad are refused, each under its own token."""

    async def use(over: HttpTransport) -> list[Answer]:
        return await answers(over, post(server.url()), post("nonsense"), post(server.url()))

    assert [answer.status for answer in with_transport(use)] == [200, None, 200]


# --- what comes back -------------------------------------------------------------------------------


def test_headers_come_back_with_names_in_lower_case(server: RawServer) -> None:
    """Names are in lower case, values without blanks around, repeated headers joined, trailers left out."""
    server.script = answering(
        b"HTTP/1.1 202 Fine\r\nX-Request-ID:  abc \r\nVia: a\r\nVIA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.body) == (202, b"ok")
    assert answer.headers == {"x-request-id": "abc", "via": "a, b", "transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    "status", [200, 204, 301, 302, 307, 308, 400, 401, 407, 409, 410, 417, 421, 425, 429, 500, 503]
)
def test_every_final_status_is_an_answer_and_nothing_follows(server: RawServer, status: int) -> None:
    """Whatever the status asks for (go elsewhere, authenticate, expect less), one request was made and that is all."""
    more = b"location: /elsewhere\r\nwww-authenticate: Digest realm=x, nonce=y\r\nproxy-authenticate: Basic\r\n"
    server.script = answering(b"HTTP/1.1 %d X\r\n%scontent-length: 0\r\n\r\n" % (status, more))
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.error, answer.detail) == (status, None, "")
    assert len(server.received) == 1


def test_interim_answers_are_skipped(server: RawServer) -> None:
    """1xx are not answers: the status and the headers are those of the final one."""
    server.script = answering(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"
    )
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.headers) == (201, {"content-length": "0"})


def test_a_long_body_is_cut_and_the_status_stays(server: RawServer) -> None:
    """Past the limit nothing more is read; what came is kept, and a 2xx is still a 2xx."""
    server.script = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"a" * 300_000)
    answer = one_answer(post(server.url()), body_limit=1000)
    assert (answer.status, answer.body, answer.error) == (200, b"a" * 1000, None)
    assert answer.detail == "body cut at 1000 bytes"


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf", 200, b"half"),
        (b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", 503, b"half"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 200, b""),
        (b"HTTP/1.1 202 OK\r\nx-request-id: a", 202, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 200, b""),
    ],
)
def test_an_answer_that_ends_early_is_still_an_answer(server: RawServer, raw: bytes, status: int, body: bytes) -> None:
    """Once a final status line has come the receiver has decided; a torn body or head does not undo that."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)

    server.script = script
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.body, answer.error) == (status, body, None)


def test_a_body_that_never_ends_is_still_an_answer(server: RawServer) -> None:
    """A body that only drips is cut by the timeout, and the status stays."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(100):
            peer.sendall(b"a")
            time.sleep(0.02)

    server.script = script
    answer = one_answer(post(server.url()), timeout_seconds=0.3)
    assert (answer.status, answer.error) == (200, None)
    assert 1 <= len(answer.body) < 1000
    assert answer.detail == "answer cut short: no answer in time"


@pytest.mark.parametrize(
    "head", [b"x-long: " + b"a" * 400_000, b"x-a: 1\r\n" * 60_000, (b"x-a: " + b"a" * 900 + b"\r\n") * 100]
)
def test_headers_are_bounded(server: RawServer, head: bytes) -> None:
    """Headers without end are neither kept nor waited for, and the status stays."""
    server.script = answering(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
    answer = one_answer(post(server.url()))
    assert answer.status == 200
    assert sum(map(len, answer.headers.values())) <= 32 * 1024


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\nhello",
    ],
)
def test_garbage_is_unknown(server: RawServer, raw: bytes) -> None:
    """A request went out and what came back is no HTTP answer: nobody knows what the receiver did."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)

    server.script = script
    assert unknown("protocol", one_answer(post(server.url())))


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 20", b"HTTP/1.1 100 Continue\r\n\r\n"])
@pytest.mark.parametrize("rudely", [False, True])
def test_a_connection_that_ends_before_a_final_status_is_unknown(server: RawServer, raw: bytes, rudely: bool) -> None:
    """No status line, half of one, or only an interim one: the request may have been taken."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)
        time.sleep(0.02)
        if rudely:
            reset(peer)
        else:
            peer.shutdown(socket.SHUT_RDWR)

    server.script = script
    assert unknown("reset", one_answer(post(server.url())))


def test_interim_answers_without_end_are_bounded(server: RawServer) -> None:
    """A receiver that sends nothing but 1xx is cut off, and nobody knows what it did."""

    def script(peer: socket.socket, _received: Received) -> None:
        while True:
            peer.sendall(b"HTTP/1.1 103 Early Hints\r\nlink: " + b"a" * 500 + b"\r\n\r\n")

    server.script = script
    answer = one_answer(post(server.url()))
    assert answer.sent is Sent.SOME
    assert (answer.status, answer.error) == (None, "reset")


# --- how far a failure got -------------------------------------------------------------------------


def test_no_answer_in_time_is_unknown(server: RawServer) -> None:
    """The request was taken and the answer did not come: timeout, and some of it was sent."""
    server.script = answering(b"")
    began = time.monotonic()
    assert unknown("timeout", one_answer(post(server.url()), timeout_seconds=0.2))
    assert 0.15 < time.monotonic() - began < 2


def test_a_status_line_that_drips_is_unknown(server: RawServer) -> None:
    """Half a status line when the time is up says nothing."""

    def script(peer: socket.socket, _received: Received) -> None:
        for byte in b"HTTP/1.1 200 OK":
            peer.sendall(bytes([byte]))
            time.sleep(0.05)

    server.script = script
    assert unknown("timeout", one_answer(post(server.url()), timeout_seconds=0.3))


def test_a_connection_that_is_not_accepted_in_time_was_not_sent() -> None:
    """A receiver whose queue of connections is full: the connect timeout ends it, long before the total one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = listener.getsockname()
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(where)
        began = time.monotonic()
        answer = one_answer(post(f"http://127.0.0.1:{where[1]}/"), connect_timeout_seconds=0.3, timeout_seconds=9)
        took = time.monotonic() - began
        for one in crowd:
            one.close()
    assert unsent("timeout", answer)
    assert 0.25 < took < 3


def test_a_refused_connection_was_not_sent() -> None:
    """Nobody listens: nothing was sent, and the reason is named."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = one_answer(post(f"http://127.0.0.1:{unused.getsockname()[1]}/"))
    assert unsent("connect", answer)
    assert "ECONNREFUSED" in answer.detail


def test_a_name_that_does_not_resolve_was_not_sent() -> None:
    """A name that does not exist (RFC 6761, 6.4): nothing was sent, and the detail does not repeat the name."""
    answer = one_answer(post("http://nobody.invalid/"))
    assert unsent("dns", answer)
    assert "nobody" not in answer.detail


def test_a_request_past_its_time_is_not_started(server: RawServer) -> None:
    """The clock is read right before a request starts; at or past its time it does not."""
    reading = 100.0
    assert unsent("too_late", one_answer(post(server.url()), start_before=100.0, reading=lambda: reading))
    assert one_answer(post(server.url()), start_before=100.5, reading=lambda: reading).status == 200
    assert len(server.received) == 1


def test_the_reading_when_it_finished_is_the_clocks(server: RawServer) -> None:
    """`finished` is what the given clock says, not the machine's."""

    async def use(over: HttpTransport) -> float:
        await over.start([Request(7, post(server.url()), NEVER)])
        (completion,) = await over.completed(10, 5)
        assert completion.token == 7
        return completion.finished

    assert with_transport(use, reading=lambda: 1234.5) == 1234.5


# --- addresses inside ------------------------------------------------------------------------------

INSIDE = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0", "user:pass@127.0.0.1"]


@pytest.mark.parametrize("host", INSIDE)
def test_an_address_inside_is_refused(server: RawServer, host: str) -> None:
    """However it is written, and also behind a name, an address inside is not connected to."""
    assert unsent("refused_address", one_answer(post(server.url(host=host)), allow_private_networks=False))
    assert server.connections == 0


def test_loopback_is_refused_over_ipv6_too() -> None:
    """The guard reads IPv6 addresses as well."""
    with RawServer(answering(OK), host="::1") as inside:
        url = f"http://[::1]:{inside.port}/"
        assert unsent("refused_address", one_answer(post(url), allow_private_networks=False))
        assert inside.connections == 0
        assert one_answer(post(url)).status == 200


def test_an_address_inside_is_reached_where_that_is_allowed(server: RawServer) -> None:
    """With private networks allowed a name that leads to loopback is reached."""
    assert one_answer(post(server.url(host="localhost"))).status == 200


def test_no_proxy_is_taken_from_the_environment(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment would see every body, and would be connected to instead of the receiver."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert one_answer(post(server.url())).status == 200
    assert server.received[0].head.startswith(b"POST /hook ")


# --- connections, bounds, batches ------------------------------------------------------------------


def test_a_connection_is_used_again(server: RawServer) -> None:
    """Requests one after the other share one connection."""

    async def use(over: HttpTransport) -> None:
        for _ in range(20):
            assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use)
    assert (server.connections, len(server.received)) == (1, 20)


def test_a_host_never_has_more_connections_than_its_share(server: RawServer) -> None:
    """Slots are counted by host, and even requests without a slot do not open more connections."""

    def slowly(peer: socket.socket, _received: Received) -> None:
        time.sleep(0.03)
        peer.sendall(OK)

    async def use(over: HttpTransport) -> None:
        assert over.reserve([server.url(f"/{n}") for n in range(6)]) == [True] * 4 + [False] * 2
        assert over.reserve([server.url(host="localhost")]) == [True]
        assert over.room() == 11
        found = await answers(over, *(post(server.url()) for _ in range(12)))
        assert {answer.status for answer in found} == {200}

    server.script = slowly
    with_transport(use, capacity=16, per_host=4)
    assert server.open_at_most == 4


def test_two_hosts_do_not_wait_for_each_other(server: RawServer) -> None:
    """One receiver that is silent costs the other nothing."""
    with RawServer(answering(b"")) as silent:

        async def use(over: HttpTransport) -> None:
            await over.start([Request(0, post(silent.url()), NEVER)])
            await over.start([Request(token, post(server.url()), NEVER) for token in range(1, 9)])
            came: list[int] = []
            while len(came) < 8:
                came += [completion.token for completion in await over.completed(10, 2)]
            assert sorted(came) == list(range(1, 9))

        with_transport(use)


def test_a_large_batch_comes_back_whole(server: RawServer) -> None:
    """Three hundred at once, more than turns are kept close together for: each has its own answer."""
    server.script = lambda peer, one: peer.sendall(
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(one.body), one.body)
    )

    async def use(over: HttpTransport) -> None:
        found = await answers(over, *(post(server.url(), b"%d" % n) for n in range(300)))
        assert [answer.body for answer in found] == [b"%d" % n for n in range(300)]

    with_transport(use, capacity=300, per_host=300)
    assert max(server.bodies().values()) == 1


def test_completed_keeps_to_its_limit_and_its_time(server: RawServer) -> None:
    """No more than `limit` come at once, the rest comes next, and with nothing to come the wait ends."""

    async def use(over: HttpTransport) -> None:
        began = time.monotonic()
        assert await over.completed(10, 0.05) == []
        assert 0.04 < time.monotonic() - began < 1
        await over.start([Request(token, post(server.url()), NEVER) for token in range(5)])
        await asyncio.sleep(0.2)
        sizes = [len(await over.completed(2, 1)) for _ in range(3)]
        assert sizes == [2, 2, 1]

    with_transport(use)


def test_completed_lingers_for_those_that_come_close_behind(server: RawServer) -> None:
    """After the first answer it waits a little for more, but not when nothing is left in the air."""

    def staggered(peer: socket.socket, received: Received) -> None:
        time.sleep(int(received.body) * 0.02)
        peer.sendall(OK)

    async def use(over: HttpTransport) -> None:
        await over.start([Request(token, post(server.url(), b"%d" % token), NEVER) for token in range(4)])
        began = time.monotonic()
        assert len(await over.completed(10, 5)) == 4
        assert time.monotonic() - began < 2

    server.script = staggered
    with_transport(use, linger_seconds=3)


def test_a_wait_for_room_ends_when_a_slot_is_released(server: RawServer) -> None:
    """Waiting for room ends by a release, or by its time."""

    async def use(over: HttpTransport) -> None:
        urls = [server.url(), server.url()]
        assert over.reserve(urls) == [True, True]
        assert await over.wait_for_room(0.02) == 0
        asyncio.get_running_loop().call_later(0.02, over.release, urls[:1])
        began = time.monotonic()
        assert await over.wait_for_room(5) == 1
        assert time.monotonic() - began < 1

    with_transport(use, capacity=2)


def test_destinations_are_counted_by_host_and_port() -> None:
    """Slots belong to host and port, however the URL is written; what is no URL shares one count."""
    assert host_of("https://Hooks.Example/a?b") == "hooks.example:443"
    assert host_of("HTTP://user:pw@hooks.example:8080") == "hooks.example:8080"
    assert host_of("http://[2001:db8::1]/") == "2001:db8::1:80"
    assert host_of("nonsense") == host_of("http://:80/") == ""


# --- closing, and failures of our own --------------------------------------------------------------


def test_closing_cuts_what_is_under_way_by_its_evidence(server: RawServer) -> None:
    """A request that was written is unknown; one that had no connection yet was not sent."""
    server.script = answering(b"")
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts, and never speaks TLS

        async def use() -> list[Answer]:
            over = transport()
            mute_url = f"https://127.0.0.1:{mute.getsockname()[1]}/"
            await over.start([Request(0, post(server.url()), NEVER), Request(1, post(mute_url), NEVER)])
            await asyncio.sleep(0.2)
            await over.close()
            await over.close()
            await over.start([Request(2, post(server.url()), NEVER)])
            return await landed(over, 3)

        written, connecting, afterwards = asyncio.run(use())
    assert unknown("reset", written)
    assert unsent("connect", connecting)
    assert unsent("connect", afterwards)
    assert len(server.received) == 1


def test_closing_what_never_started_is_fine() -> None:
    """A transport that sent nothing can be closed, twice, and wakes nobody for nothing."""

    async def use() -> None:
        over = transport()
        await over.close()
        await over.close()
        assert await over.completed(1, 0.01) == []

    asyncio.run(use())


def test_closing_leaves_no_thread_and_no_connection(server: RawServer) -> None:
    """After closing, the receiver sees its connections end, and no thread of ours is left."""
    before = threading.active_count()
    assert one_answer(post(server.url())).status == 200
    deadline = time.monotonic() + 2
    while (server.open_now or threading.active_count() > before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.open_now == 0
    assert threading.active_count() <= before


def test_a_failure_of_libcurls_machinery_loses_no_request(server: RawServer) -> None:
    """Everything in the air ends as unknown, and the transport goes on."""
    server.script = answering(b"")

    async def use(over: HttpTransport) -> None:
        await over.start([Request(token, post(server.url()), NEVER) for token in range(3)])
        assert over._turns is not None
        over._turns._multi.close()
        assert all(unknown("protocol", answer) for answer in await landed(over, 3))
        server.script = answering(OK)
        assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use)


def test_a_request_that_libcurl_does_not_take_was_not_sent(server: RawServer) -> None:
    """What could not be put in the air was not sent, and has an answer; the next one is sent."""

    async def use(over: HttpTransport) -> None:
        assert (await answers(over, post(server.url())))[0].status == 200
        assert over._turns is not None
        over._turns._multi.close()
        assert unsent("protocol", (await answers(over, post(server.url())))[0])
        assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use)


@pytest.mark.parametrize(
    "settings",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": -1},
        {"connect_timeout_seconds": 0},
        {"body_limit": -1},
        {"ca_file": "/nowhere/at/all.pem"},
    ],
)
def test_wrong_settings_are_refused_when_it_is_made(settings: dict[str, object]) -> None:
    """A number out of range or a missing file is one clear line, before anything is sent."""
    with pytest.raises(ConfigError, match=r"seconds|bytes|ca_file"):
        transport(**settings)
