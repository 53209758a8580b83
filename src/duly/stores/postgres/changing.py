"""Redrive: dead letters return to work, with each one's head locked, so that late acceptance and it take turns."""

from __future__ import annotations

from collections.abc import Sequence

from duly.core.revising import is_replaced
from duly.stores.postgres.arrays import uuids
from duly.stores.postgres.connect import Connections

__all__ = ["requeue"]


async def requeue(connections: Connections, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
    """See Store.requeue."""
    if not deliveries:
        return frozenset()
    async with connections.transaction() as tx:
        await tx.send("keep_out_guard")
        found = await tx.rows("generations", uuids(sorted(deliveries)))
        kept = [delivery for delivery, newer, *seen in found if not (newer or is_replaced(*seen))]
        cursor = await tx.send("requeue", uuids(sorted(kept)), actor, reason)
    return frozenset([identity for (identity,) in await cursor.fetchall()])
