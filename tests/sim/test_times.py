"""The world's own reckoning of slots and quiet hours, against what is known and against the product's."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from duly.core.schedule import Schedule, first, slots
from duly.sim.chance import Chance
from duly.sim.errands import going_on
from duly.sim.times import ZONES, Course, Slot, draw_course, is_quiet, slots_of
from duly.testing.builders import new_reminder

NINE = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("course", "labels"),
    [
        (Course(NINE, "latest", step_minutes=20, times=2), ["2026-12-01T09:00Z", "2026-12-01T09:20Z"]),
        (Course(NINE, "latest", days=True, times=2), ["2026-12-01T04:00", "2026-12-02T04:00"]),
        (Course(NINE, "latest", before_minutes=(150, 60, 5)), ["-PT2H30M", "-PT1H", "-PT5M"]),
    ],
)  # fmt: skip
def test_slots_are_named(course: Course, labels: list[str]) -> None:
    """Steps are named by instants, days by wall times, offsets by themselves."""
    assert [slot.label for slot in slots_of(course, "America/New_York", "America/New_York")] == labels


def test_who_moves_keeps_his_walls() -> None:
    """A slot keeps its label in another zone, and has another instant."""
    course = Course(NINE, "latest", days=True, times=1, follows_recipient=True)
    assert slots_of(course, "America/New_York", "Asia/Kolkata") == (
        Slot("2026-12-01T04:00", datetime(2026, 11, 30, 22, 30, tzinfo=UTC)),
    )


def test_both_reckonings_agree() -> None:
    """A thousand drawn courses name the same slots as the product's schedules do."""
    chance = Chance(1, "courses")
    for _ in range(1_000):
        course, home = (
            draw_course(chance, chance.between(-10.0, 20_000.0), chance.spread(60.0, 21_600.0)),
            chance.pick(ZONES),
        )
        ours = slots_of(course, home, home)
        if not ours:
            continue
        made = going_on(new_reminder("r", NINE), course, home, 60)
        schedule, zone = Schedule.from_text(made.schedule or ""), ZoneInfo(made.zone) if made.zone else None
        theirs = islice(slots(schedule, zone, first(schedule, zone).label), len(ours))
        assert [tuple(slot) for slot in theirs] == [tuple(slot) for slot in ours]
        assert (made.next_label, made.next_due_at) == ours[0]


@pytest.mark.parametrize(
    ("window", "zone", "quiet"),
    [
        ("08:00-10:00", "Europe/Berlin", False),  # it is 10:00 there
        ("10:00-10:01", "Europe/Berlin", True),
        ("22:00-10:01", "Europe/Berlin", True),
        ("10:01-10:00", "Europe/Berlin", False),
        ("03:59-04:01", "America/New_York", True),
    ],
)
def test_quiet_hours_are_told(window: str, zone: str, quiet: bool) -> None:
    """A window begins with its first minute, ends before its last one, and may go over midnight."""
    assert is_quiet(window, zone, NINE) is quiet
