"""Upkeep: what moves rows on that no worker holds.

Each duty is one bounded batch, found by a partial index of its own, and may be run by any number of
processes at once. What began and lost its lease is in doubt: its attempt's answer is recorded as unknown
unless a definite one is there already, and its fence is raised, so that a worker that comes back late
finds the row gone and can only add evidence.

A row that was in a worker's hands when it died may have killed it. Each such death makes it more suspect,
until it is claimed alone; then deaths count, and at last it is not given to another worker.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from duly.core.ladder import KILLED
from duly.core.limits import MOST_SUSPECT
from duly.core.model import FailureClass, Outcome, Result
from duly.core.moments import instant
from duly.core.states import State
from duly.ports import Swept, TakenBack
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Entries, Row, open_rows

__all__ = ["look_again", "next_step", "promote", "suspects", "sweep", "take_back"]

WORKER_LOST: Final = Result(Outcome.UNKNOWN, FailureClass.WORKER_LOST)
LOST: Final = "unknown_worker_lost"
KILLED_IN_DOUBT: Final = f"{KILLED}_in_doubt"
PASSED: Final = "deadline_passed"
PASSED_IN_DOUBT: Final = "deadline_passed_in_doubt"
STEPS: Final = ("next_lease_end", "next_look", "next_expiry")


def promote(db: Database, limit: int) -> int:
    """See Store.promote."""
    with db.writing():
        return db.change("promote", limit=limit)


def look_again(db: Database, chosen: str, limit: int) -> int:
    """See Store.look_again."""
    with db.writing():
        if db.value("chosen") == chosen:
            return 0
        woken = db.change("chosen_wake", limit=limit)
        if woken < limit:
            db.change("chosen_keep", chosen=chosen)
        return woken


# --- ended leases --------------------------------------------------------------------------------


def take_back(db: Database, limit: int, actor: str, deaths_max: int) -> TakenBack:
    """See Store.take_back."""
    entries = Entries()
    with db.writing():
        rows = open_rows(db, "open_with_ended_lease", limit=limit)
        counts = Counter(_take_back(db, actor, row, deaths_max, entries) for row in rows)
        entries.write(db)
    return TakenBack(counts["ready"], counts["uncertain"], counts["dead"])


def _take_back(db: Database, actor: str, row: Row, deaths_max: int, entries: Entries) -> str:
    deaths = row.deaths + (row.suspicion == MOST_SUSPECT)
    suspicion = min(MOST_SUSPECT, row.suspicion + 1)
    after = row._replace(fence=row.fence + 1, suspicion=suspicion, deaths=deaths, next_at=db.now())
    killer = deaths >= deaths_max
    if row.state is State.SENDING:
        return _give_up(db, actor, row, after, killer, entries)
    if killer:
        return _bury(actor, row, after, entries)
    entries.move(row, after._replace(state=State.READY, reason=None, next_at=row.next_at))
    return "ready"


def _give_up(db: Database, actor: str, row: Row, after: Row, killer: bool, entries: Entries) -> str:  # noqa: FBT001 - private
    """It had begun: nobody knows what came of it, unless a definite answer is on record."""
    reason = KILLED_IN_DOUBT if killer else LOST
    lost = after._replace(state=State.UNCERTAIN, granted=False, reason=reason, misses=0, missed_at=None)
    if not _was_answered(db, row):
        entries.record(row.id, row.attempts, lost.next_at, WORKER_LOST)
        began_at = row.first_unknown_at or _started_at(db, row) or lost.next_at
        lost = lost._replace(doubt=True, first_unknown_at=began_at)
    entries.move(row, lost._replace(closed=row.closed or killer))
    entries.note(row, "lease_ended", State.UNCERTAIN, actor, reason)
    return "uncertain"


def _bury(actor: str, row: Row, after: Row, entries: Entries) -> str:
    """It had not begun, and too many workers died while they held it alone."""
    if row.doubt:
        entries.move(row, after._replace(state=State.UNCERTAIN, closed=True, reason=KILLED_IN_DOUBT))
        entries.note(row, "lease_ended", State.UNCERTAIN, actor, KILLED_IN_DOUBT)
        return "uncertain"
    entries.end(row, State.DEAD, KILLED)
    entries.note(row, "lease_ended", State.DEAD, actor, KILLED)
    return "dead"


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
    entries.note(row, PASSED, State.EXPIRED, actor, PASSED, _waited_for(row))
    return "expired"


def _waited_for(row: Row) -> str | None:
    """What it waited for until its deadline, and until when it would have waited."""
    if row.state is not State.WAITING:
        return None
    until = stored.moment(row.next_at).replace(microsecond=0)
    return json.dumps({"waited_for": row.reason, "until": instant(until)})


# --- suspects ------------------------------------------------------------------------------------


def suspects(db: Database, providers: Sequence[str]) -> list[tuple[str, int]]:
    """See Store.suspects."""
    with db.reading():
        return [(name, level) for name in providers for (level,) in db.rows("suspects", provider=name)]


# --- how long nothing happens --------------------------------------------------------------------


def next_step(db: Database, providers: Sequence[str]) -> float | None:
    """See Store.next_step."""
    with db.reading():
        if db.value("next_fate") or any(db.value("next_ready", provider=provider) for provider in providers):
            return 0.0
        found = [db.value(step, provider=provider) for step in STEPS for provider in providers]
        moments = [step for step in found if step is not None]
        return max(0.0, (min(moments) - db.now()) / stored.SECOND_US) if moments else None
