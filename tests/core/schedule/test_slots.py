"""Slots: their labels, their instants, and the questions that are asked of a schedule."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from duly.core.schedule import ONCE, Schedule, Slot, first, first_after, following, run_until, slot, slots_since
from tests.core.schedule.values import NEW_YORK, coming, labels, repeating, utc

HOURS = timedelta(hours=1)


def test_an_instant_fires_once() -> None:
    """It has one slot, whatever the zone."""
    schedule = Schedule(utc(2026, 12, 1, 9))
    assert coming(schedule) == coming(schedule, None) == [Slot(ONCE, utc(2026, 12, 1, 9))]


def test_a_wall_time_fires_once_in_its_zone() -> None:
    """The slot follows the zone, and keeps its label."""
    schedule = Schedule(datetime(2026, 12, 1, 9))
    assert first(schedule, NEW_YORK) == Slot(ONCE, utc(2026, 12, 1, 14))
    assert slot(schedule, None, ONCE) == Slot(ONCE, utc(2026, 12, 1, 9))


def test_offsets_before_an_anchor() -> None:
    """Each is real time before the anchor's instant, also where the clocks change between them."""
    schedule = Schedule(datetime(2026, 3, 8, 9), before=(168 * HOURS, 24 * HOURS, 1.5 * HOURS))
    assert coming(schedule) == [
        Slot("-P7D", utc(2026, 3, 1, 13)),
        Slot("-PT24H", utc(2026, 3, 7, 13)),
        Slot("-PT1H30M", utc(2026, 3, 8, 11, 30)),
    ]
    left = replace(schedule, left_out=(168 * HOURS, 1.5 * HOURS))
    assert [one.label for one in coming(left)] == ["-PT24H"]
    assert [*slots_since(replace(schedule, left_out=schedule.before), None, utc(1970, 1, 1))] == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("FREQ=DAILY", ["2026-03-06T09:00", "2026-03-07T09:00"]),
        ("RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", ["2026-03-16T09:00", "2026-03-30T09:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31", ["2026-03-31T09:00", "2026-05-31T09:00"]),
        ("FREQ=DAILY;COUNT=1", ["2026-03-06T09:00"]),
        ("FREQ=HOURLY;INTERVAL=6", ["2026-03-06T14:00Z", "2026-03-06T20:00Z"]),
        ("FREQ=DAILY\nEXDATE:20260307T090000\nRDATE:20260306T120000Z", ["2026-03-06T12:00Z", "2026-03-06T09:00"]),
        ("RDATE:20260401T090000,20260301T090000", ["2026-03-01T09:00", "2026-04-01T09:00"]),
        ("0 9 * * MON", ["2026-03-09T09:00", "2026-03-16T09:00"]),
        ("*/40 */12 * * *", ["2026-03-06T17:00Z", "2026-03-06T17:40Z"]),
        ("@daily", ["2026-03-07T00:00", "2026-03-08T00:00"]),
    ],
)
def test_labels(text: str, wanted: list[str]) -> None:
    """Wall times are labelled as such, sub-daily slots and instants by their instant."""
    assert labels(text, count=2) == wanted


def test_a_slot_that_is_gone() -> None:
    """An edited schedule says so, and the next slot behind the old label is still found."""
    schedule = repeating("FREQ=WEEKLY")
    assert slot(schedule, NEW_YORK, "2026-03-07T09:00") is None
    assert slot(schedule, NEW_YORK, ONCE) is None
    assert following(schedule, NEW_YORK, "2026-03-07T09:00") == Slot("2026-03-13T09:00", utc(2026, 3, 13, 13))
    with pytest.raises(ValueError, match="'once' names no firing of this schedule"):
        following(schedule, NEW_YORK, ONCE)
    with pytest.raises(ValueError, match="'2026-03-07T09:00' names no firing of this schedule"):
        following(Schedule(utc(2026, 3, 7)), None, "2026-03-07T09:00")


def test_an_edited_schedule_does_not_fire_at_once() -> None:
    """The first slot after a moment is due behind it."""
    schedule = repeating("FREQ=DAILY")
    assert first_after(schedule, NEW_YORK, utc(2026, 3, 9, 13)) == Slot("2026-03-10T09:00", utc(2026, 3, 10, 13))
    assert first_after(Schedule(utc(2026, 1, 1)), None, utc(2026, 1, 1)) is None


def test_the_latest_slot_by_a_moment() -> None:
    """It comes with the number of slots from the label to it, and with the one behind it."""
    schedule = repeating("FREQ=DAILY")
    found = run_until(schedule, NEW_YORK, "2026-03-06T09:00", utc(2026, 3, 9, 13), 1)
    latest, behind = Slot("2026-03-09T09:00", utc(2026, 3, 9, 13)), Slot("2026-03-10T09:00", utc(2026, 3, 10, 13))
    assert found == (4, (latest,), behind)
    none_yet = run_until(schedule, NEW_YORK, "2026-03-06T09:00", utc(2026, 3, 6, 13, 59), 1)
    assert none_yet == (0, (), Slot("2026-03-06T09:00", utc(2026, 3, 6, 14)))
