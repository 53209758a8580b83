"""Claim, begin and abandon: how a ready delivery comes into a worker's hands, and back.

A claim visits accounts in turn from the cursor on, and takes an even share of each, so that a crowded
account delays nobody else. It takes leases only. Begin looks at every row again under the writer's
turn: fence, worker, times and the four revisions; then the budgets of the endpoints say how many of
those may go, and the rest waits. What begins has its attempt, its frozen bytes and its token in one
commit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from duly.core.budget import Allowance, Grant, burst, grant
from duly.core.keys import payload_hash
from duly.core.model import Begun, Claimed, Frozen, Outcome, Result, Start
from duly.core.states import State
from duly.ports import Claim, ClaimOrder
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Row, move, open_row, record

__all__ = ["abandon", "begin", "claim"]

BEGIN_UNCONFIRMED: Final = "begin_unconfirmed"


class Candidate(NamedTuple):
    """A row that may begin if its endpoint's budget allows it, as attempt `number`."""

    start: Start
    number: int


# --- claim ---------------------------------------------------------------------------------------


def claim(db: Database, order: ClaimOrder) -> Claim:
    """See Store.claim."""
    with db.writing():
        now = db.now()
        accounts, next_account = _accounts(db, order)
        found = _shares(db, order, accounts)
        until = now + round(order.lease_seconds * stored.SECOND_US)
        db.change_each("claim_lease", ({"id": row[0], "worker": order.worker, "lease_until": until} for row in found))
        return Claim(stored.moment(now), _claimed(db, found, until, now), next_account)


def _accounts(db: Database, order: ClaimOrder) -> tuple[list[int], int]:
    """Accounts with ready work after the cursor, and where the next claim goes on (0: from the start)."""
    accounts: list[int] = []
    after = order.after_account
    while len(accounts) < order.limit:
        after = db.value("claim_next_account", provider=order.provider, lane=order.lane, after=after)
        if after is None:
            return accounts, 0
        accounts.append(after)
    return accounts, after


def _shares(db: Database, order: ClaimOrder, accounts: Sequence[int]) -> list[tuple[Any, ...]]:
    """An even share of each account's ready rows, no more than the limit in all."""
    share = math.ceil(order.limit / max(1, len(accounts)))
    found: list[tuple[Any, ...]] = []
    for account in accounts:
        room = min(share, order.limit - len(found))
        found += db.rows("claim_ready", provider=order.provider, lane=order.lane, account=account, limit=room)
    return found


def _claimed(db: Database, found: Iterable[tuple[Any, ...]], until: int, now: int) -> list[Claimed]:
    lease_until = stored.moment(until)
    return [stored.claimed(row, lease_until, _bytes_before(db, row[0], row[4]), now) for row in found]


def _bytes_before(db: Database, delivery: bytes, attempts: int) -> Frozen | None:
    """The latest frozen request, if any attempt has begun."""
    kept = db.row("frozen_latest", id=delivery) if attempts else None
    return None if kept is None else stored.frozen(kept)


# --- begin ---------------------------------------------------------------------------------------


def begin(db: Database, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
    """See Store.begin."""
    begun = Begun({}, {})
    with db.writing():
        for endpoint, asking in _by_endpoint(_candidates(db, worker, rows)).items():
            granted = _ask(db, provider, endpoint, asking)
            _begin(db, provider, worker, asking[: granted.granted])
            _put_off(db, asking[granted.granted :], granted, begun)
            begun.numbers.update((one.start.id, one.number) for one in asking[: granted.granted])
    return begun


def _candidates(db: Database, worker: str, rows: Sequence[Start]) -> Iterable[Candidate]:
    """The rows that may begin, each once."""
    for start in {row.id: row for row in rows}.values():
        account, reminder, recipient, contact = start.revisions
        number = db.value(
            "begin_allowed",
            id=start.id,
            fence=start.fence,
            worker=worker,
            good_until=stored.micros(start.good_until),
            account_revision=account,
            reminder_revision=reminder,
            recipient_revision=recipient,
            contact_revision=contact,
        )
        if number is not None:
            yield Candidate(start, number)


def _by_endpoint(candidates: Iterable[Candidate]) -> dict[bytes, list[Candidate]]:
    grouped: dict[bytes, list[Candidate]] = {}
    for candidate in candidates:
        grouped.setdefault(candidate.start.endpoint, []).append(candidate)
    return grouped


def _ask(db: Database, provider: str, endpoint: bytes, asking: Sequence[Candidate]) -> Grant:
    """Let the endpoint's budget decide, and write down what that leaves of it."""
    rate, now = asking[0].start.rate, db.now()
    seen = db.row("budget_seen", provider=provider, endpoint=endpoint)
    decided = grant(_allowance(seen, rate, now), len(asking), stored.moment(now))
    if seen is not None or rate is not None:
        db.change(
            "budget_spend",
            provider=provider,
            endpoint=endpoint,
            tokens=decided.tokens,
            rate=rate,
            now=now,
            blocked_until=stored.maybe_micros(decided.blocked_until),
            failures=decided.failures,
        )
    return decided


def _allowance(seen: tuple[Any, ...] | None, rate: float | None, now: int) -> Allowance:
    """The budget as it stands; a new one is full."""
    if seen is None:
        return Allowance(burst(rate or 0.0), stored.moment(now), rate, None, None, circuit=False, failures=0)
    tokens, updated_at, blocked_until, reason, circuit, failures = seen
    until = stored.maybe_moment(blocked_until)
    return Allowance(tokens, stored.moment(updated_at), rate, until, reason, bool(circuit), failures)


def _begin(db: Database, provider: str, worker: str, granted: Sequence[Candidate]) -> None:
    db.change_each("begin_work", ({"id": start.id, "number": number} for start, number in granted))
    db.change_each("begin_attempt", (_attempt(start, number, worker, provider) for start, number in granted))
    db.change_each("begin_frozen", (_frozen(start, number) for start, number in granted if not start.frozen.number))


def _attempt(start: Start, number: int, worker: str, provider: str) -> dict[str, Any]:
    return {
        "id": start.id,
        "number": number,
        "fence": start.fence,
        "worker": worker,
        "provider": provider,
        "hash": start.frozen.hash or payload_hash(start.frozen.body),
    }


def _frozen(start: Start, number: int) -> dict[str, Any]:
    return {
        "id": start.id,
        "number": number,
        "destination": start.frozen.destination,
        "body": start.frozen.body,
        "template": start.frozen.template,
        "template_version": start.frozen.template_version,
        "reminder_revision": start.revisions.reminder,
        "recipient_revision": start.revisions.recipient,
        "contact_revision": start.revisions.contact,
    }


def _put_off(db: Database, waiting: Sequence[Candidate], granted: Grant, begun: Begun) -> None:
    """Rows without a token wait in the ledger, each until its own moment."""
    for (start, _), (until, reason) in zip(waiting, granted.put_off, strict=True):
        db.change("begin_put_off", id=start.id, reason=reason, next_at=stored.micros(until))
        begun.put_off[start.id] = (until, reason)


# --- abandon -------------------------------------------------------------------------------------


def abandon(db: Database, worker: str, pairs: Sequence[tuple[bytes, int]]) -> None:
    """See Store.abandon."""
    with db.writing():
        for delivery, fence in pairs:
            row = open_row(db, delivery)
            if row is not None and row.fence == fence and db.value("leased_to", id=delivery) == worker:
                _give_back(db, row)


def _give_back(db: Database, row: Row) -> None:
    if row.state is State.LEASED:
        move(db, row, row._replace(state=State.READY, reason=None))
        return
    now = db.now()
    record(db, row.id, row.attempts, now, Result(Outcome.NOT_SENT, detail=BEGIN_UNCONFIRMED), stale=False)
    move(db, row, row._replace(state=State.WAITING, reason=BEGIN_UNCONFIRMED, next_at=now))
