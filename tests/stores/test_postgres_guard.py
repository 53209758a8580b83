"""The restore guard on PostgreSQL: a copied database knows it, and nobody slips past a guard that is being opened."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import psycopg
import pytest

from duly.core.firing import fire
from duly.core.model import Begun, Claimed, Fired, Guard, Outcome
from duly.core.states import State
from duly.ports import ClaimOrder, Materialised, Revision
from duly.stores import migrate
from duly.stores.postgres import claims, guarding, revising, settling, ticks
from duly.stores.postgres.arrays import uuids
from duly.stores.postgres.connect import Transaction
from duly.testing.builders import NAMESPACE, PROVIDERS, settlement, start
from tests.stores.conformance.scene import HOOKS, LEASE_SECONDS, Scene
from tests.stores.ledgers import PostgresHarness, PostgresLedger
from tests.stores.postgres_server import fresh_database
from tests.stores.test_postgres_races import Race, Run, begin_in, played

ORDER: Final = ClaimOrder(HOOKS, "normal", 100, 0, "w1", LEASE_SECONDS)


# --- another place -------------------------------------------------------------------------------


@asynccontextmanager
async def ledger_at(url: str) -> AsyncIterator[Scene]:
    """A scene on the ledger of a database, as it is."""
    ledger = await PostgresLedger(url).set_up()
    scene = Scene(ledger)
    await scene.store.look_away()
    try:
        yield scene
    finally:
        await ledger.close()


def run_on_a_copy(
    harness: PostgresHarness,
    before: Callable[[Scene], Awaitable[list[Claimed]]],
    after: Callable[[Scene, list[Claimed]], Awaitable[None]],
) -> None:
    """Run `before` on a ledger, copy its database within the cluster, and run `after` on the copy."""

    async def act(url: str, copy: str) -> None:
        await migrate.apply(url, NAMESPACE, by="tests")
        async with ledger_at(url) as scene:
            rows = await before(scene)
        with psycopg.connect(harness.url, autocommit=True) as connection:
            source, target = (urlsplit(one).path.removeprefix("/") for one in (url, copy))
            connection.execute(f'drop database "{target}"'.encode())
            connection.execute(f'create database "{target}" template "{source}"'.encode())
        async with ledger_at(copy) as scene:
            await after(scene, rows)
            assert await scene.broken_invariants() == []

    with fresh_database(harness.url) as url, fresh_database(harness.url) as copy:
        asyncio.run(act(url, copy))


async def two_leased(scene: Scene) -> list[Claimed]:
    """A sign of life, then two rows under a lease."""
    await scene.store.heartbeat("worker")
    await scene.ready("r1", "r2")
    return (await scene.claim()).rows


def test_a_copied_database_opens_the_guard(postgres_harness: PostgresHarness) -> None:
    """The first heartbeat in a copy opens a guard since the last one of the original; the next opens no other."""

    async def after(scene: Scene, rows: list[Claimed]) -> None:
        last = await scene.ledger.value("select heartbeat_at from installation")
        beat = await scene.store.heartbeat("worker")
        assert isinstance(beat.guard, Guard)
        assert (beat.guard.since, beat.guard.opened_by, beat.guard.why) == (last, "worker", guarding.MOVED)
        assert [await scene.state(row.id) for row in rows] == [State.UNCERTAIN, State.UNCERTAIN]
        await scene.store.close_guard("ana", "all is in")
        assert (await scene.store.heartbeat("worker", beat.now)).guard is None

    run_on_a_copy(postgres_harness, two_leased, after)


def test_a_copy_sends_nothing_before_its_first_heartbeat(postgres_harness: PostgresHarness) -> None:
    """In a copy nothing is claimed, begun or put off, though every lease and revision is still as it was."""

    async def before(scene: Scene) -> list[Claimed]:
        rows = await two_leased(scene)
        await scene.ready("r3")
        return rows

    async def after(scene: Scene, rows: list[Claimed]) -> None:
        assert (await scene.claim()).rows == []
        starts = [start(row, rate=1.0) for row in rows]
        assert await scene.store.begin(HOOKS, "w1", starts) == Begun({}, {})
        assert [await scene.state(row.id) for row in rows] == [State.LEASED, State.LEASED]

    run_on_a_copy(postgres_harness, before, after)


def test_a_copy_of_a_guarded_database_is_guarded_anew(postgres_harness: PostgresHarness) -> None:
    """A backup taken under a guard: what was ready again by then may have been sent since, and is in doubt again."""

    async def before(scene: Scene) -> list[Claimed]:
        rows = await two_leased(scene)
        await scene.store.open_guard("ana", "restored")
        for doubtful in (await scene.store.doubtful([HOOKS], 1, 60.0))[1]:
            assert await scene.decide(doubtful, State.UNCERTAIN, State.READY, covered=True)
        return rows

    async def after(scene: Scene, rows: list[Claimed]) -> None:
        first = await scene.ledger.value("select since from guard")
        beat = await scene.store.heartbeat("worker")
        assert beat.guard is not None
        assert (beat.guard.number, beat.guard.since) == (1, first)
        assert await scene.ledger.value("select count(*) from work where restored and state = 'uncertain'") == len(rows)

    run_on_a_copy(postgres_harness, before, after)


def test_another_timeline_opens_the_guard(postgres_harness: PostgresHarness) -> None:
    """A ledger whose timeline is another one (a standby that was promoted, a restore) is in another place."""

    async def act() -> None:
        async with postgres_harness.open() as ledger:
            scene = Scene(ledger)
            assert (await scene.store.heartbeat("worker")).guard is None
            (delivery,) = await scene.ready("r")
            await ledger.change(r"update installation set place = regexp_replace(place, ':[0-9A-F]{8}:', ':000000FF:')")
            assert (await scene.claim()).rows == []
            assert (await scene.store.heartbeat("worker")).guard is not None
            assert await scene.state(delivery) == State.UNCERTAIN

    asyncio.run(act())


def test_a_place_names_cluster_timeline_and_database(postgres_harness: PostgresHarness) -> None:
    """The first heartbeat writes the place; until then a ledger is where it is, and sends."""

    async def act() -> None:
        async with postgres_harness.open() as ledger:
            scene = Scene(ledger)
            await scene.ready("r")
            assert await ledger.value("select place from installation") is None
            assert len((await scene.claim()).rows) == 1
            await scene.store.heartbeat("worker")
            system, timeline, database = (await ledger.value("select place from installation")).split(":")
            assert system == await ledger.value("select system_identifier::text from pg_control_system()")
            assert int(timeline, 16) == await ledger.value("select timeline_id from pg_control_checkpoint()")
            here = "select oid::text from pg_database where datname = current_database()"
            assert database == await ledger.value(here)

    asyncio.run(act())


# --- races ---------------------------------------------------------------------------------------


@pytest.fixture
def race(postgres_harness: PostgresHarness) -> Run:
    """Plays races on ledgers of the one PostgreSQL."""
    return functools.partial(played, postgres_harness)


async def open_in(tx: Transaction) -> Guard:
    """The steps of opening a guard, within a held transaction."""
    await tx.send("hold_installation")
    last, _ = await tx.row("last_sign")
    guard = await guarding._open(tx, "ana", "restored", last)
    await tx.rows("clock")
    return guard


async def fired(scene: Scene) -> list[Fired]:
    """What a tick would write now."""
    batch = await scene.store.due(100)
    return [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]


def test_a_begin_that_commits_before_the_guard(race: Run) -> None:
    """The guard waits for it, and its attempt is unknown."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        async with arena.held() as tx:
            assert await begin_in(tx, row) == {row.id: 1}
            guard = await arena.waits(arena.store.open_guard("ana", "restored"))
        await guard
        assert await arena.scene.state(row.id) == State.UNCERTAIN
        assert await arena.scene.outcomes(row.id) == [Outcome.UNKNOWN]

    race(act)


def test_a_begin_that_commits_after_the_guard_begins_nothing(race: Run) -> None:
    """A begin that waited for a guard finds its fences raised, and writes no attempt."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        async with arena.held() as tx:
            await open_in(tx)
            begin = await arena.waits(arena.store.begin(HOOKS, "w1", [start(row)]))
        assert await begin == Begun({}, {})
        assert await arena.scene.outcomes(row.id) == []

    race(act)


def test_a_claim_that_commits_before_the_guard(race: Run) -> None:
    """The guard waits for it, and what it claimed does not begin."""

    async def act(arena: Race) -> None:
        (delivery,) = await arena.scene.ready("r")
        async with arena.held() as tx:
            assert len(await tx.rows("claim", *claims.claim_values(ORDER))) == 1
            guard = await arena.waits(arena.store.open_guard("ana", "restored"))
        await guard
        assert await arena.scene.state(delivery) == State.UNCERTAIN

    race(act)


def test_a_claim_passes_a_guard_that_is_being_opened(race: Run) -> None:
    """A claim does not wait for a guard, and gets nothing of what it covers."""

    async def act(arena: Race) -> None:
        await arena.scene.ready("r1", "r2")
        async with arena.held() as tx:
            await open_in(tx)
            assert (await arena.skips(arena.store.claim(ORDER))).rows == []
        assert (await arena.store.claim(ORDER)).rows == []

    race(act)


def test_a_tick_that_commits_before_the_guard(race: Run) -> None:
    """The guard waits for a tick's new rows, and puts them in doubt."""

    async def act(arena: Race) -> None:
        (reminder,) = await arena.scene.schedule("r")
        batch = await fired(arena.scene)
        async with arena.held() as tx:
            guards = await guarding.keep_out_guard(tx)
            assert await ticks._advance(tx, batch) == {reminder.id}
            await ticks._add_deliveries(tx, batch[0].deliveries, await guarding.Covered.told_by(guards))
            await tx.rows("clock")
            guard = await arena.waits(arena.store.open_guard("ana", "restored"))
        await guard
        assert await arena.scene.state(batch[0].deliveries[0].id) == State.UNCERTAIN

    race(act)


def test_a_tick_that_commits_after_the_guard(race: Run) -> None:
    """A tick waits for a guard that is being opened, and writes what it covers as uncertain."""

    async def act(arena: Race) -> None:
        await arena.store.heartbeat("worker")
        await arena.ledger.pass_time(10)
        await arena.scene.schedule("r")
        batch = await fired(arena.scene)
        async with arena.held() as tx:
            await open_in(tx)
            tick = await arena.waits(arena.store.materialise(batch))
        assert await tick == Materialised(1, 0, 0)
        assert await arena.scene.state(batch[0].deliveries[0].id) == State.UNCERTAIN

    race(act)


def test_a_heartbeat_does_not_wait_for_a_tick(race: Run) -> None:
    """A tick that writes new rows keeps a guard from being opened, and no sign of life."""

    async def act(arena: Race) -> None:
        async with arena.held() as tx:
            await (await guarding.keep_out_guard(tx)).fetchall()
            assert (await arena.skips(arena.store.heartbeat("worker"))).guard is None

    race(act)


def test_two_who_find_the_ledger_restored_open_one_guard(race: Run) -> None:
    """A heartbeat that waited for another one's guard is told of it, and opens none."""

    async def act(arena: Race) -> None:
        before = (await arena.store.heartbeat("w1")).now
        await arena.ledger.pass_time(60)
        async with arena.held() as tx:
            await guarding._look_closer(tx, "w1", before)
            await tx.rows("clock")
            beat = await arena.waits(arena.store.heartbeat("w2", before))
        guard = (await beat).guard
        assert guard is not None
        assert guard.opened_by == "w1"
        assert await arena.ledger.value("select count(*) from guard") == 1

    race(act)


# --- requeue -------------------------------------------------------------------------------------


async def dead(arena: Race) -> Claimed:
    """A dead delivery whose first attempt may still turn out to have been accepted."""
    row = await arena.scene.uncertain("r")
    looked = await arena.scene.looked_at()
    assert await arena.scene.decide(looked, State.UNCERTAIN, State.DEAD, reason="looked_up", covered=True)
    return row


def test_a_guard_waits_for_a_requeue(race: Run) -> None:
    """What was requeued just before a guard is in doubt with everything else."""

    async def act(arena: Race) -> None:
        row = await dead(arena)
        async with arena.held() as tx:
            await tx.send("keep_out_guard")
            assert await tx.rows("requeue", uuids([row.id]), "ana", "mended") == [(row.id,)]
            guard = await arena.waits(arena.store.open_guard("ana", "restored"))
        await guard
        assert await arena.scene.state(row.id) == State.UNCERTAIN

    race(act)


def test_a_requeue_waits_for_a_guard(race: Run) -> None:
    """What is requeued while a guard is being opened waits for it, and starts in doubt."""

    async def act(arena: Race) -> None:
        row = await dead(arena)
        async with arena.held() as tx:
            await open_in(tx)
            requeue = await arena.waits(arena.store.requeue("ana", "mended", [row.id]))
        assert await requeue == {row.id}
        assert await arena.scene.state(row.id) == State.UNCERTAIN

    race(act)


def test_late_acceptance_that_waited_for_a_requeue(race: Run) -> None:
    """It ends the delivery, and the work that the requeue has made of it."""

    async def act(arena: Race) -> None:
        row = await dead(arena)
        accepted = settlement(row, 1, Outcome.ACCEPTED, await arena.scene.now())
        async with arena.held() as tx:
            assert await tx.rows("requeue", uuids([row.id]), "ana", "mended") == [(row.id,)]
            settle = await arena.waits(arena.store.settle(HOOKS, [accepted], []))
        assert (await settle).corrected == 1
        assert await arena.scene.state(row.id) == State.SENT
        assert await arena.ledger.value("select count(*) from work") == 0

    race(act)


def test_a_requeue_that_waited_for_late_acceptance(race: Run) -> None:
    """It finds the delivery sent, and returns nothing to work."""

    async def act(arena: Race) -> None:
        row = await dead(arena)
        accepted = settlement(row, 1, Outcome.ACCEPTED, await arena.scene.now())
        async with arena.held() as tx:
            assert (await settling._settle(tx, [accepted])).corrected == 1
            requeue = await arena.waits(arena.store.requeue("ana", "mended", [row.id]))
        assert await requeue == frozenset()
        assert await arena.scene.state(row.id) == State.SENT

    race(act)


# --- other changes -------------------------------------------------------------------------------


def test_a_tick_that_waited_for_a_reschedule_is_stale(race: Run) -> None:
    """A tick that waited for a reschedule writes nothing, even to the same due time."""

    async def act(arena: Race) -> None:
        (reminder,) = await arena.scene.schedule("r")
        batch = await fired(arena.scene)
        due = batch[0].expected_due
        async with arena.held() as tx:
            ((account, seen, status, _),) = await tx.rows("lock_revision", reminder.id.hex())
            revision = Revision(reminder, seen, due, 1, (), keep_body=True)
            await revising._write(tx, "ana", "moved", revision, account, status)
            tick = await arena.waits(arena.store.materialise(batch))
        assert await tick == Materialised(0, 0, 1)

    race(act)
