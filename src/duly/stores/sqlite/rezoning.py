"""Rezoning: next occurrences are told anew, and paused reminders go on, each by compare-and-set.

A retiming leaves alone what somebody else has moved on or changed since it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duly.core import keys
from duly.core.rezoning import Retiming
from duly.core.upcoming import Resumption, Timing
from duly.errors import NotFound
from duly.ports import ZonedBatch
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.folding import retire_summaries

__all__ = ["pause_reminder", "paused_reminder", "recipient_zones", "resume_reminder", "retime", "zoned"]


def zoned(db: Database, after: bytes, limit: int, version: str, recipients: Sequence[bytes] | None) -> ZonedBatch:
    """See Store.zoned."""
    page = {"after": after, "limit": limit}
    with db.reading():
        if recipients is None:
            found = db.rows("zoned", version=version, **page)
        else:
            found = db.rows("zoned_of_recipients", recipients=b"".join(recipients), **page)
        return ZonedBatch(stored.moment(db.now()), [_timing(row) for row in found])


def _timing(row: tuple[Any, ...]) -> Timing:
    reminder, account, key, revision, due_at, deadline_at, *rest = row
    return Timing(reminder, account, key, revision, stored.moment(due_at), stored.moment(deadline_at), *rest)


def retime(db: Database, actor: str, reason: str, rows: Sequence[Retiming]) -> frozenset[bytes]:
    """See Store.retime."""
    with db.writing():
        return frozenset([row.reminder for row in rows if _retime(db, actor, reason, row)])


def _retime(db: Database, actor: str, reason: str, row: Retiming) -> bool:
    written = db.change(
        "retime",
        id=row.reminder,
        revision=row.revision,
        expected=stored.micros(row.expected_due),
        due_at=stored.micros(row.due_at),
        deadline_at=stored.micros(row.deadline_at),
        label=row.label,
        zone_data=row.zone_data,
        moved=int(row.evidence is not None),
    )
    if written and row.evidence is not None:
        _note(db, row.reminder, "retimed", ("active", "active"), actor, reason, row.evidence)
    return bool(written)


def recipient_zones(db: Database, account: str, refs: Sequence[str]) -> dict[str, str | None]:
    """See Store.recipient_zones."""
    with db.reading():
        return dict(db.rows("recipient_zones", account=account, refs=stored.json_text(refs)))


# --- pauses --------------------------------------------------------------------------------------


def pause_reminder(db: Database, actor: str, reason: str, reminder: bytes) -> bool:
    """See Store.pause_reminder."""
    with db.writing():
        paused = db.change("reminder_pause", id=reminder)
        if paused:
            _note(db, reminder, "paused", ("active", "paused"), actor, reason)
            retire_summaries(db, actor, reminder)
    return bool(paused)


def paused_reminder(db: Database, reminder: bytes) -> tuple[datetime, Timing]:
    """See Store.paused_reminder. Raises NotFound."""
    with db.reading():
        found = db.row("paused_reminder", id=reminder)
        if found is None:
            raise NotFound(f"no paused reminder has the id {keys.show(reminder)}")
        return stored.moment(db.now()), _timing(found)


def resume_reminder(db: Database, actor: str, reason: str, how: Resumption) -> bool:
    """See Store.resume_reminder."""
    moments = {"due_at": stored.maybe_micros(how.due_at), "deadline_at": stored.micros(how.deadline_at)}
    told = {"label": how.label, "zone_data": how.zone_data}
    with db.writing():
        resumed = db.change("reminder_resume", id=how.reminder, revision=how.revision, **moments, **told)
        if resumed:
            account, status = db.row("reminder_seen", id=how.reminder)
            db.change("reminder_wake", id=how.reminder, account=account)
            _note(db, how.reminder, "resumed", ("paused", status), actor, reason)
    return bool(resumed)


def _note(
    db: Database,
    reminder: bytes,
    kind: str,
    states: tuple[str, str],
    actor: str,
    reason: str,
    evidence: str | None = None,
) -> None:
    """One line of the reminder's own timeline."""
    account, _ = db.row("reminder_seen", id=reminder)
    db.change_one("event_add", account, reminder, None, kind, *states, actor, reason, evidence)
