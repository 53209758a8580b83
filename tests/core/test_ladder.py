"""The ladder: ask where the receiver made that safe, otherwise do what the account chose."""

from __future__ import annotations

from itertools import product

import pytest

from duly.core.ladder import Step, climb
from duly.core.limits import Limits
from duly.core.model import Capabilities, Doubtful, FailureClass, OnDoubt, Outcome
from duly.core.states import State, check
from tests.core.values import KEYED, NOTHING, NOW, doubtful, later

LIMITS = Limits(attempts_max=20)


def go(row: Doubtful, promise: Capabilities = KEYED, policy: OnDoubt = OnDoubt.HOLD) -> Step:
    return climb(row, NOW, 0.5, promise, policy, LIMITS)


def test_a_keyed_receiver_is_asked_with_the_same_bytes() -> None:
    """Rung 1, whatever the policy."""
    for policy in OnDoubt:
        assert go(doubtful(), KEYED, policy) == Step(State.READY, "resend_same_key")


@pytest.mark.parametrize(
    ("policy", "step"),
    [
        (OnDoubt.HOLD, Step(State.HELD, "no_way_to_ask")),
        (OnDoubt.RESEND, Step(State.READY, "resend_by_policy", granted=True)),
        (OnDoubt.CLOSE, Step(State.UNCONFIRMED, "no_way_to_ask")),
    ],
)
def test_where_nothing_can_be_asked_the_policy_decides(policy: OnDoubt, step: Step) -> None:
    """Rung 5."""
    assert go(doubtful(), NOTHING, policy) == step


def test_the_window_counts_from_the_first_unknown_attempt() -> None:
    """A day after the first unknown attempt the key is no promise any more."""
    assert go(doubtful(first_unknown_at=later(hours=-23))).state is State.READY
    assert go(doubtful(first_unknown_at=later(hours=-24))) == Step(State.HELD, "key_window_closed")
    assert go(doubtful(first_unknown_at=None)) == Step(State.HELD, "no_way_to_ask")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"closed": True, "reason": "reminder_cancelled_in_doubt"}, "reminder_cancelled_in_doubt"),
        ({"closed": True, "reason": ""}, "sending_closed"),
        ({"frozen": False}, "frozen_bytes_gone"),
        ({"deadline_at": NOW}, "deadline_passed_in_doubt"),
        ({"attempts": 20}, "attempts_exhausted_in_doubt"),
    ],
)
def test_where_sending_is_forbidden_not_even_the_policy_resends(changes: dict[str, object], reason: str) -> None:
    """Cancel, deadline, exhaustion and lost bytes close the rungs that send."""
    row = doubtful(**changes)
    assert go(row) == Step(State.HELD, reason)
    assert go(row, NOTHING, OnDoubt.RESEND) == Step(State.HELD, reason)
    assert go(row, NOTHING, OnDoubt.CLOSE) == Step(State.UNCONFIRMED, reason)


def test_a_late_definite_answer_ends_the_doubt() -> None:
    """With no unknown attempt left, the last answer counts as it would have at once."""
    rejected = doubtful(unknown=0, last_outcome=Outcome.REJECTED, last_failure=FailureClass.CONTENT_REJECTED)
    assert go(rejected) == Step(State.REJECTED, "rejected_content_rejected", certain=True)
    refused = doubtful(unknown=0, last_outcome=Outcome.REFUSED)
    assert go(refused) == Step(State.WAITING, "late_answer", later(seconds=0.5), certain=True)
    exhausted = doubtful(unknown=0, last_outcome=Outcome.NOT_SENT, attempts=21, spared=1)
    assert go(exhausted) == Step(State.DEAD, "attempts_exhausted", certain=True)


def test_every_step_is_in_the_table() -> None:
    """Whatever the row, the promise and the policy: the table allows it from uncertain."""
    rows = [doubtful(), doubtful(closed=True), doubtful(frozen=False), doubtful(unknown=0), doubtful(attempts=99)]
    for row, promise, policy in product(rows, (KEYED, NOTHING), OnDoubt):
        check(State.UNCERTAIN, go(row, promise, policy).state)
