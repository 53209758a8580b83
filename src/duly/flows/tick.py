"""Tick: due reminders become deliveries, in bounded batches, with no leader and no network.

Each batch is read without locks and written by compare-and-set, so any number of ticks may run at the
same time, be repeated, or be missed: what one has written, another finds there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Final, NamedTuple

from duly.core.firing import fire
from duly.core.model import Due
from duly.ports import Store, Zones

__all__ = ["TICK_BATCH_ROWS", "TICK_RUN_ROWS_MAX", "Ticked", "tick"]

TICK_BATCH_ROWS: Final = 2_000
TICK_RUN_ROWS_MAX: Final = 100_000


class Ticked(NamedTuple):
    """What one run did. `remaining`: more was due than one run takes."""

    due: int
    created: int
    already: int
    remaining: bool


async def tick(
    store: Store, namespace: str, providers: Mapping[str, str], zones: Zones, rows_max: int = TICK_RUN_ROWS_MAX
) -> Ticked:
    """One bounded discovery run. `providers` names the provider of each channel."""
    due = created = already = 0
    last: Due | None = None
    while due < rows_max:
        batch = await store.due(min(TICK_BATCH_ROWS, rows_max - due), last)
        if not batch.rows:
            break
        written = await store.materialise(
            [fire(row, batch.now, namespace, providers, _zone(row, zones)) for row in batch.rows]
        )
        due += len(batch.rows) - written.stale
        created += written.created
        already += written.already
        last = None if written.stale else batch.rows[-1]  # what somebody else has moved may be due sooner
    return Ticked(due, created, already, await store.due_remain())


def _zone(row: Due, zones: Zones) -> tzinfo | None:
    """Where the row's local times are read. What fires once needs none: its moment is known."""
    return zones(row.zone) if row.schedule is not None and row.zone is not None else None
