"""Schedule and tick: reminders are written once, and become deliveries once.

Every row is looked at under the writer's turn, so what a statement has seen is still so when the next one
writes. A reminder that is already there is compared by the hash of the body as first submitted, and
nothing is touched. A schedule moves on by compare-and-set; only deliveries that are really new get work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from duly.core.model import Due, Fired, NewDelivery, NewReminder, Scheduled
from duly.core.states import State, check
from duly.errors import SchemaError
from duly.ports import DueBatch, Materialised
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database

__all__ = ["due", "due_remain", "materialise", "namespace", "schedule"]


def namespace(db: Database) -> str:
    """The installation's namespace. Raises SchemaError if there is none."""
    with db.reading():
        found = db.value("namespace")
    if found is None:
        raise SchemaError(f"database {db.path}: it has no namespace yet; run `duly migrate apply`")
    return str(found)


def schedule(db: Database, reminders: Sequence[NewReminder]) -> list[Scheduled]:
    """See Store.schedule."""
    with db.writing():
        return [_schedule_one(db, reminder) for reminder in reminders]


def _schedule_one(db: Database, new: NewReminder) -> Scheduled:
    account: int | None = db.value("account_id", name=new.account)
    if account is not None:
        body_hash = db.value("reminder_hash", account=account, key=new.key)
        if body_hash is not None:
            return Scheduled.ALREADY if body_hash == new.body_hash else Scheduled.CONFLICT
    if not new.contacts:
        missing = _unreachable(db, account, new)
        if missing is not None:
            return missing
    if account is None:
        account = int(db.value("account_add", name=new.account))
    _add_recipient(db, account, new)
    db.change("reminder_add", **_reminder_values(account, new))
    return Scheduled.CREATED


def _unreachable(db: Database, account: int | None, new: NewReminder) -> Scheduled | None:
    """Why nobody can be reached by an id alone; None if he can on every channel."""
    kept = None if account is None else db.value("recipient_addresses", account=account, ref=new.recipient_ref)
    if kept is None:
        return Scheduled.NO_RECIPIENT
    addresses = orjson.loads(kept)
    return None if all(channel in addresses for channel in new.channels) else Scheduled.NO_ADDRESS


def _add_recipient(db: Database, account: int, new: NewReminder) -> None:
    if not new.contacts:
        return
    db.change(
        "recipient_add",
        id=new.recipient,
        account=account,
        ref=new.recipient_ref,
        name=new.recipient_name,
        zone=new.recipient_zone,
        locale=new.recipient_locale,
        addresses=_addresses(new),
    )
    db.change_each("contact_add", ({**contact._asdict(), "account": account} for contact in new.contacts))


def _addresses(new: NewReminder) -> str:
    return stored.json_text({contact.channel.value: contact.address for contact in new.contacts})


def _reminder_values(account: int, new: NewReminder) -> dict[str, Any]:
    return {
        "id": new.id,
        "account": account,
        "key": new.key,
        "body_hash": new.body_hash,
        "recipient": new.recipient,
        "inline": bool(new.contacts),
        "addresses": _addresses(new),
        "channels": stored.json_text(new.channels),
        "template": new.template,
        "data": new.data,
        "to": new.to,
        "notify_at": new.notify_at,
        "zone": new.zone,
        "deadline": new.deadline,
        "deadline_at": stored.micros(new.deadline_at),
        "late": new.late,
        "lane": new.lane,
        "purpose": new.purpose,
        "event_version": new.event_version,
        "next_due_at": stored.micros(new.next_due_at),
    }


def due(db: Database, limit: int) -> DueBatch:
    """See Store.due."""
    with db.reading():
        found: list[Due] = [stored.due(row) for row in db.rows("due", limit=limit)]
        return DueBatch(stored.moment(db.now()), found)


def due_remain(db: Database) -> bool:
    """See Store.due_remain."""
    with db.reading():
        return bool(db.value("due_remain"))


def materialise(db: Database, fired: Sequence[Fired]) -> Materialised:
    """See Store.materialise."""
    counts: Counter[str] = Counter()
    with db.writing():
        for one in fired:
            counts.update(_fire(db, one))
    return Materialised(counts["created"], counts["already"], counts["stale"])


def _fire(db: Database, fired: Fired) -> list[str]:
    """Move one schedule on and write its deliveries; a word for each thing done."""
    moved = db.change(
        "reminder_advance",
        id=fired.reminder,
        expected=stored.micros(fired.expected_due),
        revision=fired.revision,
        next_due=stored.maybe_micros(fired.next_due),
    )
    if not moved:
        return ["stale"]
    return ["created" if _add_delivery(db, new) else "already" for new in fired.deliveries]


def _add_delivery(db: Database, new: NewDelivery) -> bool:
    """Write a delivery unless it is there; with work if it is ready, with an event if it ends here."""
    check(None, new.state)
    values = _delivery_values(new)
    if not db.change("delivery_add", **values):
        return False
    if new.address is not None:
        db.change("contact_add", **{**values, "id": new.contact})
    if new.state is State.READY:
        db.change("work_add", **values)
    else:
        db.change("event_add", **values, kind=new.state, origin=None, target=new.state, actor="tick")
    return True


def _delivery_values(new: NewDelivery) -> dict[str, Any]:
    return {
        "id": new.id,
        "account": new.account_id,
        "reminder": new.reminder,
        "recipient": new.recipient,
        "contact": new.contact,
        "endpoint": new.endpoint,
        "occurrence": new.occurrence,
        "channel": new.channel,
        "provider": new.provider,
        "lane": new.lane,
        "due_at": stored.micros(new.due_at),
        "deadline_at": stored.micros(new.deadline_at),
        "status": None if new.state is State.READY else new.state,
        "reason": new.reason,
        "address": new.address,
    }
