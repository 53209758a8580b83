"""Opt-outs, deletions and pauses against claims and begins from other connections: whoever commits first wins.

Some races are played in a known order, as in test_postgres_races. The others run freely, a thousand times each, and
the ledger shows who won: a delivery that was told of the change while it was being sent has an attempt, and one that
was told before has none.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import pytest

from duly.core import keys
from duly.core.consent import ALL, Kind, Said
from duly.core.firing import fire
from duly.core.model import Begun, Channel
from duly.core.states import State
from duly.ports import ClaimOrder, NewConsent
from duly.stores.postgres import PostgresStore
from duly.testing.builders import NAMESPACE, PROVIDERS, contact, new_reminder, start
from tests.stores.conformance.scene import HOOKS, delivery_id
from tests.stores.ledgers import PostgresHarness
from tests.stores.test_postgres_races import Race, begin_in, played

ROUNDS: Final = 10
RACES_PER_ROUND: Final = 100
OPT_OUT: Final = Said(Kind.OPT_OUT, ALL, None, "us", "he asked to")

WORKERS: Final = 4

#: Something happens to the recipient, address and account of that name.
Change = Callable[[PostgresStore, str], Awaitable[object]]


def url(name: str) -> str:
    """The only address of a recipient."""
    return f"https://{name}.example.com/"


async def opt_out(store: PostgresStore, name: str) -> object:
    """An address opts out."""
    return await store.record_consent("ana", name, [NewConsent(contact(name, Channel.WEBHOOK, url(name)), OPT_OUT)])


async def delete(store: PostgresStore, name: str) -> object:
    """A recipient is deleted."""
    return await store.delete_recipient("ana", "he asked to", keys.recipient_id(NAMESPACE, name, name))


async def pause(store: PostgresStore, name: str) -> object:
    """An account is paused."""
    return await store.pause_account("ana", "a complaint", name)


# --- in a known order ----------------------------------------------------------------------------


@pytest.mark.parametrize("change", [opt_out, delete, pause])
def test_a_begin_that_commits_first_goes_on(postgres_harness: PostgresHarness, change: Change) -> None:
    """A change that waited for a begin finds the delivery sending, and leaves it to its outcome."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r", account="a", ref="a", addresses={Channel.WEBHOOK: url("a")})
        async with arena.held() as tx:
            assert await begin_in(tx, row) == {row.id: 1}
            changing = await arena.waits(_coroutine(change(arena.store, "a")))
        assert await changing
        assert await arena.scene.state(row.id) == State.SENDING
        assert {event[1] for event in await arena.scene.events(row.id)} <= {"sending"}

    played(postgres_harness, act)


async def _coroutine(waiting: Awaitable[Any]) -> Any:
    return await waiting


#: What each change holds until it commits.
LOCKS: Final = {
    "opt_out": "update contact set silenced = true, revision = revision + 1",
    "delete": "update recipient set deleted_at = now(), revision = revision + 1",
    "pause": "update account set paused = true, revision = revision + 1",
}


@pytest.mark.parametrize("change", LOCKS)
def test_a_begin_that_waited_for_a_change_begins_nothing(postgres_harness: PostgresHarness, change: str) -> None:
    """It sees the new revision, and writes no attempt."""

    async def act(arena: Race) -> None:
        row = await arena.scene.leased("r")
        async with arena.held() as tx:
            await tx._connection.execute(LOCKS[change].encode())
            begin = await arena.waits(arena.store.begin(HOOKS, "w1", [start(row)]))
        assert await begin == Begun({}, {})
        assert await arena.scene.outcomes(row.id) == []

    played(postgres_harness, act)


# --- freely --------------------------------------------------------------------------------------


async def work(store: PostgresStore, worker: str) -> None:
    """Claim and begin what may be begun until nothing is ready. What was changed in between stays leased."""
    order = ClaimOrder(HOOKS, "normal", 5, 0, worker, 60.0)
    while rows := (await store.claim(order)).rows:
        free = [row for row in rows if row.suppressed is None and not row.account_paused]
        await store.begin(HOOKS, worker, [start(row) for row in free])


async def ready(arena: Race, names: list[str]) -> list[bytes]:
    """One ready delivery for each name."""
    due = await arena.store.due(0)
    rows = [
        new_reminder(name, due.now, account=name, ref=name, addresses={Channel.WEBHOOK: url(name)}) for name in names
    ]
    await arena.store.schedule(rows)
    batch = await arena.store.due(2 * RACES_PER_ROUND)
    await arena.store.materialise([fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows])
    return [delivery_id(name, account=name) for name in names]


async def raced(arena: Race, others: list[PostgresStore], change: Change, number: int) -> list[bytes]:
    """Let workers and changes meet over a hundred deliveries of as many accounts."""
    names = [f"{number}-{one}" for one in range(RACES_PER_ROUND)]
    deliveries = await ready(arena, names)
    runs: list[Coroutine[Any, Any, object]] = [
        work(others[worker % len(others)], f"{number}-w{worker}") for worker in range(WORKERS)
    ]
    runs += [_coroutine(change(arena.store, name)) for name in names]
    random.Random(number).shuffle(runs)
    await asyncio.gather(*runs)
    return deliveries


def test_opt_outs_and_deletions_race_with_begins(postgres_harness: PostgresHarness) -> None:
    """A thousand times each: told while sending means begun, told before means that no attempt was ever made."""

    async def act(arena: Race) -> None:
        ends: Counter[tuple[str, bool]] = Counter()
        others = [await arena.ledger.another() for _ in range(2)]
        for number in range(2 * ROUNDS):
            for delivery in await raced(arena, others, delete if number % 2 else opt_out, number):
                shown = await arena.ledger.views.show_delivery(delivery)
                ((kind, was),) = [(event["kind"], event["from"]) for event in shown["events"]]
                assert kind == "suppressed"
                assert (was == "sending") is bool(shown["attempts"])
                ends[shown["events"][0]["reason"], bool(shown["attempts"])] += 1
        assert len(ends) == 4, ends

    played(postgres_harness, act)


FIRST_ATTEMPTS: Final = (
    "select count(*) from operation o join work w on w.account_id = o.account_id"
    " join attempt t on t.delivery_id = w.delivery_id where o.kind = 'account_paused' and t.started_at {} o.at"
)


def test_pauses_race_with_begins(postgres_harness: PostgresHarness) -> None:
    """A thousand times: no attempt begins after the pause of its account is on record."""

    async def act(arena: Race) -> None:
        others = [await arena.ledger.another() for _ in range(2)]
        for number in range(ROUNDS):
            await raced(arena, others, pause, number)
        begun, late = [await arena.ledger.value(FIRST_ATTEMPTS.format(sign)) for sign in ("<", ">=")]
        assert late == 0
        assert 0 < begun < ROUNDS * RACES_PER_ROUND

    played(postgres_harness, act)
