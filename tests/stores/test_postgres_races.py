"""Two transactions at once, in a known order: one is held open at a point, the other runs into it.

A held transaction runs the store's own steps and commits when the test lets it. Whether the other one
waits is not guessed from the clock: the server says who waits for a lock.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from duly.core.firing import fire
from duly.core.model import Begun, Channel, Claimed, Outcome, Result, Scheduled, Signal, SignalKind
from duly.core.rezoning import Retiming
from duly.core.states import State
from duly.ports import Cancelled, ClaimOrder, Settled
from duly.stores.postgres import PostgresStore, claims, rezoning, settling, ticks, upkeep
from duly.stores.postgres.arrays import texts
from duly.stores.postgres.connect import Transaction
from duly.stores.postgres.guarding import Covered
from duly.testing.builders import NAMESPACE, PROVIDERS, decision, new_reminder, settlement, start
from tests.stores.conformance.scene import HOOKS, LEASE_SECONDS, Scene
from tests.stores.ledgers import PostgresHarness, PostgresLedger

WAIT_SECONDS_MAX: Final = 60.0
WHO_WAITS: Final = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)
ORDER: Final = ClaimOrder(HOOKS, "normal", 100, 0, "w1", LEASE_SECONDS)


class Race:
    """A ledger with two ways in: `store` for whoever comes second, `held` for whoever comes first."""

    def __init__(self, ledger: PostgresLedger) -> None:
        self.ledger = ledger
        self.scene = Scene(ledger)
        self.store: PostgresStore = ledger.store

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Transaction]:
        """A transaction of the store's kind, committed at the end of the block."""
        async with self.store._shared.transaction() as tx:
            yield tx

    async def waits(self, second: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Start the second transaction; it must come to wait for a lock of the first."""
        waiting = asyncio.ensure_future(second)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not await self.ledger.value(WHO_WAITS):
                assert not waiting.done(), f"it did not wait: {waiting.result()}"
                await asyncio.sleep(0.01)
        return waiting

    async def skips(self, second: Awaitable[Any]) -> Any:
        """Run the second transaction; it must not wait for the first."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            return await second


Act = Callable[[Race], Awaitable[None]]
Run = Callable[[Act], None]


def played(harness: PostgresHarness, act: Act) -> None:
    """Run a race on an empty ledger; at its end every invariant must hold."""

    async def run() -> None:
        async with harness.open() as ledger:
            arena = Race(ledger)
            await act(arena)
            assert await arena.scene.broken_invariants() == []

    asyncio.run(run())


@pytest.fixture
def race(postgres_harness: PostgresHarness) -> Run:
    """Plays races on ledgers of the one PostgreSQL."""
    return functools.partial(played, postgres_harness)


async def cancel_in(tx: Transaction, row: Claimed) -> Cancelled:
    """The steps of a cancel of the row's reminder, within a held transaction."""
    done = await upkeep._cancel_reminder(tx, "somebody", "changed_his_mind", row.reminder)
    assert done is not None
    return done


async def begin_in(tx: Transaction, *rows: Claimed, rate: float | None = None) -> dict[bytes, int]:
    """The steps of a begin, within a held transaction."""
    starts = [start(row, rate=rate) for row in rows]
    shares = claims._share_out(starts, await claims._lock_budgets(tx, HOOKS, starts))
    numbers = await claims._begin(tx, HOOKS, "w1", sorted(shares.may_begin, key=lambda one: one.id))
    await claims._spend(tx, HOOKS, shares, numbers)
    return numbers


# --- claim ---------------------------------------------------------------------------------------


def test_two_claims_share_no_row(race: Run) -> None:
    """A claim takes none of the rows that an uncommitted claim has, and waits for none."""

    async def act(arena: Race) -> None:
        await arena.scene.ready(*(f"r{i}" for i in range(8)))
        async with arena.held() as tx:
            first = await tx.rows("claim", *claims.claim_values(ORDER._replace(limit=5)))
            second = await arena.skips(arena.store.claim(ORDER._replace(worker="w2")))
        assert len(first) == 5
        assert len(second.rows) == 3
        assert not {row[0] for row in first} & {row.id for row in second.rows}

    race(act)


def test_a_claim_leaves_what_is_being_cancelled(race: Run) -> None:
    """A claim does not wait for a cancel, and does not get what the cancel holds."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        await arena.store.abandon("w1", [(row.id, row.fence)])
        async with arena.held() as tx:
            assert (await cancel_in(tx, row)).cancelled == 1
            assert (await arena.skips(arena.store.claim(ORDER))).rows == []
        assert await arena.scene.state(row.id) == State.CANCELLED

    race(act)


def test_a_cancel_waits_for_a_claim(race: Run) -> None:
    """A cancel that meets an uncommitted claim waits, then ends the leased row; it cannot begin any more."""

    async def act(arena: Race) -> None:
        (delivery,) = await arena.scene.ready("r")
        reminder = new_reminder("r", await arena.scene.now()).id
        async with arena.held() as tx:
            assert len(await tx.rows("claim", *claims.claim_values(ORDER._replace(limit=5)))) == 1
            cancel = await arena.waits(arena.store.cancel("somebody", "late", reminder=reminder, delivery=None))
        assert (await cancel).cancelled == 1
        assert await arena.scene.state(delivery) == State.CANCELLED

    race(act)


def test_a_claim_takes_no_more_than_the_budget_shows(race: Run) -> None:
    """Of a provider with one endpoint, a claim leaves ready what begin would only put off."""

    async def act(arena: Race) -> None:
        await arena.scene.ready(*(f"r{i}" for i in range(30)), channels=(Channel.EMAIL,))
        order = ORDER._replace(provider="mail")
        rows = (await arena.store.claim(order._replace(limit=8))).rows
        begun = await arena.store.begin("mail", "w1", [start(row, rate=10.0) for row in rows])
        assert len(begun.numbers) == 8
        assert 2 <= len((await arena.store.claim(order)).rows) <= 10
        await arena.ledger.pass_time(0.5)
        assert 5 <= len((await arena.store.claim(order)).rows) <= 10

    race(act)


def test_a_claim_behind_a_closed_door_takes_all(race: Run) -> None:
    """Behind a closed door rows are claimed all the same, so that they are told until when they wait."""

    async def act(arena: Race) -> None:
        await arena.scene.ready(*(f"r{i}" for i in range(30)), channels=(Channel.EMAIL,))
        order = ORDER._replace(provider="mail")
        rows = (await arena.store.claim(order._replace(limit=1))).rows
        await arena.store.begin("mail", "w1", [start(row, rate=1.0) for row in rows])
        shut = Signal(rows[0].endpoint, SignalKind.BLOCK, "retry_after", 30.0)
        await arena.store.settle("mail", [], [shut])
        assert len((await arena.store.claim(order)).rows) == 29

    race(act)


# --- begin ---------------------------------------------------------------------------------------


def test_a_cancel_that_commits_before_begin_wins(race: Run) -> None:
    """A begin that waited for a cancel of its reminder begins nothing, and writes no attempt."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        async with arena.held() as tx:
            await cancel_in(tx, row)
            begin = await arena.waits(arena.store.begin(HOOKS, "w1", [start(row)]))
        assert await begin == Begun({}, {})
        assert await arena.scene.outcomes(row.id) == []

    race(act)


def test_a_begin_that_commits_before_a_cancel_wins(race: Run) -> None:
    """A cancel that waited for a begin finds the row sending, and leaves it to its outcome."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        async with arena.held() as tx:
            assert await begin_in(tx, row) == {row.id: 1}
            cancel = await arena.waits(arena.store.cancel("somebody", "late", reminder=row.reminder, delivery=None))
        assert await cancel == Cancelled(0, 1, 0, 0)
        assert await arena.scene.state(row.id) == State.SENDING

    race(act)


def test_an_opt_out_that_commits_before_begin_wins(race: Run) -> None:
    """A begin that waited for an opt-out sees the contact's new revision, and begins nothing."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        async with arena.held() as tx:
            await tx._connection.execute("update contact set suppressed = 'opted_out', revision = revision + 1")
            begin = await arena.waits(arena.store.begin(HOOKS, "w1", [start(row)]))
        assert await begin == Begun({}, {})
        assert await arena.scene.outcomes(row.id) == []

    race(act)


def test_an_opt_out_waits_for_a_begin(race: Run) -> None:
    """An opt-out commits after a begin that has seen the contact without it, never in between."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        opt_out = "update contact set suppressed = 'opted_out', revision = revision + 1"
        async with arena.held() as tx:
            assert await begin_in(tx, row) == {row.id: 1}
            later = await arena.waits(arena.ledger.change(opt_out))
        await later
        assert await arena.scene.state(row.id) == State.SENDING

    race(act)


def test_two_begins_spend_one_budget(race: Run) -> None:
    """A begin that waited for the budget spends only what the other left."""

    async def act(arena: Race) -> None:
        await arena.scene.ready(*(f"r{i}" for i in range(8)))
        rows = (await arena.scene.claim()).rows
        budget = await arena.store.begin(HOOKS, "w1", [start(row, rate=5.0) for row in rows[:1]])
        assert len(budget.numbers) == 1
        async with arena.held() as tx:
            assert len(await begin_in(tx, *rows[1:4], rate=5.0)) == 3
            begin = await arena.waits(arena.store.begin(HOOKS, "w1", [start(row, rate=5.0) for row in rows[4:]]))
        begun = await begin
        assert len(begun.numbers) <= 2
        assert len(begun.numbers) + len(begun.put_off) == 4

    race(act)


# --- settle --------------------------------------------------------------------------------------


def test_a_take_back_leaves_what_is_being_settled(race: Run) -> None:
    """A lease that ends while its outcome is being committed is not taken back: the outcome stands."""

    async def act(arena: Race) -> None:
        row = await arena.scene.sending("r")
        await arena.ledger.pass_time(LEASE_SECONDS + 1)
        async with arena.held() as tx:
            outcome = settlement(row, 1, Outcome.ACCEPTED, await arena.scene.now())
            assert (await settling._settle(tx, [outcome])).moved == {row.id}
            taken = await arena.skips(arena.store.take_back(10, "upkeep"))
        assert taken == (0, 0, 0)
        assert await arena.scene.state(row.id) == State.SENT

    race(act)


@pytest.mark.parametrize(("outcome", "state"), [(Outcome.ACCEPTED, State.SENT), (Outcome.REFUSED, State.UNCERTAIN)])
def test_a_settle_that_waited_for_a_take_back(race: Run, outcome: Outcome, state: State) -> None:
    """Its answer is recorded; acceptance wins all the same, and a refusal leaves the row to reconcile."""

    async def act(arena: Race) -> None:
        row = await arena.scene.sending("r")
        await arena.ledger.pass_time(LEASE_SECONDS + 1)
        late = settlement(row, 1, outcome, await arena.scene.now())
        async with arena.held() as tx:
            assert await tx.row("take_back", 10, "upkeep", 3) == (0, 1, 0)
            settle = await arena.waits(arena.store.settle(HOOKS, [late], []))
        assert (await settle).stale == (0 if outcome is Outcome.ACCEPTED else 1)
        assert await arena.scene.state(row.id) == state
        assert await arena.scene.outcomes(row.id) == [outcome]

    race(act)


def test_late_acceptance_ends_what_reconcile_looks_at(race: Run) -> None:
    """Acceptance that waited for reconcile's claim wins; reconcile's decision finds its row gone."""

    async def act(arena: Race) -> None:
        row = await arena.scene.uncertain("r")
        late = settlement(row, 1, Outcome.ACCEPTED, await arena.scene.now())
        async with arena.held() as tx:
            assert await tx.rows("take_doubtful", 10, LEASE_SECONDS, texts([HOOKS])) == [(row.id,)]
            settle = await arena.waits(arena.store.settle(HOOKS, [late], []))
        assert (await settle).moved == {row.id}
        told = decision(row, State.UNCERTAIN, State.HELD)._replace(fence=row.fence + 1)
        assert await arena.store.decide("reconcile", [told]) == frozenset()
        assert await arena.scene.state(row.id) == State.SENT

    race(act)


def test_late_acceptance_overturns_an_end_that_it_waited_for(race: Run) -> None:
    """Acceptance that waited for a decision to give up finds it final, corrects it, and says so."""

    async def act(arena: Race) -> None:
        row = await arena.scene.uncertain("r")
        looked = await arena.scene.looked_at()
        late = settlement(row, 1, Outcome.ACCEPTED, await arena.scene.now())
        told = [decision(looked, State.UNCERTAIN, State.UNCONFIRMED)]
        async with arena.held() as tx:
            assert len(await tx.rows("decide", *settling._decision_columns(told), "reconcile")) == 1
            settle = await arena.waits(arena.store.settle(HOOKS, [late], []))
        assert (await settle).corrected == 1
        assert await arena.scene.state(row.id) == State.SENT
        assert (await arena.scene.events(row.id))[-1][0] == "corrected"

    race(act)


def test_of_two_acceptances_at_once_the_second_is_told(race: Run) -> None:
    """An acceptance that waited for one under another request id notes that there are two."""

    async def act(arena: Race) -> None:
        row = await arena.scene.uncertain("r")
        looked = await arena.scene.looked_at()
        await arena.scene.decide(looked, State.UNCERTAIN, State.READY, granted=True)
        again = await arena.scene.claim_one()
        assert (await arena.scene.begin(again)).numbers == {row.id: 2}
        now = await arena.scene.now()
        first, second = (
            settlement(
                leased, number, Outcome.ACCEPTED, now, result=Result(Outcome.ACCEPTED, request_id=f"id-{number}")
            )
            for leased, number in ((row, 1), (again, 2))
        )
        async with arena.held() as tx:
            assert (await settling._settle(tx, [first])).doubled == 0
            settle = await arena.waits(arena.store.settle(HOOKS, [second], []))
        assert await settle == Settled(frozenset({row.id}), 0, 0, 1)
        (event,) = [one for one in (await arena.scene.show(row.id))["events"] if one["kind"] == "double_acceptance"]
        assert event["evidence"] == {"request_ids": ["id-1", "id-2"], "attempt": 2}

    race(act)


def test_signals_and_begins_take_budgets_in_one_order(race: Run) -> None:
    """A begin waits for a settle that speaks about its endpoint, and obeys what it said."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        said = [Signal(row.endpoint, SignalKind.BLOCK, "retry_after", 30.0)]
        async with arena.held() as tx:
            await settling._signal(tx, HOOKS, said)
            await tx.rows("clock")
            begin = await arena.waits(arena.store.begin(HOOKS, "w1", [start(row, rate=5.0)]))
        begun = await begin
        assert begun.numbers == {}
        assert begun.put_off[row.id][1] == "retry_after"

    race(act)


# --- schedule and tick ---------------------------------------------------------------------------


def test_two_imports_of_the_same_rows(race: Run) -> None:
    """Imports of the same rows in opposite orders finish, and each reminder is created by one of them."""

    async def act(arena: Race) -> None:
        due = await arena.scene.now()
        rows = [new_reminder(f"r{i}", due, account=f"account-{i % 5}", ref=f"p{i % 9}") for i in range(300)]
        other = await arena.ledger.another()
        answers = await asyncio.gather(
            *(one.schedule(part) for one in (arena.store, other) for part in (rows[:200], rows[:99:-1]))
        )
        created = sum(answer is Scheduled.CREATED for part in answers for answer in part)
        assert created == 300
        assert all(answer in (Scheduled.CREATED, Scheduled.ALREADY) for part in answers for answer in part)

    race(act)


def test_of_two_ticks_one_moves_the_schedule_on(race: Run) -> None:
    """A tick that waited for another finds the reminder moved on, and writes nothing."""

    async def act(arena: Race) -> None:
        await arena.scene.schedule("r")
        batch = await arena.store.due(10)
        fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
        async with arena.held() as tx:
            assert len(await ticks._advance(tx, fired)) == 1
            assert len(await ticks._add_deliveries(tx, fired[0].deliveries, Covered())) == 1
            await tx.rows("clock")
            second = await arena.waits(arena.store.materialise(fired))
        assert await second == (0, 0, 1)
        assert await arena.ledger.value("select count(*) from work") == 1

    race(act)


# --- zones ---------------------------------------------------------------------------------------


async def zoned(arena: Race, *names: str, due_in: float = -1) -> list[Retiming]:
    """Reminders whose moment other zone data told, and their moment an hour later."""
    await arena.scene.schedule(*names, due_in=due_in, zone="Europe/Berlin", zone_data="2026a")
    rows = (await arena.store.zoned(bytes(16), 1_000, "2026b")).rows
    hour = timedelta(hours=1)
    return [
        Retiming(row.reminder, 1, row.due_at, row.due_at + hour, row.deadline_at + hour, None, "2026b", "{}")
        for row in rows
    ]


def test_a_retiming_that_waited_for_a_tick_is_stale(race: Run) -> None:
    """What a tick was about to make deliveries of is not moved; it is one delivery."""

    async def act(arena: Race) -> None:
        wanted = await zoned(arena, "r")
        batch = await arena.store.due(10)
        fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
        async with arena.held() as tx:
            assert len(await ticks._advance(tx, fired)) == 1
            assert len(await ticks._add_deliveries(tx, fired[0].deliveries, Covered())) == 1
            retime = await arena.waits(arena.store.retime("ana", "zone_data_changed", wanted))
        assert await retime == frozenset()
        assert await arena.ledger.value("select count(*) from work") == 1

    race(act)


def test_a_tick_that_waited_for_a_retiming_is_stale(race: Run) -> None:
    """A tick that had read the moment before it moved writes nothing."""

    async def act(arena: Race) -> None:
        wanted = await zoned(arena, "r")
        batch = await arena.store.due(10)
        fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
        async with arena.held() as tx:
            assert await rezoning.retime_in(tx, "ana", "zone_data_changed", wanted) == {wanted[0].reminder}
            tick = await arena.waits(arena.store.materialise(fired))
        assert await tick == (0, 0, 1)
        assert (await arena.scene.tick()).created == 0

    race(act)


def test_a_cancel_and_a_retiming_wait_for_each_other(race: Run) -> None:
    """Whoever comes second finds what the first has written: a cancelled reminder has no moment to move."""

    async def act(arena: Race) -> None:
        first, second = await zoned(arena, "r", "s", due_in=3600)
        async with arena.held() as tx:
            await upkeep._cancel_reminder(tx, "somebody", "moved_out", first.reminder)
            retime = await arena.waits(arena.store.retime("ana", "zone_data_changed", [first]))
        assert await retime == frozenset()
        async with arena.held() as tx:
            assert await rezoning.retime_in(tx, "ana", "zone_data_changed", [second]) == {second.reminder}
            cancel = await arena.waits(
                arena.store.cancel("somebody", "moved_out", reminder=second.reminder, delivery=None)
            )
        await cancel
        assert (await arena.scene.views.show_reminder(second.reminder))["next_due_at"] is None

    race(act)


def test_retimings_and_ticks_of_many_end(race: Run) -> None:
    """Many at once, in any order of rows: each reminder is either moved or fired, and never both."""

    async def act(arena: Race) -> None:
        wanted = await zoned(arena, *(f"r{number}" for number in range(200)))
        batch = await arena.store.due(200)
        fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
        other = await arena.ledger.another()
        parts = [wanted[start : start + 50] for start in (150, 0, 100, 50)]
        moves = [other.retime("ana", "zone_data_changed", part[::-1]) for part in parts]
        ticked = [arena.store.materialise(fired[start : start + 50]) for start in (0, 150, 50, 100)]
        *moved, a, b, c, d = await asyncio.gather(*moves, *ticked)
        created = sum(one.created for one in (a, b, c, d))
        assert sum(map(len, moved)) + created == 200
        assert await arena.ledger.value("select count(*) from reminder where next_due_at is not null") == 200 - created

    race(act)
