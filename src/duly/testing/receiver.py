"""A webhook receiver whose URLs say how it behaves: for tests, demonstrations and benchmarks.

    async with Receiver() as receiver:
        ...send to receiver.url("lost", "7")...
        assert receiver.accepted == ["<the delivery's id>"]

The first segment of a path is a mood, a row of `MOODS`, or a plan of several (`busy-lost-ok`); what follows tells
URLs apart. How often a message, by its `webhook-id`, has come to a path decides which answer it gets.

What the receiver promises is chosen with it. By default it drops repeats: a message that has been accepted at a path
is not accepted again there; the repeat is counted, and answered as its mood says. With `deduplicates=False` every
request that is accepted is one more acceptance. With `lookup=True` it can be asked: `GET /deliveries/ID` is answered
200 if the message was accepted (anywhere, and `settling_seconds` ago), else 404. A look-up's URL may hold a mood or
a plan as well (`receiver.lookup_url("busy-ok")`), in which `ok` and `slow` answer the truth.

It speaks HTTP/1.1 itself, one `asyncio.Protocol` per connection and no coroutine, so that a benchmark
measures the sender: bodies with a Content-Length, keep-alive, pipelined requests answered in order. Any other
GET answers with the counts as JSON. Signatures are checked by code written from the specification and
not by the provider's own, so that one mistake cannot hide in both.

`python -m duly.testing.receiver --port 0` runs it alone and prints its port as one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hmac
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from duly.testing.http1 import Answer, Connection, Manner, Message, reply
from duly.testing.receiver_moods import DENIED, MOODS, NO_MOOD, NOT_ALLOWED, OK, Mood, mood_of

__all__ = ["MOODS", "Mood", "Received", "Receiver"]

BACKLOG_CONNECTIONS_MAX: Final = 1024
RECORDED_REQUESTS_MAX: Final = 100_000
TOLERANCE_SECONDS: Final = 300.0
LOOKUPS: Final = b"/deliveries/"
NOT_THERE: Final = reply("404 Not Found", b'{"error": "no such delivery"}')


class Received(NamedTuple):
    """One request as it came. Header names are in lower case."""

    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Path:
    """What one path has seen."""

    mood: Mood
    requests: int = 0
    visits: dict[bytes, int] = field(default_factory=dict)  # by id: how often it came
    accepted: dict[bytes, int] = field(default_factory=dict)  # by id: how often it was accepted
    recorded: list[Received] = field(default_factory=list)


class _Taken(NamedTuple):
    """An acceptance that can be looked up: its number, and the loop's time from which it is shown."""

    number: int
    shown_from: float


class Receiver:
    """The receiver. Counts always; keeps requests and questions (the first 100,000) only while `recording`.

    With `secrets` (`whsec_...`), what none of them signed is answered 401 and counted, questions too. The
    timestamp is judged only if there is a `clock` (seconds since 1970).
    """

    def __init__(  # noqa: PLR0913 - settings by name
        self,
        *,
        secrets: Sequence[str] = (),
        recording: bool = True,
        slow_seconds: float = 0.5,
        deduplicates: bool = True,
        lookup: bool = False,
        settling_seconds: float = 0.0,
        clock: Callable[[], float] | None = None,
        port: int = 0,
    ) -> None:
        self.recording = recording
        self.slow_seconds = slow_seconds
        self.deduplicates = deduplicates
        self.lookup = lookup
        self.settling_seconds = settling_seconds
        self.requests = 0
        self.duplicates_dropped = 0
        self.duplicates_accepted = 0
        self.bad_signatures = 0
        self.questions = 0
        self.asked: list[str] = []  # the ids that were asked for
        self.connections = 0  # that were ever opened
        self.port = port
        self._keys = [base64.b64decode(secret.removeprefix("whsec_") + "==") for secret in secrets]
        self._clock = clock
        self._mended = False
        self._paths: dict[bytes, _Path] = {}
        self._taken: dict[bytes, _Taken] = {}
        self._looks: Counter[bytes] = Counter()  # by a look-up's target
        self._recorded = 0
        self._open: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        connect = lambda: Connection(self)  # noqa: E731
        self._server = await loop.create_server(connect, "127.0.0.1", self.port, backlog=BACKLOG_CONNECTIONS_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for connection in list(self._open):
                connection.cut()
            await self._server.wait_closed()

    def url(self, mood: str, key: str = "") -> str:
        """The URL of a mood; `key` tells apart URLs of the same mood."""
        return f"http://127.0.0.1:{self.port}/{mood}/{key}"

    def lookup_url(self, mood: str = "") -> str:
        """The `lookup_url` of a configuration: answered with the truth, or as the mood or plan says."""
        where = f"{mood}/" if mood else ""
        return f"http://127.0.0.1:{self.port}/deliveries/{where}{{delivery}}"

    def mend(self) -> None:
        """From now on `denied` accepts, as if the secret had been put right."""
        self._mended = True

    @property
    def accepted(self) -> list[str]:
        """The ids of accepted messages, as often as they were accepted."""
        messages = (item for path in self._paths.values() for item in path.accepted.items())
        return [one.decode("latin-1") for one, times in messages for _ in range(times)]

    def count(self, mood: str, key: str = "") -> int:
        """How many requests came to a URL, repeats and refused ones too."""
        path = self._paths.get(f"/{mood}/{key}".encode())
        return path.requests if path else 0

    def received(self, mood: str, key: str = "") -> list[Received]:
        """The requests that came to a URL while recording, oldest first."""
        path = self._paths.get(f"/{mood}/{key}".encode())
        return list(path.recorded) if path else []

    def counts(self) -> dict[str, int]:
        """What a GET answers."""
        return {
            "requests": self.requests,
            "accepted": sum(sum(path.accepted.values()) for path in self._paths.values()),
            "duplicates_dropped": self.duplicates_dropped,
            "duplicates_accepted": self.duplicates_accepted,
            "bad_signatures": self.bad_signatures,
            "questions": self.questions,
            "connections": self.connections,
        }

    def answer(self, message: Message) -> Answer:
        """Take one request in, and decide what it gets."""
        if message.method != b"POST":
            return self._tell(message) if message.method == b"GET" else NOT_ALLOWED
        path = self._path(message.target)
        if path is None:
            return NO_MOOD
        self._count(path, message)
        return self._take(path, message.id) if self._trusts(message) else DENIED

    def opened(self, connection: Connection) -> None:
        """A connection begins."""
        self.connections += 1
        self._open.add(connection)

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""
        self._open.discard(connection)

    # --- messages --------------------------------------------------------------------------------

    def _path(self, target: bytes) -> _Path | None:
        path = self._paths.get(target)
        if path is None and (mood := _mood(target)) is not None:
            path = self._paths[target] = _Path(mood)
        return path

    def _count(self, path: _Path, message: Message) -> None:
        self.requests += 1
        path.requests += 1
        if self._records():
            path.recorded.append(Received(message.headers(), message.body))

    def _records(self) -> bool:
        """Whether one more may be kept."""
        records = self.recording and self._recorded < RECORDED_REQUESTS_MAX
        self._recorded += records
        return records

    def _take(self, path: _Path, message_id: bytes) -> Answer:
        visits = path.visits.get(message_id, 0)
        path.visits[message_id] = visits + 1
        answer = path.mood.at(visits)
        if answer is DENIED and self._mended:
            answer = OK
        if answer.accepts and message_id:
            self._accept(path, message_id)
        return answer

    def _accept(self, path: _Path, message_id: bytes) -> None:
        times = path.accepted.get(message_id, 0)
        if times and self.deduplicates:
            self.duplicates_dropped += 1
            return
        self.duplicates_accepted += times > 0
        path.accepted[message_id] = times + 1
        if self.lookup:
            shown_from = asyncio.get_running_loop().time() + self.settling_seconds
            self._taken.setdefault(message_id, _Taken(len(self._taken) + 1, shown_from))

    # --- questions -------------------------------------------------------------------------------

    def _tell(self, message: Message) -> Answer:
        """What a GET gets: an answer about one delivery, or the counts."""
        if not message.target.startswith(LOOKUPS):
            return Answer(Manner.AT_ONCE, reply("200 OK", json.dumps(self.counts()).encode()))
        if not self.lookup:
            return NO_MOOD
        plan, _, asked = message.target.removeprefix(LOOKUPS).rpartition(b"/")
        self.questions += 1
        if self._records():
            self.asked.append(asked.decode("latin-1"))
        return self._look(message.target, plan.decode("latin-1") or "ok", asked) if self._trusts(message) else DENIED

    def _look(self, target: bytes, plan: str, asked: bytes) -> Answer:
        mood = mood_of(plan)
        if mood is None:
            return NOT_ALLOWED  # and no 404, which would be an answer
        answer = mood.at(self._looks[target])
        self._looks[target] += 1
        return answer._replace(data=self._truth(asked)) if answer.data == OK.data else answer

    def _truth(self, asked: bytes) -> bytes:
        taken = self._taken.get(asked)
        if taken is None or asyncio.get_running_loop().time() < taken.shown_from:
            return NOT_THERE
        return reply("200 OK", json.dumps({"id": f"accepted-{taken.number}"}).encode())

    # --- signatures ------------------------------------------------------------------------------

    def _trusts(self, message: Message) -> bool:
        trusts = not self._keys or self._is_signed(message)
        self.bad_signatures += not trusts
        return trusts

    def _is_signed(self, message: Message) -> bool:
        """Standard Webhooks: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`."""
        headers = message.headers()
        timestamp = headers.get("webhook-timestamp", "")
        signed = b".".join((message.id, timestamp.encode("latin-1"), message.body))
        given = headers.get("webhook-signature", "").split(" ")
        right = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in self._keys]
        return self._is_recent(timestamp) and any(f"v1,{one}" in given for one in right)

    def _is_recent(self, timestamp: str) -> bool:
        if self._clock is None:
            return True
        return timestamp.isdecimal() and abs(int(timestamp) - self._clock()) <= TOLERANCE_SECONDS


def _mood(target: bytes) -> Mood | None:
    """The mood that a path's first segment names."""
    _, _, rest = target.partition(b"/")
    return mood_of(rest.partition(b"/")[0].decode("latin-1"))


async def _serve(receiver: Receiver) -> None:
    """Run until a signal asks for the end."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with receiver:
        sys.stdout.write(json.dumps({"port": receiver.port}) + "\n")
        sys.stdout.flush()
        await stop.wait()


def _run(main: Coroutine[Any, Any, None]) -> None:
    """On uvloop if it is there: the receiver should cost less than what it measures."""
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def main() -> None:
    """Read the port and the promises, serve, print the port."""
    parser = argparse.ArgumentParser(prog="python -m duly.testing.receiver", description="A receiver of webhooks.")
    parser.add_argument("--port", type=int, default=0, help="0: any free port; it is printed")
    parser.add_argument("--forgets", action="store_true", help="drop no repeats: accept a message that comes again")
    parser.add_argument("--lookup", action="store_true", help="answer GET /deliveries/ID")
    parser.add_argument("--settling", type=float, default=0.0, help="seconds until a look-up shows what was accepted")
    chosen = parser.parse_args()
    receiver = Receiver(
        port=chosen.port,
        recording=False,
        deduplicates=not chosen.forgets,
        lookup=chosen.lookup,
        settling_seconds=chosen.settling,
    )
    _run(_serve(receiver))


if __name__ == "__main__":
    main()
