"""Cases of two stores on one database, as two processes have them: they wait, they never double."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from duly.core.firing import fire
from duly.core.model import Outcome, Scheduled
from duly.core.states import State
from duly.ports import ClaimOrder
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder, settlement, start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

ROUNDS = 6


@case
async def two_claims_share_the_rows(scene: Scene) -> None:
    """Two workers that claim at once never get the same row."""
    await scene.ready(*(f"r{i}" for i in range(60)))
    ours, theirs = scene.ledger.store, await scene.ledger.another()
    claims = await asyncio.gather(
        *(
            store.claim(ClaimOrder(HOOKS, "normal", 10, 0, worker, 60.0))
            for _ in range(ROUNDS)
            for store, worker in ((ours, "w1"), (theirs, "w2"))
        )
    )
    claimed = [row.id for claim in claims for row in claim.rows]
    assert len(claimed) == len(set(claimed))
    rest = await ours.claim(ClaimOrder(HOOKS, "normal", 100, 0, "w1", 60.0))
    assert len(claimed) + len(rest.rows) == 60


@case
async def two_ticks_create_once(scene: Scene) -> None:
    """Two ticks over the same due reminders create each delivery once."""
    await scene.schedule(*(f"r{i}" for i in range(200)))
    ours, theirs = scene.ledger.store, await scene.ledger.another()
    batch = await ours.due(200)
    fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
    written = await asyncio.gather(ours.materialise(fired), theirs.materialise(fired[::-1]))
    assert sum(one.created for one in written) == 200
    assert sum(one.stale for one in written) == 200
    assert await scene.ledger.value("select count(*) from work") == 200


@case
async def two_imports_create_once(scene: Scene) -> None:
    """Two imports of the same rows create each reminder once, in whatever order they come."""
    due = await scene.now() + timedelta(hours=1)
    rows = [new_reminder(f"r{i}", due, account=f"account-{i % 5}", ref=f"p{i % 9}") for i in range(100)]
    ours, theirs = scene.ledger.store, await scene.ledger.another()
    answers = await asyncio.gather(ours.schedule(rows), theirs.schedule(rows[::-1]))
    for first, second in zip(answers[0], answers[1][::-1], strict=True):
        assert {first, second} == {Scheduled.CREATED, Scheduled.ALREADY}


@case
async def a_cancel_and_a_claim_leave_one_winner(scene: Scene) -> None:
    """Of a cancel and a claim with its begin, whoever commits first wins: cancelled and unsent, or sending."""
    theirs = await scene.ledger.another()
    for round_ in range(ROUNDS):
        (reminder,) = await scene.schedule(f"r{round_}")
        await scene.tick()

        async def send() -> int:
            claim = await scene.ledger.store.claim(ClaimOrder(HOOKS, "normal", 10, 0, "w1", 60.0))
            begun = await scene.ledger.store.begin(HOOKS, "w1", [start(row) for row in claim.rows])
            return len(begun.numbers)

        begun, cancelled = await asyncio.gather(
            send(),
            theirs.cancel("ana", "moved out", reminder=reminder.id, delivery=None),
        )
        assert (begun, cancelled.cancelled, cancelled.sending) in ((1, 0, 1), (0, 1, 0))
        await scene.store.look_away()
        (line,) = (await scene.views.show_reminder(reminder.id))["deliveries"]
        assert line["status"] == (State.SENDING if begun else State.CANCELLED)


@case
async def two_begins_share_the_tokens(scene: Scene) -> None:
    """Two workers that begin at once do not spend one token twice."""
    await scene.ready(*(f"r{i}" for i in range(40)))
    ours, theirs = scene.ledger.store, await scene.ledger.another()
    mine = (await scene.claim(20, worker="w1")).rows
    yours = (await scene.claim(20, worker="w2")).rows
    begun = await asyncio.gather(
        ours.begin(HOOKS, "w1", [start(row, rate=10.0) for row in mine]),
        theirs.begin(HOOKS, "w2", [start(row, rate=10.0) for row in yours]),
    )
    assert 10 <= sum(len(one.numbers) for one in begun) <= 12
    assert sum(len(one.put_off) for one in begun) == 40 - sum(len(one.numbers) for one in begun)


@case
async def a_settle_and_a_taking_back_leave_one_truth(scene: Scene) -> None:
    """A late acceptance and the upkeep that took the row back end in sent, whoever is first."""
    theirs = await scene.ledger.another()
    for round_ in range(ROUNDS):
        row = await scene.sending(f"r{round_}")
        await scene.ledger.pass_time(61)
        accepted = [settlement(row, 1, Outcome.ACCEPTED, await scene.now())]
        await asyncio.gather(scene.ledger.store.settle(HOOKS, accepted, []), theirs.take_back(10, "upkeep"))
        assert await scene.state(row.id) == State.SENT
        assert await scene.outcomes(row.id) == [Outcome.ACCEPTED]


@case
async def two_reconcilers_share_the_rows(scene: Scene) -> None:
    """Two reconcilers that look at once never decide about the same row."""
    for number in range(10):
        await scene.uncertain(f"r{number}")
    theirs = await scene.ledger.another()
    looks = await asyncio.gather(
        *(store.doubtful([HOOKS], 4, 60.0) for store in (scene.ledger.store, theirs) for _ in range(3))
    )
    seen = [row.id for _, rows in looks for row in rows]
    assert len(seen) == len(set(seen))


@case
async def a_store_may_be_closed_twice(scene: Scene) -> None:
    """Closing gives the connections back; closing again is harmless, and the other store goes on."""
    theirs = await scene.ledger.another()
    await theirs.close()
    await theirs.close()
    assert await scene.store.namespace() == NAMESPACE
