"""A transport that sends nothing and answers as planned. Implements `ports.Transport`.

    transport = FakeTransport(clock)
    transport.plan("https://a.example/in", UNKNOWN, ACCEPT)   # the first request is lost, later ones are accepted
    ...
    assert len(transport.to("https://a.example/in")) == 2

Whatever is not planned is accepted, and a look-up (a GET, planned by its own URL) finds nothing. Time is the
clock's: over a `SimulatedClock` nothing here waits, over a real one it waits like any transport. Slots are counted,
and one that is freed twice is a bug that raises.
The planned answers speak HTTP; a test of mail plans `Answer`s with the reply codes of SMTP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from duly.ports import Answer, Clock, Completion, HttpRequest, Mail, Request, Sent

__all__ = ["ACCEPT", "FOUND", "MISS", "NOT_SENT", "REFUSE", "REJECT", "SILENT", "UNKNOWN", "FakeTransport"]

ACCEPT: Final = Answer(status=200)
REJECT: Final = Answer(status=410)
REFUSE: Final = Answer(status=429)
#: What a look-up may meet: it is there, it is not there.
FOUND: Final = Answer(status=200, body=b'{"id": "r-found"}')
MISS: Final = Answer(status=404)
NOT_SENT: Final = Answer(error="connect", sent=Sent.NOTHING)
UNKNOWN: Final = Answer(error="timeout", sent=Sent.SOME)
#: No answer until the transport is closed, and then this one.
SILENT: Final = Answer(error="reset", sent=Sent.SOME, detail="it was cut")

TOO_LATE: Final = Answer(error="too_late", sent=Sent.NOTHING)
CLOSED: Final = Answer(error="connect", sent=Sent.NOTHING, detail="the transport is closed")
LOOK_SECONDS: Final = 0.002
NEVER: Final = float("inf")


class FakeTransport:
    """ports.Transport without a network. A host is a URL's host and port, or a mail's recipient.

    `seconds` is how long each answer takes. `left` holds every request that left, in order; `reserved_most`
    is the most slots that were ever taken at once.
    """

    def __init__(self, clock: Clock, *, capacity: int = 512, per_host: int = 512, seconds: float = 0.0) -> None:
        self.left: list[Request] = []
        self.reserved_most = 0
        self.closed = False
        self._clock, self._seconds = clock, seconds
        self._capacity, self._per_host = capacity, per_host
        self._taken: Counter[str] = Counter()
        self._plans: dict[str, tuple[Answer, ...]] = {}
        self._seen: Counter[str] = Counter()
        self._under_way: list[Completion] = []

    def plan(self, destination: str, *answers: Answer) -> None:
        """The first request from now on gets the first answer, and so on; the last one repeats."""
        self._plans[destination] = answers
        self._seen[destination] = 0

    def to(self, destination: str) -> list[HttpRequest | Mail]:
        """The requests that left for a destination, in order."""
        return [request.content for request in self.left if _destination(request.content) == destination]

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self._taken.total()

    # --- the port --------------------------------------------------------------------------------

    def room(self) -> int:
        """See Transport.room."""
        return self._capacity - self.taken

    async def wait_for_room(self, max_wait: float) -> int:
        """See Transport.wait_for_room."""
        await self._wait(lambda: self.room() > 0, max_wait)
        return self.room()

    def reserve(self, destinations: Sequence[str]) -> list[bool]:
        """See Transport.reserve."""
        return [self._take(_host(destination)) for destination in destinations]

    def release(self, destinations: Sequence[str]) -> None:
        """See Transport.release. Raises ValueError for a slot that nobody holds."""
        for host in map(_host, destinations):
            if not self._taken[host]:
                raise ValueError(f"a slot of {host} was released that nobody holds")
            self._taken[host] -= 1

    async def start(self, batch: Sequence[Request]) -> None:
        """See Transport.start."""
        self._under_way += [self._start(request) for request in batch]

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """See Transport.completed."""
        await self._wait(lambda: bool(self._landed()), max_wait)
        landed = self._landed()[:limit]
        self._under_way = [one for one in self._under_way if one not in landed]
        return landed

    async def close(self) -> None:
        """See Transport.close. Repeatable."""
        self.closed = True
        reading = self._clock.reading()
        self._under_way = [
            one if one.finished <= reading else Completion(one.token, SILENT, reading) for one in self._under_way
        ]

    # --- parts -----------------------------------------------------------------------------------

    def _take(self, host: str) -> bool:
        if not self.room() or self._taken[host] >= self._per_host:
            return False
        self._taken[host] += 1
        self.reserved_most = max(self.reserved_most, self.taken)
        return True

    def _start(self, request: Request) -> Completion:
        reading = self._clock.reading()
        if self.closed:
            return Completion(request.token, CLOSED, reading)
        if reading >= request.start_before:
            return Completion(request.token, TOO_LATE, reading)
        self.left.append(request)
        answer = self._planned(request.content)
        return Completion(request.token, answer, NEVER if answer is SILENT else reading + self._seconds)

    def _planned(self, content: HttpRequest | Mail) -> Answer:
        destination = _destination(content)
        answers = self._plans.get(destination) or (_unplanned(content),)
        number = self._seen[destination]
        self._seen[destination] += 1
        return answers[min(number, len(answers) - 1)]

    def _landed(self) -> list[Completion]:
        reading = self._clock.reading()
        return [one for one in self._under_way if one.finished <= reading]

    async def _wait(self, ready: Callable[[], bool], max_wait: float) -> None:
        ends = self._clock.reading() + max_wait
        while not ready() and (left := ends - self._clock.reading()) > 0:
            await self._clock.sleep(min(LOOK_SECONDS, left))


def _destination(content: HttpRequest | Mail) -> str:
    return content.url if isinstance(content, HttpRequest) else content.recipient


def _unplanned(content: HttpRequest | Mail) -> Answer:
    return MISS if isinstance(content, HttpRequest) and content.method == "GET" else ACCEPT


def _host(destination: str) -> str:
    return urlsplit(destination).netloc or destination
