"""Cases of holds: a hold can be read and is shown, raises its alarm once, comes at its end, and is never silent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly.core.states import State
from duly.errors import NotFound
from duly.testing.builders import looked
from tests.stores.conformance import case
from tests.stores.conformance.looking import MINUTE, look
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

HOLD = ["id", "account", "reminder", "occurrence", "channel", "provider", "reason", "attempts", "held_since"]
HOLD += ["age_seconds", "alarmed", "next_at", "deadline_at"]


@case
async def a_held_row_can_be_read(scene: Scene) -> None:
    """A held delivery is read as it stands, without a fence; what is not held is not found."""
    was = await scene.held("r")
    now, row = await scene.store.held(was.id)
    assert (row.state, row.fence, row.unknown, row.reason) == (State.HELD, was.fence, 1, "no_way_to_ask")
    assert row.since <= now <= await scene.now()
    assert row.frozen is not None
    assert (await scene.store.held(was.id))[1] == row
    assert await scene.decide(row, State.HELD, State.READY)
    for delivery in (was.id, delivery_id("nobody")):
        with pytest.raises(NotFound):
            await scene.store.held(delivery)


@case
async def a_hold_raises_its_alarm_once(scene: Scene) -> None:
    """A hold comes at its alarm, which leaves one event, and again at its end."""
    await scene.uncertain("r")
    alarm_at = await scene.now() + MINUTE
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.HELD, reason="no_way_to_ask", next_at=alarm_at)
    assert (await scene.store.doubtful([HOOKS], 10, 60.0))[1] == []
    await scene.ledger.pass_time(61)
    held = await scene.looked_at()
    assert (held.state, held.alarmed, held.unknown) == (State.HELD, False, 1)
    one = looked(held, await scene.now() + timedelta(days=1), alarmed=True)
    for _ in range(2):
        assert await scene.store.looked("reconcile", [one]) == {held.id}
    events = [event for event in await scene.events(held.id) if event[0] == "hold_alarm"]
    assert events == [("hold_alarm", "held", "held", "reconcile", "hold_alarm")]
    assert (await scene.store.doubtful([HOOKS], 10, 60.0))[1] == []
    await scene.ledger.pass_time(24 * 3600)
    ended = await scene.looked_at()
    assert (ended.state, ended.alarmed, ended.fence) == (State.HELD, True, held.fence + 1)
    assert await scene.decide(ended, State.HELD, State.UNCONFIRMED, reason="hold_ended")


@case
async def an_alarm_ends_with_its_hold(scene: Scene) -> None:
    """A row that is held a second time has its alarm before it again."""
    held = await scene.held("r")
    assert await look(scene, held, alarmed=True)
    assert (await scene.store.held(held.id))[1].alarmed
    assert await scene.decide(held, State.HELD, State.READY)
    row = await scene.claim_one()
    await scene.decide(row, State.LEASED, State.UNCERTAIN, reason="key_window_closed")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.HELD, reason="key_window_closed")
    assert not (await scene.store.held(held.id))[1].alarmed


@case
async def a_hold_may_be_looked_into_again(scene: Scene) -> None:
    """Reconcile may take a held row back to look on: it is uncertain as before, and no alarm is on it."""
    held = await scene.held("r")
    assert await look(scene, held, timedelta(), alarmed=True)
    held = await scene.looked_at()
    assert await scene.decide(held, State.HELD, State.UNCERTAIN, reason="answered_again")
    seen = await scene.looked_at()
    assert (seen.state, seen.alarmed, seen.unknown, seen.reason) == (State.UNCERTAIN, False, 1, "answered_again")


@case
async def only_a_hold_has_an_alarm(scene: Scene) -> None:
    """An uncertain row is not alarmed, whatever a look says."""
    await scene.uncertain("r")
    assert await look(scene, await scene.looked_at(), timedelta(), alarmed=True)
    seen = await scene.looked_at()
    assert not seen.alarmed
    assert await scene.events(seen.id) == []


@case
async def reconcile_is_bounded_over_both(scene: Scene) -> None:
    """Held and uncertain rows together are no more than asked for."""
    for held in [await scene.held(key) for key in ("held-1", "held-2")]:
        assert await look(scene, held, timedelta())
    for key in ("r1", "r2", "r3"):
        await scene.uncertain(key)
    batches = [(await scene.store.doubtful([HOOKS], 3, 60.0))[1] for _ in range(3)]
    assert [len(batch) for batch in batches] == [3, 2, 0]
    assert sorted(row.state for batch in batches for row in batch) == [State.HELD] * 2 + [State.UNCERTAIN] * 3


@case
async def holds_are_shown_oldest_first(scene: Scene) -> None:
    """The view of holds has its words, the oldest first, for one account or all, and no more than asked for."""
    first = await scene.held("first")
    await scene.ledger.pass_time(10)
    assert await look(scene, first, alarmed=True)
    await scene.held("second", account="other")
    await scene.uncertain("not held")
    holds = await scene.views.holds(None, 10)
    assert [list(hold) for hold in holds] == [HOLD, HOLD]
    assert [hold["reminder"] for hold in holds] == ["first", "second"]
    assert [hold["alarmed"] for hold in holds] == [True, False]
    assert (holds[0]["account"], holds[0]["provider"], holds[0]["reason"]) == ("acme", HOOKS, "no_way_to_ask")
    assert (holds[0]["channel"], holds[0]["occurrence"], holds[0]["attempts"]) == ("webhook", "once", 1)
    assert 9 < holds[0]["age_seconds"] < 60
    assert all(holds[0][word].endswith("Z") for word in ("held_since", "next_at", "deadline_at"))
    assert [hold["reminder"] for hold in await scene.views.holds("other", 10)] == ["second"]
    assert [hold["reminder"] for hold in await scene.views.holds(None, 1)] == ["first"]
    assert await scene.views.holds("nobody", 10) == []
