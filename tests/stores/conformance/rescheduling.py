"""Cases of reschedule: a reminder's next occurrence is moved, whatever a tick has seen before."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from duly.core import keys
from duly.core.firing import fire
from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Materialised
from duly.testing.builders import NAMESPACE, PROVIDERS
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene, delivery_id

REMINDER = keys.reminder_id(NAMESPACE, "acme", "r")


async def reschedule(scene: Scene, due_at: datetime, lasts: timedelta = timedelta(hours=8)) -> bool:
    """Move the reminder `r`; whether it had an occurrence left."""
    moved: bool = await scene.store.reschedule("ana", "the visit was moved", REMINDER, due_at, due_at + lasts)
    return moved


@case
async def an_occurrence_is_moved(scene: Scene) -> None:
    """A moved occurrence falls due at its new time, with its new deadline, and the reminder says who moved it."""
    await scene.schedule("r", due_in=3600)
    sooner = await scene.now() - timedelta(seconds=1)
    assert (await scene.tick()).created == 0
    assert await reschedule(scene, sooner, timedelta(hours=2))
    assert (await scene.tick()).created == 1
    row = await scene.claim_one()
    assert (row.id, row.due_at, row.deadline_at) == (delivery_id("r"), sooner, sooner + timedelta(hours=2))
    (event,) = (await scene.views.show_reminder(REMINDER))["events"]
    assert (event["kind"], event["actor"], event["reason"]) == ("rescheduled", "ana", "the visit was moved")
    assert (event["from"], event["to"]) == ("active", "active")


@case
async def a_moved_occurrence_is_not_due_before(scene: Scene) -> None:
    """What was due and has been moved is not due any more."""
    await scene.schedule("r")
    assert await reschedule(scene, await scene.now() + timedelta(hours=1))
    assert not await scene.store.due_remain()
    assert (await scene.tick()).created == 0


@case
async def an_older_tick_is_stale(scene: Scene) -> None:
    """A tick that had seen the reminder before it was moved writes nothing, even where the due time is the same."""
    await scene.schedule("r")
    batch = await scene.store.due(10)
    fired = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
    assert await reschedule(scene, batch.rows[0].due_at)
    assert await scene.store.materialise(fired) == Materialised(0, 0, 1)
    assert (await scene.tick()).created == 1


@case
async def a_begin_sees_that_the_reminder_was_changed(scene: Scene) -> None:
    """The revision rises, so that what admission saw of the reminder no longer begins."""
    await scene.schedule("r", due_in=-1)
    before = (await scene.store.due(10)).rows[0].revision
    assert await reschedule(scene, await scene.now() - timedelta(seconds=1))
    assert (await scene.store.due(10)).rows[0].revision == before + 1


@case
async def nothing_left_is_not_moved(scene: Scene) -> None:
    """A reminder that is done, cancelled or paused has no occurrence to move, and no event tells of one."""
    await scene.ready("r")
    later = await scene.now() + timedelta(hours=1)
    assert not await reschedule(scene, later)
    await scene.store.cancel("ana", "moved out", reminder=REMINDER, delivery=None)
    assert not await reschedule(scene, later)
    kinds = [event["kind"] for event in (await scene.views.show_reminder(REMINDER))["events"]]
    assert kinds == ["cancelled"]
    assert await scene.state(delivery_id("r")) == State.CANCELLED


@case
async def a_paused_reminder_is_not_moved(scene: Scene) -> None:
    """Only an active reminder is moved."""
    await scene.schedule("r", due_in=3600)
    await scene.ledger.change("update reminder set status = 'paused'")
    assert not await reschedule(scene, await scene.now() + timedelta(hours=2))


@case
async def an_unknown_reminder_is_not_moved(scene: Scene) -> None:
    """A reminder that nobody has is not found."""
    with pytest.raises(NotFound):
        await reschedule(scene, await scene.now())
