"""An upgrade of a template against a tick and a begin from another connection: whoever commits first wins."""

from __future__ import annotations

from typing import Final

from duly.core.firing import fire
from duly.core.model import Begun
from duly.ports import Upgrade, Upgraded
from duly.stores.postgres import ticks
from duly.stores.postgres.arrays import uuids
from duly.stores.postgres.guarding import Covered
from duly.testing.builders import NAMESPACE, PROVIDERS, start
from tests.stores.conformance.scene import HOOKS
from tests.stores.ledgers import PostgresHarness
from tests.stores.test_postgres_races import Race, begin_in, played

WANTED: Final = Upgrade("note", "v2", None, bytes(16), 100)


def test_an_upgrade_waits_for_a_tick(postgres_harness: PostgresHarness) -> None:
    """A reminder that fires while it is looked at keeps its version: its new delivery is seen."""

    async def act(arena: Race) -> None:
        await arena.scene.schedule("r", template_version="v1")
        batch = await arena.store.due(10)
        fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
        async with arena.held() as tx:
            await ticks._advance(tx, fired)
            await ticks._add_deliveries(tx, fired[0].deliveries, Covered())
            await tx.rows("clock")
            second = await arena.waits(arena.store.upgrade_template("ana", "why", WANTED))
        assert await second == Upgraded(0, 1, None)
        await arena.scene.store.look()
        assert (await arena.scene.claim_one()).template_version == "v1"

    played(postgres_harness, act)


def test_a_tick_waits_for_an_upgrade(postgres_harness: PostgresHarness) -> None:
    """A tick that comes later finds another revision, and the next one fires the reminder with its new version."""

    async def act(arena: Race) -> None:
        await arena.scene.schedule("r", template_version="v1")
        batch = await arena.store.due(10)
        fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
        async with arena.held() as tx:
            ids = uuids([fired[0].reminder])
            await tx.rows("lock_to_upgrade", ids, "note", "v2")
            assert len(await tx.rows("upgrade_reminders", ids, "v2", "ana", "why")) == 1
            tick = await arena.waits(arena.store.materialise(fired))
        assert await tick == (0, 0, 1)
        await arena.scene.tick()
        assert (await arena.scene.claim_one()).template_version == "v2"

    played(postgres_harness, act)


def test_an_upgrade_waits_for_a_begin(postgres_harness: PostgresHarness) -> None:
    """A delivery that is being begun is open, so its reminder stays as it is, and the begin is not disturbed."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r", template_version="v1")
        await arena.ledger.change("update reminder set next_due_at = deadline_at, status = 'active'")
        async with arena.held() as tx:
            assert await begin_in(tx, row) == {row.id: 1}
            second = await arena.waits(arena.store.upgrade_template("ana", "why", WANTED))
        assert await second == Upgraded(0, 1, None)
        assert await arena.store.begin(HOOKS, "w1", [start(row)]) == Begun({}, {})

    played(postgres_harness, act)
