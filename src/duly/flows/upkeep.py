"""Upkeep: every open row has somebody who moves it on, also where no worker holds it.

Four duties, each bounded, which any number of processes may do at once: *promote* what has waited long enough,
*take back* leases that have ended, *sweep* what passed its deadline while nobody claimed it, and let what is folded
*share the fate* of its summary. A lease that ended makes its rows suspects: see `claim`.

A fifth duty is in no hurry: to *forget* what is kept for a while only.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from duly.core.limits import DEATHS_MAX
from duly.ports import Store

__all__ = ["forget", "keep_up"]

UPKEEP_BATCH_ROWS: Final = 1_000
#: Each may carry fifty.
SUMMARIES_MAX: Final = 20


async def keep_up(store: Store, actor: str, deaths_max: int = DEATHS_MAX) -> Counter[str]:
    """Do each duty once; returns how many rows each moved, by the state they went to."""
    promoted = await store.promote(UPKEEP_BATCH_ROWS)
    taken = await store.take_back(UPKEEP_BATCH_ROWS, actor, deaths_max)
    swept = await store.sweep(UPKEEP_BATCH_ROWS, actor)
    shared = await store.share_fates(SUMMARIES_MAX, actor)
    return Counter(
        ready=promoted + taken.ready + shared["ready"],
        uncertain=taken.uncertain + swept.uncertain,
        expired=swept.expired,
        dead=taken.dead,
        sent=shared["sent"],
        unconfirmed=shared["unconfirmed"],
    )


async def forget(store: Store) -> int:
    """Drop a batch of what nobody looks back to any more; returns how many rows that were."""
    return await store.forget_places(UPKEEP_BATCH_ROWS)
