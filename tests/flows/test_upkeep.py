"""Upkeep: whatever no worker holds is moved on all the same."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from duly.core.caps import Cap
from duly.flows.upkeep import UPKEEP_BATCH_ROWS, forget
from duly.testing.driving import drive
from duly.testing.transport import REFUSE, SILENT, UNKNOWN
from tests.flows.scene import Scene

A = "https://a.example/in"


def test_what_has_waited_long_enough_is_ready(scene: Scene) -> None:
    """A waiting row comes back when its time has come, and not before."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, REFUSE)
    scene.deliver()
    assert scene.keep_up() == Counter()
    assert scene.stands(delivery)[0] == "waiting"
    scene.clock.advance(1.0)
    assert scene.keep_up() == Counter(ready=1)
    assert scene.stands(delivery) == ("ready", None)


def test_a_lease_that_ended_before_begin_costs_nothing(scene: Scene) -> None:
    """A worker that vanished with rows it had not begun leaves them ready."""
    (delivery,) = scene.ready("a")
    drive(scene.claims.take(1, 0.0))
    assert scene.stands(delivery)[0] == "leased"
    scene.clock.advance(60.0)
    assert scene.keep_up() == Counter(ready=1)
    assert scene.stands(delivery) == ("ready", None)
    assert scene.outcomes(delivery) == []


def test_a_lease_that_ended_after_begin_leaves_a_doubt(scene: Scene) -> None:
    """A worker that vanished with a request in the air leaves an attempt that may have been accepted."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, SILENT)
    scene.send()
    assert scene.keep_up() == Counter()
    scene.clock.advance(60.0)
    assert scene.keep_up() == Counter(uncertain=1)
    assert scene.stands(delivery) == ("uncertain", "unknown_worker_lost")
    assert scene.outcomes(delivery) == ["unknown"]


def test_what_nobody_claims_expires_at_its_deadline(scene: Scene) -> None:
    """Rows of a route without workers must not wait for ever."""
    (delivery,) = scene.ready("a", lasts=timedelta(seconds=30))
    assert scene.keep_up() == Counter()
    scene.clock.advance(30.0)
    assert scene.keep_up() == Counter(expired=1)
    assert scene.stands(delivery) == ("expired", "deadline_passed")


def test_in_doubt_a_deadline_leads_to_reconcile(scene: Scene) -> None:
    """What may have been accepted is not expired as if it had not been sent."""
    (delivery,) = scene.ready("a", url=A, lasts=timedelta(seconds=30))
    scene.transport.plan(A, UNKNOWN)
    scene.deliver()
    scene.clock.advance(2.0)
    scene.reconcile()
    assert scene.stands(delivery)[0] == "ready"
    scene.clock.advance(30.0)
    assert scene.keep_up() == Counter(uncertain=1)
    assert scene.stands(delivery) == ("uncertain", "deadline_passed_in_doubt")


def test_each_duty_is_bounded(scene: Scene) -> None:
    """No duty takes more than one batch at a time."""
    scene.keep_up()
    limits = [scene.unsteady.called(duty)[0][0] for duty in ("promote", "take_back", "sweep")]
    assert limits == [UPKEEP_BATCH_ROWS] * 3


def test_what_no_cap_looks_back_to_is_forgotten(scene: Scene) -> None:
    """A begin under a cap is remembered for as long as a cap may look back, and no longer."""
    scene.route.caps = lambda account, purpose: Cap(9, timedelta(days=1))  # noqa: ARG005 - as Policies.cap
    scene.ready("a")
    scene.deliver()
    assert drive(forget(scene.store)) == 0
    scene.clock.advance(timedelta(days=367).total_seconds())
    assert drive(forget(scene.store)) == 1
    assert scene.value("select count(*) from capped") == 0
