"""The ladder: ask where the receiver made that safe, otherwise do what the account chose."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from duly.core.ladder import Ask, Doubts, Stay, Step, climb, learn
from duly.core.limits import Limits
from duly.core.model import Capabilities, Doubtful, FailureClass, HoldPolicy, Look, LookKind, OnDoubt, Outcome
from duly.core.states import State, check
from tests.core.values import ASKED, ECHOED, KEYED, NAMED, NOTHING, NOW, SEARCHED, SETTLING, doubtful, later

LIMITS = Limits(attempts_max=20)
HOLD = HoldPolicy(timedelta(hours=4), timedelta(days=7))
ALARM_AT = later(hours=4)


def go(row: Doubtful, promise: Capabilities = KEYED, policy: OnDoubt = OnDoubt.HOLD) -> Step | Ask | Stay:
    return climb(row, NOW, 0.5, promise, Doubts(policy, HOLD), LIMITS)


def held(reason: str) -> Step:
    return Step(State.HELD, reason, ALARM_AT)


def test_a_keyed_receiver_is_asked_with_the_same_bytes() -> None:
    """Rung 1, whatever the policy."""
    for policy in OnDoubt:
        assert go(doubtful(), KEYED, policy) == Step(State.READY, "resend_same_key")


@pytest.mark.parametrize(
    ("policy", "step"),
    [
        (OnDoubt.HOLD, held("no_way_to_ask")),
        (OnDoubt.RESEND, Step(State.READY, "resend_by_policy", granted=True)),
        (OnDoubt.CLOSE, Step(State.UNCONFIRMED, "no_way_to_ask")),
    ],
)
def test_where_nothing_can_be_asked_the_policy_decides(policy: OnDoubt, step: Step) -> None:
    """Rung 5."""
    assert go(doubtful(), NOTHING, policy) == step


def test_the_window_counts_from_the_first_unknown_attempt() -> None:
    """A day after the first unknown attempt the key is no promise any more."""
    assert go(doubtful(first_unknown_at=later(hours=-23))) == Step(State.READY, "resend_same_key")
    assert go(doubtful(first_unknown_at=later(hours=-24))) == held("key_window_closed")
    assert go(doubtful(first_unknown_at=None)) == held("no_way_to_ask")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"closed": True, "reason": "reminder_cancelled_in_doubt"}, "reminder_cancelled_in_doubt"),
        ({"closed": True, "reason": ""}, "sending_closed"),
        ({"frozen": None}, "frozen_bytes_gone"),
        ({"refused": "reminder_cancelled"}, "reminder_cancelled_in_doubt"),
        ({"deadline_at": NOW}, "deadline_passed_in_doubt"),
        ({"attempts": 20}, "attempts_exhausted_in_doubt"),
    ],
)
def test_where_sending_is_forbidden_not_even_the_policy_resends(changes: dict[str, object], reason: str) -> None:
    """Cancel, deadline, exhaustion and lost bytes close the rungs that send."""
    row = doubtful(**changes)
    assert go(row) == held(reason)
    assert go(row, NOTHING, OnDoubt.RESEND) == held(reason)
    assert go(row, NOTHING, OnDoubt.CLOSE) == Step(State.UNCONFIRMED, reason)


def test_a_late_definite_answer_ends_the_doubt() -> None:
    """With no unknown attempt left, the last answer counts as it would have at once."""
    rejected = doubtful(unknown=0, last_outcome=Outcome.REJECTED, last_failure=FailureClass.CONTENT_REJECTED)
    assert go(rejected) == Step(State.REJECTED, "rejected_content_rejected", certain=True)
    refused = doubtful(unknown=0, last_outcome=Outcome.REFUSED)
    assert go(refused) == Step(State.WAITING, "late_answer", later(seconds=0.5), certain=True)
    exhausted = doubtful(unknown=0, last_outcome=Outcome.NOT_SENT, attempts=21, spared=1)
    assert go(exhausted) == Step(State.DEAD, "attempts_exhausted", certain=True)


def test_a_restored_delivery_without_attempts_is_repeated_although_no_bytes_are_kept() -> None:
    """They are made anew from the same data, under the key that was derived before."""
    row = doubtful(attempts=0, last_unknown=None, last_outcome=None, frozen=None, restored=True)
    assert go(row) == Step(State.READY, "resend_same_key")


# --- rungs that look -----------------------------------------------------------------------------

WAYS = [
    (NAMED, LookKind.REQUEST_ID, {"request_id": "m-1"}),
    (ASKED, LookKind.KEY, {}),
    (SEARCHED, LookKind.SEARCH, {}),
]


@pytest.mark.parametrize(("promise", "by", "more"), WAYS)
def test_a_look_waits_out_the_settling_time(promise: Capabilities, by: LookKind, more: dict[str, object]) -> None:
    """Counted from the latest unknown attempt; before that a miss would mean nothing."""
    early = doubtful(last_unknown_at=later(minutes=-9), **more)
    assert go(early, promise) == Stay(later(minutes=1), 0)
    assert go(doubtful(last_unknown_at=later(minutes=-10), **more), promise) == Ask(by)


@pytest.mark.parametrize(("promise", "by", "more"), WAYS)
def test_the_second_look_comes_a_settling_time_after_the_first(
    promise: Capabilities, by: LookKind, more: dict[str, object]
) -> None:
    """A newer unknown attempt counts instead, if there is one."""
    row = doubtful(last_unknown_at=later(hours=-1), misses=1, missed_at=later(minutes=-4), **more)
    assert go(row, promise) == Stay(later(minutes=6), 1)
    assert go(row._replace(missed_at=later(minutes=-10)), promise) == Ask(by)
    assert go(row._replace(last_unknown_at=later(minutes=-1)), promise) == Stay(later(minutes=9), 1)


@pytest.mark.parametrize(("promise", "by", "more"), WAYS)
def test_looks_go_on_where_sending_is_closed(promise: Capabilities, by: LookKind, more: dict[str, object]) -> None:
    """A cancel or a deadline closes the rungs that send, not those that look."""
    row = doubtful(closed=True, deadline_at=NOW, last_unknown_at=later(minutes=-10), **more)
    assert go(row, promise) == Ask(by)


@pytest.mark.parametrize(("promise", "by", "more"), WAYS)
def test_a_provider_that_never_answers_is_not_asked_for_ever(
    promise: Capabilities, by: LookKind, more: dict[str, object]
) -> None:
    """After the longest wait the account's policy decides."""
    row = doubtful(last_unknown_at=later(hours=-24), **more)
    assert go(row, promise) == held("look_up_gave_no_answer")
    assert go(row._replace(last_unknown_at=later(hours=-23)), promise) == Ask(by)


def test_what_settles_slowly_is_looked_at_for_as_long_as_two_misses_take() -> None:
    """The longest wait never ends before the misses could count."""
    slow = ASKED._replace(settling=timedelta(days=2))
    assert go(doubtful(last_unknown_at=later(days=-2)), slow) == Ask(LookKind.KEY)
    assert go(doubtful(last_unknown_at=later(days=-6)), slow) == held("look_up_gave_no_answer")


def test_a_name_that_we_hold_is_asked_for_before_anything_is_repeated() -> None:
    """Rung 0 comes before rung 1, and falls away without a name."""
    both = KEYED._replace(lookup_by_id=True, settling=SETTLING)
    row = doubtful(last_unknown_at=later(minutes=-10), request_id="m-1")
    assert go(row, both) == Ask(LookKind.REQUEST_ID)
    assert go(row._replace(request_id=None), both) == Step(State.READY, "resend_same_key")


def test_a_name_speaks_for_its_own_attempt_only() -> None:
    """Where another attempt is unknown too, a miss by name would prove nothing."""
    row = doubtful(last_unknown_at=later(minutes=-10), request_id="m-1", unknown=2, attempts=2)
    assert go(row, NAMED) == held("look_up_gave_no_answer")
    assert go(row._replace(attempts=1, restored=True), NAMED) == held("look_up_gave_no_answer")


def test_an_echo_is_waited_for_and_then_searched_for() -> None:
    """Rung 3 before rung 4; without a search the policy decides."""
    row = doubtful(last_unknown_at=later(minutes=-50))
    assert go(row, ECHOED) == Stay(later(minutes=10), 0)
    late = row._replace(last_unknown_at=later(minutes=-60))
    assert go(late, ECHOED) == held("echo_did_not_come")
    assert go(late, ECHOED._replace(searchable=True, settling=SETTLING)) == Ask(LookKind.SEARCH)
    assert go(late, ECHOED._replace(echo_within=None)) == held("echo_did_not_come")


def test_a_search_needs_our_own_bytes() -> None:
    """Without them another message to the same recipient could be taken for ours."""
    row = doubtful(last_unknown_at=later(minutes=-10), frozen=None)
    assert go(row, SEARCHED) == held("frozen_bytes_gone")
    restored = doubtful(last_unknown_at=later(minutes=-10), restored=True, unknown=2)
    assert go(restored, SEARCHED) == held("look_up_gave_no_answer")


def test_a_name_alone_is_no_way_to_ask_for_what_has_none() -> None:
    """A provider that can only be asked by its own names leaves the policy where we hold none."""
    assert go(doubtful(), NAMED) == held("look_up_gave_no_answer")


# --- what a look teaches -------------------------------------------------------------------------


def told(row: Doubtful, look: Look, promise: Capabilities = ASKED) -> Step | Stay:
    return learn(row, look, NOW, 0.5, promise, LIMITS)


def test_one_miss_is_counted_and_proves_nothing() -> None:
    """The next look comes a settling time later."""
    assert told(doubtful(), Look(found=False)) == Stay(later(minutes=10), 1, missed=True)


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, Step(State.WAITING, "looked_up_in_vain", later(seconds=0.5), covered=True)),
        (
            {"last_outcome": Outcome.REJECTED, "last_failure": FailureClass.INVALID_DESTINATION},
            Step(State.REJECTED, "rejected_invalid_destination", covered=True),
        ),
        ({"attempts": 20}, Step(State.DEAD, "attempts_exhausted", covered=True)),
        ({"reason": "killed_its_workers_in_doubt"}, Step(State.DEAD, "killed_its_workers", covered=True)),
    ],
)
def test_the_second_miss_ends_the_doubt(changes: dict[str, object], step: Step) -> None:
    """Then it ends as the doubt alone had kept it from ending, or is tried again."""
    row = doubtful(misses=1, missed_at=later(minutes=-10), **changes)
    assert told(row, Look(found=False)) == step
    check(State.UNCERTAIN, step.state)


def test_a_look_that_proved_nothing_is_repeated_later_and_later() -> None:
    """After a quarter of the time for which it has been asked, at least five seconds, and no sooner than it said."""
    nothing = Look(found=None)
    assert told(doubtful(last_unknown_at=NOW), nothing) == Stay(later(seconds=5 * 1.125), 0)
    assert told(doubtful(last_unknown_at=later(minutes=-40)), nothing) == Stay(later(minutes=10 * 1.125), 0)
    assert told(doubtful(last_unknown_at=later(days=-2)), nothing) == Stay(later(minutes=60 * 1.125), 0)
    assert told(doubtful(last_unknown_at=NOW), Look(found=None, retry_after=300.0)) == Stay(later(seconds=300), 0)
    assert told(doubtful(misses=1), nothing).misses == 1


def test_without_a_settling_time_no_miss_counts() -> None:
    """A provider that does not say when a miss means something can only show what it has."""
    promise = ASKED._replace(settling=None)
    assert told(doubtful(misses=1, last_unknown_at=NOW), Look(found=False), promise) == Stay(later(seconds=5.625), 1)


# --- holds ---------------------------------------------------------------------------------------


def on_hold(hours: float, **changes: object) -> Doubtful:
    return doubtful(state=State.HELD, since=later(hours=-hours), **changes)


def test_a_hold_raises_its_alarm_once_and_then_waits_for_its_end() -> None:
    """The alarm comes at its age, the end at its own."""
    assert go(on_hold(3), NOTHING) == Stay(later(hours=1), 0)
    assert go(on_hold(4), NOTHING) == Stay(later(hours=164), 0, alarmed=True)
    assert go(on_hold(5, alarmed=True), NOTHING) == Stay(later(hours=163), 0)


def test_a_hold_never_outlasts_its_end() -> None:
    """What follows is the hold's own policy, and a resend that may not leave is none."""
    over = on_hold(7 * 24, alarmed=True)
    assert go(over, NOTHING) == Step(State.UNCONFIRMED, "hold_ended")
    resend = Doubts(OnDoubt.HOLD, HOLD._replace(then=OnDoubt.RESEND))
    assert climb(over, NOW, 0.5, NOTHING, resend, LIMITS) == Step(State.READY, "resend_by_policy", granted=True)
    closed = over._replace(closed=True)
    assert climb(closed, NOW, 0.5, NOTHING, resend, LIMITS) == Step(State.UNCONFIRMED, "hold_ended")


def test_a_hold_shorter_than_its_alarm_is_looked_at_at_its_end() -> None:
    """The deadline of a hold counts, alarm or not."""
    short = Doubts(OnDoubt.HOLD, HoldPolicy(timedelta(hours=4), timedelta(hours=1)))
    assert climb(doubtful(), NOW, 0.5, NOTHING, short, LIMITS) == Step(State.HELD, "no_way_to_ask", later(hours=1))
    assert climb(on_hold(0), NOW, 0.5, NOTHING, short, LIMITS) == Stay(later(hours=1), 0)


def test_a_late_answer_takes_a_hold_back_to_reconcile() -> None:
    """Nobody has to decide about what is known."""
    assert go(on_hold(1, unknown=0), NOTHING) == Step(State.UNCERTAIN, "late_answer")


def test_every_step_is_in_the_table() -> None:
    """Whatever the row, the promise and the policy: the table allows it from where the row is."""
    rows = [
        doubtful(),
        doubtful(closed=True),
        doubtful(frozen=None),
        doubtful(unknown=0),
        doubtful(attempts=99),
        on_hold(1, unknown=0),
        on_hold(7 * 24),
    ]
    promises = (KEYED, NOTHING, ASKED, NAMED, SEARCHED, ECHOED)
    for row, promise, policy in product(rows, promises, OnDoubt):
        verdict = go(row, promise, policy)
        if isinstance(verdict, Step):
            check(row.state, verdict.state)
