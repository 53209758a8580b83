"""Cancel: a reminder with its open deliveries, or one delivery, is called off.

A cancel asks for nobody's fence: it looks at each open row under the writer's turn, and whoever commits
first wins. What may have been accepted is not sent again, and stays open until reconcile has found out.
What has begun is not called back; its worker will say what came of it. A second cancel changes nothing, and its reason
is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Cancelled
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.folding import retire_summaries, take_out
from duly.stores.sqlite.moves import Entries, Row, endings, open_rows, open_rows_of

__all__ = ["cancel"]

IN_DOUBT: Final = "cancelled_in_doubt"
UNDER_WAY: Final = frozenset({State.SENDING, State.FOLDED})
BEING_LOOKED_AT: Final = frozenset({State.UNCERTAIN, State.HELD})


class Asked(NamedTuple):
    """The delivery that is to be cancelled."""

    id: bytes


def cancel(db: Database, actor: str, reason: str, *, reminder: bytes | None, delivery: bytes | None) -> Cancelled:
    """See Store.cancel. Raises NotFound if there is no such reminder or delivery."""
    with db.writing():
        if reminder is not None:
            counts = _cancel_reminder(db, actor, reason, reminder)
        else:
            counts = _cancel_delivery(db, actor, reason, Asked(delivery or b""))
    return Cancelled(*[int(counts[word]) for word in Cancelled._fields])


def _cancel_reminder(db: Database, actor: str, reason: str, reminder: bytes) -> Counter[str]:
    seen = db.row("reminder_to_cancel", id=reminder)
    if seen is None:
        raise NotFound("no reminder has this id: nothing was cancelled")
    account, status, to_come = seen
    if db.change("reminder_cancel", id=reminder):
        db.change_one("event_add", account, reminder, None, "cancelled", status, "cancelled", actor, reason, None)
    if status == "cancelled":
        db.change("cancel_again", account=account, reminder=reminder, delivery=None, actor=actor, reason=reason)
    retire_summaries(db, actor, reminder)
    finals, sent = db.row("finals_of_reminder", account=account, reminder=reminder)
    rows = open_rows(db, "open_of_reminder", account=account, reminder=reminder)
    found = Counter(final=finals, sent=sent, stopped=to_come, before=status == "cancelled")
    return found + _call_off(db, actor, reason, rows)


def _cancel_delivery(db: Database, actor: str, reason: str, asked: Asked) -> Counter[str]:
    rows = list(open_rows_of(db, [asked]).values())
    if rows:
        _call_it_off(db, actor, reason, rows[0])
        rows = _taken_out(db, actor, asked, rows)
        return _call_off(db, actor, reason, rows)
    end = endings(db, [asked]).get(asked.id)
    if end is None:
        raise NotFound("no delivery has this id: nothing was cancelled")
    before = end.state is State.CANCELLED
    if before:
        whose = {"account": end.account, "reminder": end.reminder, "delivery": end.id}
        db.change("cancel_again", **whose, actor=actor, reason=reason)
    return Counter(final=1, sent=end.state is State.SENT, before=before)


def _taken_out(db: Database, actor: str, asked: Asked, rows: list[Row]) -> list[Row]:
    """The row once more, out of its summary if nothing of that can have left."""
    if rows[0].state is not State.FOLDED:
        return rows
    take_out(db, actor, rows)
    return list(open_rows_of(db, [asked]).values())


def _call_it_off(db: Database, actor: str, reason: str, row: Row) -> None:
    """Only this delivery. One that is in the air goes on for now; the next admission will refuse it."""
    new = db.change("work_call_off", id=row.id)
    db.change("delivery_call_off", id=row.id)
    if new and row.state in UNDER_WAY:
        entries = Entries()
        entries.note(row, "cancelled", row.state, actor, reason)
        entries.write(db)


def _call_off(db: Database, actor: str, reason: str, rows: Sequence[Row]) -> Counter[str]:
    entries = Entries()
    counts = Counter(_call_one_off(db, actor, reason, row, entries) for row in rows)
    entries.write(db)
    return counts


def _call_one_off(db: Database, actor: str, reason: str, row: Row, entries: Entries) -> str:
    """Do what the row's state allows; returns the word under which it counts."""
    if row.state in UNDER_WAY:
        return "sending"
    if row.state in BEING_LOOKED_AT:
        if db.change("work_shut", id=row.id):
            entries.note(row, "cancelled", row.state, actor, reason)
        return "in_doubt"
    if row.doubt:
        shut = row._replace(state=State.UNCERTAIN, fence=row.fence + 1, closed=True, reason=IN_DOUBT, next_at=db.now())
        entries.move(row, shut)
        entries.note(row, "cancelled", State.UNCERTAIN, actor, reason)
        return "in_doubt"
    entries.end(row, State.CANCELLED, reason)
    entries.note(row, "cancelled", State.CANCELLED, actor, reason)
    return "cancelled"
