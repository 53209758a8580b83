"""Settling: one result, what it means for the delivery and for its endpoint."""

from __future__ import annotations

from itertools import product

import pytest

from duly.core.limits import Limits
from duly.core.model import Block, FailureClass, Outcome, Result, Signal, SignalKind
from duly.core.settle import Next, settle, signal
from duly.core.states import State, check
from tests.core.values import NOW, claimed, in_doubt, later

LIMITS = Limits(attempts_max=20)
REFUSED = Result(Outcome.REFUSED, FailureClass.RATE_LIMITED, 429)
LOST = Result(Outcome.UNKNOWN, FailureClass.TIMEOUT)


def test_accepted_is_the_end_whatever_came_before() -> None:
    """Acceptance ends doubt too."""
    for row in (claimed(), in_doubt(closed=True)):
        assert settle(row, 1, Result(Outcome.ACCEPTED), NOW, 0.5, LIMITS) == Next(State.SENT, "accepted")


def test_unknown_is_doubt_and_reconcile_looks_after_a_back_off() -> None:
    """A timeout is not a delivery result."""
    assert settle(claimed(), 1, LOST, NOW, 0.5, LIMITS) == Next(State.UNCERTAIN, "unknown_timeout", later(seconds=0.5))


def test_unknown_at_the_last_attempt_closes_the_rungs_that_send() -> None:
    """Out of attempts, only looking remains."""
    last = settle(claimed(attempts=19), 20, LOST, NOW, 0.0, LIMITS)
    assert (last.closed, last.reason) == (True, "attempts_exhausted_in_doubt")
    assert not settle(claimed(attempts=18), 19, LOST, NOW, 0.0, LIMITS).closed
    assert settle(in_doubt(closed=True), 2, LOST, NOW, 0.0, LIMITS).closed


def test_unknown_shortly_before_the_deadline_is_looked_at_at_once() -> None:
    """No look is planned past the deadline."""
    row = claimed(deadline_at=later(seconds=0.1))
    assert settle(row, 1, LOST, NOW, 0.9, LIMITS).next_at is None


def test_a_refusal_waits_for_its_next_try() -> None:
    """Back-off from the end of the attempt."""
    assert settle(claimed(), 1, REFUSED, NOW, 0.25, LIMITS) == Next(
        State.WAITING, "refused_rate_limited", later(seconds=0.25)
    )


def test_retry_after_is_waited_out() -> None:
    """The receiver's wish is a floor."""
    told = Result(Outcome.REFUSED, FailureClass.RATE_LIMITED, 429, retry_after=7.0)
    assert settle(claimed(), 1, told, NOW, 0.25, LIMITS).next_at == later(seconds=7.25)


def test_a_request_that_never_left_is_tried_again_without_doubt() -> None:
    """not_sent is a definite outcome."""
    result = Result(Outcome.NOT_SENT, FailureClass.CONNECTION)
    assert settle(claimed(), 1, result, NOW, 0.0, LIMITS) == Next(State.WAITING, "not_sent_connection", NOW)


@pytest.mark.parametrize(
    ("changes", "number", "result", "state", "reason"),
    [
        (
            {},
            1,
            Result(Outcome.REJECTED, FailureClass.INVALID_DESTINATION),
            State.REJECTED,
            "rejected_invalid_destination",
        ),
        ({"attempts": 19}, 20, REFUSED, State.DEAD, "attempts_exhausted"),
        ({"deadline_at": later(seconds=0.2)}, 1, REFUSED, State.EXPIRED, "deadline_before_next_try"),
    ],
)
def test_doubt_sticks(changes: dict[str, object], number: int, result: Result, state: State, reason: str) -> None:
    """What ends a delivery only closes the sending rungs of one in doubt."""
    assert settle(claimed(**changes), number, result, NOW, 0.5, LIMITS) == Next(state, reason)
    assert settle(in_doubt(**changes), number, result, NOW, 0.5, LIMITS) == Next(
        State.UNCERTAIN, f"{reason}_in_doubt", closed=True
    )


@pytest.mark.parametrize("failure", [FailureClass.AUTH, FailureClass.CONFIG])
def test_answers_that_the_operator_must_mend_are_spared(failure: FailureClass) -> None:
    """A mistyped secret exhausts nobody's attempts and opens the endpoint's circuit."""
    result = Result(Outcome.REFUSED, failure, 401)
    row = claimed(attempts=30, spared=30)
    then = settle(row, 31, result, NOW, 0.0, LIMITS)
    assert then == Next(State.WAITING, f"refused_{failure}", later(seconds=5), spared=True)
    assert signal(row, result, LIMITS) == Signal(row.endpoint, SignalKind.OPEN, str(failure), 5.0)


def test_what_an_answer_says_about_its_endpoint() -> None:
    """Retry-After blocks it; an answer through a half-open circuit closes it; else it says nothing."""
    told = Result(Outcome.REFUSED, FailureClass.RATE_LIMITED, 429, retry_after=9_999.0)
    assert signal(claimed(), told, LIMITS) == Signal(claimed().endpoint, SignalKind.BLOCK, "retry_after", 3600.0)
    probe = claimed(block=Block(NOW, "auth", circuit=True))
    for outcome in (Outcome.ACCEPTED, Outcome.REJECTED):
        said = signal(probe, Result(outcome), LIMITS)
        assert said is not None
        assert said.kind is SignalKind.CLOSE
        assert signal(claimed(), Result(outcome), LIMITS) is None
    assert signal(probe, LOST, LIMITS) is None
    assert signal(claimed(block=Block(NOW, "retry_after", circuit=False)), Result(Outcome.ACCEPTED), LIMITS) is None
    assert signal(claimed(), REFUSED, LIMITS) is None


def test_every_decision_is_in_the_table_and_no_doubt_is_lost() -> None:
    """All outcomes, with and without doubt, attempts and time: the table allows each, and doubt never ends unproved."""
    rows = [claimed(), in_doubt(), claimed(attempts=25), in_doubt(attempts=25), in_doubt(deadline_at=NOW)]
    for row, outcome, failure in product(rows, Outcome, FailureClass):
        then = settle(row, row.attempts + 1, Result(outcome, failure), NOW, 0.5, LIMITS)
        check(State.SENDING, then.state)
        if (row.doubt or outcome is Outcome.UNKNOWN) and outcome is not Outcome.ACCEPTED:
            assert then.state in (State.UNCERTAIN, State.WAITING)
        if then.state is State.WAITING:
            assert then.next_at is not None
            assert then.next_at < row.deadline_at
