"""A revision is written where nothing has changed since it was planned; otherwise one looks again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from duly.core import keys
from duly.core.model import NewReminder
from duly.core.revising import Revised
from duly.core.states import State
from duly.errors import StoreError
from duly.flows.revise import LOOKS_MAX, Wish, revise_reminder
from duly.flows.tick import tick
from duly.intake import zones
from duly.ports import Revision
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder
from duly.testing.driving import drive
from tests.flows.scene import Scene
from tests.stores.conformance.ticking import daily


def wish(new: NewReminder, version: int = 2, **more: Any) -> Wish:
    """Its next version."""
    newer = replace(new, body_hash=b"2" * 32, event_version=version)
    return Wish(newer, "ana", "the visit was moved", **{"newer_only": True, **more})


def tick_once(scene: Scene) -> None:
    """One tick."""
    drive(tick(scene.store, NAMESPACE, PROVIDERS, zones.known))


def test_a_revision_is_written(scene: Scene) -> None:
    """What was not sent is called off and comes anew."""
    (new,) = scene.schedule("r")
    tick_once(scene)
    assert drive(revise_reminder(scene.store, zones.known, wish(new, newer_only=True))).answer is Revised.MOVED
    tick_once(scene)
    first, again = (keys.delivery_id(NAMESPACE, "acme", "r", label, "webhook") for label in ("once", "once#2"))
    assert scene.stands(first) == (State.CANCELLED, "superseded")
    assert scene.stands(again) == (State.READY, None)


def test_a_plan_that_changes_nothing_writes_nothing(scene: Scene) -> None:
    """The answer is why."""
    (new,) = scene.schedule("r")
    drive(scene.store.cancel("ana", "moved out", reminder=new.id, delivery=None))
    assert drive(revise_reminder(scene.store, zones.known, wish(new))).answer is Revised.CANCELLED


def test_a_local_time_is_read_in_its_zone(scene: Scene) -> None:
    """The zone is found by its name."""
    (new,) = scene.schedule("r", due_in=3600)
    local = replace(new, zone="Europe/Berlin")
    assert drive(revise_reminder(scene.store, zones.known, wish(local))).answer is Revised.MOVED


def test_somebody_else_was_quicker(scene: Scene) -> None:
    """The reminder is looked at again; if that never ends, one gives up and says so."""
    (new,) = scene.schedule("r", due_in=3600)
    standing, looks = scene.store.standing, 0

    class Overtaken:
        """A store in which somebody reschedules the reminder behind every look but the last."""

        def __init__(self, looks_max: int) -> None:
            self.looks_max = looks_max

        async def standing(self, *arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            seen = await standing(*arguments)
            if looks < self.looks_max:
                later = seen.now + timedelta(hours=looks)
                moved = replace(new, next_due_at=later, deadline_at=later + timedelta(hours=8))
                revision = Revision(moved, seen.revision, seen.next_due_at, 1, (), keep_body=True)
                assert await scene.store.revise("bob", "again", revision)
            return seen

        async def revise(self, *arguments: Any) -> Any:
            return await scene.store.revise(*arguments)

    assert drive(revise_reminder(Overtaken(3), zones.known, wish(new))).answer is Revised.MOVED  # type: ignore[arg-type]
    assert looks == 3
    looks = 0
    with pytest.raises(StoreError, match="key r: others change this reminder all the time"):
        drive(revise_reminder(Overtaken(LOOKS_MAX + 1), zones.known, wish(new, 3)))  # type: ignore[arg-type]


def test_a_rule_that_comes_back_fires_when_it_is_due(scene: Scene) -> None:
    """Within five minutes a rule, once, once, and the rule again; a day later its next occurrence is sent, once."""
    rule = daily(scene.clock.now(), event_version=1)
    drive(scene.store.schedule([rule]))
    tick_once(scene)
    scene.deliver()
    for version, new in enumerate((once(scene, 1), once(scene, 2), rule), 2):
        scene.clock.advance(60)
        assert drive(revise_reminder(scene.store, zones.known, wish(new, version))).answer is Revised.MOVED
        tick_once(scene)
        scene.deliver()
    assert len(scene.keys_sent()) == 1
    scene.clock.advance(24 * 3600 - 200)
    tick_once(scene)
    scene.deliver()
    assert len(scene.keys_sent()) == 1
    scene.clock.advance(60)
    tick_once(scene)
    scene.deliver()
    tick_once(scene)
    assert len(set(scene.keys_sent())) == len(scene.keys_sent()) == 2


def once(scene: Scene, hours: int) -> NewReminder:
    return new_reminder("r", scene.clock.now() + timedelta(hours=hours))


def test_a_slot_that_was_sent_is_not_sent_again_further_west(scene: Scene) -> None:
    """A rule, twice once and called off, then the rule in a zone where the same wall time is still to come."""
    rule = daily(scene.clock.now(), event_version=1)
    drive(scene.store.schedule([rule]))
    tick_once(scene)
    scene.deliver()
    for version, new in enumerate((once(scene, 0), once(scene, 0), replace(rule, zone="America/New_York")), 2):
        assert drive(revise_reminder(scene.store, zones.known, wish(new, version))).answer is Revised.MOVED
        tick_once(scene)
    scene.clock.advance(6 * 3600)
    tick_once(scene)
    scene.deliver()
    assert len(scene.keys_sent()) == 1
    shown = drive(scene.store.views().show_reminder(rule.id))
    assert shown["next_label"] == f"{rule.next_due_at + timedelta(days=1):%Y-%m-%dT%H:%M}"
