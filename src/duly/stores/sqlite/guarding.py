"""The restore guard, and the signs of life by which a restored ledger is noticed.

A backup that was restored has forgotten what was sent since it was made. While a guard is open nothing is
claimed and nothing begins; all open work is in doubt, as if one more attempt had been made that nobody
remembers. What was due until the closing, and is only found by a later tick, starts in the same doubt.
Held rows stay with whoever decides about them, and folded ones with their summary.

SQLite cannot tell one copy of a file from another, so `place` stays null here. A record of life that is
older than what a process has seen opens the guard; otherwise an operator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from duly.core.model import Guard
from duly.core.moments import instant
from duly.core.states import State, check
from duly.errors import InputError
from duly.ports import Heartbeat
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database

__all__ = ["Closings", "close_guard", "closings", "heartbeat", "open_guard", "standing"]

STEPPED_BACK: Final = "heartbeat_stepped_back"
#: What a restore puts in doubt; what is uncertain already stays there.
PUT_IN_DOUBT: Final = (State.READY, State.LEASED, State.SENDING, State.WAITING)


def standing(db: Database) -> Guard | None:
    """The guard that is open, if one is."""
    found = db.row("guard_standing")
    return None if found is None else stored.guard(found)


# --- which deliveries a guard covers -------------------------------------------------------------


class Closings(NamedTuple):
    """When each guard that there ever was was closed (None: it is open), in stored microseconds."""

    moments: Sequence[int | None]

    def cover(self, due_at: int) -> bool:
        """Whether what was due then may have been sent by what a backup has forgotten.

        However long it was due before that backup: a tick that came late may have found it afterwards.
        """
        return any(closed_at is None or due_at <= closed_at for closed_at in self.moments)


def closings(db: Database) -> Closings:
    """All guards there ever were."""
    return Closings([closed_at for (closed_at,) in db.rows("guard_closings")])


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
    """Open a guard, or move the open one's `since` back; then put in doubt what is not.

    Also under a guard that was open already: the backup may have been made under it.
    """
    guard = standing(db)
    if guard is None:
        db.change("guard_add", since=since, now=now, actor=actor, why=why)
    elif since < stored.micros(guard.since):
        db.change("guard_move_back", since=since, actor=actor, why=why)
    _put_in_doubt(db, actor, everything=guard is None)
    return stored.guard(db.row("guard_standing"))


def _put_in_doubt(db: Database, actor: str, *, everything: bool) -> None:
    """All open work, or what is not yet in doubt of a restore."""
    for origin in PUT_IN_DOUBT:
        check(origin, State.UNCERTAIN)
    db.change("restore_events", actor=actor, all=everything)
    db.change("restore_results", all=everything)
    db.change("restore_kept", all=everything)
    db.change("restore_work", all=everything)


def close_guard(db: Database, actor: str, why: str, number: int | None) -> Guard:
    """See Store.close_guard."""
    with db.writing():
        guard = standing(db)
        if guard is None or number not in (None, guard.number):
            raise InputError(
                f"no restore guard{'' if number is None else f' {number}'} is open: there is nothing to close"
            )
        now = db.now()
        db.change("guard_close", now=now, actor=actor, why=why, number=guard.number)
        return guard._replace(closed_at=stored.moment(now), closed_by=actor, closing_why=why)
