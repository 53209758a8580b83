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

from duly.core.firing import fire
from duly.core.model import Claimed, Outcome
from duly.core.states import State
from duly.ports import ClaimOrder
from duly.stores.loader import load
from duly.stores.postgres import claims, settling
from duly.stores.postgres.arrays import ints, texts, uuids
from duly.stores.postgres.connect import Target, connect
from duly.testing.builders import NAMESPACE, PROVIDERS, decision, new_reminder, settlement, start
from tests.stores.conformance.scene import HOOKS, LEASE_SECONDS, Scene
from tests.stores.ledgers import PostgresHarness, PostgresLedger

#: A sound plan touches some 20 pages per row; the bad one touched thousands.
PAGES_PER_ROW_MAX: Final = 60
READY_ROWS: Final = 20_000
BATCH_ROWS: Final = 500


async def many_ready(ledger: PostgresLedger, count: int = READY_ROWS) -> None:
    """Fill the ledger with ready rows of many accounts, and let the planner know."""
    due = (await ledger.store.due(0)).now - timedelta(seconds=1)
    for first in range(0, count, 2_000):
        rows = [
            new_reminder(f"r{number}", due, account=f"account-{number % 40}", ref=f"p{number}")
            for number in range(first, first + 2_000)
        ]
        await ledger.store.schedule(rows)
        batch = await ledger.store.due(2_000)
        await ledger.store.materialise([fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows])
    await ledger.change("analyze")


async def pages_per_row(ledger: PostgresLedger, statement: str, *values: Any) -> float:
    """Pages per row of a statement that has one batch to do."""
    return await pages(ledger, statement, *values) / BATCH_ROWS


async def pages(ledger: PostgresLedger, statement: str, *values: Any) -> float:
    """Run a statement, count the pages that it touched, and undo it."""
    connection = await connect(Target.of(ledger.url))
    await connection.execute("begin")
    text = "explain (analyze, buffers, format json) " + load("postgres")[statement]
    found = await (await connection.execute(text.encode(), values)).fetchone()
    await connection.close()
    assert found is not None
    plan = (json.loads(found[0]) if isinstance(found[0], str) else found[0])[0]["Plan"]
    return float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


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
    fences = ints(row.fence for row in rows)
    touched["renew"] = await pages_per_row(ledger, "renew", uuids([row.id for row in rows]), fences, "w1", 60.0)
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
    assert len(touched) == 6


MANY_OPTED_OUT: Final = (
    "insert into consent (account_id, contact_id, scope, kind, code, source, reason, actor)"
    " select k.account_id, k.id, scope, 'opt_out', 'opted_out', '', '', '' from contact k,"
    " (values ('all'), ('marketing'), ('plans')) s (scope) union all"
    " select 1 + n % 40, md5(n::text)::uuid, 'all', 'opt_out', 'opted_out', '', '', '' from generate_series(1, 60000) n"
)


def test_a_claim_seeks_what_stands_about_its_contacts(postgres_harness: PostgresHarness) -> None:
    """Where every contact has opted out of something, a claim looks its entries up, also without statistics."""

    async def act() -> float:
        async with postgres_harness.open() as ledger:
            await many_ready(ledger)
            await ledger.change(MANY_OPTED_OUT)
            await ledger.change("update contact set silenced = true")
            order = ClaimOrder(HOOKS, "normal", BATCH_ROWS, 0, "w1", LEASE_SECONDS)
            touched = await pages_per_row(ledger, "claim", *claims.claim_values(order))
            assert {row.suppressed for row in (await ledger.store.claim(order)).rows} == {"opted_out"}
            return touched

    assert asyncio.run(act()) <= PAGES_PER_ROW_MAX


MANY_CONTACTS: Final = (
    "insert into contact (id, account_id, channel, address, endpoint)"
    " select md5(n::text)::uuid, 1, 'email', n::text, md5('')::uuid from generate_series(1, 20000) n;"
    " insert into consent (account_id, contact_id, scope, kind, source, reason, actor)"
    " select account_id, id, 'all', 'opt_in', '', '', '' from contact;"
    " insert into recipient (id, account_id, ref)"
    " select md5(n::text)::uuid, 1, n::text from generate_series(1, 20000) n"
)


def test_a_page_of_an_export_costs_a_page(postgres_harness: PostgresHarness) -> None:
    """In the middle of many rows, with and without statistics, a page reads no more than its rows."""

    async def act() -> list[float]:
        async with postgres_harness.open() as ledger:
            await ledger.store.upsert_recipients("ana", "acme", [])
            await ledger.change(MANY_CONTACTS)
            read = []
            for analyse in ("select 1", "analyze"):
                await ledger.change(analyse)
                read.append(await pages(ledger, "consents", "acme", "8" * 32, "", "", 100))
                read.append(await pages(ledger, "recipients", "acme", "5", 100))
            return read

    assert [found for found in asyncio.run(act()) if found > 100 * 10] == []


async def scatter(ledger: PostgresLedger, change: str, first: int) -> None:
    """Put ten rows, each of another account, elsewhere than where all the others are."""
    ids = f"select min(delivery_id::text)::uuid from work where account_id between {first} and {first + 9}"  # noqa: S608
    await ledger.change(f"update work set {change} where delivery_id in ({ids} group by account_id)")  # noqa: S608


async def touched_by_the_few(ledger: PostgresLedger) -> dict[str, float]:
    """Pages in all of the statements that look for a few rows among many."""
    await scatter(ledger, "suspicion = 2", 1)
    await scatter(ledger, "state = 'held', doubt = true", 11)
    await scatter(ledger, "state = 'uncertain', doubt = true", 21)
    await ledger.change("analyze work")
    order = ClaimOrder(HOOKS, "normal", 5, 0, "w1", LEASE_SECONDS, suspicion=2)
    hooks = texts([HOOKS])
    assert len((await ledger.store.doubtful([HOOKS], 500, 0.0))[1]) == 20
    return {
        "claim": await pages(ledger, "claim", *claims.claim_values(order)),
        "suspects": await pages(ledger, "suspects", hooks),
        "take_doubtful": await pages(ledger, "take_doubtful", BATCH_ROWS, 60.0, hooks),
        "take_back": await pages(ledger, "take_back", BATCH_ROWS, "upkeep", 3),
        "holds": await pages(ledger, "holds", None, 100),
    }


def test_the_few_are_found_among_the_many(postgres_harness: PostgresHarness) -> None:
    """Suspects, held and uncertain rows and ended leases are found by indexes of their own, however much is ready."""

    async def act() -> tuple[dict[str, float], int]:
        async with postgres_harness.open() as ledger:
            await many_ready(ledger, 8_000)
            table = await ledger.value("select pg_relation_size('work') / current_setting('block_size')::int")
            return await touched_by_the_few(ledger), table

    touched, table = asyncio.run(act())
    assert {name: pages for name, pages in touched.items() if pages > table} == {}
    assert len(touched) == 5


def test_opening_a_guard_reads_the_open_work_once(postgres_harness: PostgresHarness) -> None:
    """All open rows are put in doubt by one pass over them, not by one pass for each."""

    async def act() -> float:
        async with postgres_harness.open() as ledger:
            await many_ready(ledger, 4_000)
            return await pages(ledger, "restore", "ana", True) / 4_000

    assert asyncio.run(act()) <= PAGES_PER_ROW_MAX


def test_renewing_touches_no_index(postgres_harness: PostgresHarness) -> None:
    """Renewed leases stay on their page, because they touch no indexed column (HOT)."""

    async def act() -> None:
        async with postgres_harness.open() as ledger:
            row = await Scene(ledger).sending("r")
            async with ledger.store._shared.transaction() as tx:
                assert len(await tx.rows("renew", uuids([row.id]), ints([row.fence]), "w1", LEASE_SECONDS)) == 1
                query = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'work'"
                updated, hot = await (await tx._connection.execute(query)).fetchone() or (0, 0)
                assert updated == hot > 0

    asyncio.run(act())


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


SUMMARY_PAGES_MAX: Final = 60
#: Three thousand rows are folded into one summary, which has not ended.
MANY_FOLDED: Final = (
    "update delivery set summary_id = md5('')::uuid where id in (select id from delivery limit 3000);"
    " update work set state = 'folded' where delivery_id in (select id from delivery where summary_id is not null);"
    " update delivery set summarizes = true where id in (select id from delivery where summary_id is null limit 3000)"
)


def test_upkeep_finds_no_ended_summary_at_once(postgres_harness: PostgresHarness) -> None:
    """However many rows are folded and summaries open, there is nothing to read while none has ended."""

    async def act() -> list[float]:
        async with postgres_harness.open() as ledger:
            await many_ready(ledger)
            await ledger.change(MANY_FOLDED)
            read = []
            for analyse in ("select 1", "analyze"):
                await ledger.change(analyse)
                read.append(await pages(ledger, "share_fates", 20, "w1"))
            return read

    assert max(asyncio.run(act())) <= SUMMARY_PAGES_MAX
