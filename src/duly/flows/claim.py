"""Claim: lease one batch of a provider's ready rows, urgent lanes first, accounts in turn.

The cursor remembers the last account that was served in each lane, so that the next claim goes on
behind it. It also remembers when a lane was found empty: to ask costs a round trip, and a busy worker
claims many times a second. Trust in the leases is counted from before the claim was asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from duly.core.model import Claimed, Lane
from duly.errors import StoreUnavailable
from duly.ports import Batch, Claim, ClaimOrder, Clock, Store

__all__ = ["Cursors", "claim"]

#: For how long a lane that was found empty is not asked again.
EMPTY_LANE_SECONDS: Final = 0.05


@dataclass(slots=True)
class Cursors:
    """Per lane, the account after which the next claim starts, and the reading at which it was found empty."""

    after: dict[Lane, int] = field(default_factory=dict)
    empty_at: dict[Lane, float] = field(default_factory=dict)

    def lanes(self, reading: float) -> list[Lane]:
        """The lanes that may have work, in order."""
        return [lane for lane in Lane if reading - self.empty_at.get(lane, -math.inf) >= EMPTY_LANE_SECONDS]


async def claim(
    store: Store, clock: Clock, cursors: Cursors, provider: str, limit: int, worker: str, lease_seconds: float
) -> Batch | None:
    """Up to `limit` rows, or None if nothing is ready."""
    asked_at = clock.reading()
    rows: list[Claimed] = []
    for lane in cursors.lanes(asked_at):
        order = ClaimOrder(provider, lane, limit - len(rows), cursors.after.get(lane, 0), worker, lease_seconds)
        try:
            claimed = await _claim_lane(store, order)
        except StoreUnavailable:
            if not rows:
                raise
            break  # what is leased by now is worked on, and not left to its lease
        cursors.after[lane] = claimed.next_account
        if not claimed.rows:
            cursors.empty_at[lane] = asked_at
        rows += claimed.rows
        if len(rows) >= limit:
            break
    return Batch(asked_at, claimed.now, rows) if rows else None


async def _claim_lane(store: Store, order: ClaimOrder) -> Claim:
    """One lane's rows. Where nothing is ready behind the cursor, it starts over from the first account."""
    claimed = await store.claim(order)
    if claimed.rows or not order.after_account:
        return claimed
    return await store.claim(order._replace(after_account=0))
