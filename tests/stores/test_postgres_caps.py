"""Frequency caps against begins from many connections: never more than the cap, within any stretch of its length."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final, cast

from duly.core.caps import FREQUENCY_CAP, Cap
from duly.core.model import Outcome
from duly.core.states import State
from duly.ports import ClaimOrder
from duly.stores.postgres import PostgresStore, capping, claims
from duly.stores.postgres.connect import Transaction
from duly.testing.builders import settlement, start
from tests.stores.conformance.scene import HOOKS
from tests.stores.ledgers import PostgresHarness
from tests.stores.test_postgres_races import Race, played

WORKERS: Final = 8
DELIVERIES: Final = 24
CAP: Final = Cap(3, timedelta(milliseconds=500))
ONCE: Final = Cap(1, timedelta(days=1))
RACE_SECONDS_MAX: Final = 60.0


def test_a_begin_waits_for_a_begin_for_the_same_recipient(postgres_harness: PostgresHarness) -> None:
    """Of two begins under a cap of one the second waits for the first to commit, and is put off by what it reserved."""

    async def act(arena: Race) -> None:
        await arena.scene.ready("a", "b")
        first, second = (await arena.scene.claim()).rows
        async with arena.held() as tx:
            starts = [start(first, cap=ONCE)]
            capped = await capping.look(tx, starts)
            assert capped.let_pass(starts) == starts
            numbers = await claims._begin(tx, HOOKS, "w1", starts)
            await capping.take_places(tx, capped, numbers.keys())
            waiting = await arena.waits(arena.store.begin(HOOKS, "w1", [start(second, cap=ONCE)]))
        begun = await waiting
        assert begun.numbers == {}
        assert begun.put_off[second.id][1] == FREQUENCY_CAP

    played(postgres_harness, act)


def test_a_batch_without_a_cap_asks_nothing(postgres_harness: PostgresHarness) -> None:
    """No statement is sent for caps where no row of a batch is under one, and none of its rows is held up."""

    async def act(arena: Race) -> None:
        await arena.scene.ready("a", "b")
        starts = [start(row) for row in (await arena.scene.claim()).rows]
        nobody = cast("Transaction", None)
        capped = await capping.look(nobody, starts)
        assert (capped.let_pass(starts), capped.put_off(starts, ())) == (starts, [])
        await capping.take_places(nobody, capped, [row.id for row in starts])
        await capping.give_places_back(nobody, [])

    played(postgres_harness, act)


def test_two_batches_that_cap_each_others_recipients_do_not_deadlock(postgres_harness: PostgresHarness) -> None:
    """What one batch caps and the other does not is locked in one order by both."""

    async def act(arena: Race) -> None:
        for number in range(20):
            await arena.scene.ready(f"a{number}", f"c{number}", ref=f"x{number}")
            await arena.scene.ready(f"b{number}", f"d{number}", ref=f"y{number}")
            rows = {row.reminder_key[0]: row for row in (await arena.scene.claim()).rows}
            one = [start(rows["a"], cap=ONCE), start(rows["b"])]
            other = [start(rows["c"]), start(rows["d"], cap=ONCE)]
            begun = await asyncio.gather(*(arena.store.begin(HOOKS, "w1", starts) for starts in (one, other)))
            assert sum(len(part.numbers) for part in begun) == 4

    played(postgres_harness, act)


def test_no_stretch_ever_holds_more_than_the_cap(postgres_harness: PostgresHarness) -> None:
    """Workers on connections of their own begin for one recipient until all is sent; each of them counts exactly."""

    async def act(arena: Race) -> None:
        await arena.scene.ready(*(f"r{number}" for number in range(DELIVERIES)))
        stores = [await arena.ledger.another() for _ in range(WORKERS)]
        async with asyncio.timeout(RACE_SECONDS_MAX):
            await asyncio.gather(*(work(store, f"w{number}") for number, store in enumerate(stores)))
        await arena.scene.store.look_away()
        moments = await began_at(arena)
        assert len(moments) == DELIVERIES
        assert all(later - earlier >= CAP.per for earlier, later in zip(moments, moments[CAP.count :], strict=False))

    played(postgres_harness, act)


async def work(store: PostgresStore, worker: str) -> None:
    """Claim, begin under the cap and settle until everything is sent. What nobody put off is given back."""
    while (await store.views().status())["states"].get(State.SENT, {"count": 0})["count"] < DELIVERIES:
        await store.promote(100)
        batch = await store.claim(ClaimOrder(HOOKS, "normal", 4, 0, worker, 60.0))
        begun = await store.begin(HOOKS, worker, [start(row, cap=CAP) for row in batch.rows])
        sent = [settlement(row, 1, Outcome.ACCEPTED, batch.now) for row in batch.rows if row.id in begun.numbers]
        await store.settle(HOOKS, sent, [])
        left = [row for row in batch.rows if row.id not in begun.numbers and row.id not in begun.put_off]
        await store.abandon(worker, [(row.id, row.fence) for row in left])
        await asyncio.sleep(0.01)


async def began_at(arena: Race) -> list[datetime]:
    """When the attempts began, in order."""
    found = await arena.ledger.value("select array_agg(started_at order by started_at) from attempt")
    return list(found)
