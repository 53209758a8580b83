"""Cancels and newer versions against workers that fold and send summaries: whoever commits first wins.

Each round has some people with several late reminders each, workers on connections of their own, and a change of
every reminder. What was called off is in no message that began; everything else is in exactly one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final

import pytest

from duly.core.firing import fire
from duly.core.model import NewReminder, Outcome
from duly.ports import Claim, ClaimOrder
from duly.stores.postgres import PostgresStore
from duly.testing.builders import NAMESPACE, PROVIDERS, folding, new_reminder, settlement, start
from tests.stores.conformance.scene import HOOKS, delivery_id
from tests.stores.ledgers import PostgresHarness
from tests.stores.test_postgres_races import Race, played
from tests.stores.test_postgres_revisions import Change, cancel, move

ROUNDS: Final = 4
PEOPLE: Final = 20
EACH: Final = 5
WORKERS: Final = 4
#: After so many looks at an idle ledger a worker leaves.
LOOKS: Final = 5
REST_SECONDS_MAX: Final = 0.1
CHANGES_SECONDS: Final = 1.5
GATHERED: Final = (
    "update work set next_at = clock_timestamp() where delivery_id in ("
    " select delivery_id from work where state = 'waiting' for update skip locked)"
)


class Told:
    """Which reminders the messages that began have told of."""

    def __init__(self) -> None:
        self.keys: Counter[str] = Counter()

    async def work(self, arena: Race, store: PostgresStore, worker: str, chance: random.Random) -> None:
        """Fold what is late and begin what has gathered, until nothing more comes."""
        order, idle = ClaimOrder(HOOKS, "normal", 7, 0, worker, 60.0), 0
        while idle < LOOKS:
            await arena.ledger.change(GATHERED)
            await store.promote(1_000)
            claim = await store.claim(order)
            await asyncio.sleep(chance.uniform(0.0, REST_SECONDS_MAX))
            await self._send(store, worker, claim)
            await store.share_fates(1_000, worker)
            idle = 0 if claim.rows else idle + 1

    async def _send(self, store: PostgresStore, worker: str, claim: Claim) -> None:
        assert "cancelled" not in {row.reminder_status for row in claim.rows}
        late = [row for row in claim.rows if row.summarized]
        folded = await store.fold(worker, [folding(row) for row in late])
        await store.abandon(
            worker, [(row.id, row.fence) for row in claim.rows if row.summarized and row.id not in folded]
        )
        summaries = {row.id: row for row in claim.rows if not row.summarized}
        begun = await store.begin(HOOKS, worker, [start(row) for row in summaries.values()])
        await store.abandon(worker, [(row.id, row.fence) for row in summaries.values() if row.id not in begun.numbers])
        for identity in begun.numbers:
            self.keys.update(part["reminder"] for part in summaries[identity].data["reminders"])
        if begun.numbers:
            now = (await store.due(0)).now
            answers = [settlement(summaries[one], 1, Outcome.ACCEPTED, now) for one in begun.numbers]
            await store.settle(HOOKS, answers, [])


async def raced(arena: Race, others: list[PostgresStore], change: Change, number: int) -> set[bool]:
    """Let workers and changes meet, and compare what was told with what was called off; whether changes won."""
    due = (await arena.store.due(0)).now
    rows = [
        new_reminder(f"{number}-{person}-{one}", due, ref=f"{number}-{person}", late="summarize", event_version=1)
        for person in range(PEOPLE)
        for one in range(EACH)
    ]
    await arena.store.schedule(rows)
    batch = await arena.store.due(2 * len(rows))
    await arena.store.materialise([fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows])
    won, told, chance = {new.key: False for new in rows}, Told(), random.Random(number)
    asked = chance.sample(rows, len(rows) // 3)

    async def changed(new: NewReminder) -> None:
        await asyncio.sleep(chance.uniform(0.0, CHANGES_SECONDS))
        won[new.key] = await change(arena.store, new)

    runs: list[Coroutine[Any, Any, None]] = [
        told.work(arena, others[one % len(others)], f"{number}-w{one}", chance) for one in range(WORKERS)
    ]
    await asyncio.gather(*runs, *map(changed, asked))
    assert told.keys == Counter(key for key, called_off in won.items() if not called_off)
    for new in rows:
        status = (await arena.ledger.views.show_delivery(delivery_id(new.key)))["status"]
        assert status == ("cancelled" if won[new.key] else "sent")
    return {won[new.key] for new in asked}


@pytest.mark.parametrize("change", [cancel, move])
def test_a_summary_tells_of_what_was_not_called_off(postgres_harness: PostgresHarness, change: Change) -> None:
    """A change that won is in no message that began, however late it came; one that lost is in exactly one."""
    seen: set[bool] = set()

    async def act(arena: Race) -> None:
        others = [await arena.ledger.another() for _ in range(2)]
        for number in range(ROUNDS):
            seen.update(await raced(arena, others, change, number))

    played(postgres_harness, act)
    assert seen == {True, False}


def test_a_summary_has_a_deadline_of_its_own(postgres_harness: PostgresHarness) -> None:
    """It is that of the member that ends first, so nothing in it is begun too late."""

    async def act(arena: Race) -> None:
        due = (await arena.store.due(0)).now
        rows = [new_reminder(f"r{one}", due, late="summarize", lasts=timedelta(hours=one)) for one in (3, 1, 2)]
        await arena.store.schedule(rows)
        batch = await arena.store.due(10)
        await arena.store.materialise([fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows])
        claim = await arena.store.claim(ClaimOrder(HOOKS, "normal", 10, 0, "w", 60.0))
        await arena.store.fold("w", [folding(row) for row in claim.rows])
        await arena.ledger.change(GATHERED)
        await arena.store.promote(10)
        (summary,) = (await arena.store.claim(ClaimOrder(HOOKS, "normal", 10, 0, "w", 60.0))).rows
        assert summary.deadline_at == due + timedelta(hours=1)

    played(postgres_harness, act)
