"""Deliver: from a claimed row to a durable outcome, in batches at both ends.

Two loops share a `Route`. `send_some` takes claimed rows, admits them, renders, begins them in one
commit and hands the requests to the transport. `settle_some` takes answers, decides what follows and
records it in one commit. What holds them together is the slot: it is reserved before begin and freed
only when the outcome is durable, so what has begun is never more than what can be sent at once, and a
crash leaves no more than that in doubt.

Rows whose host has no free slot are held back, still leased and not begun, for the next round; if
there are too many of them they go back to wait, so that one slow receiver does not fill the worker.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.core import keys
from duly.core.admit import Go, Stop, admit
from duly.core.limits import LEASE_MARGIN_SECONDS, Limits
from duly.core.model import Attempt, Claimed, Decision, Frozen, Settlement, Signal, SignalKind, Start
from duly.core.settle import settle, signal
from duly.core.states import State
from duly.errors import StoreUnavailable, Unrenderable
from duly.ports import (
    Batch,
    Claims,
    Clock,
    Completion,
    Dice,
    Provider,
    Request,
    Store,
    Templates,
    Transport,
)

__all__ = ["Flight", "Lease", "Route", "give_back", "send_some", "settle_some"]

BATCH_ROWS_MAX: Final = 500
HELD_BACK_ROWS_MAX: Final = 1_000
NO_SEAT_WAIT_SECONDS: Final = 0.01
NO_SEAT_LOOK_SECONDS: Final = 0.001


class Lease(NamedTuple):
    """A claimed row with the two clocks of its claim: ours before it was asked for, and the database's."""

    row: Claimed
    asked_at: float
    claimed_at: datetime

    def database_time(self, reading: float) -> datetime:
        """The database's time at a reading of our clock, or a little later: the claim's own duration."""
        return self.claimed_at + timedelta(seconds=reading - self.asked_at)

    def reading_at(self, moment: datetime) -> float:
        """The reading at a moment of the database's time, or a little earlier."""
        return self.asked_at + (moment - self.claimed_at).total_seconds()


class Ready(NamedTuple):
    """An admitted row with its bytes."""

    lease: Lease
    frozen: Frozen
    good_until: datetime


class Flight(NamedTuple):
    """A request under way."""

    lease: Lease
    number: int
    destination: str


@dataclass(slots=True)
class Route:
    """Everything that the deliveries of one provider need, and what is under way on it."""

    provider: Provider
    transport: Transport
    templates: Templates
    claims: Claims
    store: Store
    clock: Clock
    dice: Dice
    worker: str
    lease_seconds: float
    limits: Limits
    tally: Counter[str]
    held_back: deque[Lease] = field(default_factory=deque)
    flights: dict[int, Flight] = field(default_factory=dict)
    last_token: int = 0
    in_hand: bool = False
    crowded: bool = False  # slots are free, but not for the hosts of the rows that are held back
    freed: bool = False  # a slot was freed since a seat was last looked for

    @property
    def idle(self) -> bool:
        """Whether nothing is under way here."""
        return not self.in_hand and not self.flights and not self.held_back

    def trust_seconds(self) -> float:
        """For how long after asking for a claim a request may still start."""
        return self.lease_seconds - self.provider.timeout_seconds - LEASE_MARGIN_SECONDS


# --- send ----------------------------------------------------------------------------------------


async def send_some(route: Route, max_wait: float) -> int:
    """Send what can be sent now; returns how many requests were started. Waits `max_wait` for work."""
    room = await route.transport.wait_for_room(max_wait)
    if not room:
        return 0
    await _take_more(route, room, max_wait)
    seated = _seat(route)
    if not seated:
        await _wait_for_a_seat(route)
        return 0
    route.in_hand = True
    try:
        ready, stopped = _prepare(route, seated)
        await _stop(route, stopped)
        return await _begin(route, ready)
    finally:
        route.in_hand = False


async def give_back(route: Route, leases: Iterable[Lease]) -> None:
    """Return leased rows of which nothing was sent."""
    pairs = [(lease.row.id, lease.row.fence) for lease in leases]
    for start in range(0, len(pairs), BATCH_ROWS_MAX):
        await route.store.abandon(route.worker, pairs[start : start + BATCH_ROWS_MAX])


async def _take_more(route: Route, room: int, max_wait: float) -> None:
    """Claim ahead of the free slots, beyond what is held back for want of one."""
    await _drop_stale(route)
    await _put_off_busy(route)
    limit = _worth_claiming(route, room)
    batch = await route.claims.take(limit, 0.0 if route.held_back else max_wait) if limit else None
    if batch is not None:
        route.tally["claimed"] += len(batch.rows)
        route.held_back.extend(_leases(batch))


def _worth_claiming(route: Route, room: int) -> int:
    """How many rows to claim: up to one full load held back, more where their hosts are full, and never a few.

    A claim costs much the same whether it brings five rows or five hundred.
    """
    load = min(room + len(route.flights), BATCH_ROWS_MAX)
    most = HELD_BACK_ROWS_MAX if route.crowded else load
    limit = min(most - len(route.held_back), BATCH_ROWS_MAX)
    return limit if limit * 2 >= load else 0


def _leases(batch: Batch) -> Iterable[Lease]:
    return (Lease(row, batch.asked_at, batch.now) for row in batch.rows)


async def _drop_stale(route: Route) -> None:
    """Give back held-back rows whose lease can no longer be trusted. The oldest stand first."""
    oldest = route.clock.reading() - route.trust_seconds()
    stale: list[Lease] = []
    while route.held_back and route.held_back[0].asked_at <= oldest:
        stale.append(route.held_back.popleft())
    if stale:
        await give_back(route, stale)


async def _put_off_busy(route: Route) -> None:
    """Full of rows that wait for a slot of their host: let some wait in the ledger, and others come forward."""
    reading, patience = route.clock.reading(), route.limits.busy_endpoint_seconds
    if len(route.held_back) < HELD_BACK_ROWS_MAX or reading - route.held_back[0].asked_at < patience:
        return
    rows = [route.held_back.popleft() for _ in range(BATCH_ROWS_MAX)]
    moment = rows[-1].database_time(reading) + timedelta(seconds=patience)
    await _stop(route, [(lease, Stop(State.WAITING, "endpoint_busy", moment)) for lease in rows])


def _seat(route: Route) -> list[Lease]:
    """Reserve slots for held-back rows, in order; those without one stay held back."""
    rows = list(route.held_back)[: BATCH_ROWS_MAX * 2]
    seats = route.transport.reserve([_destination(lease.row) for lease in rows])
    rest = list(route.held_back)[len(rows) :]
    route.held_back.clear()
    route.held_back.extend(lease for lease, seat in zip(rows, seats, strict=True) if not seat)
    route.held_back.extend(rest)
    route.crowded, route.freed = bool(route.held_back) and route.transport.room() > 0, False
    return [lease for lease, seat in zip(rows, seats, strict=True) if seat]


async def _wait_for_a_seat(route: Route) -> None:
    """Until a slot is freed, or for a moment: another host may have one for what is claimed next."""
    ends = route.clock.reading() + NO_SEAT_WAIT_SECONDS
    while route.held_back and not route.freed and route.clock.reading() < ends:
        await route.clock.sleep(NO_SEAT_LOOK_SECONDS)


def _destination(row: Claimed) -> str:
    """Where the bytes go: in doubt, where they went before."""
    frozen = _bytes_that_bind(row)
    return frozen.destination if frozen else row.address


def _bytes_that_bind(row: Claimed) -> Frozen | None:
    """The earlier bytes, in doubt always, otherwise while nothing that they were made from has changed."""
    frozen = row.frozen
    if frozen is None or row.doubt:
        return frozen
    seen = row.revisions
    same = (frozen.reminder_revision, frozen.recipient_revision, frozen.contact_revision) == seen[1:]
    return frozen if same else None


def _prepare(route: Route, seated: Sequence[Lease]) -> tuple[list[Ready], list[tuple[Lease, Stop]]]:
    """Admit and render: rows with their bytes, and rows that go elsewhere with the reason."""
    reading = route.clock.reading()
    ready: list[Ready] = []
    stopped: list[tuple[Lease, Stop]] = []
    for lease in seated:
        verdict = _admit_and_freeze(route, lease, reading)
        if isinstance(verdict, Ready):
            ready.append(verdict)
        else:
            stopped.append((lease, verdict))
    route.transport.release([_destination(lease.row) for lease, _ in stopped])
    return ready, stopped


def _admit_and_freeze(route: Route, lease: Lease, reading: float) -> Ready | Stop:
    row, now = lease.row, lease.database_time(reading)
    trust_until = lease.claimed_at + timedelta(seconds=route.trust_seconds())
    promise = route.provider.capabilities(_destination(row))
    verdict = admit(row, now, trust_until, promise, route.limits)
    if not isinstance(verdict, Go):
        return verdict
    try:
        frozen = _bytes_that_bind(row) or route.provider.freeze(row, route.templates.render(row), now)
    except Unrenderable as error:
        return Stop(State.REJECTED, f"cannot_be_rendered: {error}")
    return Ready(lease, frozen, verdict.good_until)


async def _stop(route: Route, stopped: Sequence[tuple[Lease, Stop]]) -> None:
    """Record what admission decided about rows that are not sent now."""
    for start in range(0, len(stopped), BATCH_ROWS_MAX):
        part = stopped[start : start + BATCH_ROWS_MAX]
        decisions = [
            Decision(lease.row.id, lease.row.fence, State.LEASED, stop.state, stop.reason, stop.next_at, stop.closed)
            for lease, stop in part
        ]
        moved = await route.store.decide(route.worker, decisions)
        route.tally.update(str(stop.state) for lease, stop in part if lease.row.id in moved)


async def _begin(route: Route, ready: Sequence[Ready]) -> int:
    """Write the attempts, then hand over the requests of those that began."""
    if not ready:
        return 0
    try:
        begun = await route.store.begin(route.provider.name, route.worker, [_start(route, item) for item in ready])
    except StoreUnavailable:
        await _unseat(route, ready)
        raise
    fly = [item for item in ready if item.lease.row.id in begun.numbers]
    await route.transport.start([_fly(route, item, begun.numbers[item.lease.row.id]) for item in fly])
    stay = [item for item in ready if item.lease.row.id not in begun.numbers]
    route.tally["duplicates_suppressed"] += len(stay) - len(begun.put_off)
    await _unseat(route, stay, put_off=begun.put_off.keys())
    return len(fly)


def _start(route: Route, item: Ready) -> Start:
    row = item.lease.row
    rate = route.provider.rate(item.frozen.destination)
    return Start(row.id, row.fence, row.revisions, item.good_until, row.endpoint, rate, item.frozen)


def _fly(route: Route, item: Ready, number: int) -> Request:
    """Register the flight before its request leaves."""
    route.last_token += 1
    lease = item.lease
    route.flights[route.last_token] = Flight(lease, number, _destination(lease.row))
    now = lease.database_time(route.clock.reading())
    content = route.provider.request(item.frozen, Attempt(keys.show(lease.row.id), number, now))
    return Request(route.last_token, content, lease.reading_at(item.good_until))


async def _unseat(route: Route, items: Sequence[Ready], put_off: Iterable[bytes] = ()) -> None:
    """Free the slots of rows that did not begin, and give back those that the budget did not put off."""
    if not items:
        return
    route.transport.release([_destination(item.lease.row) for item in items])
    settled = set(put_off)
    await give_back(route, [item.lease for item in items if item.lease.row.id not in settled])


# --- settle --------------------------------------------------------------------------------------


async def settle_some(route: Route, max_wait: float) -> int:
    """Record the answers that have come, in one commit; returns how many. Waits `max_wait` for the first."""
    completions = await route.transport.completed(BATCH_ROWS_MAX, max_wait)
    if not completions:
        return 0
    landed = [(route.flights[completion.token], completion) for completion in completions]
    decided = [_settlement(route, flight, completion) for flight, completion in landed]
    rows = [row for row, _ in decided]
    settled = await route.store.settle(route.provider.name, rows, _signals(said for _, said in decided))
    for completion in completions:
        del route.flights[completion.token]
    route.transport.release([flight.destination for flight, _ in landed])
    route.freed = True
    route.tally.update(_word(row) for row in rows if row.id in settled.moved)
    return len(rows)


def _settlement(route: Route, flight: Flight, completion: Completion) -> tuple[Settlement, Signal | None]:
    row = flight.lease.row
    now = flight.lease.database_time(completion.finished)
    result = route.provider.classify(completion.answer, now)
    then = settle(row, flight.number, result, now, route.dice.roll(), route.limits)
    settlement = Settlement(
        row.id, row.fence, flight.number, now, result, then.state, then.reason, then.next_at, then.closed, then.spared
    )
    return settlement, signal(row, result, route.limits)


def _signals(said: Iterable[Signal | None]) -> list[Signal]:
    """One signal per endpoint: an opened circuit outweighs a block, and a block an all-clear."""
    weight = {SignalKind.CLOSE: 0, SignalKind.BLOCK: 1, SignalKind.OPEN: 2}
    strongest: dict[bytes, Signal] = {}
    for word in said:
        if word is None:
            continue
        other = strongest.get(word.endpoint)
        if other is None or (weight[word.kind], word.seconds) > (weight[other.kind], other.seconds):
            strongest[word.endpoint] = word
    return list(strongest.values())


def _word(row: Settlement) -> str:
    """The tally's word for where a row went: waiting is `retried` there."""
    return "retried" if row.state is State.WAITING else str(row.state)
