"""Schedules in short, for the tests of this room."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from duly.core.schedule import Schedule, Slot, first, following, read_repeat, slot, slots

NEW_YORK: Final = ZoneInfo("America/New_York")
START: Final = datetime(2026, 3, 6, 9)


def utc(*parts: int) -> datetime:
    """An instant."""
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def repeating(text: str, start: datetime = START) -> Schedule:
    """A schedule of that rule."""
    return Schedule(start, read_repeat(text, start))


def coming(schedule: Schedule, zone: tzinfo | None = NEW_YORK, count: int = 5) -> list[Slot]:
    """Its first slots, asked for in the three ways that there are, which must agree."""
    found = [first(schedule, zone)]
    while len(found) < count and (behind := following(schedule, zone, found[-1].label)):
        found.append(behind)
    assert found == list(islice(slots(schedule, zone, found[0].label), count))
    assert all(slot(schedule, zone, one.label) == one for one in found)
    assert Schedule.from_text(schedule.to_text()) == schedule
    return found


def labels(text: str, start: datetime = START, count: int = 5, zone: tzinfo | None = NEW_YORK) -> list[str]:
    """The labels of a rule's first slots."""
    return [found.label for found in coming(repeating(text, start), zone, count)]
