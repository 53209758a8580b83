"""Holds: an operator's decision is carried out, with its evidence, or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.core.states import State
from duly.errors import InputError, NotFound
from duly.flows.holds import Verdict, decide_hold
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, UNKNOWN
from tests.flows.scene import Scene, scene_in

A = "https://a.example/in"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A scene whose receivers promise nothing."""
    with scene_in(tmp_path, deduplicates=False) as made:
        yield made


def held(scene: Scene, **more: Any) -> bytes:
    """A delivery that is held."""
    (delivery,) = scene.ready("a", url=A, **more)
    scene.transport.plan(A, UNKNOWN, ACCEPT)
    scene.deliver()
    scene.clock.advance(2.0)
    scene.reconcile()
    assert scene.stands(delivery)[0] == "held"
    return delivery


def decide(scene: Scene, delivery: bytes, verdict: Verdict) -> State:
    return drive(decide_hold(scene.store, delivery, verdict, "called them", "operator ana"))


@pytest.mark.parametrize(
    ("verdict", "state"),
    [(Verdict.SENT, State.SENT), (Verdict.CLOSE, State.UNCONFIRMED), (Verdict.RESEND, State.READY)],
)
def test_a_decision_is_carried_out_and_on_record(scene: Scene, verdict: Verdict, state: State) -> None:
    """With its actor, his reason, and what was known."""
    delivery = held(scene)
    assert decide(scene, delivery, verdict) is state
    assert scene.stands(delivery)[0] == state
    event = scene.show(delivery)["events"][-1]
    assert (event["actor"], event["reason"], event["from"], event["to"]) == (
        "operator ana",
        "called them",
        "held",
        state,
    )
    assert event["evidence"]["verdict"] == verdict
    assert event["evidence"]["unknown"] == 1
    assert event["evidence"]["held_because"] == "no_way_to_ask"


def test_a_resend_leaves_once_with_the_same_bytes(scene: Scene) -> None:
    """The risk was taken by name, for one attempt."""
    delivery = held(scene)
    decide(scene, delivery, Verdict.RESEND)
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    first, second = scene.requests()
    assert first.body == second.body


def test_what_is_not_held_is_not_decided(scene: Scene) -> None:
    """Neither what is ready nor what was decided already."""
    (other,) = scene.ready("b")
    delivery = held(scene)
    decide(scene, delivery, Verdict.SENT)
    for row in (other, delivery):
        with pytest.raises(NotFound):
            decide(scene, row, Verdict.SENT)


def test_a_resend_that_could_not_leave_is_refused(scene: Scene) -> None:
    """The reason is said where somebody reads it; the other decisions stay open."""
    delivery = held(scene, lasts=timedelta(seconds=60))
    scene.clock.advance(60.0)
    with pytest.raises(InputError, match="deadline has passed"):
        decide(scene, delivery, Verdict.RESEND)
    assert decide(scene, delivery, Verdict.CLOSE) is State.UNCONFIRMED


def test_a_resend_after_a_cancel_is_refused(scene: Scene) -> None:
    """A cancel binds operators too."""
    delivery = held(scene)
    drive(scene.store.cancel("somebody", "not needed", reminder=None, delivery=delivery))
    with pytest.raises(InputError, match="called off"):
        decide(scene, delivery, Verdict.RESEND)


def test_a_resend_without_bytes_is_refused(scene: Scene) -> None:
    """Other bytes under the same key would be another message."""
    delivery = held(scene)
    scene.change("delete from frozen")
    with pytest.raises(InputError, match="no longer kept"):
        decide(scene, delivery, Verdict.RESEND)


def test_a_row_that_changed_meanwhile_is_not_decided(scene: Scene) -> None:
    """The decision holds for the row as it was read."""
    delivery = held(scene)
    scene.unsteady.before("decide", lambda: scene.change("update work set fence = fence + 1"))
    with pytest.raises(InputError, match="look again"):
        decide(scene, delivery, Verdict.SENT)
    assert scene.stands(delivery)[0] == "held"
