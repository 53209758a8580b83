"""Reconcile: each delivery of which nobody knows goes the way that its receiver's promise and its account allow."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from duly.core.limits import Limits
from duly.core.model import OnDoubt
from duly.flows.reconcile import reconcile
from duly.ports import Answer
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, REFUSE, REJECT, UNKNOWN
from tests.flows.scene import Scene, scene_in

A = "https://a.example/in"


def in_doubt(scene: Scene, *answers: Answer, **more: object) -> bytes:
    """A delivery whose first attempt may have been accepted, and whose time to be looked at has come."""
    (delivery,) = scene.ready("a", url=A, **more)
    scene.transport.plan(A, *(answers or (UNKNOWN,)))
    scene.deliver()
    scene.clock.advance(2.0)
    return delivery


def events(scene: Scene, delivery: bytes) -> list[tuple[str, str, str]]:
    """Actor, target and reason of each event."""
    return [(event["actor"], event["to"], event["reason"]) for event in scene.show(delivery)["events"]]


def test_without_doubt_there_is_nothing_to_do(scene: Scene) -> None:
    """A ledger without uncertain rows is only looked at."""
    scene.ready("a")
    assert scene.reconcile() == Counter()
    assert scene.unsteady.called("decide") == []


def test_a_row_is_looked_at_when_its_time_comes(scene: Scene) -> None:
    """Not before: the provider is given time."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, UNKNOWN)
    scene.deliver()
    assert scene.reconcile() == Counter()
    assert scene.stands(delivery) == ("uncertain", "unknown_timeout")


def test_a_receiver_that_drops_repeats_is_asked_again_under_the_same_key(scene: Scene) -> None:
    """Back to ready, with a decision on record, and accepted once whatever the first attempt did."""
    delivery = in_doubt(scene, UNKNOWN, ACCEPT)
    assert scene.reconcile() == Counter(ready=1)
    assert scene.stands(delivery) == ("ready", None)
    assert events(scene, delivery) == [("reconciler", "ready", "resend_same_key")]
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert len(set(scene.keys_sent())) == 1
    assert len(scene.requests()) == 2


@pytest.mark.parametrize(
    ("policy", "stands", "tally"),
    [
        (OnDoubt.HOLD, ("held", "no_way_to_ask"), "held"),
        (OnDoubt.CLOSE, ("unconfirmed", "no_way_to_ask"), "unconfirmed"),
        (OnDoubt.RESEND, ("ready", None), "ready"),
    ],
)
def test_where_nothing_can_be_asked_the_accounts_policy_decides(
    tmp_path: Path, policy: OnDoubt, stands: tuple[str, str | None], tally: str
) -> None:
    """A receiver that promises nothing leaves the last rung."""
    with scene_in(tmp_path, deduplicates=False) as scene:
        delivery = in_doubt(scene)
        assert scene.reconcile(policy) == Counter({tally: 1})
        assert scene.stands(delivery) == stands
        scene.send()
        assert len(scene.requests()) == (2 if policy is OnDoubt.RESEND else 1)


def test_a_resend_by_policy_is_granted_once_at_a_time(tmp_path: Path) -> None:
    """The grant is for one attempt: if that is in doubt too, the policy is asked again."""
    with scene_in(tmp_path, deduplicates=False) as scene:
        delivery = in_doubt(scene, UNKNOWN, UNKNOWN, ACCEPT)
        scene.reconcile(OnDoubt.RESEND)
        scene.deliver()
        scene.clock.advance(5.0)
        assert scene.reconcile(OnDoubt.HOLD) == Counter(held=1)
        assert scene.outcomes(delivery) == ["unknown", "unknown"]


def test_a_key_is_not_used_when_its_window_has_closed(tmp_path: Path) -> None:
    """The promise ends a margin early, and what it covered is then a question of policy."""
    with scene_in(tmp_path, key_window=timedelta(minutes=5)) as scene:
        delivery = in_doubt(scene)
        scene.clock.advance(4 * 60.0)
        assert scene.reconcile() == Counter(held=1)
        assert scene.stands(delivery) == ("held", "key_window_closed")


def test_exhausted_attempts_close_the_rungs_that_send(scene: Scene) -> None:
    """Out of attempts, not even the same key is asked again, and no policy resends."""
    scene.route.limits = Limits(attempts_max=1)
    delivery = in_doubt(scene)
    assert scene.reconcile(OnDoubt.RESEND) == Counter(held=1)
    assert scene.stands(delivery)[0] == "held"
    assert len(scene.requests()) == 1


def test_past_its_deadline_a_delivery_in_doubt_is_not_sent_and_not_expired(scene: Scene) -> None:
    """It may have been accepted in time: only the account's policy may end it."""
    delivery = in_doubt(scene, lasts=timedelta(seconds=30))
    scene.clock.advance(30.0)
    assert scene.reconcile(OnDoubt.CLOSE) == Counter(unconfirmed=1)
    assert scene.stands(delivery) == ("unconfirmed", "deadline_passed_in_doubt")


def answered_late(scene: Scene, answer: Answer) -> bytes:
    """A delivery that was given up with its worker, and whose answer came all the same."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport._seconds = 70.0
    scene.transport.plan(A, answer)
    scene.send()
    scene.clock.advance(61.0)
    scene.keep_up()
    scene.clock.advance(9.0)
    scene.settle()
    assert scene.stands(delivery) == ("uncertain", "unknown_worker_lost")
    return delivery


def test_a_late_definite_answer_ends_the_doubt(scene: Scene) -> None:
    """Not accepted after all: the delivery waits for its next try, as it would have at once."""
    delivery = answered_late(scene, REFUSE)
    assert scene.reconcile() == Counter(waiting=1)
    assert scene.stands(delivery) == ("waiting", "late_answer")
    assert not scene.value("select doubt from work")
    scene.clock.advance(5.0)
    scene.keep_up()
    scene.transport.plan(A, ACCEPT)
    scene.send()
    scene.clock.advance(70.0)
    scene.settle()
    assert scene.outcomes(delivery) == ["refused", "accepted"]


def test_a_late_rejection_is_an_end(scene: Scene) -> None:
    """A definite no for good is one, however late it came."""
    delivery = answered_late(scene, REJECT)
    assert scene.reconcile() == Counter(rejected=1)
    assert scene.stands(delivery) == ("rejected", "rejected_consent_revoked")


def test_a_late_refusal_of_the_last_attempt_is_an_end(scene: Scene) -> None:
    """Without doubt and without attempts left, it is dead."""
    scene.route.limits = Limits(attempts_max=1)
    delivery = answered_late(scene, REFUSE)
    assert scene.reconcile() == Counter(dead=1)
    assert scene.stands(delivery) == ("dead", "attempts_exhausted")


def test_rows_of_foreign_providers_are_left_alone(scene: Scene) -> None:
    """A process that does not know a provider's promises decides nothing about its rows."""
    delivery = in_doubt(scene)
    desk = scene.desk(OnDoubt.CLOSE)
    desk.providers = {}
    found = drive(reconcile(desk))
    assert found == Counter()
    assert scene.unsteady.called("decide") == []
    assert scene.stands(delivery) == ("uncertain", "unknown_timeout")


def test_a_row_that_somebody_else_took_meanwhile_is_not_counted(scene: Scene) -> None:
    """A decision holds only under its own fence."""
    delivery = in_doubt(scene)
    scene.unsteady.before("decide", lambda: scene.change("update work set fence = fence + 1"))
    assert scene.reconcile() == Counter()
    assert scene.stands(delivery) == ("uncertain", "unknown_timeout")


def test_doubt_that_was_closed_stays_closed(scene: Scene) -> None:
    """Cancelled in doubt: the looking rungs remain, and none that sends."""
    delivery = in_doubt(scene)
    drive(scene.store.cancel("somebody", "not needed", reminder=None, delivery=delivery))
    assert scene.reconcile(OnDoubt.RESEND) == Counter(held=1)
    assert len(scene.requests()) == 1
