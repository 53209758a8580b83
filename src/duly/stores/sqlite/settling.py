"""Settle: outcomes of many deliveries, and what their endpoints said, in one commit.

A settlement moves its row only under its own fence, for the attempt that is under way. Acceptance is
evidence, not an opinion: it closes the delivery whatever the fence, and overturns a final state. A
result that comes too late for its row is still recorded, and marked stale. Where a request id names a
message, a second one for a delivery that was accepted under another is a message too many: it is noted,
once.

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
from duly.stores.rounds import rounds
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.capping import give_places_back
from duly.stores.sqlite.circuits import hear
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import (
    Ending,
    Entries,
    Row,
    endings,
    may_become,
    open_rows_of,
    result_values,
)

__all__ = ["added", "scrubbed", "settle"]

DOUBLE: Final = "double_acceptance"
STATUS_MAX: Final = 999  # HTTP status and SMTP reply codes have three digits


class Tally:
    """What one settle has done so far."""

    def __init__(self) -> None:
        self.moved: set[bytes] = set()
        self.stale = 0
        self.corrected = 0
        self.doubled = 0


def settle(db: Database, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
    """See Store.settle: one commit, all or nothing. Raises DataRefused if a row cannot be stored."""
    tally = Tally()
    for row in rows:
        check(State.SENDING, row.state)
    with db.writing():
        for signal in signals:
            hear(db, provider, signal)
        for batch in rounds(rows, lambda row: row.id):
            _settle_round(db, batch, tally)
    return Settled(frozenset(tally.moved), tally.stale, tally.corrected, tally.doubled)


def added(parts: Iterable[Settled]) -> Settled:
    """Several commits as one."""
    parts = tuple(parts)
    moved: frozenset[bytes] = frozenset().union(*(part.moved for part in parts))
    counts = zip(*(part[1:] for part in parts), strict=True)
    return Settled(moved, *map(sum, counts))


def scrubbed(row: Settlement) -> Settlement:
    """The same outcome in a form that every column takes: what an answer said may be lost, not what it meant."""
    result = row.result
    status, seconds = result.http_status, result.retry_after
    clean = Result(
        result.outcome,
        result.failure,
        http_status=status if status is not None and 0 <= status <= STATUS_MAX else None,
        request_id=None if result.request_id is None else recordable(result.request_id),
        retry_after=seconds if seconds is not None and math.isfinite(seconds) else None,
        detail="a part of the answer could not be recorded",
    )
    return row._replace(result=clean, reason=recordable(row.reason))


def _settle_round(db: Database, batch: Sequence[Settlement], tally: Tally) -> None:
    """Settle rows of which each is about another delivery."""
    seen = open_rows_of(db, batch)
    ended = endings(db, [new for new in batch if new.id not in seen])
    entries = Entries()
    for new in batch:
        row = seen.get(new.id)
        if new.result.outcome is Outcome.ACCEPTED:
            _accept(db, new, row or ended.get(new.id), entries, tally)
        elif row is not None and _is_its_own(new, row):
            _move(db, new, row, entries, tally)
        else:
            _too_late(db, new, row or ended.get(new.id), tally)
    entries.write(db)
    give_places_back(db, entries.not_sent)


# --- the attempt that is under way ---------------------------------------------------------------


def _move(db: Database, new: Settlement, row: Row, entries: Entries, tally: Tally) -> None:
    finished_at = stored.micros(new.finished_at)
    entries.record(new.id, new.number, finished_at, new.result)
    after = _after(db, new, row, finished_at)
    if not may_become(after, new.state):
        entries.move(row, after._replace(state=State.UNCERTAIN, closed=True, reason=f"{new.reason}_in_doubt"))
        return
    if new.state in FINAL:
        entries.end(row, new.state, new.reason, finished_at)
    else:
        entries.move(row, after)
    tally.moved.add(new.id)


def _after(db: Database, new: Settlement, row: Row, finished_at: int) -> Row:
    """The row as it stands after an answer. Doubt begins when its first unknown attempt was written.

    Its worker has outlived it, so it is no suspect. Misses counted before an unknown attempt do not cover it.
    """
    unknown = new.result.outcome is Outcome.UNKNOWN
    if unknown:
        row = row._replace(misses=0, missed_at=None)
    return row._replace(
        state=new.state,
        spared=row.spared + new.spared,
        doubt=row.doubt or unknown,
        closed=row.closed or new.closed,
        granted=False,
        first_unknown_at=(row.first_unknown_at or _started_at(db, new, finished_at))
        if unknown
        else row.first_unknown_at,
        reason=new.reason,
        next_at=db.now() if new.next_at is None else stored.micros(new.next_at),
        suspicion=0,
        deaths=0,
    )


def _started_at(db: Database, new: Settlement, finished_at: int) -> int:
    """When the attempt was written down; if that is no longer kept, when its answer came."""
    seen = db.row("attempt_seen", id=new.id, number=new.number)
    return finished_at if seen is None else int(seen[0])


# --- acceptance ----------------------------------------------------------------------------------


def _accept(db: Database, new: Settlement, row: Row | Ending | None, entries: Entries, tally: Tally) -> None:
    """Acceptance wins whatever the fence, and over a final state."""
    if row is None:
        _too_late(db, new, None, tally)
        return
    finished_at = stored.micros(new.finished_at)
    entries.record(new.id, new.number, finished_at, new.result)
    tally.moved.add(new.id)
    if isinstance(row, Ending) and row.state is State.SENT:
        _compare(db, new, row, entries, tally)
        return
    entries.end(row, State.SENT, new.reason, finished_at, new.result.request_id)
    tally.corrected += isinstance(row, Ending)
    if isinstance(row, Ending) or not _is_its_own(new, row):
        kind = "corrected" if isinstance(row, Ending) else "accepted"
        evidence = stored.json_text({"request_id": new.result.request_id, "attempt": new.number})
        entries.note(row, kind, State.SENT, _witness(db, new), new.reason, evidence)


def _is_its_own(new: Settlement, row: Row) -> bool:
    """Whether it answers the attempt that is under way: then the attempt itself tells the story."""
    return (row.state, row.fence, row.attempts) == (State.SENDING, new.fence, new.number)


def _compare(db: Database, new: Settlement, row: Ending, entries: Entries, tally: Tally) -> None:
    """Accepted under another name: two messages, where a name is a message's. Noted once for each such name.

    Where it is sent under no name (an operator said so), the first one that comes is its name.
    """
    second = new.result.request_id
    if not new.named or second is None or row.request_id == second:
        return
    if row.request_id is None:
        db.change("delivery_name", id=row.id, request_id=second)
        return
    if db.value("double_acceptance_seen", reminder=row.reminder, id=row.id, request_id=second):
        return
    tally.doubled += 1
    evidence = stored.json_text({"request_ids": [row.request_id, second], "attempt": new.number})
    entries.note(row, DOUBLE, State.SENT, _witness(db, new), DOUBLE, evidence)


def _witness(db: Database, new: Settlement) -> str:
    """Who knew it: the worker of the attempt, or evidence that came without one."""
    attempt = None if new.fence < 0 else db.row("attempt_seen", id=new.id, number=new.number)
    return "evidence" if attempt is None else str(attempt[1])


# --- answers of fenced-out workers ---------------------------------------------------------------


def _too_late(db: Database, new: Settlement, row: Row | Ending | None, tally: Tally) -> None:
    """Another fence has the row, or nobody: record what the attempt learned. Said before, it stands as it did.

    Of a delivery that is not there nothing is recorded: it may come to be, and would find a foreign answer.
    """
    if row is None:
        return
    values = result_values(new.id, new.number, stored.micros(new.finished_at), new.result, stale=True)
    if db.change_one("result_write", *values):
        tally.stale += 1
    elif _stands(new, row) and _was_said(db, new):
        tally.moved.add(new.id)


def _stands(new: Settlement, row: Row | Ending) -> bool:
    """Whether the delivery stands where the settlement says."""
    return row.state is new.state and (isinstance(row, Ending) or row.fence == new.fence)


def _was_said(db: Database, new: Settlement) -> bool:
    """Whether this very outcome is on record, from a settle that moved the row."""
    return bool(db.row("result_seen", id=new.id, number=new.number) == (new.result.outcome.value, 0))
