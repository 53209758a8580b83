"""Cases of the restore guard: what it shuts, what it puts in doubt and for how long, and how it opens by itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from duly.core.model import Begun, Guard, Outcome
from duly.core.states import State
from duly.errors import InputError
from duly.testing.builders import settlement, start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

HOUR = timedelta(hours=1)


async def open_guard(scene: Scene, **how: Any) -> Guard:
    """A guard opened by hand, after a sign of life."""
    await scene.store.heartbeat("worker")
    guard: Guard = await scene.store.open_guard("ana", "restored from a backup", **how)
    return guard


async def restored_event(scene: Scene, delivery: bytes) -> tuple[str | None, str | None, str, str]:
    """From, to, actor and reason of the delivery's only event `restored`."""
    ((_, origin, target, actor, reason),) = [event for event in await scene.events(delivery) if event[0] == "restored"]
    return origin, target, actor, reason


def shown(moment: datetime) -> str:
    """A moment as views tell it."""
    return moment.isoformat().removesuffix("+00:00") + "Z"


# --- opening -------------------------------------------------------------------------------------


@case
async def a_guard_counts_from_the_last_sign_of_life(scene: Scene) -> None:
    """A guard opened by hand says who opened it, when and why, and begins with the last heartbeat on record."""
    last = (await scene.store.heartbeat("worker")).now
    guard: Guard = await scene.store.open_guard("ana", "restored from a backup")
    assert (guard.number, guard.opened_by, guard.why) == (1, "ana", "restored from a backup")
    assert abs(guard.since - last) < timedelta(seconds=1)
    assert guard.since <= guard.opened_at
    assert (guard.closed_at, guard.closed_by, guard.closing_why) == (None, None, None)


@case
async def a_guard_is_seen(scene: Scene) -> None:
    """The view shows the open guard, all guards newest first, and what is in doubt of them."""
    assert await scene.views.guard() == {"open": None, "guards": [], "covered": []}
    await scene.ready("r")
    first = await open_guard(scene)
    seen = await scene.views.guard()
    assert seen["open"] == seen["guards"][0]
    assert (seen["open"]["number"], seen["open"]["since"]) == (first.number, shown(first.since))
    due_at = (await scene.show(delivery_id("r")))["due_at"]
    assert seen["covered"] == [{"provider": HOOKS, "state": "uncertain", "count": 1, "oldest_due_at": due_at}]
    await scene.store.close_guard("ana", "all is in")
    second = await open_guard(scene)
    seen = await scene.views.guard()
    assert [guard["number"] for guard in seen["guards"]] == [second.number, first.number]
    assert seen["guards"][1]["closing_why"] == "all is in"


@case
async def a_guard_moves_back_only(scene: Scene) -> None:
    """Opening an open guard again moves its beginning back, never forward, and leaves who opened it."""
    first = await open_guard(scene)
    earlier = first.since - HOUR
    moved: Guard = await scene.store.open_guard("bob", "the backup is older", since=earlier)
    assert moved == first._replace(since=earlier, why=moved.why)
    assert moved.why == f"{first.why}; moved back by bob: the backup is older"
    assert await scene.store.open_guard("bob", "again", since=first.since) == moved


@case
async def a_guard_does_not_begin_ahead(scene: Scene) -> None:
    """A beginning after the last sign of life is refused, and no guard is opened."""
    now = (await scene.store.heartbeat("worker")).now
    with pytest.raises(InputError):
        await scene.store.open_guard("ana", "restored", since=now + HOUR)
    assert (await scene.views.guard())["open"] is None


@case
async def opening_again_changes_nothing(scene: Scene) -> None:
    """The same guard opened again puts nothing in doubt twice."""
    (delivery,) = await scene.ready("r")
    guard = await open_guard(scene)
    before = await scene.show(delivery)
    assert await scene.store.open_guard("ana", "again", since=guard.since) == guard
    assert await scene.show(delivery) == before


# --- what is open --------------------------------------------------------------------------------


async def one_of_each(scene: Scene) -> dict[str, bytes]:
    """A delivery in every state that is open, by its name."""
    found = {
        "waiting": (await scene.waiting("waiting", wait=HOUR)).id,
        "held": (await scene.held("held")).id,
        "uncertain": (await scene.uncertain("uncertain")).id,
        "sending": (await scene.sending("sending")).id,
    }
    found["folded"] = (await scene.folded("folded"))[0]
    found["leased"] = (await scene.leased("leased")).id
    (found["ready"],) = await scene.ready("ready")
    return found


@case
async def every_open_row_starts_in_doubt(scene: Scene) -> None:
    """What is open when the guard opens is in doubt, with an event; what is held or folded stays where it is."""
    found = await one_of_each(scene)
    for state, delivery in found.items():
        assert await scene.state(delivery) == state
    await open_guard(scene)
    for state, delivery in found.items():
        after = state if state in ("held", "folded") else "uncertain"
        assert (await scene.show(delivery))["status"] == after
        assert await restored_event(scene, delivery) == (state, after, "ana", "restored")
        if after == "uncertain":
            assert (await scene.show(delivery))["reason"] == "restored"
    marked = await scene.ledger.value("select count(*) from work where restored and doubt and not begun")
    assert marked == len(found) + 1  # and the summary
    assert await scene.outcomes(found["sending"]) == ["unknown"]


@case
async def what_was_restored_may_have_been_sent_once_more(scene: Scene) -> None:
    """A restored row counts one attempt that nobody remembers, from its due time on, beside those on record."""
    tried = (await scene.waiting("tried", wait=HOUR)).id
    doubted = (await scene.uncertain("doubted")).id
    (fresh,) = await scene.ready("fresh")
    await open_guard(scene)
    rows = {row.id: row for row in (await scene.store.doubtful([HOOKS], 10, 60.0))[1]}
    assert {row.restored for row in rows.values()} == {True}
    assert [rows[delivery].unknown for delivery in (fresh, tried, doubted)] == [1, 1, 2]
    assert [rows[delivery].last_unknown for delivery in (fresh, tried, doubted)] == [None, None, 1]
    assert {row.first_unknown_at - row.due_at for row in rows.values() if row.first_unknown_at} == {timedelta()}
    assert {row.misses for row in rows.values()} == {0}
    assert rows[fresh].last_unknown_at == rows[fresh].since


@case
async def whoever_held_a_row_has_lost_it(scene: Scene) -> None:
    """Nothing that was claimed before begins, is decided or renewed; only acceptance is still believed."""
    leased = await scene.leased("leased")
    sending = await scene.sending("sending")
    accepted = await scene.sending("accepted")
    await open_guard(scene)
    assert await scene.begin(leased) == Begun({}, {})
    assert not await scene.decide(leased, State.LEASED, State.READY)
    assert await scene.store.renew("w1", [(sending.id, sending.fence)], 60.0) == frozenset()
    assert (await scene.settle(sending, Outcome.REFUSED)).moved == frozenset()
    assert await scene.outcomes(sending.id) == ["refused"]
    assert (await scene.settle(accepted, Outcome.ACCEPTED)).moved == {accepted.id}
    states = [await scene.state(row.id) for row in (leased, sending, accepted)]
    assert states == [State.UNCERTAIN, State.UNCERTAIN, State.SENT]


@case
async def whoever_decided_about_a_hold_looks_again(scene: Scene) -> None:
    """A decision about a held row that was read before the guard opened is not applied."""
    await scene.held("r")
    _, before = await scene.store.held(delivery_id("r"))
    await open_guard(scene)
    assert not await scene.decide(before, State.HELD, State.READY)
    _, after = await scene.store.held(delivery_id("r"))
    assert (after.restored, after.unknown) == (True, before.unknown + 1)
    assert await scene.decide(after, State.HELD, State.UNCONFIRMED)


@case
async def the_door_is_shut(scene: Scene) -> None:
    """Under a guard nothing is claimed, not even what reconcile has returned to ready."""
    (delivery,) = await scene.ready("r")
    await open_guard(scene)
    assert (await scene.claim()).rows == []
    row = await scene.looked_at()
    assert await scene.decide(row, State.UNCERTAIN, State.READY, reason="looked_up", covered=True)
    assert await scene.state(delivery) == State.READY
    assert (await scene.claim()).rows == []
    await scene.store.close_guard("ana", "all is in")
    claimed = await scene.claim_one()
    assert (claimed.id, claimed.doubt, claimed.first_unknown_at) == (delivery, False, None)
    assert (await scene.begin(claimed)).numbers == {delivery: 1}


@case
async def suspects_are_not_claimed_under_a_guard(scene: Scene) -> None:
    """Under a guard suspects stay where they are, too."""
    await scene.leased("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    await open_guard(scene)
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, covered=True)
    assert await scene.store.suspects([HOOKS]) == [(HOOKS, 1)]
    assert (await scene.claim(suspicion=1)).rows == []
    await scene.store.close_guard("ana", "all is in")
    assert len((await scene.claim(suspicion=1)).rows) == 1


@case
async def nobody_remembers_so_nobody_is_certain(scene: Scene) -> None:
    """Definite answers of the attempts on record end no doubt about the one that was forgotten."""
    await scene.waiting("r", wait=HOUR)
    await open_guard(scene)
    row = await scene.looked_at()
    assert not await scene.decide(row, State.UNCERTAIN, State.WAITING, certain=True)
    assert not await scene.decide(row, State.UNCERTAIN, State.DEAD)
    assert await scene.decide(row, State.UNCERTAIN, State.WAITING, reason="looked_up", covered=True)


@case
async def a_final_state_stays(scene: Scene) -> None:
    """What was final when the backup was taken is left alone."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.ACCEPTED)
    before = await scene.show(row.id)
    await open_guard(scene)
    assert await scene.show(row.id) == before


# --- what a tick finds later ---------------------------------------------------------------------


@case
async def a_tick_under_a_guard_makes_doubt(scene: Scene) -> None:
    """What was due until now is written as uncertain, however long ago: a late tick may have come after the backup."""
    await scene.schedule("before", due_in=-7200)
    await scene.schedule("within", due_in=-1800)
    await scene.store.heartbeat("worker")
    await scene.store.open_guard("ana", "restored", since=await scene.now() - HOUR)
    assert (await scene.tick()).created == 2
    assert (await scene.show(delivery_id("before")))["reason"] == "restored"
    assert (await scene.show(delivery_id("within")))["reason"] == "restored"
    assert await restored_event(scene, delivery_id("within")) == (None, "uncertain", "tick", "restored")
    _, rows = await scene.store.doubtful([HOOKS], 10, 60.0)
    (row,) = [row for row in rows if row.id == delivery_id("within")]
    assert (row.restored, row.unknown, row.attempts) == (True, 1, 0)
    assert row.frozen is None


@case
async def a_key_window_counts_from_the_guards_beginning(scene: Scene) -> None:
    """It may have been due sooner, before a forgotten reschedule; what was due before the guard counts from there."""
    await scene.schedule("before", due_in=-7200)
    await scene.schedule("within", due_in=-1800)
    await scene.store.heartbeat("worker")
    guard: Guard = await scene.store.open_guard("ana", "restored", since=await scene.now() - HOUR)
    await scene.tick()
    _, rows = await scene.store.doubtful([HOOKS], 10, 60.0)
    counted = {row.id: row.first_unknown_at for row in rows}
    dues = {row.id: row.due_at for row in rows}
    assert counted[delivery_id("within")] == guard.since
    assert counted[delivery_id("before")] == dues[delivery_id("before")]


@case
async def a_tick_after_the_closing_remembers_it(scene: Scene) -> None:
    """What was due under the guard starts in doubt also after its closing; what falls due later does not."""
    await scene.store.heartbeat("worker")
    await scene.store.open_guard("ana", "restored", since=await scene.now() - HOUR)
    await scene.ledger.pass_time(60)
    await scene.store.close_guard("ana", "all is in")
    await scene.schedule("during", due_in=-60)
    await scene.schedule("after", due_in=30)
    await scene.ledger.pass_time(60)
    assert (await scene.tick()).created == 2
    assert await scene.state(delivery_id("during")) == State.UNCERTAIN
    assert await scene.state(delivery_id("after")) == State.READY
    assert (await scene.claim_one()).id == delivery_id("after")


@case
async def every_guard_is_remembered(scene: Scene) -> None:
    """A later guard does not make an earlier one forgotten."""
    await scene.schedule("r", due_in=-1800)
    await scene.store.heartbeat("worker")
    await scene.store.open_guard("ana", "restored", since=await scene.now() - HOUR)
    await scene.store.close_guard("ana", "all is in")
    await open_guard(scene)
    await scene.store.close_guard("ana", "all is in")
    await scene.tick()
    assert await scene.state(delivery_id("r")) == State.UNCERTAIN


# --- closing -------------------------------------------------------------------------------------


@case
async def a_guard_is_closed_once(scene: Scene) -> None:
    """Closing says who, when and why; where none is open it is refused."""
    opened = await open_guard(scene)
    closed: Guard = await scene.store.close_guard("bob", "all is in")
    assert closed._replace(closed_at=None, closed_by=None, closing_why=None) == opened
    assert closed.closed_at is not None
    assert closed.closed_at >= opened.opened_at
    assert (closed.closed_by, closed.closing_why) == ("bob", "all is in")
    with pytest.raises(InputError):
        await scene.store.close_guard("bob", "once more")


@case
async def doubt_outlasts_the_closing(scene: Scene) -> None:
    """Closing opens the door; each restored row is still reconcile's to ask for."""
    (delivery,) = await scene.ready("r")
    await open_guard(scene)
    await scene.store.close_guard("ana", "all is in")
    assert await scene.state(delivery) == State.UNCERTAIN
    assert (await scene.claim()).rows == []
    assert (await scene.looked_at()).restored


# --- signs of life -------------------------------------------------------------------------------


@case
async def a_sign_of_life_opens_nothing(scene: Scene) -> None:
    """Heartbeats, each with what the last one said, tell the time and that no guard is open."""
    first = await scene.store.heartbeat("worker")
    second = await scene.store.heartbeat("worker", first.now)
    assert first.now <= second.now <= await scene.now()
    assert (first.guard, second.guard) == (None, None)


@case
async def a_ledger_that_steps_back_opens_the_guard(scene: Scene) -> None:
    """A record of life older than what a process has seen opens a guard, since that record, once."""
    (delivery,) = await scene.ready("r")
    recorded = (await scene.store.heartbeat("worker")).now
    beat = await scene.store.heartbeat("worker", recorded + HOUR)
    assert beat.guard is not None
    assert abs(beat.guard.since - recorded) < timedelta(seconds=1)
    assert beat.guard.opened_by == "worker"
    assert beat.guard.why
    assert await restored_event(scene, delivery) == ("ready", "uncertain", "worker", "restored")
    assert (await scene.claim()).rows == []
    again = await scene.store.heartbeat("worker", beat.now)
    assert again.guard == beat.guard
    await scene.store.close_guard("ana", "all is in")
    assert (await scene.store.heartbeat("worker", again.now)).guard is None


@case
async def an_open_guard_is_told_with_every_sign_of_life(scene: Scene) -> None:
    """A heartbeat brings the guard that somebody else has opened."""
    guard = await open_guard(scene)
    assert (await scene.store.heartbeat("another")).guard == guard


@case
async def a_late_answer_ends_a_restored_row(scene: Scene) -> None:
    """Acceptance found for an attempt that the ledger remembers ends the row, whoever forgot what."""
    row = await scene.uncertain("r")
    await open_guard(scene)
    found = settlement(row, 1, Outcome.ACCEPTED, await scene.now())
    assert (await scene.store.settle(HOOKS, [found], [])).moved == {row.id}
    assert await scene.state(row.id) == State.SENT


@case
async def a_begin_that_came_too_late(scene: Scene) -> None:
    """Rows claimed before the guard do not begin after its closing either."""
    row = await scene.leased("r")
    await open_guard(scene)
    await scene.store.close_guard("ana", "all is in")
    assert await scene.store.begin(HOOKS, "w1", [start(row)]) == Begun({}, {})
    assert await scene.outcomes(row.id) == []
