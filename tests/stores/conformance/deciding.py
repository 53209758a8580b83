"""Cases of decide: moves that no attempt explains, fenced, evented, and never against doubt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly.core.model import Outcome, Result
from duly.core.states import FINAL, IllegalTransition, State
from duly.testing.builders import decision, settlement
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

ENDS = (State.EXPIRED, State.SUPPRESSED, State.CANCELLED, State.SHADOWED, State.REJECTED, State.DEAD)


@case
async def admission_ends_a_delivery(scene: Scene) -> None:
    """A decision for a final state closes the delivery, with its reason and one event."""
    for state in ENDS:
        row = await scene.leased(state)
        assert await scene.decide(row, State.LEASED, state, reason=f"why_{state}")
        shown = await scene.show(row.id)
        assert (shown["status"], shown["reason"], shown["next_action"]) == (state, f"why_{state}", "nothing")
        assert await scene.events(row.id) == [("decided", "leased", state, "somebody", f"why_{state}")]


@case
async def a_deferral_waits_for_its_moment(scene: Scene) -> None:
    """A deferred row waits until its moment, with the reason and an event, and no attempt counted."""
    row = await scene.leased("r")
    moment = await scene.now() + timedelta(seconds=90)
    assert await scene.decide(row, State.LEASED, State.WAITING, reason="account_paused", next_at=moment)
    shown = await scene.show(row.id)
    assert (shown["status"], shown["reason"], shown["attempts"]) == (State.WAITING, "account_paused", [])
    assert shown["next_at"] == moment.isoformat().removesuffix("+00:00") + "Z"
    assert await scene.events(row.id) == [("decided", "leased", "waiting", "somebody", "account_paused")]
    assert await scene.store.promote(10) == 0
    await scene.ledger.pass_time(91)
    assert await scene.store.promote(10) == 1


@case
async def no_moment_means_now(scene: Scene) -> None:
    """A decision without a moment takes effect at once."""
    row = await scene.leased("r")
    await scene.decide(row, State.LEASED, State.WAITING, reason="endpoint_busy")
    assert await scene.store.promote(10) == 1


@case
async def a_plain_return_leaves_no_event(scene: Scene) -> None:
    """A row that merely goes back to ready leaves no event."""
    row = await scene.leased("r")
    assert await scene.decide(row, State.LEASED, State.READY, reason="lease_ran_out")
    assert await scene.events(row.id) == []
    assert (await scene.claim_one()).id == row.id


@case
async def a_recovery_leaves_an_event(scene: Scene) -> None:
    """Reconcile's return to ready is a decision, and leaves an event with its reason."""
    delivery = await scene.ready_in_doubt("r")
    assert ("decided", "uncertain", "ready", "somebody", "resend_same_key") in await scene.events(delivery)


@case
async def a_decision_is_repeatable(scene: Scene) -> None:
    """The same decision again moves nothing and leaves no second event."""
    for state in (State.WAITING, State.EXPIRED):
        row = await scene.leased(state)
        assert await scene.decide(row, State.LEASED, state, reason="why")
        assert not await scene.decide(row, State.LEASED, state, reason="why")
        assert len(await scene.events(row.id)) == 1
        assert await scene.state(row.id) == state


@case
async def a_decision_holds_under_its_fence_only(scene: Scene) -> None:
    """Under another fence nothing moves."""
    row = await scene.leased("r")
    for fence in (row.fence - 1, row.fence + 1):
        wrong = decision(row, State.LEASED, State.EXPIRED)._replace(fence=fence)
        assert await scene.store.decide("somebody", [wrong]) == frozenset()
    assert await scene.state(row.id) == State.LEASED
    assert await scene.events(row.id) == []


@case
async def a_decision_holds_for_the_state_it_saw(scene: Scene) -> None:
    """A row that stands elsewhere than the decision's origin is left alone; so is one that has begun."""
    row = await scene.leased("r1")
    assert not await scene.decide(row, State.UNCERTAIN, State.READY)
    begun = await scene.sending("r2")
    assert not await scene.decide(begun, State.LEASED, State.EXPIRED)
    assert (await scene.state(row.id), await scene.state(begun.id)) == (State.LEASED, State.SENDING)


@case
async def an_illegal_decision_raises(scene: Scene) -> None:
    """A decision that the table of transitions does not allow is a bug, and moves nothing."""
    row = await scene.leased("r")
    illegal = ((State.LEASED, State.HELD), (State.READY, State.DEAD), (State.SENT, State.READY))
    done_by_other_calls = ((State.LEASED, State.FOLDED), (State.FOLDED, State.READY), (State.LEASED, State.SENDING))
    for origin, state in (*illegal, *done_by_other_calls):
        with pytest.raises(IllegalTransition):
            await scene.store.decide("somebody", [decision(row, origin, state)])
    assert await scene.state(row.id) == State.LEASED


@case
async def one_decision_keeps_no_other_back(scene: Scene) -> None:
    """A batch moves the rows that it may, and says which."""
    await scene.ready("r1", "r2", "r3")
    first, second, third = (await scene.claim()).rows
    moved = await scene.store.decide(
        "somebody",
        [
            decision(first, State.LEASED, State.EXPIRED),
            decision(second, State.LEASED, State.EXPIRED)._replace(fence=99),
            decision(third, State.LEASED, State.READY),
        ],
    )
    assert moved == {first.id, third.id}


@case
async def of_two_decisions_about_a_row_the_first_counts(scene: Scene) -> None:
    """Twice in one batch, a row goes where the first decision says; the second finds it gone."""
    row = await scene.leased("r")
    both = [
        decision(row, State.LEASED, State.EXPIRED, "first"),
        decision(row, State.LEASED, State.SUPPRESSED, "second"),
    ]
    assert await scene.store.decide("somebody", both) == {row.id}
    assert await scene.state(row.id) == State.EXPIRED
    assert len(await scene.events(row.id)) == 1


@case
async def no_decisions_move_nothing(scene: Scene) -> None:
    """An empty batch is answered with nothing."""
    assert await scene.store.decide("somebody", []) == frozenset()


# --- doubt ---------------------------------------------------------------------------------------


@case
async def doubt_outlasts_admission(scene: Scene) -> None:
    """A row in doubt is never finished as if it had not been sent: such a decision leaves it as it is."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    before = await scene.events(row.id)
    for state in ENDS:
        assert not await scene.decide(row, State.LEASED, state)
    assert await scene.state(row.id) == State.LEASED
    assert await scene.events(row.id) == before


@case
async def doubt_outlasts_reconcile(scene: Scene) -> None:
    """Reconcile cannot reject or bury a row in doubt either."""
    await scene.uncertain("r")
    row = await scene.looked_at()
    for state in (State.REJECTED, State.DEAD):
        assert not await scene.decide(row, State.UNCERTAIN, state)
    assert await scene.state(row.id) == State.UNCERTAIN


@case
async def doubt_may_end_as_unconfirmed_or_sent(scene: Scene) -> None:
    """A row in doubt may be given up as unconfirmed, or found to be sent."""
    for state in (State.UNCONFIRMED, State.SENT):
        await scene.uncertain(state)
        row = await scene.looked_at()
        assert await scene.decide(row, State.UNCERTAIN, state, reason="because")
        shown = await scene.show(row.id)
        assert (shown["status"], shown["reason"], len(shown["attempts"])) == (state, "because", 1)


@case
async def closing_sticks(scene: Scene) -> None:
    """Once the rungs that send are closed, no later decision opens them."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    assert await scene.decide(row, State.LEASED, State.UNCERTAIN, reason="frozen_bytes_gone", closed=True)
    looked = await scene.looked_at()
    assert (looked.closed, looked.reason) == (True, "frozen_bytes_gone")
    assert await scene.decide(looked, State.UNCERTAIN, State.WAITING, reason="late_answer")
    await scene.store.promote(10)
    assert (await scene.claim_one()).closed


@case
async def a_granted_resend_is_used_up(scene: Scene) -> None:
    """A resend outside the key's window is granted once: it is told with the claim, and spent by the attempt."""
    await scene.uncertain("r")
    looked = await scene.looked_at()
    assert await scene.decide(looked, State.UNCERTAIN, State.READY, reason="resend_by_policy", granted=True)
    row = await scene.claim_one()
    assert row.granted
    assert (await scene.begin(row)).numbers == {row.id: 2}
    await scene.settle(row, Outcome.REFUSED, 2)
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert (again.granted, again.doubt) == (False, True)


@case
async def an_operator_decides_a_hold(scene: Scene) -> None:
    """A held row may be sent again, be counted as sent, or be given up, by whoever says so on record."""
    for state in (State.SENT, State.UNCONFIRMED, State.READY):
        held = await scene.held(state)
        assert await scene.decide(held, State.HELD, state, reason="operator")
        assert await scene.state(held.id) == state
        assert (await scene.events(held.id))[-1] == ("decided", "held", state, "somebody", "operator")


async def with_a_late_answer(scene: Scene, outcome: Outcome) -> None:
    """A row taken back as unknown, whose worker then came with a definite answer."""
    row = await scene.sending("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    late = settlement(row, 1, outcome, await scene.now(), result=Result(outcome, http_status=410))
    settled = await scene.store.settle(HOOKS, [late], [])
    assert (settled.moved, settled.stale) == (frozenset(), 1)
    assert await scene.outcomes(row.id) == [outcome]


@case
async def doubt_ends_where_every_attempt_is_definite(scene: Scene) -> None:
    """Where a late answer has made every attempt definite, a certain decision ends the doubt."""
    await with_a_late_answer(scene, Outcome.REJECTED)
    row = await scene.looked_at()
    assert (row.unknown, row.last_outcome) == (0, Outcome.REJECTED)
    assert not await scene.decide(row, State.UNCERTAIN, State.REJECTED)
    assert await scene.decide(row, State.UNCERTAIN, State.REJECTED, reason="rejected", certain=True)
    assert await scene.state(row.id) == State.REJECTED


@case
async def a_certain_row_is_like_new(scene: Scene) -> None:
    """A row whose doubt has ended is tried again without it: nothing is closed, and no window counts."""
    await with_a_late_answer(scene, Outcome.REFUSED)
    row = await scene.looked_at()
    assert await scene.decide(row, State.UNCERTAIN, State.WAITING, reason="late_answer", certain=True)
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert (again.doubt, again.closed, again.first_unknown_at, again.attempts) == (False, False, None, 1)
    assert await scene.decide(again, State.LEASED, State.EXPIRED)


@case
async def doubt_does_not_end_by_assertion(scene: Scene) -> None:
    """A certain decision ends no doubt while the ledger knows of an attempt without a definite answer."""
    await scene.uncertain("r")
    row = await scene.looked_at()
    assert row.unknown == 1
    for state in (State.REJECTED, State.DEAD):
        assert not await scene.decide(row, State.UNCERTAIN, state, certain=True)
    assert await scene.state(row.id) == State.UNCERTAIN
    assert state in FINAL
