"""Revise: a newer version of a reminder is written where it still stands as somebody has seen it.

The reminder's row is locked first, so that it and a begin wait for each other; then the deliveries that are to
be called off. If one of them is not surely unsent any more, nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.core.keys import show
from duly.core.model import NewReminder
from duly.core.revising import SUPERSEDED, Fate, Standing, Whom
from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Revision
from duly.stores.postgres.arrays import texts, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.postgres.folding import retire_summaries
from duly.stores.postgres.intake import add_contacts, add_recipients, addresses_text, keep_own, quiet_hours_text
from duly.stores.postgres.upkeep import surely_unsent

__all__ = ["revise", "standing"]


async def standing(connections: Connections, reminder: bytes, labels: Sequence[str]) -> Standing:
    """See Store.standing. Raises NotFound."""
    async with connections.transaction() as tx:
        now, seen = await tx.now(), await tx.rows("reminder_standing", reminder.hex())
        account = seen[0][0] if seen else 0
        found = await tx.rows("fates", account, reminder.hex(), texts(labels))
    if not seen:
        raise NotFound(f"no reminder has the id {show(reminder)}")
    ((_, revision, status, version, generation, covered, due_at, label, schedule, zone, *whom),) = seen
    recipient, addresses, channels = whom
    fates = [Fate(delivery, label, State(state), doubt) for delivery, label, state, doubt in found]
    to = Whom(recipient, addresses, sorted(channels))
    return Standing(now, revision, status, version, generation, covered, due_at, label, schedule, zone, to, fates)


async def revise(connections: Connections, actor: str, reason: str, revision: Revision) -> bool:
    """See Store.revise."""
    async with connections.transaction() as tx:
        await tx.send("keep_out_guard")
        seen = await tx.rows("lock_revision", revision.reminder.id.hex())
        if not seen or seen[0][1:2] + seen[0][3:] != (revision.seen, revision.seen_due) or seen[0][2] == "cancelled":
            return False
        account, _, status, _ = seen[0]
        await retire_summaries(tx, actor, account, revision.reminder.id)
        if not await _all_unsent(tx, revision.call_off):
            return False
        await _write(tx, actor, reason, revision, account, status)
    return True


async def _all_unsent(tx: Transaction, deliveries: Sequence[bytes]) -> bool:
    if not deliveries:
        return True
    rows = await tx.rows("lock_work", uuids(sorted(deliveries)))
    return len(rows) == len(deliveries) and all(surely_unsent(*row[1:]) for row in rows)


async def _write(tx: Transaction, actor: str, reason: str, revision: Revision, account: int, status: str) -> None:
    new = revision.reminder
    own = (new.id.hex(), actor, reason, revision.keep_body, revision.generation)
    await tx.send("revise_reminder", *own, *_columns(new), status, revision.wake, revision.evidence)
    if new.contacts:
        await add_recipients(tx, {new.account: account}, [new])
        await add_contacts(tx, {new.account: account}, [new])
    await keep_own(tx, [new])
    if revision.call_off:
        await tx.send("cancel_work", uuids(sorted(revision.call_off)), actor, SUPERSEDED)


def _columns(new: NewReminder) -> tuple[Any, ...]:
    return (
        new.recipient.hex(),
        bool(new.contacts),
        addresses_text(new),
        ",".join(new.channels),
        new.template,
        new.data,
        new.to,
        new.notify_at,
        new.zone,
        new.deadline,
        new.deadline_at,
        new.late,
        new.lane,
        new.purpose,
        new.event_version,
        new.next_due_at,
        new.schedule,
        new.next_label,
        new.follows_recipient,
        new.zone_data,
        new.missed,
        new.grace,
        new.late_until,
        new.group,
        new.body_hash,
        new.template_version,
        quiet_hours_text(new),
    )
