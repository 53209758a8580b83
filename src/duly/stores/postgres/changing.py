"""Changes that come from outside: move an occurrence, return dead letters to work.

Each locks first what a begin, a tick or an outcome that comes at the same moment locks too, so that one waits
for the other. Whoever commits first wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.core.keys import show
from duly.errors import NotFound
from duly.stores.postgres.arrays import uuids
from duly.stores.postgres.connect import Connections

__all__ = ["requeue", "reschedule"]


async def reschedule(
    connections: Connections, actor: str, reason: str, reminder: bytes, next_due_at: datetime, deadline_at: datetime
) -> bool:
    """See Store.reschedule. Raises NotFound."""
    async with connections.transaction() as tx:
        await tx.send("keep_out_guard")
        moved, known = await tx.row("reschedule", reminder.hex(), actor, reason, next_due_at, deadline_at)
    if not known:
        raise NotFound(f"no reminder has the id {show(reminder)}")
    return bool(moved)


async def requeue(connections: Connections, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
    """See Store.requeue."""
    if not deliveries:
        return frozenset()
    async with connections.transaction() as tx:
        await tx.send("keep_out_guard")
        cursor = await tx.send("requeue", uuids(sorted(deliveries)), actor, reason)
    return frozenset([identity for (identity,) in await cursor.fetchall()])
