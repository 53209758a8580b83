"""Cancel: a reminder with its open deliveries, or one delivery, is called off.

A cancel asks for nobody's fence: it looks at each open row under the writer's turn, and whoever commits
first wins. What may have been accepted is not sent again, and stays open until reconcile has found out.
What has begun is not called back; its worker will say what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Cancelled
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Row, finish, move, note, open_row, open_rows

__all__ = ["cancel"]

IN_DOUBT: Final = "cancelled_in_doubt"
UNDER_WAY: Final = frozenset({State.SENDING, State.FOLDED})
BEING_LOOKED_AT: Final = frozenset({State.UNCERTAIN, State.HELD})


def cancel(db: Database, actor: str, reason: str, *, reminder: bytes | None, delivery: bytes | None) -> Cancelled:
    """See Store.cancel. Raises NotFound if there is no such reminder or delivery."""
    with db.writing():
        if reminder is not None:
            counts = _cancel_reminder(db, actor, reason, reminder)
        else:
            counts = _cancel_delivery(db, actor, reason, delivery)
    return Cancelled(counts["cancelled"], counts["sending"], counts["in_doubt"], counts["final"])


def _cancel_reminder(db: Database, actor: str, reason: str, reminder: bytes) -> Counter[str]:
    seen = db.row("reminder_seen", id=reminder)
    if seen is None:
        raise NotFound("no reminder has this id: nothing was cancelled")
    account, status = seen
    if db.change("reminder_cancel", id=reminder):
        db.change(
            "event_add",
            account=account,
            reminder=reminder,
            id=None,
            kind="cancelled",
            origin=status,
            target="cancelled",
            actor=actor,
            reason=reason,
        )
    finals = int(db.value("finals_of_reminder", account=account, reminder=reminder))
    rows = open_rows(db, "open_of_reminder", account=account, reminder=reminder)
    return Counter(final=finals) + _call_off(db, actor, reason, rows)


def _cancel_delivery(db: Database, actor: str, reason: str, delivery: bytes | None) -> Counter[str]:
    row = open_row(db, delivery) if delivery is not None else None
    if row is not None:
        return _call_off(db, actor, reason, [row])
    if delivery is None or db.row("delivery_ended", id=delivery) is None:
        raise NotFound("no delivery has this id: nothing was cancelled")
    return Counter(final=1)


def _call_off(db: Database, actor: str, reason: str, rows: Sequence[Row]) -> Counter[str]:
    return Counter(_call_one_off(db, actor, reason, row) for row in rows)


def _call_one_off(db: Database, actor: str, reason: str, row: Row) -> str:
    """Do what the row's state allows; returns the word under which it counts."""
    if row.state in UNDER_WAY:
        return "sending"
    if row.state in BEING_LOOKED_AT:
        if db.change("work_shut", id=row.id):
            note(db, row, "cancelled", row.state, actor, reason)
        return "in_doubt"
    if row.doubt:
        shut = row._replace(state=State.UNCERTAIN, fence=row.fence + 1, closed=True, reason=IN_DOUBT, next_at=db.now())
        move(db, row, shut)
        note(db, row, "cancelled", State.UNCERTAIN, actor, reason)
        return "in_doubt"
    finish(db, row, State.CANCELLED, reason)
    note(db, row, "cancelled", State.CANCELLED, actor, reason)
    return "cancelled"
