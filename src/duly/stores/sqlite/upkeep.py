"""Upkeep and reconcile's claims: what moves rows on that no worker holds.

Each duty is one bounded batch, found by a partial index of its own, and may be run by any number of
processes at once. What began and lost its lease is in doubt: its attempt's answer is recorded as unknown
unless a definite one is there already, and its fence is raised, so that a worker that comes back late
finds the row gone and can only add evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from duly.core.model import Doubtful, FailureClass, Outcome, Result
from duly.core.states import State
from duly.ports import Swept, TakenBack
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Entries, Row, open_rows

__all__ = ["doubtful", "next_step", "promote", "sweep", "take_back"]

WORKER_LOST: Final = Result(Outcome.UNKNOWN, FailureClass.WORKER_LOST)
LOST: Final = "unknown_worker_lost"
PASSED: Final = "deadline_passed"
PASSED_IN_DOUBT: Final = "deadline_passed_in_doubt"
STEPS: Final = ("next_lease_end", "next_look", "next_expiry")


def promote(db: Database, limit: int) -> int:
    """See Store.promote."""
    with db.writing():
        return db.change("promote", limit=limit)


# --- ended leases --------------------------------------------------------------------------------


def take_back(db: Database, limit: int, actor: str) -> TakenBack:
    """See Store.take_back."""
    entries = Entries()
    with db.writing():
        rows = open_rows(db, "open_with_ended_lease", limit=limit)
        counts = Counter(_take_back(db, actor, row, entries) for row in rows)
        entries.write(db)
    return TakenBack(counts["ready"], counts["uncertain"])


def _take_back(db: Database, actor: str, row: Row, entries: Entries) -> str:
    if row.state is State.LEASED:
        entries.move(row, row._replace(state=State.READY, fence=row.fence + 1, reason=None))
        return "ready"
    now = db.now()
    lost = row._replace(state=State.UNCERTAIN, fence=row.fence + 1, granted=False, reason=LOST, next_at=now)
    if not _was_answered(db, row):
        entries.record(row.id, row.attempts, now, WORKER_LOST)
        lost = lost._replace(doubt=True, first_unknown_at=row.first_unknown_at or _started_at(db, row) or now)
    entries.move(row, lost)
    entries.note(row, "lease_ended", State.UNCERTAIN, actor, LOST)
    return "uncertain"


def _was_answered(db: Database, row: Row) -> bool:
    """Whether the latest attempt has a definite answer on record."""
    seen = db.row("result_seen", id=row.id, number=row.attempts)
    return seen is not None and seen[0] != Outcome.UNKNOWN


def _started_at(db: Database, row: Row) -> int | None:
    seen = db.row("attempt_seen", id=row.id, number=row.attempts)
    return None if seen is None else int(seen[0])


# --- deadlines -----------------------------------------------------------------------------------


def sweep(db: Database, limit: int, actor: str) -> Swept:
    """See Store.sweep."""
    entries = Entries()
    with db.writing():
        rows = open_rows(db, "open_past_deadline", limit=limit)
        counts = Counter(_sweep(db, actor, row, entries) for row in rows)
        entries.write(db)
    return Swept(counts["expired"], counts["uncertain"])


def _sweep(db: Database, actor: str, row: Row, entries: Entries) -> str:
    if row.doubt:
        entries.move(row, row._replace(state=State.UNCERTAIN, closed=True, reason=PASSED_IN_DOUBT, next_at=db.now()))
        entries.note(row, PASSED, State.UNCERTAIN, actor, PASSED_IN_DOUBT)
        return "uncertain"
    entries.end(row, State.EXPIRED, PASSED)
    entries.note(row, PASSED, State.EXPIRED, actor, PASSED)
    return "expired"


# --- reconcile's claims --------------------------------------------------------------------------


def doubtful(
    db: Database, providers: Sequence[str], limit: int, lease_seconds: float
) -> tuple[datetime, list[Doubtful]]:
    """See Store.doubtful."""
    with db.writing():
        now = db.now()
        found = db.rows("doubtful_due", providers=stored.json_text(list(providers)), limit=limit)
        until = now + round(lease_seconds * stored.SECOND_US)
        db.change_each("doubtful_lease", [(until, row[0]) for row in found])
        return stored.moment(now), [stored.doubtful(row) for row in found]


# --- how long nothing happens --------------------------------------------------------------------


def next_step(db: Database, providers: Sequence[str]) -> float | None:
    """See Store.next_step."""
    with db.reading():
        if any(db.value("next_ready", provider=provider) for provider in providers):
            return 0.0
        found = [db.value(step, provider=provider) for step in STEPS for provider in providers]
        moments = [step for step in found if step is not None]
        return max(0.0, (min(moments) - db.now()) / stored.SECOND_US) if moments else None
