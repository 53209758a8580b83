"""The restore guard, and the signs of life by which a restored ledger is noticed.

A backup that was restored has forgotten what was sent since it was made. While a guard is open nothing is
claimed and nothing begins; all open work is in doubt, as if one more attempt had been made that nobody
remembers. What was due from `since` to the closing, and is only found by a later tick, starts in the same
doubt. Held rows stay with whoever decides about them, and folded ones with their summary.

SQLite cannot tell one copy of a file from another, so `place` stays null here. A record of life that is
older than what a process has seen opens the guard; otherwise an operator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from duly.core.model import Guard
from duly.core.states import State, check
from duly.errors import InputError
from duly.ports import Heartbeat
from duly.stores.documents import instant
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database

__all__ = ["Spans", "close_guard", "heartbeat", "open_guard", "spans", "standing"]

STEPPED_BACK: Final = "heartbeat_stepped_back"
#: What a restore puts in doubt; what is uncertain already stays there.
PUT_IN_DOUBT: Final = (State.READY, State.LEASED, State.SENDING, State.WAITING)


def standing(db: Database) -> Guard | None:
    """The guard that is open, if one is."""
    found = db.row("guard_standing")
    return None if found is None else stored.guard(found)


# --- which deliveries a guard covers -------------------------------------------------------------


class Spans(NamedTuple):
    """All guards there ever were, as (since, closed at or None) in stored microseconds."""

    guards: Sequence[tuple[int, int | None]]

    def cover(self, due_at: int) -> bool:
        """Whether it was due from a guard's `since` to its closing."""
        return any(since <= due_at and _not_past(due_at, closed_at) for since, closed_at in self.guards)

    def may_hide(self, due_at: int) -> bool:
        """Whether it is not past a guard's closing, so that what became of it may have been forgotten."""
        return any(_not_past(due_at, closed_at) for _, closed_at in self.guards)


def spans(db: Database) -> Spans:
    """All guards there ever were."""
    return Spans(db.rows("guards_seen"))


def _not_past(due_at: int, closed_at: int | None) -> bool:
    return closed_at is None or due_at <= closed_at


# --- signs of life -------------------------------------------------------------------------------


def heartbeat(db: Database, actor: str, after: datetime | None) -> Heartbeat:
    """See Store.heartbeat."""
    with db.writing():
        now = db.now()
        last = _last_life(db, now)
        guard = standing(db)
        if after is not None and last < stored.micros(after):
            guard = _open(db, actor, STEPPED_BACK, last, now)
        db.change("heartbeat_write", now=now)
    return Heartbeat(stored.moment(now), guard)


def _last_life(db: Database, now: int) -> int:
    """The last heartbeat on record; if there is none, when the ledger was made."""
    heartbeat_at, created_at = db.row("heartbeat_seen")
    return int(heartbeat_at or min(created_at, now))


# --- open and close ------------------------------------------------------------------------------


def open_guard(db: Database, actor: str, why: str, since: datetime | None) -> Guard:
    """See Store.open_guard."""
    with db.writing():
        now = db.now()
        last = _last_life(db, now)
        asked = last if since is None else stored.micros(since)
        if asked > last:
            raise InputError(
                f"since: {instant(stored.moment(asked))} lies ahead of the last sign of life on record,"
                f" {instant(stored.moment(last))}; it can only be moved back"
            )
        return _open(db, actor, why, asked, now)


def _open(db: Database, actor: str, why: str, since: int, now: int) -> Guard:
    """Open a guard, or move the open one's `since` back; then put in doubt what was not."""
    guard = standing(db)
    if guard is None:
        db.change("guard_add", since=since, now=now, actor=actor, why=why)
        _put_in_doubt(db, actor, everything=True)
    elif since < stored.micros(guard.since):
        db.change("guard_move_back", since=since)
        _put_in_doubt(db, actor, everything=False)
    return stored.guard(db.row("guard_standing"))


def _put_in_doubt(db: Database, actor: str, *, everything: bool) -> None:
    """All open work, or what is not yet in doubt of a restore."""
    for origin in PUT_IN_DOUBT:
        check(origin, State.UNCERTAIN)
    db.change("restore_events", actor=actor, all=everything)
    db.change("restore_results", all=everything)
    db.change("restore_kept", all=everything)
    db.change("restore_work", all=everything)


def close_guard(db: Database, actor: str, why: str) -> Guard:
    """See Store.close_guard."""
    with db.writing():
        guard = standing(db)
        if guard is None:
            raise InputError("no restore guard is open: there is nothing to close")
        now = db.now()
        db.change("guard_close", now=now, actor=actor, why=why)
        return guard._replace(closed_at=stored.moment(now), closed_by=actor, closing_why=why)
