"""Rezoning: next occurrences are told anew, and paused reminders go on, each by compare-and-set.

A retiming locks its reminders in key order, like a tick that writes them, and leaves alone what somebody else has
moved on or changed since it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.core.keys import show
from duly.core.rezoning import Retiming
from duly.core.upcoming import Resumption, Timing
from duly.errors import NotFound
from duly.ports import ZonedBatch
from duly.stores.postgres.arrays import ints, texts, times, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.postgres.folding import retire_summaries

__all__ = ["pause_reminder", "paused_reminder", "recipient_zones", "resume_reminder", "retime", "retime_in", "zoned"]


async def zoned(
    connections: Connections, after: bytes, limit: int, version: str, recipients: Sequence[bytes] | None
) -> ZonedBatch:
    """See Store.zoned."""
    async with connections.transaction() as tx:
        now = await tx.now()
        if recipients is None:
            found = await tx.rows("zoned", after.hex(), limit, version)
        else:
            found = await tx.rows("zoned_of_recipients", after.hex(), limit, uuids(recipients))
    return ZonedBatch(now, [Timing._make(row) for row in found])


async def retime(connections: Connections, actor: str, reason: str, rows: Sequence[Retiming]) -> frozenset[bytes]:
    """See Store.retime."""
    if not rows:
        return frozenset()
    async with connections.transaction() as tx:
        return await retime_in(tx, actor, reason, rows)


async def retime_in(tx: Transaction, actor: str, reason: str, rows: Sequence[Retiming]) -> frozenset[bytes]:
    """The steps of a retiming, within a transaction."""
    ordered = sorted(rows, key=lambda row: row.reminder)
    ids = uuids([row.reminder for row in ordered])
    columns = (
        ids,
        ints(row.revision for row in ordered),
        times(row.expected_due for row in ordered),
        times(row.due_at for row in ordered),
        times(row.deadline_at for row in ordered),
        texts(row.label for row in ordered),
        texts(row.zone_data for row in ordered),
        texts(row.evidence for row in ordered),
    )
    await tx.send("keep_out_guard")
    await tx.send("lock_timings", ids)
    found = await tx.rows("retime", *columns, actor, reason)
    return frozenset([identity for (identity,) in found])


async def recipient_zones(connections: Connections, account: str, refs: Sequence[str]) -> dict[str, str | None]:
    """See Store.recipient_zones."""
    async with connections.transaction() as tx:
        return dict(await tx.rows("recipient_zones", account, texts(refs)))


# --- pauses --------------------------------------------------------------------------------------


async def pause_reminder(connections: Connections, actor: str, reason: str, reminder: bytes) -> bool:
    """See Store.pause_reminder."""
    async with connections.transaction() as tx:
        found = await tx.rows("pause_reminder", reminder.hex(), actor, reason)
        for (account,) in found:
            await retire_summaries(tx, actor, account, reminder)
    return bool(found)


async def paused_reminder(connections: Connections, reminder: bytes) -> tuple[datetime, Timing]:
    """See Store.paused_reminder. Raises NotFound."""
    async with connections.transaction() as tx:
        now, found = await tx.now(), await tx.rows("paused_reminder", reminder.hex())
    if not found:
        raise NotFound(f"no paused reminder has the id {show(reminder)}")
    return now, Timing._make(found[0])


async def resume_reminder(connections: Connections, actor: str, reason: str, how: Resumption) -> bool:
    """See Store.resume_reminder."""
    values = (how.reminder.hex(), how.revision, how.due_at, how.deadline_at, how.label, how.zone_data)
    async with connections.transaction() as tx:
        return bool(await tx.rows("resume_reminder", *values, actor, reason))
