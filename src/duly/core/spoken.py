"""How times, spans and schedules are told to people.

A moment is told by the clocks where the recipient lives, and in UTC: `Tue 1 Dec 2026 09:00 in America/New_York (14:00
UTC)`. Where UTC has another day, it is named. Without a zone a moment stays as the views show it: RFC 3339 in UTC.
The words are English, as all our own words are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from duly.core.moments import write_duration
from duly.core.schedule import Schedule

__all__ = ["Place", "begun", "listed", "told_at", "told_moment", "told_schedule", "told_span"]

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS: Final = (("D", "d"), ("H", "h"), ("M", "min"), ("S", "s"))


class Place(NamedTuple):
    """Where somebody lives: the name of his zone, and its clocks; None where this machine does not know it."""

    name: str | None
    clocks: tzinfo | None


def told_moment(moment: str, place: Place) -> str:
    """A moment of a view (RFC 3339 in UTC) by the clocks of a place."""
    if place.clocks is None:
        return moment
    instant = datetime.fromisoformat(moment).astimezone(UTC)
    local = instant.astimezone(place.clocks)
    day = "" if local.date() == instant.date() else f" on {_DAYS[instant.weekday()]} {instant.day}"
    return f"{_day(local)} {_clock(local)} in {place.name} ({_clock(instant)} UTC{day})"


def told_at(moment: str, place: Place) -> str:
    """A moment behind its preposition."""
    return f"{'at' if place.clocks is None else 'on'} {told_moment(moment, place)}"


def begun(words: str) -> str:
    """The words as the beginning of a sentence. A name in them keeps its letters."""
    return words[:1].upper() + words[1:]


def _day(moment: datetime) -> str:
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


def told_span(span: timedelta) -> str:
    """A span of whole seconds as `24 h`, `1 h 30 min` or `7 d`: the hours of a week are days."""
    written = write_duration(span).removeprefix("P").replace("T", "")
    for letter, unit in _UNITS:
        written = written.replace(letter, f" {unit} ")
    return written.strip()


def told_schedule(schedule: str | None, notify_at: str) -> str:
    """A schedule's JSON text as people read it: a rule by its text, offsets before their anchor, else the moment."""
    if schedule is None:
        return notify_at
    found = Schedule.from_text(schedule)
    if found.repeat is not None:
        return found.repeat
    return f"{listed([told_span(offset) for offset in found.before])} before {notify_at}"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last
