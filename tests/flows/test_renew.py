"""Renew: what is in the air keeps its lease, what is not must be claimed again."""

from __future__ import annotations

from duly.flows.renew import renew_some
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, SILENT
from tests.flows.scene import LEASE_SECONDS, Scene

A = "https://a.example/in"


def renewed(scene: Scene, seconds: float) -> int:
    """Let time pass, and renew."""
    scene.clock.advance(seconds)
    return drive(renew_some(scene.route))


def in_the_air(scene: Scene, *names: str) -> list[bytes]:
    """Deliveries whose requests nobody answers."""
    deliveries = scene.ready(*names, url=A)
    scene.transport.plan(A, SILENT)
    scene.send()
    return deliveries


def test_a_slow_request_keeps_its_lease(scene: Scene) -> None:
    """From half of the lease on, once per half lease; upkeep does not take it back."""
    (delivery,) = in_the_air(scene, "a")
    assert renewed(scene, LEASE_SECONDS / 2 - 1) == 0
    assert renewed(scene, 1.0) == 1
    assert renewed(scene, 1.0) == 0
    assert renewed(scene, LEASE_SECONDS / 2) == 1
    assert not +scene.keep_up()
    assert scene.stands(delivery)[0] == "sending"


def test_a_request_without_end_is_given_up(scene: Scene) -> None:
    """Its timeout and a whole lease later something is wrong with this worker: others may look at the row."""
    (delivery,) = in_the_air(scene, "a")
    passed = 0.0
    while passed < LEASE_SECONDS + 10.0:
        renewed(scene, LEASE_SECONDS / 2)
        passed += LEASE_SECONDS / 2
    assert renewed(scene, LEASE_SECONDS / 2) == 0
    scene.clock.advance(LEASE_SECONDS)
    scene.keep_up()
    assert scene.stands(delivery) == ("uncertain", "unknown_worker_lost")


def test_what_has_not_begun_is_not_renewed(scene: Scene) -> None:
    """Trust to start a request never grows."""
    scene.ready("a")
    drive(scene.claims.take(1, 0.0))
    assert renewed(scene, LEASE_SECONDS / 2) == 0
    assert scene.unsteady.called("renew") == []


def test_a_lease_that_was_lost_is_not_won_back(scene: Scene) -> None:
    """Whoever has the row now has it; the answer that comes is recorded all the same."""
    (delivery,) = in_the_air(scene, "a")
    scene.change("update work set lease_until = 0")
    scene.keep_up()
    assert renewed(scene, LEASE_SECONDS / 2) == 0
    assert len(scene.unsteady.called("renew")) == 1
    assert renewed(scene, 1.0) == 0
    assert len(scene.unsteady.called("renew")) == 1
    assert scene.stands(delivery)[0] == "uncertain"


def test_a_request_that_lands_meanwhile_is_left_alone(scene: Scene) -> None:
    """It may be settled while the database renews."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport._seconds = 35.0
    scene.transport.plan(A, ACCEPT)
    scene.send()
    scene.clock.advance(36.0)
    scene.unsteady.after("renew", lambda: scene.settle() and None)
    assert drive(renew_some(scene.route)) == 1
    assert scene.route.flights == {}
    assert scene.stands(delivery)[0] == "sent"
