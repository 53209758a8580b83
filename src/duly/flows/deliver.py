"""Deliver: from a claimed row to a durable outcome, in batches at both ends.

Two loops share a `Route`. `send_some` takes claimed rows, admits them, renders, begins them in one
commit and hands the requests to the transport. `settle_some` takes answers, decides what follows and
records it in one commit. What holds them together is the slot: it is reserved before begin and freed
only when the outcome is durable, so what has begun is never more than what can be sent at once, and a
crash leaves no more than that in doubt.

Rows whose host has no free slot are held back, still leased and not begun, for the next round; if
there are too many of them they go back to wait, so that one slow receiver does not fill the worker.

What is late and is to be summarized is not sent, but folded: see `core.folding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final, NamedTuple

from duly.core import keys
from duly.core.admit import Go, Stop, admit
from duly.core.folding import BUSY, Folding, group_of, may_fold, part_of
from duly.core.lateness import mark_late
from duly.core.model import (
    Attempt,
    Claimed,
    Decision,
    Frozen,
    Outcome,
    Result,
    Settlement,
    Signal,
    SignalKind,
    Start,
)
from duly.core.settle import settle, signal
from duly.core.states import State
from duly.errors import StoreUnavailable, Unrenderable, VersionUnknown
from duly.flows.route import BATCH_ROWS_MAX, Flight, Lease, Route, give_back, parts
from duly.ports import Batch, Completion, Request

__all__ = ["send_some", "settle_some"]

HELD_BACK_ROWS_MAX: Final = 1_000
NO_SEAT_WAIT_SECONDS: Final = 0.01
NO_SEAT_LOOK_SECONDS: Final = 0.001


class Ready(NamedTuple):
    """An admitted row with its bytes."""

    lease: Lease
    frozen: Frozen
    good_until: datetime


class Late(NamedTuple):
    """An admitted row that is folded into a summary."""

    lease: Lease
    folding: Folding
    otherwise: Stop  # where that cannot be now


class Prepared(NamedTuple):
    """Seated rows by what becomes of them."""

    ready: list[Ready]
    stopped: list[tuple[Lease, Stop]]
    late: list[Late]


# --- send ----------------------------------------------------------------------------------------


async def send_some(route: Route, max_wait: float) -> int:
    """Send what can be sent now; returns how many requests were started. Waits `max_wait` for work."""
    room = await route.transport.wait_for_room(max_wait)
    if not room:
        return 0
    await _take_more(route, room, max_wait)
    _seat(route)
    if not route.seated:
        await _wait_for_a_seat(route)
        return 0
    try:
        started = await _send_seated(route)
    except Exception:  # but not at a crash: what that leaves behind is the ledger's to find
        await _unseat(route)
        raise
    await _unseat(route)
    return started


async def _take_more(route: Route, room: int, max_wait: float) -> None:
    """Claim ahead of the free slots, beyond what is held back for want of one."""
    await _drop_stale(route)
    await _put_off_busy(route, room)
    limit = _worth_claiming(route, room)
    batch = await route.claims.take(limit, 0.0 if route.held_back else max_wait) if limit else None
    if batch is not None:
        leases = _new_here(route, batch)
        route.tally["claimed"] += len(leases)
        route.tally["duplicates_suppressed"] += len(batch.rows) - len(leases)
        route.held_back.extend(leases)


def _worth_claiming(route: Route, room: int) -> int:
    """How many rows to claim: one full load ahead, more while those held back find no slot, and never a few.

    A claim costs much the same whether it brings five rows or five hundred.
    """
    load = min(room + len(route.flights), BATCH_ROWS_MAX)
    most = HELD_BACK_ROWS_MAX if route.crowded else load
    limit = min(most - len(route.held_back), BATCH_ROWS_MAX)
    return limit if limit * 2 >= load else 0


def _new_here(route: Route, batch: Batch) -> list[Lease]:
    """The rows of a batch that are not in our hands already.

    A queue may hand the same claim over twice. Begin would refuse the copy, and giving that back would give back the
    row itself, whose request is in the air.
    """
    ours = {(lease.row.id, lease.row.fence) for lease in route.held_back}
    ours.update((flight.lease.row.id, flight.lease.row.fence) for flight in route.flights.values())
    return [Lease(row, batch.asked_at, batch.now) for row in batch.rows if (row.id, row.fence) not in ours]


async def _drop_stale(route: Route) -> None:
    """Give back held-back rows whose lease can no longer be trusted. The oldest stand first."""
    oldest = route.clock.reading() - route.trust_seconds()
    stale = list(takewhile(lambda lease: lease.asked_at <= oldest, route.held_back))
    await give_back(route, stale)
    _forget(route, stale)


async def _put_off_busy(route: Route, room: int) -> None:
    """Full of rows that wait for a slot of their host: let some wait in the ledger, and others come forward."""
    reading, patience = route.clock.reading(), route.limits.busy_endpoint_seconds
    if not route.crowded or _worth_claiming(route, room) or reading - route.held_back[0].asked_at < patience:
        return
    rows = list(islice(route.held_back, BATCH_ROWS_MAX))
    moment = rows[-1].database_time(reading) + timedelta(seconds=patience)
    await _stop(route, [(lease, Stop(State.WAITING, "endpoint_busy", moment)) for lease in rows])
    _forget(route, rows)


def _forget(route: Route, oldest: Sequence[Lease]) -> None:
    """Take the oldest held-back rows out, once the ledger knows where they went."""
    for _ in oldest:
        route.held_back.popleft()


def _seat(route: Route) -> None:
    """Reserve slots for held-back rows, in order; those without one stay held back."""
    rows = [route.held_back.popleft() for _ in range(min(len(route.held_back), HELD_BACK_ROWS_MAX))]
    seats = route.transport.reserve([_destination(lease.row) for lease in rows])
    route.seated = {lease.row.id: lease for lease, seat in zip(rows, seats, strict=True) if seat}
    route.held_back.extendleft(lease for lease, seat in zip(reversed(rows), reversed(seats), strict=True) if not seat)
    route.crowded, route.freed = bool(route.held_back) and route.transport.room() > 0, False


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


async def _send_seated(route: Route) -> int:
    """Send what admission lets pass. Whatever still has a seat afterwards was not sent."""
    prepared = _prepare(route)
    stopped = [*prepared.stopped, *await _fold(route, prepared.late)]
    await _stop(route, stopped)
    _free(route, [lease.row.id for lease, _ in stopped])
    return sum([await _begin(route, part) for part in parts(prepared.ready)])


def _free(route: Route, deliveries: Iterable[bytes]) -> None:
    """Free the slots of seated rows."""
    leases = [route.seated.pop(delivery) for delivery in deliveries]
    route.transport.release([_destination(lease.row) for lease in leases])


async def _unseat(route: Route) -> None:
    """Free the slots of rows that were not sent, and give the rows back."""
    leases = list(route.seated.values())
    _free(route, list(route.seated))
    await give_back(route, leases)


def _prepare(route: Route) -> Prepared:
    """Admit and render: rows with their bytes, rows that are folded, and rows that go elsewhere with the reason."""
    reading, prepared = route.clock.reading(), Prepared([], [], [])
    for lease in route.seated.values():
        verdict = _admit_and_freeze(route, lease, reading)
        if isinstance(verdict, Ready):
            prepared.ready.append(verdict)
        elif isinstance(verdict, Late):
            prepared.late.append(verdict)
        else:
            prepared.stopped.append((lease, verdict))
    return prepared


def _admit_and_freeze(route: Route, lease: Lease, reading: float) -> Ready | Late | Stop:
    row, now = lease.row, lease.database_time(reading)
    trust_until = lease.claimed_at + timedelta(seconds=route.trust_seconds())
    promise = route.provider.capabilities(_destination(row))
    verdict = admit(row, now, trust_until, promise, route.limits, route.quiet(row, now))
    if not isinstance(verdict, Go):
        return verdict
    row = mark_late(row, now)
    try:
        if may_fold(row):
            return _late(route, lease, row, now)
        frozen = _bytes_that_bind(row) or _freeze(route, row, now)
    except Unrenderable as error:
        return Stop(State.REJECTED, f"cannot_be_rendered: {error}")
    except VersionUnknown:
        return Stop(State.WAITING, "template_version_unknown", now + timedelta(seconds=route.limits.pause_look_seconds))
    except Exception as error:  # noqa: BLE001 - a bug of an adapter must not cost other rows their turn
        again_at = now + timedelta(seconds=route.limits.pause_look_seconds)
        return Stop(State.WAITING, f"adapter_failed: {type(error).__name__}", again_at)
    return Ready(lease, frozen, verdict.good_until)


def _late(route: Route, lease: Lease, row: Claimed, now: datetime) -> Late:
    part = part_of(row, route.templates.render(row))
    look_again = now + timedelta(seconds=route.limits.busy_summary_seconds)
    return Late(
        lease,
        Folding(row.id, row.fence, row.revisions.reminder, group_of(row), part),
        Stop(State.WAITING, BUSY, look_again),
    )


def _freeze(route: Route, row: Claimed, now: datetime) -> Frozen:
    return route.provider.freeze(row, route.templates.render(row), now)


async def _fold(route: Route, late: Sequence[Late]) -> list[tuple[Lease, Stop]]:
    """Let summaries take rows up; returns those for which that cannot be now."""
    left: list[tuple[Lease, Stop]] = []
    for part in parts(late):
        folded = await route.store.fold(route.worker, [one.folding for one in part])
        _free(route, folded)
        route.tally["folded"] += len(folded)
        left.extend((one.lease, one.otherwise) for one in part if one.lease.row.id not in folded)
    return left


async def _stop(route: Route, stopped: Sequence[tuple[Lease, Stop]]) -> None:
    """Record what was decided about rows that are not sent now."""
    for part in parts(stopped):
        decisions = [
            Decision(lease.row.id, lease.row.fence, State.LEASED, stop.state, stop.reason, stop.next_at, stop.closed)
            for lease, stop in part
        ]
        moved = await route.store.decide(route.worker, decisions)
        route.tally.update(str(stop.state) for lease, stop in part if lease.row.id in moved)


async def _begin(route: Route, ready: Sequence[Ready]) -> int:
    """Write the attempts, then hand over the requests of those that began."""
    try:
        begun = await route.store.begin(route.provider.name, route.worker, [_start(route, item) for item in ready])
    except StoreUnavailable:
        return 0  # whether they began, nobody knows: so nothing is sent, and all are given back
    fly = [item for item in ready if item.lease.row.id in begun.numbers]
    requests = [_request(route, item, begun.numbers[item.lease.row.id]) for item in fly]
    for item, request in zip(fly, requests, strict=True):
        _take_off(route, item, begun.numbers[item.lease.row.id], request.token)
    await route.transport.start(requests)
    _free(route, begun.put_off)
    route.tally["duplicates_suppressed"] += len(ready) - len(fly) - len(begun.put_off)
    return len(fly)


def _start(route: Route, item: Ready) -> Start:
    row = item.lease.row
    rate = route.provider.rate(item.frozen.destination)
    cap = route.caps(row.account, row.purpose)
    return Start(row.id, row.fence, row.revisions, item.good_until, row.endpoint, rate, item.frozen, cap)


def _request(route: Route, item: Ready, number: int) -> Request:
    """The request of one attempt, under a token of its own."""
    route.last_token += 1
    lease = item.lease
    now = lease.database_time(route.clock.reading())
    content = route.provider.request(item.frozen, Attempt(keys.show(lease.row.id), number, now))
    return Request(route.last_token, content, lease.reading_at(item.good_until))


def _take_off(route: Route, item: Ready, number: int, token: int) -> None:
    """From its seat into the air; the slot stays taken."""
    lease = route.seated.pop(item.lease.row.id)
    route.flights[token] = Flight(lease, number, _destination(lease.row), route.clock.reading(), lease.asked_at)


# --- settle --------------------------------------------------------------------------------------


async def settle_some(route: Route, max_wait: float) -> int:
    """Record the answers that have come, in one commit; returns how many. Waits `max_wait` for the first."""
    if not route.landed:  # else the store refused them the last time
        route.landed = await route.transport.completed(BATCH_ROWS_MAX, max_wait)
    if not route.landed:
        return 0
    decided = [_settlement(route, route.flights[completion.token], completion) for completion in route.landed]
    rows = [row for row, _ in decided]
    settled = await route.store.settle(route.provider.name, rows, _signals(said for _, said in decided))
    flights = [route.flights.pop(completion.token) for completion in route.landed]
    route.transport.release([flight.destination for flight in flights])
    route.landed, route.freed = [], True
    route.tally.update(_word(row) for row in rows if row.id in settled.moved)
    route.tally["double_acceptance"] += settled.doubled
    return len(rows)


def _settlement(route: Route, flight: Flight, completion: Completion) -> tuple[Settlement, Signal | None]:
    row = flight.lease.row
    now = flight.lease.database_time(completion.finished)
    result = _result(route, completion, now)
    then = settle(row, flight.number, result, now, route.dice.roll(), route.limits)
    settlement = Settlement(
        row.id,
        row.fence,
        flight.number,
        now,
        result,
        then.state,
        then.reason,
        then.next_at,
        then.closed,
        then.spared,
        route.provider.capabilities(flight.destination).names_message,
    )
    return settlement, signal(row, result, route.limits)


def _result(route: Route, completion: Completion, now: datetime) -> Result:
    """What the answer proves. An adapter that fails over it has proved nothing, and costs no other row its outcome."""
    try:
        return route.provider.classify(completion.answer, now)
    except Exception as error:  # noqa: BLE001 - see above
        return Result(Outcome.UNKNOWN, detail=f"the answer could not be classified ({type(error).__name__})")


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
