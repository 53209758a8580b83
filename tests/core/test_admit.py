"""Admission: a fixed order of questions, and an answer that says until when it holds."""

from __future__ import annotations

import pytest

from duly.core.admit import Go, Stop, admit
from duly.core.limits import Limits
from duly.core.model import Block, Capabilities, Claimed
from duly.core.quiet_hours import Look
from duly.core.states import State, check
from tests.core.values import KEYED, NOTHING, NOW, claimed, in_doubt, later

LIMITS = Limits()
TRUST = later(seconds=40)


def ask(row: Claimed, promise: Capabilities = KEYED) -> Go | Stop:
    return admit(row, NOW, TRUST, promise, LIMITS)


def test_a_row_without_objection_may_be_sent_until_the_lease_is_no_longer_trusted() -> None:
    """Nothing objects: the trusted end of the lease is the earliest bound."""
    assert ask(claimed()) == Go(TRUST)


def test_quiet_hours_put_it_off_until_they_end() -> None:
    """While it is quiet nothing begins; doubt or not, it waits for the first allowed instant."""
    quiet = Look(later(hours=8), later(hours=21))
    for row in (claimed(), in_doubt()):
        assert admit(row, NOW, TRUST, KEYED, LIMITS, quiet) == Stop(State.WAITING, "quiet_hours", later(hours=8))


def test_the_next_quiet_hour_bounds_the_answer() -> None:
    """What may begin now has to begin before it is quiet again."""
    assert admit(claimed(), NOW, TRUST, KEYED, LIMITS, Look(None, later(seconds=9))) == Go(later(seconds=9))
    assert admit(claimed(), NOW, TRUST, KEYED, LIMITS, Look(None, later(hours=9))) == Go(TRUST)


def test_the_deadline_bounds_the_answer() -> None:
    """A deadline before the end of trust is the earlier bound."""
    assert ask(claimed(deadline_at=later(seconds=5))) == Go(later(seconds=5))


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({"reminder_status": "cancelled"}, State.CANCELLED, "reminder_cancelled"),
        ({"suppressed": "opted_out"}, State.SUPPRESSED, "opted_out"),
        ({"deadline_at": NOW}, State.EXPIRED, "deadline_passed"),
    ],
)
def test_an_objection_for_good_is_final_without_doubt_and_closes_the_sending_rungs_with_it(
    changes: dict[str, object], state: State, reason: str
) -> None:
    """What may have been accepted is never finished as if it had not been sent."""
    assert ask(claimed(**changes)) == Stop(state, reason)
    assert ask(in_doubt(**changes)) == Stop(State.UNCERTAIN, f"{reason}_in_doubt", closed=True)


@pytest.mark.parametrize(
    ("changes", "reason", "seconds"),
    [
        ({"account_paused": True}, "account_paused", 60),
        ({"reminder_status": "paused"}, "reminder_paused", 60),
        ({"reminder_status": "template_paused"}, "template_paused", 60),
        ({"block": Block(later(seconds=9), "auth", circuit=True)}, "circuit_open", 9),
        ({"block": Block(later(seconds=9), "retry_after", circuit=False)}, "retry_after", 9),
    ],
)
def test_a_passing_objection_puts_the_row_off(changes: dict[str, object], reason: str, seconds: float) -> None:
    """Paused and blocked rows wait, with the moment of the next look."""
    assert ask(claimed(**changes)) == Stop(State.WAITING, reason, later(seconds=seconds))


def test_the_order_of_the_questions_is_fixed() -> None:
    """With every objection at once, the cancel speaks; then suppression, deadline, pause, block."""
    block = Block(later(seconds=9), "auth", circuit=True)
    everything = {"suppressed": "bounced", "deadline_at": NOW, "account_paused": True, "block": block}
    reasons = []
    for reason in ("reminder_status", *everything):
        objections = {"reminder_status": "cancelled", **everything}
        kept = dict(list(objections.items())[list(objections).index(reason) :])
        verdict = ask(claimed(**kept))
        assert isinstance(verdict, Stop)
        reasons.append(verdict.reason)
    assert reasons == ["reminder_cancelled", "bounced", "deadline_passed", "account_paused", "circuit_open"]


def test_a_passed_block_does_not_object() -> None:
    """A half-open circuit is begin's to judge, under the budget's lock."""
    assert isinstance(ask(claimed(block=Block(NOW, "auth", circuit=True))), Go)


def test_in_doubt_only_a_key_that_is_still_honoured_may_be_used() -> None:
    """Within the window the repeat may go; at its margin it may not."""
    assert ask(in_doubt()) == Go(TRUST)
    at_the_margin = in_doubt(first_unknown_at=NOW - KEYED.keyed_for + LIMITS.key_window_margin)  # type: ignore[operator]
    assert ask(at_the_margin) == Stop(State.UNCERTAIN, "key_window_closed")
    assert ask(in_doubt(), NOTHING) == Stop(State.UNCERTAIN, "no_way_to_ask")


def test_in_doubt_the_window_bounds_the_answer() -> None:
    """`good_until` never reaches past the receiver's promise."""
    ends_in_5_s = later(seconds=5) - KEYED.keyed_for + LIMITS.key_window_margin  # type: ignore[operator]
    assert ask(in_doubt(first_unknown_at=ends_in_5_s)) == Go(later(seconds=5))


def test_a_granted_resend_needs_no_promise_but_bytes() -> None:
    """A policy or an operator may grant one resend; it still repeats the frozen bytes."""
    assert ask(in_doubt(granted=True), NOTHING) == Go(TRUST)
    assert ask(in_doubt(granted=True, frozen=None), NOTHING) == Stop(State.UNCERTAIN, "frozen_bytes_gone", closed=True)


def test_closed_rungs_stay_closed() -> None:
    """Not even a granted resend leaves once sending was closed."""
    assert ask(in_doubt(closed=True, granted=True)) == Stop(State.UNCERTAIN, "sending_closed", closed=True)


def test_a_lease_without_trust_goes_back() -> None:
    """With no time left to send and to hear the answer, the row is given back."""
    assert admit(claimed(), NOW, NOW, KEYED, LIMITS) == Stop(State.READY, "lease_ran_out")


def test_every_answer_is_in_the_table_of_transitions() -> None:
    """What admission decides, the table allows from leased."""
    for row in (claimed(), in_doubt(), claimed(suppressed="x"), claimed(account_paused=True), in_doubt(closed=True)):
        verdict = ask(row)
        check(State.LEASED, verdict.state if isinstance(verdict, Stop) else State.SENDING)
