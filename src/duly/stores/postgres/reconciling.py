"""Reconcile's side of the store: rows in doubt under a fence of its own, and what its looks have told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.core.keys import show
from duly.core.model import Doubtful, Looked
from duly.errors import NotFound
from duly.stores.postgres import rows as stored
from duly.stores.postgres.arrays import bools, ints, texts, times, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.rounds import rounds

__all__ = ["doubtful", "held", "looked"]


async def doubtful(
    connections: Connections, providers: Sequence[str], limit: int, lease_seconds: float
) -> tuple[datetime, list[Doubtful]]:
    """See Store.doubtful."""
    async with connections.transaction() as tx:
        taken = await tx.rows("take_doubtful", limit, lease_seconds, texts(providers))
        found = await _seen(tx, [identity for (identity,) in taken])
    return await tx.now(), found


async def held(connections: Connections, delivery: bytes) -> tuple[datetime, Doubtful]:
    """See Store.held. Raises NotFound."""
    async with connections.transaction() as tx:
        (is_held,) = await tx.row("held", delivery.hex())
        found = await _seen(tx, [delivery]) if is_held else []
    if not found:
        raise NotFound(f"delivery {show(delivery)} is not held; see where it stands with `duly show`")
    return await tx.now(), found[0]


async def _seen(tx: Transaction, ids: Sequence[bytes]) -> list[Doubtful]:
    """What is known about rows in doubt, in the order in which their time had come."""
    found = await tx.rows("doubtful", uuids(ids)) if ids else []
    return [stored.doubtful(row) for row in found]


async def looked(connections: Connections, actor: str, rows: Sequence[Looked]) -> frozenset[bytes]:
    """See Store.looked."""
    async with connections.transaction() as tx:
        parts = [
            await _look(tx, actor, part) for part in rounds(sorted(rows, key=lambda row: row.id), lambda row: row.id)
        ]
    return frozenset[bytes]().union(*parts)


async def _look(tx: Transaction, actor: str, rows: Sequence[Looked]) -> frozenset[bytes]:
    found = await tx.rows(
        "looked",
        uuids([row.id for row in rows]),
        ints(row.fence for row in rows),
        times(row.next_at for row in rows),
        ints(row.misses for row in rows),
        bools(row.missed for row in rows),
        bools(row.alarmed for row in rows),
        actor,
    )
    return frozenset([identity for (identity,) in found])
