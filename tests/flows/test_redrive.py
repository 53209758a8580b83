"""Redrive: dead letters go back to work once, however often it is run."""

from __future__ import annotations

from duly.core.limits import Limits
from duly.flows.redrive import REDRIVE_BATCH_ROWS, redrive
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, NOT_SENT, REJECT
from tests.flows.scene import Scene

A = "https://a.example/in"


def dead(scene: Scene, *names: str) -> list[bytes]:
    """Deliveries that have used their only attempt."""
    scene.route.limits = Limits(attempts_max=1)
    deliveries = scene.ready(*names, url=A)
    scene.transport.plan(A, NOT_SENT)
    scene.deliver()
    scene.transport.plan(A, ACCEPT)
    return deliveries


def test_a_dead_letter_is_sent_under_its_own_key(scene: Scene) -> None:
    """Its attempts are spared, its key is the same, and the decision is on record."""
    (delivery,) = dead(scene, "a")
    assert scene.stands(delivery)[0] == "dead"
    assert drive(redrive(scene.store, [delivery], "mended", "operator ana")) == 1
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert scene.outcomes(delivery) == ["not_sent", "accepted"]
    events = [(event["kind"], event["actor"], event["reason"]) for event in scene.show(delivery)["events"]]
    assert ("redriven", "operator ana", "mended") in events


def test_a_rejected_delivery_may_be_redriven_too(scene: Scene) -> None:
    """The address was mended at the receiver's side."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, REJECT)
    scene.deliver()
    assert drive(redrive(scene.store, [delivery], "mended", "operator ana")) == 1
    assert scene.stands(delivery)[0] == "ready"


def test_what_is_no_dead_letter_is_left_alone(scene: Scene) -> None:
    """A redrive repeats nothing: not what is sent, open or unknown."""
    (sent,) = scene.ready("a", url=A)
    scene.deliver()
    (ready,) = scene.ready("b", url=A)
    assert drive(redrive(scene.store, [sent, ready, b"?" * 16], "mended", "operator ana")) == 0


def test_it_works_in_batches_and_may_be_stopped_between_them(scene: Scene) -> None:
    """Run again, it takes what is left."""
    deliveries = dead(scene, *(f"r{number}" for number in range(REDRIVE_BATCH_ROWS + 5)))
    assert drive(redrive(scene.store, deliveries[:REDRIVE_BATCH_ROWS], "mended", "operator ana")) == REDRIVE_BATCH_ROWS
    scene.unsteady.calls.clear()
    assert drive(redrive(scene.store, deliveries, "mended", "operator ana")) == 5
    assert [len(call[2]) for call in scene.unsteady.called("requeue")] == [REDRIVE_BATCH_ROWS, 5]
