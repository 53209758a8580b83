"""Fold: what is late and is to be summarized comes as one message, and shares its fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from duly.content import LATE_SUMMARY, Template, TemplateSet
from duly.core import keys
from duly.core.folding import GATHER_SECONDS, RETURNS_MAX
from duly.core.quiet_hours import Look
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, REFUSE, UNKNOWN
from tests.flows.scene import Scene, scene_in

A: Final = "https://a.example/in"
LATE: Final = {"late": "summarize", "deadline": "PT1M", "late_until": "PT8H", "due_in": -3600.0, "url": A}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A scene with the template of summaries."""
    with scene_in(tmp_path) as opened:
        note = Template("note", "Note", "hello {{ recipient.name }}{% if late %}, {{ late.by }} late{% endif %}")
        unit = Template("unit", "", "unit {{ data.unit }}")
        opened.route.templates = TemplateSet({one.name: one for one in (note, unit, LATE_SUMMARY)})
        yield opened


def summary_of(scene: Scene, delivery: bytes) -> bytes:
    """What a delivery is folded into."""
    return keys.parse(scene.show(delivery)["summary"]) or b""


def gather(scene: Scene) -> None:
    """Fold what is late, and let the time pass in which a summary gathers."""
    scene.send()
    scene.clock.advance(GATHER_SECONDS)
    scene.keep_up()


def body(scene: Scene) -> dict[str, Any]:
    """The latest message that left, as its receiver has it."""
    found: dict[str, Any] = orjson.loads(scene.requests()[-1].body)["data"]
    return found


def test_what_is_late_comes_as_one(scene: Scene) -> None:
    """Two reminders, one request, under a key of its own and marked as late; both are sent."""
    first, second = scene.ready("a", "b", **LATE)
    scene.send()
    assert scene.requests() == []
    assert scene.stands(first) == scene.stands(second) == ("folded", "late")
    summary = summary_of(scene, first)
    assert summary == summary_of(scene, second)
    gather(scene)
    scene.deliver()
    assert scene.keys_sent() == [keys.show(summary)]
    assert (body(scene)["subject"], body(scene)["late"]) == ("2 reminders", True)
    assert body(scene)["text"] == "Note\nhello Ana, 1 hour late\n\nNote\nhello Ana, 1 hour late\n"
    assert [one["reminder"] for one in body(scene)["data"]["reminders"]] == ["a", "b"]
    assert scene.keep_up() == Counter(sent=2)
    assert scene.stands(first) == scene.stands(second) == ("sent", "summary_sent")
    assert scene.route.tally["folded"] == 2


def test_one_alone_is_told_as_itself(scene: Scene) -> None:
    """A summary of one has its subject and its text."""
    scene.ready("a", **LATE)
    gather(scene)
    scene.deliver()
    assert (body(scene)["subject"], body(scene)["text"]) == ("Note", "hello Ana, 1 hour late\n")


def test_what_is_on_time_is_not_folded(scene: Scene) -> None:
    """Only what is past its deadline waits for others."""
    (delivery,) = scene.ready("a", **{**LATE, "due_in": -1.0})
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")


def test_who_may_not_be_sent_to_is_not_folded(scene: Scene) -> None:
    """Quiet hours come first: what waits for them is folded when they are over."""
    (delivery,) = scene.ready("a", **LATE)
    ends = scene.clock.now() + timedelta(hours=1)
    scene.route.quiet = lambda row, now: Look(ends, None) if now < ends else Look(None, None)  # noqa: ARG005
    scene.send()
    assert scene.stands(delivery) == ("waiting", "quiet_hours")
    scene.clock.advance(3600.0)
    scene.keep_up()
    scene.send()
    assert scene.stands(delivery) == ("folded", "late")


def test_what_cannot_be_rendered_keeps_no_other_back(scene: Scene) -> None:
    """It is rejected, as it would be alone, and the summary tells of the others."""
    (bad,) = scene.ready("bad", template="unit", **LATE)
    (good,) = scene.ready("good", **LATE)
    gather(scene)
    assert scene.stands(bad)[0] == "rejected"
    scene.deliver()
    scene.keep_up()
    assert scene.stands(good) == ("sent", "summary_sent")


def test_in_doubt_only_its_own_bytes_go_out(scene: Scene) -> None:
    """What may have been accepted is not told once more by a summary."""
    (delivery,) = scene.ready("a", **{**LATE, "due_in": -50.0})
    scene.transport.plan(A, UNKNOWN)
    scene.deliver()
    scene.transport.plan(A, ACCEPT)
    scene.clock.advance(30.0)
    scene.reconcile()
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert scene.keys_sent() == [keys.show(delivery)] * 2


def test_what_was_refused_on_time_may_be_folded_later(scene: Scene) -> None:
    """A refusal leaves no doubt, so its next turn, which is late, goes into a summary."""
    (delivery,) = scene.ready("a", **{**LATE, "due_in": -30.0})
    scene.transport.plan(A, REFUSE)
    scene.deliver()
    scene.transport.plan(A, ACCEPT)
    scene.clock.advance(60.0)
    scene.keep_up()
    gather(scene)
    assert scene.stands(delivery) == ("folded", "late")
    scene.deliver()
    scene.keep_up()
    assert scene.stands(delivery) == ("sent", "summary_sent")
    assert scene.outcomes(delivery) == ["refused"]


def test_a_summary_that_comes_to_nothing_gives_back(scene: Scene) -> None:
    """What was in it is folded anew, and after some times sent alone: it is never lost."""
    (delivery,) = scene.ready("a", **LATE)
    scene.route.templates = TemplateSet(
        {"note": Template("note", "", "hello"), LATE_SUMMARY.name: Template(LATE_SUMMARY.name, "", "{{ data.nobody }}")}
    )
    summaries = set()
    for _ in range(RETURNS_MAX):
        scene.send()
        summaries.add(summary_of(scene, delivery))
        gather(scene)
        scene.send()
        assert scene.keep_up() == Counter(ready=1)
    assert len(summaries) == RETURNS_MAX
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert body(scene)["late"] is True


def test_what_cannot_join_now_waits_a_moment(scene: Scene) -> None:
    """A summary in another worker's hands takes up nothing; its row looks again soon."""
    scene.ready("a", **LATE)
    gather(scene)
    batch = drive(scene.claims.take(10, 0.0))
    assert batch is not None
    (late,) = scene.ready("b", **LATE)
    scene.send()
    assert scene.stands(late) == ("waiting", "summary_under_way")
    drive(scene.store.abandon("w1", [(row.id, row.fence) for row in batch.rows]))
    scene.deliver()
    scene.clock.advance(1.0)
    scene.keep_up()
    scene.send()
    assert scene.stands(late) == ("folded", "late")
    assert summary_of(scene, late) != batch.rows[0].id
