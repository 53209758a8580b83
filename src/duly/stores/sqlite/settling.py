"""Settle: outcomes of many deliveries, and what their endpoints said, in one commit.

A settlement moves its row only under its own fence, for the attempt that is under way. Acceptance is
evidence, not an opinion: it closes the delivery whatever the fence, and overturns a final state. A
result that comes too late for its row is still recorded, and marked stale.

Signals come first, because a circuit that closes wakes rows that wait behind it. All of it may be said
again: a result is written once, and what stands already is not moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from duly.core.model import Outcome, Result, Settlement, Signal
from duly.core.states import FINAL, State, check
from duly.core.text import recordable
from duly.ports import Settled
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.circuits import hear
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Head, Row, ended, finish, may_become, move, note, open_row, record

__all__ = ["added", "scrubbed", "settle"]

NOT_MOVED: Final = Settled(frozenset(), 0, 0)
STATUS_MAX: Final = 999  # HTTP status and SMTP reply codes have three digits


def settle(db: Database, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
    """See Store.settle: one commit, all or nothing. Raises DataRefused if a row cannot be stored."""
    for row in rows:
        check(State.SENDING, row.state)
    with db.writing():
        for signal in signals:
            hear(db, provider, signal)
        settled = [_settle(db, row) for row in rows]
    return added(settled)


def added(parts: Iterable[Settled]) -> Settled:
    """Several commits (or rows) as one."""
    parts = tuple(parts)
    moved: frozenset[bytes] = frozenset().union(*(part.moved for part in parts))
    return Settled(moved, sum(part.stale for part in parts), sum(part.corrected for part in parts))


def scrubbed(row: Settlement) -> Settlement:
    """The same outcome in a form that every column takes: what an answer said may be lost, not what it meant."""
    result = row.result
    status = result.http_status
    seconds = result.retry_after
    clean = Result(
        result.outcome,
        result.failure,
        http_status=status if status is not None and 0 <= status <= STATUS_MAX else None,
        request_id=None if result.request_id is None else recordable(str(result.request_id)),
        retry_after=seconds if seconds is not None and math.isfinite(seconds) else None,
        detail="a part of the answer could not be recorded",
    )
    return row._replace(result=clean, reason=recordable(row.reason))


# --- one settlement ------------------------------------------------------------------------------


def _settle(db: Database, new: Settlement) -> Settled:
    row = open_row(db, new.id)
    if new.result.outcome is Outcome.ACCEPTED:
        return _accept(db, new, row)
    if row is None or (row.state, row.fence, row.attempts) != (State.SENDING, new.fence, new.number):
        return _too_late(db, new, row)
    record(db, new.id, new.number, stored.micros(new.finished_at), new.result, stale=False)
    return _move(db, row, new)


def _move(db: Database, row: Row, new: Settlement) -> Settled:
    now = row._replace(
        granted=False,
        spared=row.spared + new.spared,
        closed=row.closed or new.closed,
        reason=new.reason,
        next_at=db.now() if new.next_at is None else stored.micros(new.next_at),
    )
    if new.result.outcome is Outcome.UNKNOWN:
        now = now._replace(doubt=True, first_unknown_at=row.first_unknown_at or _started_at(db, new))
    if not may_become(now, new.state):
        move(db, row, now._replace(state=State.UNCERTAIN, closed=True, reason=f"{new.reason}_in_doubt"))
        return NOT_MOVED
    if new.state in FINAL:
        finish(db, row, new.state, new.reason, finished_at=stored.micros(new.finished_at))
    else:
        move(db, row, now._replace(state=new.state))
    return Settled(frozenset({new.id}), 0, 0)


def _started_at(db: Database, new: Settlement) -> int:
    """When the attempt was written down; if that is no longer kept, when its answer came."""
    seen = db.row("attempt_seen", id=new.id, number=new.number)
    return stored.micros(new.finished_at) if seen is None else int(seen[0])


def _accept(db: Database, new: Settlement, row: Row | None) -> Settled:
    """Acceptance wins whatever the fence, and over a final state."""
    finished_at = stored.micros(new.finished_at)
    final = ended(db, new.id) if row is None else None
    unheard_of = row is None and final is None
    written = record(db, new.id, new.number, finished_at, new.result, stale=unheard_of)
    if unheard_of:
        return Settled(frozenset(), int(written), 0)
    if row is not None:
        finish(db, row, State.SENT, new.reason, finished_at=finished_at, request_id=new.result.request_id)
    corrected = final is not None and final.state is not State.SENT
    if final is not None and corrected:
        _correct(db, final, new)
    return Settled(frozenset({new.id}), 0, int(corrected))


def _correct(db: Database, final: Head, new: Settlement) -> None:
    attempt = db.row("attempt_seen", id=new.id, number=new.number)
    actor = "settle" if attempt is None else attempt[1]
    finish(
        db, final, State.SENT, new.reason, finished_at=stored.micros(new.finished_at), request_id=new.result.request_id
    )
    note(db, final, "corrected", State.SENT, actor, new.reason)


def _too_late(db: Database, new: Settlement, row: Row | None) -> Settled:
    """Another fence has the row, or nobody: record what the attempt learned. Said before, it stands as it did."""
    if record(db, new.id, new.number, stored.micros(new.finished_at), new.result, stale=True):
        return Settled(frozenset(), 1, 0)
    stands = (row.state, row.fence) == (new.state, new.fence) if row else _ended_as(db, new)
    said = db.row("result_seen", id=new.id, number=new.number) == (new.result.outcome.value, 0)
    return Settled(frozenset({new.id} if stands and said else ()), 0, 0)


def _ended_as(db: Database, new: Settlement) -> bool:
    final = ended(db, new.id)
    return final is not None and final.state is new.state
