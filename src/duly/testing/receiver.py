"""A webhook receiver whose URLs say how it behaves: for tests, demonstrations and benchmarks.

    async with Receiver() as receiver:
        ...send to receiver.url("lost", "7")...
        assert receiver.accepted == ["<the delivery's id>"]

The first segment of a path is a mood, a row of `MOODS`; what follows tells URLs apart. "First" and
"later" count how often a message, by its `webhook-id`, has come to a path. A message that has been
accepted there is not accepted again: repeats are dropped and counted, and answered like the first.

It speaks HTTP/1.1 itself, one `asyncio.Protocol` per connection and no coroutine, so that a benchmark
measures the sender: bodies with a Content-Length, keep-alive, pipelined requests answered in order. A
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
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from duly.testing.http1 import Answer, Connection, Manner, Message, reply

__all__ = ["MOODS", "Mood", "Received", "Receiver"]

BACKLOG_CONNECTIONS_MAX: Final = 1024
RECORDED_REQUESTS_MAX: Final = 100_000
TOLERANCE_SECONDS: Final = 300.0


class Mood(NamedTuple):
    """What a message gets when it comes for the first time, and later."""

    first: Answer
    later: Answer


OK: Final = Answer(Manner.AT_ONCE, reply("200 OK", b"ok"), accepts=True)
SLOW: Final = OK._replace(manner=Manner.AFTER_A_WHILE)
SILENT: Final = Answer(Manner.NEVER)
LOST: Final = Answer(Manner.NEVER, accepts=True)
RESET: Final = Answer(Manner.CUT)
GONE: Final = Answer(Manner.AT_ONCE, reply("410 Gone", b"no more, please"))
BUSY: Final = Answer(Manner.AT_ONCE, reply("429 Too Many Requests", b"later, please", "Retry-After: 1"))
DOWN: Final = Answer(Manner.AT_ONCE, reply("503 Service Unavailable", b"down"))
DENIED: Final = Answer(Manner.AT_ONCE, reply("401 Unauthorized", b"who are you?"))
MOVED: Final = Answer(Manner.AT_ONCE, reply("302 Found", b"", "Location: /ok/moved"))
NO_MOOD: Final = Answer(Manner.AT_ONCE, reply("404 Not Found", b"no such mood"))
NOT_ALLOWED: Final = Answer(Manner.AT_ONCE, reply("405 Method Not Allowed", b"POST only", "Allow: GET, POST"))

MOODS: Final[dict[str, Mood]] = {
    "ok": Mood(OK, OK),
    "gone": Mood(GONE, GONE),
    "busy": Mood(BUSY, OK),
    "down": Mood(DOWN, OK),
    "reset": Mood(RESET, OK),  # the request has been read, and was not accepted
    "silent": Mood(SILENT, OK),  # neither was this one
    "lost": Mood(LOST, OK),  # this one was
    "denied": Mood(DENIED, DENIED),  # until `mend`
    "slow": Mood(SLOW, SLOW),
    "redirect": Mood(MOVED, MOVED),
}


class Received(NamedTuple):
    """One request as it came. Header names are in lower case."""

    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Path:
    """What one path has seen."""

    mood: Mood
    requests: int = 0
    messages: dict[bytes, bool] = field(default_factory=dict)  # by id: whether it was accepted
    recorded: list[Received] = field(default_factory=list)


class Receiver:
    """The receiver. Counts always; keeps requests (the first 100,000) only while `recording`.

    With `secrets` (`whsec_...`), what none of them signed is answered 401 and counted. The timestamp is
    judged only if there is a `clock` (seconds since 1970).
    """

    def __init__(
        self,
        *,
        secrets: Sequence[str] = (),
        recording: bool = True,
        slow_seconds: float = 0.5,
        clock: Callable[[], float] | None = None,
        port: int = 0,
    ) -> None:
        self.recording = recording
        self.slow_seconds = slow_seconds
        self.requests = 0
        self.duplicates_dropped = 0
        self.bad_signatures = 0
        self.connections = 0  # that were ever opened
        self.port = port
        self._keys = [base64.b64decode(secret.removeprefix("whsec_") + "==") for secret in secrets]
        self._clock = clock
        self._mended = False
        self._paths: dict[bytes, _Path] = {}
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

    def mend(self) -> None:
        """From now on `denied` accepts, as if the secret had been put right."""
        self._mended = True

    @property
    def accepted(self) -> list[str]:
        """The ids of accepted messages, once for every path that accepted them."""
        messages = (item for path in self._paths.values() for item in path.messages.items())
        return [one.decode("latin-1") for one, accepted in messages if accepted]

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
            "accepted": sum(sum(path.messages.values()) for path in self._paths.values()),
            "duplicates_dropped": self.duplicates_dropped,
            "bad_signatures": self.bad_signatures,
            "connections": self.connections,
        }

    def answer(self, message: Message) -> Answer:
        """Take one request in, and decide what it gets."""
        if message.method != b"POST":
            return self._counts() if message.method == b"GET" else NOT_ALLOWED
        path = self._path(message.target)
        if path is None:
            return NO_MOOD
        self._count(path, message)
        if self._keys and not self._is_signed(message):
            self.bad_signatures += 1
            return DENIED
        return self._take(path, message.id)

    def opened(self, connection: Connection) -> None:
        """A connection begins."""
        self.connections += 1
        self._open.add(connection)

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""
        self._open.discard(connection)

    def _counts(self) -> Answer:
        return Answer(Manner.AT_ONCE, reply("200 OK", json.dumps(self.counts()).encode()))

    def _path(self, target: bytes) -> _Path | None:
        path = self._paths.get(target)
        if path is None and (mood := _mood(target)) is not None:
            path = self._paths[target] = _Path(mood)
        return path

    def _count(self, path: _Path, message: Message) -> None:
        self.requests += 1
        path.requests += 1
        if self.recording and self._recorded < RECORDED_REQUESTS_MAX:
            self._recorded += 1
            path.recorded.append(Received(message.headers(), message.body))

    def _take(self, path: _Path, message_id: bytes) -> Answer:
        before = path.messages.get(message_id)
        answer = path.mood.first if before is None else path.mood.later
        if answer is DENIED and self._mended:
            answer = OK
        self.duplicates_dropped += bool(before and answer.accepts and message_id)
        path.messages[message_id] = bool(before) or (answer.accepts and message_id != b"")
        return answer

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
    return MOODS.get(rest.partition(b"/")[0].decode("latin-1"))


async def _serve(port: int) -> None:
    """Run until a signal asks for the end."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Receiver(port=port, recording=False) as receiver:
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
    """Read the port, serve, print the port."""
    parser = argparse.ArgumentParser(prog="python -m duly.testing.receiver", description="A receiver of webhooks.")
    parser.add_argument("--port", type=int, default=0, help="0: any free port; it is printed")
    _run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
