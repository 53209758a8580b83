"""Times, spans and schedules as people are told them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from duly.core.schedule import Schedule, read_repeat
from duly.core.spoken import Place, listed, told_moment, told_schedule, told_span

NEW_YORK: Final = Place("America/New_York", ZoneInfo("America/New_York"))
ANCHOR: Final = datetime(2026, 12, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("2026-12-01T14:00:00Z", "Tue 1 Dec 2026 09:00 in America/New_York (14:00 UTC)"),
        ("2026-12-02T02:30:05.123456Z", "Tue 1 Dec 2026 21:30:05 in America/New_York (02:30:05 UTC on Wed 2)"),
    ],
)
def test_a_moment_is_told_by_the_clocks_of_a_place(moment: str, told: str) -> None:
    """Local time first, then UTC, with its day where that is another one, and seconds where there are any."""
    assert told_moment(moment, NEW_YORK) == told


def test_without_a_zone_a_moment_stays_as_it_is() -> None:
    """Nobody's clocks are guessed, be it that no zone is known or that this machine has none of that name."""
    assert told_moment("2026-12-01T14:00:00Z", Place(None, None)) == "2026-12-01T14:00:00Z"
    assert told_moment("2026-12-01T14:00:00Z", Place("Mars/Olympus", None)) == "2026-12-01T14:00:00Z"


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (timedelta(hours=24), "24 h"),
        (timedelta(hours=1, minutes=30, seconds=5), "1 h 30 min 5 s"),
        (timedelta(days=7), "7 d"),
        (timedelta(days=8, hours=2), "8 d 2 h"),
    ],
)
def test_a_span_is_told_in_its_units(span: timedelta, told: str) -> None:
    """Each unit by its sign, and none that is zero."""
    assert told_span(span) == told


def test_a_schedule_is_told_as_it_was_asked_for() -> None:
    """A moment by itself, a rule by its text, offsets before their anchor."""
    hours = [timedelta(hours=count) for count in (24, 2, 1)]
    daily = Schedule(ANCHOR, read_repeat("FREQ=DAILY", ANCHOR))
    assert told_schedule(None, "2026-12-01T09:00") == "2026-12-01T09:00"
    assert told_schedule(daily.to_text(), "2026-12-01T09:00") == daily.repeat
    offsets = Schedule(ANCHOR, before=tuple(hours))
    assert told_schedule(offsets.to_text(), "2026-12-01T09:00") == "24 h, 2 h and 1 h before 2026-12-01T09:00"
    assert listed(["a"]) == "a"
