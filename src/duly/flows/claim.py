"""Claim: lease one batch of a provider's ready rows, urgent lanes first, accounts in turn.

The cursor remembers the last account that was served in each lane, so that the next claim goes on
behind it. Trust in the leases is counted from before the claim was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.core.model import Claimed, Lane
from duly.ports import Batch, ClaimOrder, Clock, Store

__all__ = ["Cursors", "claim"]


@dataclass(slots=True)
class Cursors:
    """Per lane, the account after which the next claim starts."""

    after: dict[Lane, int] = field(default_factory=dict)


async def claim(
    store: Store, clock: Clock, cursors: Cursors, provider: str, limit: int, worker: str, lease_seconds: float
) -> Batch | None:
    """Up to `limit` rows, or None if nothing is ready."""
    asked_at = clock.reading()
    rows: list[Claimed] = []
    for lane in Lane:
        order = ClaimOrder(provider, lane, limit - len(rows), cursors.after.get(lane, 0), worker, lease_seconds)
        claimed = await store.claim(order)
        cursors.after[lane] = claimed.next_account
        rows += claimed.rows
        if len(rows) >= limit:
            break
    return Batch(asked_at, claimed.now, rows) if rows else None
