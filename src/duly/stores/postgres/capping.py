"""Caps: who has had enough for now, counted and reserved by the transaction that begins.

The recipients of a batch that holds a capped row are locked FOR UPDATE, and counted in a later statement. So of two
begins for one recipient the second sees what the first has reserved. A batch without a capped row asks nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from duly.core.caps import FREQUENCY_CAP, PER_DAYS_MAX, Ask, Cap, evidence, passing, waiting
from duly.core.model import Start
from duly.stores.postgres.arrays import ints, texts, uuids
from duly.stores.postgres.connect import Connections, Transaction

__all__ = ["Capped", "forget_places", "give_places_back", "look", "note", "take_places"]


class Capped(NamedTuple):
    """The rows of a batch that are under a cap, and the database's time under their recipients' locks."""

    asks: Mapping[bytes, Ask]
    passed: frozenset[bytes]
    now: datetime | None

    def let_pass(self, rows: Sequence[Start]) -> list[Start]:
        """The rows that no cap puts off."""
        return [row for row in rows if row.id not in self.asks or row.id in self.passed]

    def put_off(self, rows: Sequence[Start], begun: Collection[bytes]) -> list[tuple[Start, datetime, str]]:
        """The rows that a cap puts off, now that these have begun, each with until when and why."""
        if self.now is None:
            return []
        until = waiting(self.asks, self.passed, begun, self.now)
        return [
            (row, until[row.id], FREQUENCY_CAP) for row in {row.id: row for row in rows if row.id in until}.values()
        ]


async def look(tx: Transaction, rows: Sequence[Start]) -> Capped:
    """Lock what the rows depend on, if one of them is under a cap, and let the caps decide."""
    caps = {row.id: row.cap for row in rows if row.cap is not None}
    if not caps:
        return Capped({}, frozenset(), None)
    await tx.send("lock_revisions_under_cap", uuids([row.id for row in rows]))
    found = await tx.send("cap_asks", uuids(list(caps)), ints(cap.count for cap in caps.values()))
    clock = await tx.send("clock")
    asks = _asks(caps, await found.fetchall())
    ((now,),) = await clock.fetchall()
    return Capped(asks, passing(asks, now), now)


def _asks(caps: Mapping[bytes, Cap], found: Sequence[tuple[Any, ...]]) -> dict[bytes, Ask]:
    """In the order of the batch, which is that of the due times. One that is not open any more does not ask."""
    seen = {delivery: rest for delivery, *rest in found}
    asks: dict[bytes, Ask] = {}
    for delivery, cap in caps.items():
        if delivery in seen:
            recipient, channel, purpose, doubt, has_place, taken = seen[delivery]
            asks[delivery] = Ask((recipient, channel, purpose), cap, taken, has_place, doubt)
    return asks


async def take_places(tx: Transaction, capped: Capped, begun: Collection[bytes]) -> None:
    """Reserve the places of capped rows that have begun."""
    mine = sorted(capped.asks.keys() & begun)
    if mine:
        await tx.send("take_places", uuids(mine))


async def note(tx: Transaction, worker: str, capped: Capped, put_off: Mapping[bytes, tuple[datetime, str]]) -> None:
    """Say which cap has put rows off, in their timelines."""
    late = {row: until for row, (until, reason) in put_off.items() if reason == FREQUENCY_CAP}
    if late:
        told = texts(evidence(capped.asks[row].cap, until) for row, until in late.items())
        await tx.send("cap_note", uuids(list(late)), told, worker)


async def give_places_back(tx: Transaction, moved: Sequence[bytes]) -> None:
    """Of these, which this transaction has moved, those of which nothing ever left do not count any more."""
    if moved:
        await tx.send("give_places_back", uuids(sorted(moved)))


async def forget_places(connections: Connections, limit: int) -> int:
    """See Store.forget_places."""
    async with connections.transaction() as tx:
        cursor = await tx.send("forget_places", PER_DAYS_MAX, limit)
    return cursor.rowcount
