"""Claim, begin, renew and abandon: how a ready delivery comes into a worker's hands, and back.

A claim visits accounts in turn from the cursor on, and takes an even share of each, so that a crowded
account delays nobody else. It takes leases only. Begin looks at every row again under the writer's
turn: fence, worker, times and the four revisions; then caps, and after them the budgets of the endpoints, say
how many of those may go, and the rest waits. What begins has its attempt, its frozen bytes and its token in one
commit. While a restore guard is open nothing is claimed and nothing begins.

Rows that were in a worker's hands when it died are claimed apart from all others, in a company that their
suspicion makes small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from duly.core.budget import Allowance, Grant, burst, grant
from duly.core.caps import FREQUENCY_CAP
from duly.core.keys import payload_hash
from duly.core.model import Begun, Claimed, Frozen, Outcome, Result, Start
from duly.core.states import State
from duly.ports import Claim, ClaimOrder
from duly.stores.sqlite import capping
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.guarding import standing
from duly.stores.sqlite.moves import Entries, Row, open_rows_of

__all__ = ["abandon", "begin", "claim", "renew"]

UNDER_A_LEASE: Final = frozenset({State.LEASED, State.SENDING})
BEGIN_UNCONFIRMED: Final = "begin_unconfirmed"


class Candidate(NamedTuple):
    """A row that may begin if its endpoint's budget allows it, as attempt `number`. `place`: where it is stored."""

    start: Start
    place: int
    number: int


class PutOff(NamedTuple):
    """A row that may not begin now: until when, and why."""

    candidate: Candidate
    until: datetime
    reason: str


class Held(NamedTuple):
    """A delivery that a worker gives back, and the fence under which it had it."""

    id: bytes
    fence: int


# --- claim ---------------------------------------------------------------------------------------

#: Where a row that is to be leased is stored, and its delivery.
Picked: TypeAlias = tuple[int, bytes]


def claim(db: Database, order: ClaimOrder) -> Claim:
    """See Store.claim."""
    with db.writing():
        now = db.now()
        picked, next_account = ([], 0) if standing(db) else _pick(db, order)
        until = now + round(order.lease_seconds * stored.SECOND_US)
        db.change_each("claim_lease", [(order.worker, until, place) for place, _ in picked])
        found = db.rows("claim_bring", ids=b"".join(delivery for _, delivery in picked))
        return Claim(stored.moment(now), _claimed(db, found, until, now), next_account)


def _pick(db: Database, order: ClaimOrder) -> tuple[list[Picked], int]:
    """The rows to lease, and where the next claim's cursor stands."""
    if order.suspicion:
        rows = db.rows("claim_suspects", provider=order.provider, suspicion=order.suspicion, limit=order.limit)
        return rows, 0
    accounts, next_account = _accounts(db, order)
    return _shares(db, order, accounts), next_account


def _accounts(db: Database, order: ClaimOrder) -> tuple[list[int], int]:
    """Accounts with ready work after the cursor, and where the next claim goes on (0: from the start)."""
    accounts: list[int] = []
    after = order.after_account
    while len(accounts) < order.limit:
        after = db.value("claim_next_account", provider=order.provider, lane=str(order.lane), after=after)
        if after is None:
            return accounts, 0
        accounts.append(after)
    return accounts, after


def _shares(db: Database, order: ClaimOrder, accounts: Sequence[int]) -> list[Picked]:
    """An even share of each account's ready rows, no more than the limit in all."""
    share = math.ceil(order.limit / max(1, len(accounts)))
    picked: list[Picked] = []
    for account in accounts:
        room = min(share, order.limit - len(picked))
        picked += db.rows("claim_ready", provider=order.provider, lane=str(order.lane), account=account, limit=room)
    return picked


def _claimed(db: Database, found: Iterable[tuple[Any, ...]], until: int, now: int) -> list[Claimed]:
    lease_until = stored.moment(until)
    return [
        stored.claimed(row, attempts, lease_until, _bytes_before(db, row[0]) if attempts else None, now)
        for attempts, *row in found
    ]


def _bytes_before(db: Database, delivery: bytes) -> Frozen | None:
    """The latest frozen request, if it is still kept."""
    kept = db.row("frozen_latest", id=delivery)
    return None if kept is None else stored.frozen(kept)


# --- begin ---------------------------------------------------------------------------------------


def begin(db: Database, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
    """See Store.begin."""
    begun = Begun({}, {})
    with db.writing():
        candidates = [] if standing(db) else _candidates(db, worker, rows)
        capped = capping.look(db, [one.start for one in candidates])
        granted = _ask_budgets(db, provider, [one for one in candidates if capped.lets_pass(one.start.id)], begun)
        _write(db, provider, worker, granted)
        begun.numbers.update((one.start.id, one.number) for one in granted)
        capping.take_places(db, capped, begun.numbers)
        late = capped.put_off(begun.numbers)
        _put_off(db, _until_there_is_room(candidates, late), begun)
        capping.note(db, worker, capped, late)
    return begun


def _candidates(db: Database, worker: str, rows: Sequence[Start]) -> list[Candidate]:
    """The rows that may begin, each once."""
    wanted = {row.id: row for row in rows}
    seen = db.rows("begin_seen", ids=b"".join(wanted), worker=worker)
    now = stored.moment(db.now())
    return [
        Candidate(start, place, number)
        for delivery, place, number, fence, *revisions in seen
        if (start := wanted[delivery]).fence == fence and start.revisions == tuple(revisions) and start.good_until > now
    ]


def _until_there_is_room(candidates: Iterable[Candidate], until: Mapping[bytes, datetime]) -> list[PutOff]:
    return [PutOff(one, until[one.start.id], FREQUENCY_CAP) for one in candidates if one.start.id in until]


def _write(db: Database, provider: str, worker: str, granted: Sequence[Candidate]) -> None:
    """Attempts, new bytes, and the rows that have begun."""
    db.change_each("begin_work", [(number, place) for _, place, number in granted])
    db.change_each("begin_attempt", [_attempt(start, number, worker, provider) for start, _, number in granted])
    db.change_each("begin_frozen", [_frozen(start, number) for start, _, number in granted if not start.frozen.number])


def _attempt(start: Start, number: int, worker: str, provider: str) -> tuple[Any, ...]:
    bytes_hash = start.frozen.hash or payload_hash(start.frozen.body)
    return (start.id, number, start.fence, worker, provider, bytes_hash)


def _frozen(start: Start, number: int) -> tuple[Any, ...]:
    new = start.frozen
    return (start.id, number, new.destination, new.body, new.template, new.template_version, *start.revisions[1:])


# --- budgets -------------------------------------------------------------------------------------


def _ask_budgets(db: Database, provider: str, candidates: Sequence[Candidate], begun: Begun) -> list[Candidate]:
    """Let each endpoint's budget decide; what it puts off waits in the ledger. Returns the rows that may go."""
    asking = _by_endpoint(candidates)
    budgets = {row[0]: row[1:] for row in db.rows("budgets_seen", provider=provider, ids=b"".join(asking))}
    granted: list[Candidate] = []
    spent: list[tuple[Any, ...]] = []
    for endpoint, rows in asking.items():
        rate, now = rows[0].start.rate, db.now()
        decided = _decide(budgets, endpoint, rate, len(rows), now)
        if decided is None:
            granted += rows
            continue
        until = stored.maybe_micros(decided.blocked_until)
        spent.append((provider, endpoint, decided.tokens, rate, now, until, decided.failures))
        granted += rows[: decided.granted]
        late = zip(rows[decided.granted :], decided.put_off, strict=True)
        _put_off(db, [PutOff(one, until, reason) for one, (until, reason) in late], begun)
    db.change_each("budget_spend", spent)
    return granted


def _by_endpoint(candidates: Iterable[Candidate]) -> dict[bytes, list[Candidate]]:
    grouped: dict[bytes, list[Candidate]] = {}
    for candidate in candidates:
        grouped.setdefault(candidate.start.endpoint, []).append(candidate)
    return grouped


def _decide(
    budgets: Mapping[bytes, tuple[Any, ...]], endpoint: bytes, rate: float | None, wanted: int, now: int
) -> Grant | None:
    """What the budget grants; None if there is neither a budget nor a rate. A new budget is full."""
    seen = budgets.get(endpoint)
    if seen is not None:
        tokens, updated_at, blocked_until, reason, circuit, failures = seen
        until = stored.maybe_moment(blocked_until)
        allowance = Allowance(tokens, stored.moment(updated_at), rate, until, reason, bool(circuit), failures)
    elif rate is not None:
        allowance = Allowance(burst(rate), stored.moment(now), rate, None, None, circuit=False, failures=0)
    else:
        return None
    return grant(allowance, wanted, stored.moment(now))


def _put_off(db: Database, late: Sequence[PutOff], begun: Begun) -> None:
    """Rows without a token or a place wait in the ledger, each until its own moment."""
    begun.put_off.update((one.start.id, (until, reason)) for one, until, reason in late)
    db.change_each("begin_put_off", [(reason, stored.micros(until), one.place) for one, until, reason in late])


# --- renew ---------------------------------------------------------------------------------------


def renew(db: Database, worker: str, pairs: Sequence[tuple[bytes, int]], lease_seconds: float) -> frozenset[bytes]:
    """See Store.renew."""
    asked = {Held(*pair) for pair in pairs}
    with db.writing():
        until = db.now() + round(lease_seconds * stored.SECOND_US)
        seen = db.rows("renewable", ids=b"".join({pair.id for pair in asked}), worker=worker)
        renewed = [(delivery, place) for delivery, fence, place in seen if Held(delivery, fence) in asked]
        db.change_each("renew", [(until, place) for _, place in renewed])
    return frozenset(delivery for delivery, _ in renewed)


# --- abandon -------------------------------------------------------------------------------------


def abandon(db: Database, worker: str, pairs: Sequence[tuple[bytes, int]]) -> None:
    """See Store.abandon."""
    held, entries = {Held(*pair) for pair in pairs}, Entries()
    with db.writing():
        for row in open_rows_of(db, held).values():
            if row.state in UNDER_A_LEASE and row.worker == worker and Held(row.id, row.fence) in held:
                _give_back(row, db.now(), entries)
        entries.write(db)
        capping.give_places_back(db, entries.not_sent)


def _give_back(row: Row, now: int, entries: Entries) -> None:
    """Not begun: ready again. Begun without a confirmation: the attempt was not sent, and the row waits."""
    if row.state is State.LEASED:
        entries.move(row, row._replace(state=State.READY, reason=None))
        return
    entries.record(row.id, row.attempts, now, Result(Outcome.NOT_SENT, detail=BEGIN_UNCONFIRMED))
    entries.move(row, row._replace(state=State.WAITING, reason=BEGIN_UNCONFIRMED, next_at=now))
