"""Cases of a reminder that is moved by the flow `revise`: a tick that has seen another moment overwrites nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from duly.core import keys
from duly.core.firing import fire
from duly.core.model import NewReminder, Outcome
from duly.core.revising import Revised
from duly.core.states import State
from duly.flows.revise import Wish, revise_reminder
from duly.intake import zones
from duly.ports import Materialised
from duly.testing.builders import NAMESPACE, PROVIDERS
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene, delivery_id

REMINDER = keys.reminder_id(NAMESPACE, "acme", "r")


async def reschedule(
    scene: Scene, new: NewReminder, due_at: datetime, lasts: timedelta = timedelta(hours=8)
) -> Revised:
    """Move a reminder; what became of that."""
    moved = replace(new, notify_at=due_at.isoformat(), next_due_at=due_at, deadline_at=due_at + lasts)
    wish = Wish(moved, "ana", "the visit was moved", keep_body=True)
    return (await revise_reminder(scene.store, zones.known, wish)).answer


@case
async def an_occurrence_is_moved(scene: Scene) -> None:
    """A moved occurrence falls due at its new time, with its new deadline, and the reminder says who moved it."""
    (new,) = await scene.schedule("r", due_in=3600)
    sooner = await scene.now() - timedelta(seconds=1)
    assert (await scene.tick()).created == 0
    assert await reschedule(scene, new, sooner, timedelta(hours=2)) is Revised.MOVED
    assert (await scene.tick()).created == 1
    row = await scene.claim_one()
    assert (row.id, row.due_at, row.deadline_at) == (delivery_id("r"), sooner, sooner + timedelta(hours=2))
    (event,) = (await scene.views.show_reminder(REMINDER))["events"]
    assert (event["kind"], event["actor"], event["reason"]) == ("revised", "ana", "the visit was moved")
    assert (event["from"], event["to"]) == ("active", "active")


@case
async def a_moved_occurrence_is_not_due_before(scene: Scene) -> None:
    """What was due and has been moved is not due any more."""
    (new,) = await scene.schedule("r")
    assert await reschedule(scene, new, await scene.now() + timedelta(hours=1)) is Revised.MOVED
    assert not await scene.store.due_remain()
    assert (await scene.tick()).created == 0


@case
async def an_older_tick_is_stale(scene: Scene) -> None:
    """A tick that had seen the reminder before it was moved writes nothing, even where the due time is the same."""
    (new,) = await scene.schedule("r")
    batch = await scene.store.due(10)
    fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
    assert await reschedule(scene, new, batch.rows[0].due_at) is Revised.MOVED
    assert await scene.store.materialise(fired) == Materialised(0, 0, 1)
    assert (await scene.tick()).created == 1


@case
async def a_begin_sees_that_the_reminder_was_changed(scene: Scene) -> None:
    """The revision rises, so that what admission saw of the reminder no longer begins."""
    (new,) = await scene.schedule("r", due_in=-1)
    before = (await scene.store.due(10)).rows[0].revision
    assert await reschedule(scene, new, await scene.now() - timedelta(seconds=1)) is Revised.MOVED
    assert (await scene.store.due(10)).rows[0].revision == before + 1


@case
async def what_is_over_is_not_moved(scene: Scene) -> None:
    """A reminder that was sent or cancelled has no occurrence to move, and no event tells of one."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.ACCEPTED)
    (other,) = await scene.schedule("other", due_in=3600)
    await scene.store.cancel("ana", "moved out", reminder=other.id, delivery=None)
    later = await scene.now() + timedelta(hours=1)
    assert await reschedule(scene, replace(other, id=REMINDER, key="r"), later) is Revised.ALREADY_SENT
    assert await reschedule(scene, other, later) is Revised.CANCELLED
    told = [await scene.views.show_reminder(identity) for identity in (REMINDER, other.id)]
    assert [event["kind"] for shown in told for event in shown["events"]] == ["cancelled"]
    assert await scene.state(delivery_id("r")) == State.SENT
