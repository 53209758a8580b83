"""Tick: what is due is read without locks, and written by compare-and-set.

Only the reminders that this transaction moved on bring deliveries, and only the deliveries that are
really new bring work. So a tick may be repeated, or run beside another, and nothing doubles. What falls
under a restore guard is written as in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from duly.core.firing import would_have_been_sent
from duly.core.model import Due, Fired, NewContact, NewDelivery
from duly.core.states import State, check
from duly.ports import DueBatch, Materialised
from duly.stores.postgres import rows as stored
from duly.stores.postgres.arrays import Packed, bools, ints, texts, times, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.postgres.guarding import Covered, keep_out_guard
from duly.stores.postgres.intake import contact_columns

__all__ = ["due", "due_remain", "materialise"]

#: Before anything is due.
EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def due(connections: Connections, limit: int, after: Due | None) -> DueBatch:
    """See Store.due."""
    moment, reminder = (after.due_at, after.reminder) if after else (EVER, bytes(16))
    async with connections.transaction() as tx:
        await tx.send("read_in_order")
        now, found = await tx.now(), await tx.rows("due", limit, moment, reminder.hex())
    rows: list[Due] = [stored.due(row) for row in found]
    return DueBatch(now, rows)


async def due_remain(connections: Connections, within_seconds: float) -> bool:
    """See Store.due_remain."""
    async with connections.transaction() as tx:
        (remain,) = await tx.row("due_remain", within_seconds)
    return bool(remain)


async def materialise(connections: Connections, fired: Sequence[Fired]) -> Materialised:
    """See Store.materialise."""
    if not fired:
        return Materialised(0, 0, 0)
    ordered = sorted({one.reminder: one for one in reversed(fired)}.values(), key=lambda one: one.reminder)
    async with connections.transaction() as tx:
        guards = await keep_out_guard(tx)
        advanced = await _advance(tx, ordered)
        await _note(tx, (one for one in ordered if one.reminder in advanced))
        wanted = [new for one in ordered if one.reminder in advanced for new in one.deliveries]
        created = await _add_deliveries(tx, wanted, await Covered.told_by(guards))
    return Materialised(len(created), len(wanted) - len(created), len(fired) - len(advanced))


async def _advance(tx: Transaction, fired: Sequence[Fired]) -> set[bytes]:
    """Move the schedules on; returns the reminders that were still where the tick saw them."""
    found = await tx.rows(
        "advance",
        uuids([one.reminder for one in fired]),
        times(one.expected_due for one in fired),
        ints(one.revision for one in fired),
        times(one.next_due for one in fired),
        texts(one.next_label for one in fired),
        times(one.next_deadline for one in fired),
        bools(one.note is not None and one.note.kind == "paused" for one in fired),
    )
    return {identity for (identity,) in found}


async def _note(tx: Transaction, fired: Iterable[Fired]) -> None:
    """What a tick has to say about reminders as a whole."""
    notes = [(one.reminder, one.note) for one in fired if one.note is not None]
    if not notes:
        return
    await tx.send(
        "note_reminders",
        uuids([reminder for reminder, _ in notes]),
        ints(note.account_id for _, note in notes),
        texts(note.kind for _, note in notes),
        texts(note.reason for _, note in notes),
        texts(note.evidence for _, note in notes),
    )


async def _add_deliveries(tx: Transaction, wanted: Sequence[NewDelivery], guards: Covered) -> set[bytes]:
    """Write the deliveries that are not there, and what belongs to them; returns the ids that are new."""
    if not wanted:
        return set()
    for new in wanted:
        check(None, new.state)
    distinct = {new.id: _as_in_doubt(new, guards) for new in wanted}
    ordered = sorted(distinct.values(), key=lambda new: new.id)
    found = await tx.rows("add_deliveries", *_delivery_columns(ordered))
    created = {identity for (identity,) in found}
    await _add_contacts(tx, (new for new in ordered if new.id in created and new.address is not None))
    await _add_work(tx, [new for new in ordered if new.id in created and new.state is State.READY], guards)
    await _note_ended(tx, [new for new in ordered if new.id in created and new.state is not State.READY])
    return created


def _as_in_doubt(new: NewDelivery, guards: Covered) -> NewDelivery:
    """What comes too late now may have been sent in time, and forgotten: then it is not ended here."""
    forgotten = would_have_been_sent(new) and guards.cover(new.due_at)
    return new._replace(state=State.READY, reason=None) if forgotten else new


async def _add_contacts(tx: Transaction, deliveries: Iterable[NewDelivery]) -> None:
    """Contacts of recipients that were named by an id alone."""
    found = {
        new.contact: (NewContact(new.contact, new.channel, new.address or "", new.endpoint), new.account_id)
        for new in deliveries
    }
    if found:
        await tx.send("add_contacts", *contact_columns([found[identity] for identity in sorted(found)]))


async def _add_work(tx: Transaction, ready: Sequence[NewDelivery], guards: Covered) -> None:
    """Open work. Of what falls under a guard nobody knows whether it was sent."""
    in_doubt = [new for new in ready if guards.cover(new.due_at)]
    plain = [new for new in ready if not guards.cover(new.due_at)] if in_doubt else ready
    for statement, rows in (("add_work", plain), ("add_restored_work", in_doubt)):
        if rows:
            await tx.send(statement, *_shared_columns(rows))


async def _note_ended(tx: Transaction, ended: Sequence[NewDelivery]) -> None:
    """Deliveries that are written as evidence only."""
    if not ended:
        return
    await tx.send(
        "note_deliveries",
        uuids([new.id for new in ended]),
        ints(new.account_id for new in ended),
        uuids([new.reminder for new in ended]),
        texts(new.state for new in ended),
        texts(new.reason or str(new.state) for new in ended),
    )


def _shared_columns(rows: Sequence[NewDelivery]) -> list[Packed]:
    """What `delivery` and `work` both hold, in the order of both statements."""
    return [
        uuids([new.id for new in rows]),
        ints(new.account_id for new in rows),
        uuids([new.reminder for new in rows]),
        uuids([new.recipient for new in rows]),
        uuids([new.contact for new in rows]),
        uuids([new.endpoint for new in rows]),
        texts(new.occurrence for new in rows),
        texts(new.channel for new in rows),
        texts(new.provider for new in rows),
        texts(new.lane for new in rows),
        times(new.due_at for new in rows),
        times(new.deadline_at for new in rows),
    ]


def _delivery_columns(rows: Sequence[NewDelivery]) -> list[Packed]:
    return [
        *_shared_columns(rows),
        texts(None if new.state is State.READY else new.state for new in rows),
        texts(new.reason for new in rows),
    ]
