"""Cases of cancel: whoever commits first wins, and what may have been accepted is not called unsent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from duly.core import keys
from duly.core.model import Channel, Outcome
from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Cancelled
from duly.testing.builders import NAMESPACE
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene, delivery_id

WHY = "moved out"


async def cancel_all(scene: Scene, key: str = "r") -> Cancelled:
    """Cancel a reminder; all that is counted."""
    reminder = keys.reminder_id(NAMESPACE, "acme", key)
    cancelled: Cancelled = await scene.store.cancel("ana", WHY, reminder=reminder, delivery=None)
    return cancelled


async def cancel(scene: Scene, key: str = "r") -> Cancelled:
    """Cancel a reminder; what became of its open deliveries, and how many were final."""
    return Cancelled(*(await cancel_all(scene, key))[:4])


@case
async def a_reminder_is_cancelled_before_it_is_due(scene: Scene) -> None:
    """A cancelled reminder never becomes due, and says that it is cancelled."""
    (row,) = await scene.schedule("r", due_in=60)
    assert await cancel(scene) == Cancelled(0, 0, 0, 0)
    await scene.ledger.pass_time(61)
    assert (await scene.store.due(10)).rows == []
    assert await scene.store.due_remain() is False
    shown = await scene.views.show_reminder(row.id)
    assert (shown["status"], shown["next_due_at"], shown["deliveries"]) == ("cancelled", None, [])


@case
async def what_has_not_begun_is_cancelled(scene: Scene) -> None:
    """Ready, leased and waiting deliveries are final at once, with reason, actor and event."""
    states: tuple[tuple[State, Callable[..., Awaitable[Any]]], ...] = (
        (State.READY, scene.ready),
        (State.LEASED, scene.leased),
        (State.WAITING, scene.waiting),
    )
    for state, make in states:
        await make(state)
        assert await cancel(scene, state) == Cancelled(1, 0, 0, 0)
        shown = await scene.show(delivery_id(state))
        assert (shown["status"], shown["reason"]) == (State.CANCELLED, WHY)
        assert await scene.events(delivery_id(state)) == [("cancelled", state, "cancelled", "ana", WHY)]
    assert (await scene.claim()).rows == []


@case
async def a_cancel_raises_the_revision(scene: Scene) -> None:
    """A cancel changes the reminder's revision, so that nothing that was admitted before it can begin."""
    row = await scene.sending("r")
    await cancel(scene)
    await scene.settle(row, Outcome.REFUSED)
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert again.reminder_status == "cancelled"
    assert again.revisions.reminder == row.revisions.reminder + 1


@case
async def a_repeated_cancel_finds_it_done(scene: Scene) -> None:
    """A second cancel finds nothing to do and leaves no second event."""
    (delivery,) = await scene.ready("r")
    assert await cancel(scene) == Cancelled(1, 0, 0, 0)
    assert await cancel(scene) == Cancelled(0, 0, 0, 1)
    assert len(await scene.events(delivery)) == 1
    revision = await scene.ledger.value("select revision from reminder")
    assert revision == 2


@case
async def what_has_begun_is_not_called_back(scene: Scene) -> None:
    """A delivery that is being sent is counted as sending, and its outcome counts."""
    row = await scene.sending("r")
    assert await cancel(scene) == Cancelled(0, 1, 0, 0)
    assert await scene.state(row.id) == State.SENDING
    await scene.settle(row, Outcome.ACCEPTED)
    assert await scene.state(row.id) == State.SENT


@case
async def doubt_is_not_cancelled(scene: Scene) -> None:
    """A delivery that may have been accepted is uncertain and closed, and will not be sent again."""
    states: tuple[tuple[str, Callable[..., Awaitable[bytes]]], ...] = (
        ("ready", scene.ready_in_doubt),
        ("waiting", scene.waiting_in_doubt),
    )
    for key, make in states:
        delivery = await make(key)
        assert await cancel(scene, key) == Cancelled(0, 0, 1, 0)
        assert await scene.state(delivery) == State.UNCERTAIN
        looked = await scene.looked_at()
        assert (looked.id, looked.closed, looked.reason) == (delivery, True, "cancelled_in_doubt")
        _, _, target, actor, _ = (await scene.events(delivery))[-1]
        assert (target, actor) == ("uncertain", "ana")


@case
async def a_lease_in_doubt_is_taken_away(scene: Scene) -> None:
    """A leased row in doubt is taken from its worker, who can no longer begin it."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    assert await cancel(scene) == Cancelled(0, 0, 1, 0)
    assert (await scene.begin(row)).numbers == {}
    assert not await scene.decide(row, State.LEASED, State.READY)
    looked = await scene.looked_at()
    assert (looked.closed, looked.fence > row.fence) == (True, True)


@case
async def what_is_uncertain_or_held_is_closed(scene: Scene) -> None:
    """Uncertain and held rows stay where they are, and the rungs that send are closed."""
    uncertain = await scene.uncertain("uncertain")
    assert await cancel(scene, "uncertain") == Cancelled(0, 0, 1, 0)
    assert await scene.state(uncertain.id) == State.UNCERTAIN
    assert (await scene.looked_at()).closed
    held = await scene.held("held")
    assert await cancel(scene, "held") == Cancelled(0, 0, 1, 0)
    assert await scene.state(held.id) == State.HELD


@case
async def a_reconciler_cannot_send_what_was_cancelled(scene: Scene) -> None:
    """A cancel that commits between reconcile's look and its decision keeps the resend from happening."""
    row = await scene.uncertain("r")
    looked = await scene.looked_at()
    await cancel(scene)
    assert not await scene.decide(looked, State.UNCERTAIN, State.READY, reason="resend_same_key")
    assert await scene.state(row.id) == State.UNCERTAIN
    assert (await scene.claim()).rows == []


@case
async def a_cancel_counts_each_delivery(scene: Scene) -> None:
    """Each delivery of a reminder is counted once, by what became of it."""
    channels = (Channel.EMAIL, Channel.WEBHOOK)
    await scene.ready("r", channels=channels)
    row = await scene.claim_one()
    await scene.begin(row)
    assert await cancel(scene) == Cancelled(1, 1, 0, 0)
    await scene.settle(row, Outcome.ACCEPTED)
    assert await cancel(scene) == Cancelled(0, 0, 0, 2)


@case
async def one_delivery_may_be_cancelled(scene: Scene) -> None:
    """One delivery is cancelled without its reminder and its other channels."""
    email, webhook = await scene.ready("r", channels=(Channel.EMAIL, Channel.WEBHOOK))
    for answer in (Cancelled(1, 0, 0, 0), Cancelled(0, 0, 0, 1, before=1)):
        assert await scene.store.cancel("ana", WHY, reminder=None, delivery=email) == answer
    assert (await scene.state(email), await scene.state(webhook)) == (State.CANCELLED, State.READY)
    assert (await scene.claim_one()).reminder_status == "done"


@case
async def other_reminders_are_left_alone(scene: Scene) -> None:
    """A cancel touches no other reminder."""
    await scene.ready("r")
    (other,) = await scene.ready("other")
    await cancel(scene)
    assert await scene.state(other) == State.READY


@case
async def nothing_by_that_id_is_not_found(scene: Scene) -> None:
    """An id that names nothing raises NotFound."""
    with pytest.raises(NotFound):
        await scene.store.cancel("ana", WHY, reminder=bytes(16), delivery=None)
    with pytest.raises(NotFound):
        await scene.store.cancel("ana", WHY, reminder=None, delivery=bytes(16))


@case
async def an_expired_reminder_counts_as_final(scene: Scene) -> None:
    """A delivery that had ended before the cancel is counted as final and keeps its reason."""
    await scene.schedule("r", due_in=-7200, lasts=timedelta(hours=1))
    await scene.tick()
    assert await cancel(scene) == Cancelled(0, 0, 0, 1)
    assert await scene.state(delivery_id("r")) == State.EXPIRED


@case
async def a_cancel_tells_what_it_came_too_late_for(scene: Scene) -> None:
    """Of what was final it says how many were sent; a second cancel says that it was cancelled before."""
    row = await scene.leased("r")
    await scene.begin(row)
    await scene.settle(row, Outcome.ACCEPTED)
    assert await cancel_all(scene) == Cancelled(0, 0, 0, 1, sent=1)
    assert await cancel_all(scene) == Cancelled(0, 0, 0, 1, sent=1, before=1)
    assert await scene.store.cancel("ana", WHY, reminder=None, delivery=row.id) == Cancelled(0, 0, 0, 1, sent=1)


@case
async def a_cancel_tells_what_does_not_come_any_more(scene: Scene) -> None:
    """A reminder with an occurrence to come is stopped, once; then it was cancelled before."""
    await scene.schedule("later", due_in=60)
    assert await cancel_all(scene, "later") == Cancelled(0, 0, 0, 0, stopped=1)
    assert await cancel_all(scene, "later") == Cancelled(0, 0, 0, 0, before=1)


@case
async def a_second_cancel_keeps_its_reason(scene: Scene) -> None:
    """It changes nothing and says that it was cancelled before; who wanted it, and why, is on record, once."""
    await scene.ready("r")
    await cancel_all(scene)
    reminder = keys.reminder_id(NAMESPACE, "acme", "r")
    for _ in range(2):
        done = await scene.store.cancel("ben", "sold", reminder=reminder, delivery=None)
        assert (done.before, done.cancelled, done.final) == (1, 0, 1)
        done = await scene.store.cancel("ben", "sold", reminder=None, delivery=delivery_id("r"))
        assert (done.before, done.cancelled, done.final) == (1, 0, 1)
    events = (await scene.views.show_reminder(reminder))["events"]
    told = [(event["kind"], event["from"], event["actor"], event["reason"]) for event in events]
    assert told == [("cancelled", "done", "ana", WHY), ("cancelled", "cancelled", "ben", "sold")]
    assert [event[-1] for event in await scene.events(delivery_id("r"))] == [WHY, "sold"]
