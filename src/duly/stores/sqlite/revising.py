"""Revise: a newer version of a reminder is written where it still stands as somebody has seen it.

All of it is looked at under the writer's turn: the reminder's revision, and whether each delivery that is to
be called off is surely unsent. If one is not, nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from duly.core import keys
from duly.core.revising import SUPERSEDED, SURELY_UNSENT, Fate, Standing, Whom
from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Revision
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.folding import retire_summaries
from duly.stores.sqlite.intake import add_recipient, keep_own, reminder_values
from duly.stores.sqlite.moves import Entries, open_rows_of

__all__ = ["revise", "standing"]


class Asked(NamedTuple):
    """A delivery that is to be called off."""

    id: bytes


def standing(db: Database, reminder: bytes, labels: Sequence[str]) -> Standing:
    """See Store.standing. Raises NotFound."""
    with db.reading():
        seen = db.row("reminder_standing", id=reminder)
        if seen is None:
            raise NotFound(f"no reminder has the id {keys.show(reminder)}")
        account, revision, status, version, generation, covered, next_due_at, label, schedule, zone, *whom = seen
        found = db.rows("fates", account=account, reminder=reminder, labels=stored.json_text(labels))
        fates = [Fate(delivery, label, State(state), bool(doubt)) for delivery, label, state, doubt in found]
        plan = (stored.maybe_moment(next_due_at), label, schedule, zone, _whom(*whom))
        return Standing(stored.moment(db.now()), revision, status, version, generation, bool(covered), *plan, fates)


def _whom(recipient: bytes, addresses: str, channels: str) -> Whom:
    return Whom(recipient, orjson.loads(addresses), sorted(orjson.loads(channels)))


def _own(revision: Revision) -> dict[str, Any]:
    return {
        "seen": revision.seen,
        "seen_due": stored.maybe_micros(revision.seen_due),
        "generation": revision.generation,
        "keep_body": int(revision.keep_body),
        "wake": int(revision.wake),
    }


def _target(revision: Revision, status: str) -> str:
    return "paused" if status == "paused" and not revision.wake else "active"


def revise(db: Database, actor: str, reason: str, revision: Revision) -> bool:
    """See Store.revise."""
    new = revision.reminder
    with db.writing():
        seen = db.row("reminder_seen", id=new.id)
        retire_summaries(db, actor, new.id)
        rows = open_rows_of(db, [Asked(delivery) for delivery in revision.call_off])
        unsent = [row for row in rows.values() if row.state in SURELY_UNSENT and not row.doubt]
        if seen is None or len(unsent) < len(revision.call_off):
            return False
        account, status = seen
        values = reminder_values(account, new)
        unwanted = ("account", "key")
        columns = {word: value for word, value in values.items() if word not in unwanted}
        if not db.change("reminder_revise", **columns, **_own(revision)):
            return False
        add_recipient(db, account, new)
        keep_own(db, new)
        moves = (status, _target(revision, status))
        db.change_one("event_add", account, new.id, None, "revised", *moves, actor, reason, revision.evidence)
        entries = Entries()
        for row in unsent:
            entries.end(row, State.CANCELLED, SUPERSEDED)
            entries.note(row, "cancelled", State.CANCELLED, actor, SUPERSEDED)
        entries.write(db)
    return True
