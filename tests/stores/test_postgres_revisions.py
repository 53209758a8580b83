"""Cancels and newer versions against claims and begins from other connections: whoever commits first wins.

They run freely, a thousand times each, and the ledger shows who won: what was called off has no attempt, and what has
one was left alone, or told that it came too late.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from duly.core.firing import fire
from duly.core.model import NewReminder
from duly.core.revising import Revised
from duly.core.states import State
from duly.flows.revise import Wish, revise_reminder
from duly.intake import zones
from duly.ports import ClaimOrder
from duly.stores.postgres import PostgresStore
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder, start
from tests.stores.conformance.scene import HOOKS, delivery_id
from tests.stores.ledgers import PostgresHarness
from tests.stores.test_postgres_consent import RACES_PER_ROUND, ROUNDS, WORKERS
from tests.stores.test_postgres_races import Race, played

REST_SECONDS_MAX: Final = 0.2

#: Changes a reminder, and says whether nothing of it will be sent as it was.
Change = Callable[[PostgresStore, NewReminder], Awaitable[bool]]


async def cancel(store: PostgresStore, new: NewReminder) -> bool:
    """A reminder is cancelled."""
    return (await store.cancel("ana", "moved out", reminder=new.id, delivery=None)).cancelled == 1


async def move(store: PostgresStore, new: NewReminder) -> bool:
    """A newer version of it, due in an hour, takes its place."""
    later = new.next_due_at + timedelta(hours=1)
    newer = replace(
        new, body_hash=b"2" * 32, event_version=2, next_due_at=later, deadline_at=later + timedelta(hours=8)
    )
    plan = await revise_reminder(store, zones.known, Wish(newer, "ana", "moved", newer_only=True))
    return plan.answer is Revised.MOVED


async def work(store: PostgresStore, worker: str, chance: random.Random) -> None:
    """Claim and begin until nothing is ready, with a rest in between as a real worker has, whose requests take time."""
    order = ClaimOrder(HOOKS, "normal", 5, 0, worker, 60.0)
    while rows := (await store.claim(order)).rows:
        await asyncio.sleep(chance.uniform(0.0, REST_SECONDS_MAX))
        await store.begin(HOOKS, worker, [start(row) for row in rows])


async def raced(arena: Race, others: list[PostgresStore], change: Change, number: int) -> Counter[tuple[bool, str]]:
    """Let workers and changes meet over a hundred reminders; how often a change won, and how its delivery stands."""
    due = await arena.store.due(0)
    rows = [new_reminder(f"{number}-{one}", due.now, event_version=1) for one in range(RACES_PER_ROUND)]
    await arena.store.schedule(rows)
    batch = await arena.store.due(2 * RACES_PER_ROUND)
    await arena.store.materialise([fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows])
    won: dict[bytes, bool] = {}

    async def changed(new: NewReminder) -> None:
        won[new.id] = await change(arena.store, new)

    chance = random.Random(number)
    runs: list[Coroutine[Any, Any, None]] = [
        work(others[one % len(others)], f"{number}-w{one}", chance) for one in range(WORKERS)
    ]
    runs += [changed(new) for new in rows]
    chance.shuffle(runs)
    await asyncio.gather(*runs)
    return Counter([(won[new.id], await told(arena, new)) for new in rows])


async def told(arena: Race, new: NewReminder) -> str:
    """How the delivery of the first version stands, and whether it has an attempt."""
    shown = await arena.ledger.views.show_delivery(delivery_id(new.key))
    return f"{shown['status']} after {len(shown['attempts'])} attempts"


@pytest.mark.parametrize("change", [cancel, move])
def test_whoever_commits_first_wins(postgres_harness: PostgresHarness, change: Change) -> None:
    """A change that won leaves no attempt behind it; one that came too late says so, and the request goes on."""
    seen: Counter[tuple[bool, str]] = Counter()

    async def act(arena: Race) -> None:
        others = [await arena.ledger.another() for _ in range(2)]
        for number in range(ROUNDS):
            seen.update(await raced(arena, others, change, number))

    played(postgres_harness, act)
    assert set(seen) == {(True, f"{State.CANCELLED} after 0 attempts"), (False, f"{State.SENDING} after 1 attempts")}
