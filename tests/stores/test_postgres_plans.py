"""The plans of the hot path: sound at the worst moment, never kept, and no index touched without need.

Right after ANALYZE of a table in which every row is ready, PostgreSQL has planned statements like these
as a nested loop over the whole table: 1.4 s for 500 rows. What is counted here are pages, not seconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import psycopg

from duly.core.model import Claimed, Outcome
from duly.core.schedule import fire
from duly.core.states import State
from duly.ports import ClaimOrder
from duly.stores.loader import load
from duly.stores.postgres import claims, settling
from duly.stores.postgres.arrays import uuids
from duly.stores.postgres.connect import Target, connect
from duly.testing.builders import NAMESPACE, PROVIDERS, decision, new_reminder, settlement, start
from tests.stores.conformance.scene import HOOKS, LEASE_SECONDS, Scene
from tests.stores.ledgers import PostgresHarness, PostgresLedger

#: A sound plan touches some 20 pages per row; the bad one touched thousands.
PAGES_PER_ROW_MAX: Final = 60
READY_ROWS: Final = 20_000
BATCH_ROWS: Final = 500


async def many_ready(ledger: PostgresLedger) -> None:
    """Fill the ledger with ready rows of many accounts, and let the planner know."""
    due = (await ledger.store.due(0)).now - timedelta(seconds=1)
    for first in range(0, READY_ROWS, 2_000):
        rows = [
            new_reminder(f"r{number}", due, account=f"account-{number % 40}", ref=f"p{number}")
            for number in range(first, first + 2_000)
        ]
        await ledger.store.schedule(rows)
        batch = await ledger.store.due(2_000)
        await ledger.store.materialise([fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows])
    with psycopg.connect(ledger.url, autocommit=True) as connection:
        connection.execute("analyze")


async def pages_per_row(ledger: PostgresLedger, statement: str, *values: Any) -> float:
    """Run a statement for one batch, count the pages that it touched, and undo it."""
    connection = await connect(Target.of(ledger.url))
    await connection.execute("begin")
    text = "explain (analyze, buffers, format json) " + load("postgres")[statement]
    found = await (await connection.execute(text.encode(), values)).fetchone()
    await connection.close()
    assert found is not None
    plan = (json.loads(found[0]) if isinstance(found[0], str) else found[0])[0]["Plan"]
    return float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) / BATCH_ROWS


async def touched_by_the_hot_path(ledger: PostgresLedger) -> dict[str, float]:
    """Pages per row of each statement, with the rows where that statement finds them."""
    order = ClaimOrder(HOOKS, "normal", BATCH_ROWS, 0, "w1", LEASE_SECONDS)
    touched = {"claim": await pages_per_row(ledger, "claim", *claims.claim_values(order))}
    rows: Sequence[Claimed] = sorted((await ledger.store.claim(order)).rows, key=lambda row: row.id)
    starts = [start(row) for row in rows]
    touched["lock_revisions"] = await pages_per_row(ledger, "lock_revisions", uuids([row.id for row in rows]))
    touched["begin"] = await pages_per_row(ledger, "begin", *claims._start_columns(starts), HOOKS, "w1")
    stops = [decision(row, State.LEASED, State.WAITING) for row in rows]
    touched["decide"] = await pages_per_row(ledger, "decide", *settling._decision_columns(stops), "w1")
    assert len((await ledger.store.begin(HOOKS, "w1", starts)).numbers) == BATCH_ROWS
    now = (await ledger.store.due(0)).now
    outcomes = [settlement(row, 1, Outcome.ACCEPTED, now) for row in rows]
    touched["settle"] = await pages_per_row(ledger, "settle", *settling._columns(outcomes))
    return touched


def test_plans_stay_sound_when_every_row_is_ready(postgres_harness: PostgresHarness) -> None:
    """Right after ANALYZE of 20,000 ready rows, no statement of the hot path reads the table for each row."""

    async def act() -> dict[str, float]:
        async with postgres_harness.open() as ledger:
            await many_ready(ledger)
            return await touched_by_the_hot_path(ledger)

    touched = asyncio.run(act())
    assert {name: pages for name, pages in touched.items() if pages > PAGES_PER_ROW_MAX} == {}
    assert len(touched) == 5


def test_begin_touches_no_index(postgres_harness: PostgresHarness) -> None:
    """Begin's updates stay on their page, because they touch no indexed column (HOT)."""

    async def act() -> Any:
        async with postgres_harness.open() as ledger:
            scene = Scene(ledger)
            await scene.ready(*(f"r{number}" for number in range(20)))
            rows = sorted((await scene.claim()).rows, key=lambda row: row.id)
            async with ledger.store._shared.transaction() as tx:
                assert len(await claims._begin(tx, HOOKS, "w1", [start(row) for row in rows])) == 20
                query = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'work'"
                return await (await tx._connection.execute(query)).fetchone()

    assert asyncio.run(act()) == (20, 20)


def test_no_plan_is_kept(postgres_harness: PostgresHarness) -> None:
    """The store prepares nothing on the server, so no plan outlives the statistics that it was made for."""

    async def act() -> Any:
        async with postgres_harness.open() as ledger:
            for _ in range(8):
                await ledger.store.due_remain()
            async with ledger.store._shared.transaction() as tx:
                return await (await tx._connection.execute("select count(*) from pg_prepared_statements")).fetchone()

    assert asyncio.run(act()) == (0,)
