"""Claim: lease one batch of a provider's ready rows, urgent lanes first, accounts in turn.

The cursor remembers the last account that was served in each lane, so that the next claim goes on
behind it. It also remembers when a lane was found empty: to ask costs a round trip, and a busy worker
claims many times a second. Trust in the leases is counted from before the claim was asked for.

A row that was in the hands of a worker when that died is a suspect. Suspects are claimed first and in
small company: fifty, after a second death five, after a third one only `claim_alone` takes it, by a
process that holds nothing else. So whatever kills its worker is found, and kills no more with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from duly.core.limits import MOST_SUSPECT
from duly.core.model import Lane
from duly.errors import StoreUnavailable
from duly.ports import Batch, Claim, ClaimOrder, Clock, Store

__all__ = ["Cursors", "claim", "claim_alone"]

#: For how long a lane that was found empty is not asked again.
EMPTY_LANE_SECONDS: Final = 0.05
SUSPECTS_LOOK_SECONDS: Final = 0.5
#: How many rows of each suspicion are claimed at once; at the highest, `claim_alone` takes one.
COMPANY: Final = {1: 50, 2: 5}


@dataclass(slots=True)
class Cursors:
    """Per lane, the account after which the next claim starts, and the reading at which it was found empty; and when
    suspects were last looked for.
    """

    after: dict[Lane, int] = field(default_factory=dict)
    empty_at: dict[Lane, float] = field(default_factory=dict)
    suspects_at: float = -math.inf

    def lanes(self, reading: float) -> list[Lane]:
        """The lanes that may have work, in order."""
        return [lane for lane in Lane if reading - self.empty_at.get(lane, -math.inf) >= EMPTY_LANE_SECONDS]


async def claim(
    store: Store, clock: Clock, cursors: Cursors, provider: str, limit: int, worker: str, lease_seconds: float
) -> Batch | None:
    """Up to `limit` rows, or None if nothing is ready."""
    asked_at = clock.reading()
    order = ClaimOrder(provider, Lane.URGENT, limit, 0, worker, lease_seconds)
    claims: list[Claim] = []
    try:
        await _claim_suspects(store, cursors, order, asked_at, claims)
        await _claim_lanes(store, cursors, order, asked_at, claims)
    except StoreUnavailable:
        if not any(one.rows for one in claims):
            raise
        # What is leased by now is worked on, and not left to its lease.
    rows = [row for one in claims for row in one.rows]
    return Batch(asked_at, claims[-1].now, rows) if rows else None


async def claim_alone(store: Store, clock: Clock, provider: str, worker: str, lease_seconds: float) -> Batch | None:
    """One row that may have killed three workers, for a process that holds nothing else."""
    asked_at = clock.reading()
    claimed = await store.claim(ClaimOrder(provider, Lane.URGENT, 1, 0, worker, lease_seconds, MOST_SUSPECT))
    return Batch(asked_at, claimed.now, claimed.rows) if claimed.rows else None


async def _claim_suspects(
    store: Store, cursors: Cursors, order: ClaimOrder, reading: float, claims: list[Claim]
) -> None:
    """First of all, for they have waited for a lease to end. Whether there are any is looked up now and then."""
    if reading - cursors.suspects_at < SUSPECTS_LOOK_SECONDS:
        return
    cursors.suspects_at = reading
    for _, suspicion in await store.suspects([order.provider]):
        limit = min(COMPANY.get(suspicion, 0), order.limit - _count(claims))
        if limit > 0:
            claims.append(await store.claim(order._replace(suspicion=suspicion, limit=limit)))
            cursors.suspects_at = -math.inf  # there may be more


async def _claim_lanes(store: Store, cursors: Cursors, order: ClaimOrder, reading: float, claims: list[Claim]) -> None:
    for lane in cursors.lanes(reading):
        left = order.limit - _count(claims)
        if left <= 0:
            return
        after = cursors.after.get(lane, 0)
        claimed = await _claim_lane(store, order._replace(lane=lane, limit=left, after_account=after))
        claims.append(claimed)
        cursors.after[lane] = claimed.next_account
        if not claimed.rows:
            cursors.empty_at[lane] = reading


def _count(claims: list[Claim]) -> int:
    return sum(len(one.rows) for one in claims)


async def _claim_lane(store: Store, order: ClaimOrder) -> Claim:
    """One lane's rows. Where nothing is ready behind the cursor, it starts over from the first account."""
    claimed = await store.claim(order)
    if claimed.rows or not order.after_account:
        return claimed
    return await store.claim(order._replace(after_account=0))
