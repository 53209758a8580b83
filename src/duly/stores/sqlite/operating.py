"""What an operator changes besides a cancel: a reminder's moment, a dead letter's end.

Each change is looked at under the writer's turn and leaves an event with who did it and why. A reminder's
revision rises with the change, so that no admission of before can begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from duly.core import keys
from duly.core.states import State
from duly.errors import NotFound
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.guarding import closings
from duly.stores.sqlite.moves import Entries, endings

__all__ = ["requeue", "reschedule"]


def reschedule(
    db: Database, actor: str, reason: str, reminder: bytes, next_due_at: datetime, deadline_at: datetime
) -> bool:
    """See Store.reschedule."""
    moments = {"next_due_at": stored.micros(next_due_at), "deadline_at": stored.micros(deadline_at)}
    with db.writing():
        seen = db.row("reminder_seen", id=reminder)
        if seen is None:
            raise NotFound(f"no reminder has the id {keys.show(reminder)}: nothing was rescheduled")
        account, status = seen
        changed = db.change("reminder_reschedule", id=reminder, **moments)
        if changed:
            db.change_one("event_add", account, reminder, None, "rescheduled", status, status, actor, reason, None)
    return bool(changed)


# --- dead letters --------------------------------------------------------------------------------


class Asked(NamedTuple):
    """A delivery that is to be returned to work."""

    id: bytes


def requeue(db: Database, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
    """See Store.requeue."""
    with db.writing():
        dead = list(endings(db, _each_once(deliveries), "redrivable").values())
        guards, entries = closings(db), Entries()
        for row in dead:
            target = State.UNCERTAIN if guards.cover(row.due_at) else State.READY
            entries.reopen(row, target)
            entries.note(row, "redriven", target, actor, reason)
        entries.write(db)
    return frozenset(row.id for row in dead)


def _each_once(deliveries: Iterable[bytes]) -> list[Asked]:
    return [Asked(delivery) for delivery in dict.fromkeys(deliveries)]
