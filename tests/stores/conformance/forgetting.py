"""Cases of what a ledger does not know: forgotten by a restore, called off in the air, or told by nobody it knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from duly.core.model import Outcome
from duly.core.revising import Revised
from duly.core.states import State
from duly.errors import InputError
from duly.ports import Cancelled, Revision, Settled
from duly.testing.builders import looked, settlement
from tests.stores.conformance import case
from tests.stores.conformance.rescheduling import reschedule
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

HOUR = timedelta(hours=1)


async def guarded(scene: Scene) -> None:
    """A guard that covers the last hour."""
    await scene.store.heartbeat("worker")
    await scene.store.open_guard("ana", "restored", since=await scene.now() - HOUR)


# --- restored ------------------------------------------------------------------------------------


@case
async def what_comes_too_late_now_may_have_been_sent_in_time(scene: Scene) -> None:
    """Under a guard a tick writes no delivery as expired: it is in doubt, and the ladder knows its deadline."""
    await scene.schedule("r", due_in=-1800, lasts=timedelta(minutes=10))
    await guarded(scene)
    assert (await scene.tick()).created == 1
    assert await scene.state(delivery_id("r")) == State.UNCERTAIN
    assert (await scene.looked_at()).restored


@case
async def what_nobody_could_send_is_not_in_doubt(scene: Scene) -> None:
    """Without a provider it expires, guard or not."""
    await scene.schedule("r", due_in=-1800, lasts=timedelta(minutes=10))
    await guarded(scene)
    assert (await scene.tick({})).created == 1
    assert await scene.state(delivery_id("r")) == State.EXPIRED


@case
async def a_reschedule_does_not_lead_out_of_the_guard(scene: Scene) -> None:
    """What was due under a guard may have been sent: it is left to the tick. What is due later may be moved."""
    (covered,) = await scene.schedule("r", due_in=-1800)
    (later,) = await scene.schedule("later", due_in=1800)
    seen = await scene.store.standing(covered.id, ["once"])
    await guarded(scene)
    moment = await scene.now() + HOUR
    assert await reschedule(scene, covered, moment) is Revised.UNDER_GUARD
    assert await reschedule(scene, later, moment) is Revised.MOVED
    await scene.store.close_guard("ana", "all is in")
    assert await reschedule(scene, covered, moment) is Revised.UNDER_GUARD
    stale = Revision(replace(covered, next_due_at=moment), seen.revision, seen.next_due_at, 1, (), keep_body=True)
    assert not await scene.store.revise("ana", "seen before the guard was opened", stale)
    await scene.tick()
    assert await scene.state(delivery_id("r")) == State.UNCERTAIN


@case
async def under_a_guard_ready_rows_keep_nobody_waiting(scene: Scene) -> None:
    """What is ready is an operator's step then, and no worker's."""
    row = await scene.uncertain("r")
    await guarded(scene)
    doubtful = await scene.looked_at()
    assert await scene.decide(doubtful, State.UNCERTAIN, State.READY, reason="resend_same_key")
    assert row.id == doubtful.id
    assert await scene.store.next_step([HOOKS]) is None
    await scene.store.close_guard("ana", "all is in")
    assert await scene.store.next_step([HOOKS]) == 0.0


@case
async def what_is_in_the_air_under_a_new_guard_may_arrive_until_its_lease_ends(scene: Scene) -> None:
    """Its settling time counts from there: a miss before would say nothing about a request that is still on its way."""
    row = await scene.sending("r")
    await guarded(scene)
    doubtful = await scene.looked_at()
    assert doubtful.id == row.id
    assert doubtful.last_unknown_at is not None
    assert doubtful.last_unknown_at >= row.lease_until


@case
async def misses_from_before_a_restore_cover_nothing(scene: Scene) -> None:
    """Not those of a held row either."""
    row = await scene.held("r")
    await scene.store.looked("somebody", [looked(row, await scene.now(), misses=1, missed=True)])
    await guarded(scene)
    _, standing = await scene.store.held(row.id)
    assert (standing.misses, standing.missed_at, standing.restored) == (0, None, True)


@case
async def a_backup_that_was_made_under_a_guard_is_in_doubt_again(scene: Scene) -> None:
    """What had been looked up in vain by then may have been sent since: opening the guard again doubts it again."""
    await scene.ready("r")
    await guarded(scene)
    row = await scene.looked_at()
    assert await scene.decide(row, State.UNCERTAIN, State.WAITING, reason="looked_up_in_vain", covered=True)
    await scene.store.open_guard("ana", "restored once more")
    assert await scene.state(row.id) == State.UNCERTAIN
    assert (await scene.looked_at()).restored


@case
async def who_moved_a_guard_back_stands_in_its_words(scene: Scene) -> None:
    """With his reason; asked for nothing new, it stays as it is."""
    await guarded(scene)
    earlier = await scene.now() - 2 * HOUR
    for _ in range(2):
        await scene.store.open_guard("bob", "the backup is older", since=earlier)
    (guard,) = (await scene.views.guard())["guards"]
    assert guard["why"] == "restored; moved back by bob: the backup is older"


@case
async def only_the_guard_that_was_meant_is_closed(scene: Scene) -> None:
    """Another one may have been opened since it was looked at."""
    await guarded(scene)
    with pytest.raises(InputError):
        await scene.store.close_guard("ana", "all is in", 2)
    assert (await scene.store.heartbeat("worker")).guard is not None
    assert (await scene.store.close_guard("ana", "all is in", 1)).number == 1


# --- evidence ------------------------------------------------------------------------------------


@case
async def evidence_of_a_delivery_that_is_not_there_leaves_nothing(scene: Scene) -> None:
    """It may come to be, after a restore, and must not find a foreign answer as its own."""
    await scene.schedule("r")
    told = settlement(Leased(delivery_id("r")), 1, Outcome.ACCEPTED, await scene.now())
    assert await scene.store.settle(HOOKS, [told], []) == Settled(frozenset(), 0, 0)
    await scene.tick()
    row = await scene.claim_one()
    assert (await scene.begin(row)).numbers == {row.id: 1}
    await scene.settle(row, Outcome.REFUSED)
    assert await scene.outcomes(row.id) == ["refused"]


@case
async def evidence_for_an_open_row_says_who_knew(scene: Scene) -> None:
    """Acceptance that is not the answer of the attempt under way leaves an event, with the request id it brought."""
    row = await scene.uncertain("r")
    told = settlement(Leased(row.id), 1, Outcome.ACCEPTED, await scene.now(), reason="found_by_look_up")
    told = told._replace(result=told.result._replace(request_id="m-1"))
    assert (await scene.store.settle(HOOKS, [told], [])).moved == {row.id}
    (event,) = (await scene.show(row.id))["events"]
    assert (event["kind"], event["from"], event["to"]) == ("accepted", "uncertain", "sent")
    assert (event["actor"], event["reason"]) == ("evidence", "found_by_look_up")
    assert event["evidence"] == {"request_id": "m-1", "attempt": 1}


@case
async def evidence_against_a_definite_answer_is_not_silent(scene: Scene) -> None:
    """A result stays as it is; why the delivery is sent all the same stands in its timeline."""
    row = await scene.waiting("r")
    told = settlement(Leased(row.id), 1, Outcome.ACCEPTED, await scene.now(), reason="echo")
    await scene.store.settle(HOOKS, [told], [])
    assert await scene.outcomes(row.id) == ["refused"]
    assert await scene.state(row.id) == State.SENT
    assert [event[:3] for event in await scene.events(row.id)] == [("accepted", "waiting", "sent")]


@case
async def an_answer_of_its_own_needs_no_event(scene: Scene) -> None:
    """The attempt tells the story."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.ACCEPTED)
    assert await scene.events(row.id) == []


# --- called off ----------------------------------------------------------------------------------


async def call_off(scene: Scene, delivery: bytes) -> Cancelled:
    """Cancel one delivery, and not its reminder."""
    cancelled: Cancelled = await scene.store.cancel("ana", "not needed", reminder=None, delivery=delivery)
    return cancelled


@case
async def a_delivery_that_is_called_off_in_the_air_is_not_claimed_as_before(scene: Scene) -> None:
    """Refused for now, it comes back as called off, so the next admission ends it; its timeline says who did it."""
    row = await scene.sending("r")
    assert await call_off(scene, row.id) == Cancelled(0, 1, 0, 0)
    await call_off(scene, row.id)
    assert await scene.events(row.id) == [("cancelled", "sending", "sending", "ana", "not needed")]
    await scene.settle(row, Outcome.REFUSED)
    await scene.store.promote(10)
    assert (await scene.claim_one()).reminder_status == "called_off"


@case
async def a_delivery_that_is_called_off_in_doubt_says_so_to_the_ladder(scene: Scene) -> None:
    """Also where it is held, or uncertain."""
    row = await scene.uncertain("r")
    assert await call_off(scene, row.id) == Cancelled(0, 0, 1, 0)
    doubtful = await scene.looked_at()
    assert (doubtful.closed, doubtful.refused) == (True, "called_off")
    assert await scene.decide(doubtful, State.UNCERTAIN, State.WAITING, reason="looked_up_in_vain", covered=True)
    await scene.store.promote(10)
    assert (await scene.claim_one()).reminder_status == "called_off"


@case
async def a_redrive_does_not_forget_that_a_delivery_was_called_off(scene: Scene) -> None:
    """Rejected in the air after its cancel, and returned to work, it is ended by the next admission."""
    row = await scene.sending("r")
    await call_off(scene, row.id)
    await scene.settle(row, Outcome.REJECTED)
    assert await scene.store.requeue("ana", "mended", [row.id]) == {row.id}
    assert (await scene.claim_one()).reminder_status == "called_off"


@case
async def others_are_not_called_off(scene: Scene) -> None:
    """Only the delivery that was named."""
    (first, second) = await scene.ready("a", "b")
    await call_off(scene, first)
    row = await scene.claim_one()
    assert (row.id, row.reminder_status) == (second, "done")


class Leased:
    """A delivery that somebody knows by its id alone: no fence fits."""

    def __init__(self, delivery: bytes) -> None:
        self.id, self.fence = delivery, -1
