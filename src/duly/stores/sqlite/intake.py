"""Schedule and tick: reminders are written once, and become deliveries once.

Every row is looked at under the writer's turn, so what a statement has seen is still so when the next one
writes. A reminder that is already there is compared by the hash of the body as first submitted, and
nothing is touched. A schedule moves on by compare-and-set; only deliveries that are really new get work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from duly.core.comparing import compare
from duly.core.firing import would_have_been_sent
from duly.core.model import Due, Fired, FiredNote, NewDelivery, NewReminder, Scheduled
from duly.core.states import State, check
from duly.errors import SchemaError
from duly.ports import DueBatch, Materialised
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.guarding import Closings, closings

__all__ = ["add_recipient", "due", "due_remain", "materialise", "namespace", "reminder_values", "schedule"]

RESTORED: Final = "restored"


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
    submitted = None
    if account is not None:
        submitted = db.row("reminder_submitted", account=account, key=new.key)
        if submitted is not None and (answer := compare(new, *submitted)) is not Scheduled.NEWER:
            return answer
    missing = None if new.contacts else _unreachable(db, account, new)
    if missing is not None or submitted is not None:
        return missing or Scheduled.NEWER
    if account is None:
        account = int(db.value("account_add", name=new.account))
    add_recipient(db, account, new)
    db.change("reminder_add", **reminder_values(account, new))
    keep_own(db, new)
    return Scheduled.CREATED


def _unreachable(db: Database, account: int | None, new: NewReminder) -> Scheduled | None:
    """Why nobody can be reached by an id alone; None if he can on every channel."""
    kept = None if account is None else db.value("recipient_addresses", account=account, ref=new.recipient_ref)
    if kept is None:
        return Scheduled.NO_RECIPIENT
    addresses = orjson.loads(kept)
    return None if all(channel in addresses for channel in new.channels) else Scheduled.NO_ADDRESS


def add_recipient(db: Database, account: int, new: NewReminder) -> None:
    """A reminder's recipient and contacts, if they are new."""
    db.change(
        "recipient_add",
        id=new.recipient,
        account=account,
        ref=new.recipient_ref,
        name=new.recipient_name,
        zone=new.recipient_zone,
        locale=new.recipient_locale,
        addresses=_addresses(new),
        quiet_hours=_quiet_hours(new),
    )
    contacts = [(one.id, account, one.channel.value, one.address, one.endpoint) for one in new.contacts]
    db.change_each("contact_add", contacts)


def keep_own(db: Database, new: NewReminder) -> None:
    """What a written reminder says of its recipient, where he is known otherwise."""
    said = {"name": new.recipient_name, "zone": new.recipient_zone, "locale": new.recipient_locale}
    if any(said.values()):
        db.change("reminder_keep_own", id=new.id, **said)


def _quiet_hours(new: NewReminder) -> str | None:
    return stored.json_text(new.recipient_quiet_hours) if new.recipient_quiet_hours else None


def _addresses(new: NewReminder) -> str:
    return stored.json_text({contact.channel.value: contact.address for contact in new.contacts})


def reminder_values(account: int, new: NewReminder) -> dict[str, Any]:
    """The columns of a reminder."""
    return {
        "id": new.id,
        "account": account,
        "key": new.key,
        "body_hash": new.body_hash,
        "recipient": new.recipient,
        "inline": int(bool(new.contacts)),
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
        "lane": new.lane.value,
        "purpose": new.purpose,
        "event_version": new.event_version,
        "next_due_at": stored.micros(new.next_due_at),
        "schedule": new.schedule,
        "next_label": new.next_label,
        "follows_recipient": int(new.follows_recipient),
        "zone_data": new.zone_data,
        "missed": new.missed,
        "grace": new.grace,
        "late_until": new.late_until,
        "quiet_hours": _quiet_hours(new),
        "group": new.group,
        "template_version": new.template_version,
    }


def due(db: Database, limit: int) -> DueBatch:
    """See Store.due."""
    with db.reading():
        found: list[Due] = [stored.due(row) for row in db.rows("due", limit=limit)]
        return DueBatch(stored.moment(db.now()), found)


def due_remain(db: Database, within_seconds: float) -> bool:
    """See Store.due_remain."""
    with db.reading():
        return bool(db.value("due_remain", ahead=round(within_seconds * stored.SECOND_US)))


# --- tick ----------------------------------------------------------------------------------------


def materialise(db: Database, fired: Sequence[Fired]) -> Materialised:
    """See Store.materialise."""
    for one in fired:
        for new in one.deliveries:
            check(None, new.state)
    check(None, State.UNCERTAIN)
    with db.writing():
        advanced = _advance(db, fired)
        wanted = {new.id: new for one in advanced for new in one.deliveries}
        created = _add_deliveries(db, wanted)
    return Materialised(created, len(wanted) - created, len(fired) - len(advanced))


def _advance(db: Database, fired: Sequence[Fired]) -> list[Fired]:
    """Move the schedules on that stand where the tick saw them; returns those that moved."""
    found = db.rows("reminders_where_they_stand", ids=b"".join(one.reminder for one in fired))
    standing = {reminder: (place, (due_at, revision)) for reminder, place, due_at, revision in found}
    moved: list[Fired] = []
    values: list[tuple[Any, ...]] = []
    for one in fired:
        place, stands = standing.pop(one.reminder, (None, None))
        if place is not None and stands == (stored.micros(one.expected_due), one.revision):
            moved.append(one)
            values.append(_advanced(one, place))
    db.change_each("reminder_advance", values)
    db.change_each("event_add", [_note_values(one, one.note) for one in moved if one.note is not None])
    return moved


def _advanced(one: Fired, place: int) -> tuple[Any, ...]:
    status = "done" if one.next_due is None else "paused" if one.note and one.note.kind == "paused" else "active"
    return (stored.maybe_micros(one.next_due), status, one.next_label, stored.maybe_micros(one.next_deadline), place)


def _note_values(one: Fired, note: FiredNote) -> tuple[Any, ...]:
    after = "paused" if note.kind == "paused" else "active"
    return (note.account_id, one.reminder, None, note.kind, "active", after, "tick", note.reason, note.evidence)


def _add_deliveries(db: Database, wanted: Mapping[bytes, NewDelivery]) -> int:
    """Write the deliveries that are not there, with work or an event; returns how many were new."""
    guards = closings(db)
    new = [_as_in_doubt(one, guards) for one in _absent(db, wanted)]
    now = db.now()
    if db.change_each("delivery_add", [_delivery_values(one, now) for one in new]) < len(new):
        new = [one for one in new if one.id in _there(db, (one.id for one in new))]
    db.change_each("contact_add", [_contact_values(one) for one in new if one.address is not None])
    db.change_each("event_add", [_event_values(one) for one in new if one.state is not State.READY])
    _add_work(db, [one for one in new if one.state is State.READY], guards)
    return len(new)


def _as_in_doubt(new: NewDelivery, guards: Closings) -> NewDelivery:
    """What comes too late now may have been sent in time, and forgotten: then it is not ended here."""
    forgotten = would_have_been_sent(new) and guards.cover(stored.micros(new.due_at))
    return new._replace(state=State.READY, reason=None) if forgotten else new


def _add_work(db: Database, ready: Sequence[NewDelivery], guards: Closings) -> None:
    """Open work: ready, or uncertain where a restore may have made us forget that it was sent."""
    hidden = [one for one in ready if guards.cover(stored.micros(one.due_at))] if guards.moments else []
    if hidden:
        covered = {one.id for one in hidden}
        ready = [one for one in ready if one.id not in covered]
        db.change_each("work_add_restored", [_work_values(one) for one in hidden])
        db.change_each("event_add", [_restored_values(one) for one in hidden])
    db.change_each("work_add", [_work_values(one) for one in ready])


def _absent(db: Database, wanted: Mapping[bytes, NewDelivery]) -> list[NewDelivery]:
    there = _there(db, wanted)
    return [new for delivery, new in wanted.items() if delivery not in there]


def _there(db: Database, deliveries: Iterable[bytes]) -> set[bytes]:
    return {delivery for (delivery,) in db.rows("deliveries_there", ids=b"".join(deliveries))}


def _shared_values(new: NewDelivery) -> tuple[Any, ...]:
    """What `delivery` and `work` both hold, in the order of both statements. The driver is slow with enums."""
    return (
        new.id,
        new.account_id,
        new.reminder,
        new.recipient,
        new.contact,
        new.endpoint,
        new.occurrence,
        new.channel.value,
        new.provider,
        new.lane.value,
        stored.micros(new.due_at),
        stored.micros(new.deadline_at),
    )


def _delivery_values(new: NewDelivery, now: int) -> tuple[Any, ...]:
    """What is not ready is written as evidence only, and finished now."""
    if new.state is State.READY:
        return (*_shared_values(new), None, new.reason, None)
    return (*_shared_values(new), new.state.value, new.reason, now)


def _work_values(new: NewDelivery) -> tuple[Any, ...]:
    return (*_shared_values(new), stored.micros(new.due_at))


def _contact_values(new: NewDelivery) -> tuple[Any, ...]:
    """The contact of a recipient who was named by his id alone."""
    return (new.contact, new.account_id, new.channel.value, new.address, new.endpoint)


def _event_values(new: NewDelivery) -> tuple[Any, ...]:
    reason = new.reason or new.state.value
    return (new.account_id, new.reminder, new.id, new.state.value, None, new.state.value, "tick", reason, None)


def _restored_values(new: NewDelivery) -> tuple[Any, ...]:
    return (new.account_id, new.reminder, new.id, RESTORED, None, State.UNCERTAIN.value, "tick", RESTORED, None)
