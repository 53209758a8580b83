"""The network and its transports: what leaves, what arrives, and what comes back.

A transport looks at `start_before` and lets its request leave in one step. From then on the request lives by
itself: it arrives, or does not, also when its worker has died meanwhile, but never later than the worker
would have waited for it. That bound is the network's promise, and leases are made longer than it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from duly.ports import Answer, Completion, HttpRequest, Mail, Request, Sent
from duly.sim.chance import Chance
from duly.sim.clocks import SECOND_US, WorkerClock
from duly.sim.faults import Faults, Kind
from duly.sim.receivers import STORM_PART, STORM_SECONDS, Receiver, Visit
from duly.sim.scheduler import Deadly, Incarnation, Scheduler
from duly.sim.turns import Fate, Turn

__all__ = ["Bound", "Network", "SimTransport"]

WAY_SECONDS: Final = (0.002, 0.5)
#: A slow way takes up to this part of the time that the sender waits.
SLOW_WAY_PART: Final = 0.9

TOO_LATE: Final = Answer(error="too_late", sent=Sent.NOTHING)
NOT_CONNECTED: Final = Answer(error="connect", sent=Sent.NOTHING)
CLOSED: Final = Answer(error="connect", sent=Sent.NOTHING, detail="the transport is closed")
TIMED_OUT: Final = Answer(error="timeout", sent=Sent.SOME)
CUT: Final = Answer(error="reset", sent=Sent.SOME)


class Bound(NamedTuple):
    """When a request may start at the latest, in the database's time, and how long it may be under way."""

    latest_us: int
    timeout_us: int


@dataclass(slots=True)
class Network:
    """Carries requests to receivers, by the provider's name. `left` hears of every message that leaves."""

    scheduler: Scheduler
    receivers: dict[str, Receiver]
    faults: Faults
    chance: Chance
    left: Callable[[Incarnation, str, HttpRequest, Bound], None]
    answered: Callable[[Incarnation, HttpRequest, Answer], None]
    silent_until_us: int = 0

    def carry(
        self, transport: SimTransport, content: HttpRequest, land: Callable[[Answer], None], bound: Bound
    ) -> None:
        """Let a request leave; its answer lands by itself."""
        if self.faults.strikes(Kind.NOT_CONNECTED):
            land(NOT_CONNECTED)
            return
        if content.method != "GET":
            self.left(transport.life, transport.provider, content, bound)
        time = self.scheduler.time
        gives_up_us = time.after(transport.timeout_seconds)
        arrives_us = min(time.after(self._way(transport.timeout_seconds)), gives_up_us)
        if self.faults.strikes(Kind.REQUEST_LOST):
            self._land_at(gives_up_us, transport, content, TIMED_OUT, land)
            return
        self.scheduler.at(arrives_us, lambda: self._arrive(transport, content, land, gives_up_us))

    def _way(self, timeout_seconds: float) -> float:
        if self.faults.strikes(Kind.REPLY_LATE):
            return self.chance.between(0.0, timeout_seconds * SLOW_WAY_PART)
        return self.chance.spread(*WAY_SECONDS)

    def _arrive(
        self, transport: SimTransport, content: HttpRequest, land: Callable[[Answer], None], gives_up_us: int
    ) -> None:
        receiver = self.receivers[transport.provider]
        visit = Visit(receiver.look(content)) if content.method == "GET" else receiver.receive(content)
        back_us = self.scheduler.time.after(self._way(transport.timeout_seconds))
        if visit.cut:
            self._land_at(min(back_us, gives_up_us), transport, content, CUT, land)
        elif back_us >= gives_up_us or self._loses_reply():
            self._land_at(gives_up_us, transport, content, TIMED_OUT, land)
        else:
            self._land_at(back_us, transport, content, visit.answer, land)

    def _loses_reply(self) -> bool:
        """One by one, and in storms, like the moods of receivers."""
        if self.faults.on and self.scheduler.time.us < self.silent_until_us:
            self.faults.counts[Kind.REPLY_LOST] += 1
            return True
        if not self.faults.strikes(Kind.REPLY_LOST):
            return False
        if self.chance.happens(STORM_PART):
            self.silent_until_us = self.scheduler.time.after(self.chance.spread(*STORM_SECONDS))
        return True

    def _land_at(
        self,
        us: int,
        transport: SimTransport,
        content: HttpRequest,
        answer: Answer,
        land: Callable[[Answer], None],
    ) -> None:
        def arrive() -> None:
            if transport.life.alive:
                self.answered(transport.life, content, answer)
                land(answer)

        self.scheduler.at(us, arrive)


@dataclass(slots=True)
class SimTransport:
    """ports.Transport of one worker and provider."""

    network: Network
    life: Incarnation
    clock: WorkerClock
    provider: str
    timeout_seconds: float
    capacity: int
    per_host: int
    taken: Counter[str] = field(default_factory=Counter)
    landed: list[Completion] = field(default_factory=list)
    closed: bool = False

    def room(self) -> int:
        """See Transport.room."""
        return self.capacity - self.taken.total()

    async def wait_for_room(self, max_wait: float) -> int:
        """See Transport.wait_for_room."""
        if not self.room():
            await Turn("transport.wait_for_room", self._after(max_wait), lambda: self.room() > 0)
        return self.room()

    def reserve(self, destinations: Sequence[str]) -> list[bool]:
        """See Transport.reserve."""
        return [self._reserve(destination) for destination in destinations]

    def _reserve(self, destination: str) -> bool:
        if not self.room() or self.taken[destination] >= self.per_host:
            return False
        self.taken[destination] += 1
        return True

    def release(self, destinations: Sequence[str]) -> None:
        """See Transport.release. Raises ValueError for a slot that nobody holds."""
        for destination in destinations:
            if not self.taken[destination]:
                raise ValueError(f"a slot of {self.provider} was released that nobody holds")
            self.taken[destination] -= 1

    async def start(self, batch: Sequence[Request]) -> None:
        """See Transport.start. A worker may die half-way through a batch."""
        fate = await Turn("transport.start")
        for request in batch:
            if self.network.faults.strikes(Kind.CRASH_WHILE_SENDING):
                raise Deadly("a crash while sending")
            self._start(request)
        _survive(fate, "transport.start")

    def _start(self, request: Request) -> None:
        token, content = request.token, request.content
        if isinstance(content, Mail):
            raise TypeError("simulated receivers take no mail")
        if self.closed:
            self._land(token, CLOSED)
        elif self.clock.reading() >= request.start_before:
            self._land(token, TOO_LATE)
        else:
            self.network.carry(self, content, lambda answer: self._land(token, answer), self._bound(request))

    def _bound(self, request: Request) -> Bound:
        return Bound(self.clock.us_at(request.start_before), round(self.timeout_seconds * SECOND_US))

    def _land(self, token: int, answer: Answer) -> None:
        """A frozen worker reads its answers when it is awake again."""
        at_us = max(self.network.scheduler.time.us, self.life.frozen_until_us)
        self.landed.append(Completion(token, answer, self.clock.reading_at(at_us)))

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """See Transport.completed."""
        fate = await Turn("transport.completed", self._after(max_wait), lambda: bool(self.landed))
        _survive(fate, "transport.completed")
        done, self.landed = self.landed[:limit], self.landed[limit:]
        return done

    async def close(self) -> None:
        """See Transport.close."""
        self.closed = True

    def _after(self, seconds: float) -> int:
        return self.network.scheduler.time.after(seconds)


def _survive(fate: Fate, call: str) -> None:
    if fate is Fate.DIES_AFTER:
        raise Deadly(f"a crash just after {call}")
