"""Quiet hours: windows of the recipient's local day in which nothing begins.

A window is written "21:00-08:00", or "mon-fri 21:00-08:00" for some days of the week. It belongs to the day
on which it starts; one whose end comes before its start ends on the next day. Windows may overlap or touch:
together they are one stretch of quiet. A delivery that meets one waits for its end.

On the time line a window is what lies between two instants, its start and its end, each read by the rule of
`moments`: a local time that the clocks skip is read with the offset before the gap, one that comes twice is
its first pass. A window whose end would then come before its start is empty on that day.

Where a recipient's zone is not known, several zones may be his: what is quiet in any of them is quiet, so
only what is allowed in all of them is allowed. With zones on opposite sides of the earth that may be never.
So the search ends, two weeks after the day that it is asked about, and its end is then the answer: somebody
asks again there, unless the deadline has come first.

Answers are read from the stretches of quiet that touch the coming days, which are made once for each set
of windows, set of zones and day in UTC. Most questions need the next two days; only if these hold no start
of a window are the two weeks made.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from duly.core.moments import to_utc

__all__ = [
    "ANY_TIME",
    "LOUD_PURPOSE",
    "WEEK",
    "WINDOWS_MAX",
    "Look",
    "Window",
    "look",
    "read_window",
    "read_windows",
    "written",
]

WINDOWS_MAX: Final = 20
TEXT_CHARACTERS_MAX: Final = 64
SPANS_CACHED_MAX: Final = 4_096  # of a day or two each, at most some dozens of stretches
DAY_MINUTES: Final = 1_440
WEEK_MINUTES: Final = 7 * DAY_MINUTES
#: How far is looked, in days from the beginning of the day in UTC that is asked about.
NEAR_DAYS: Final = 2
SEARCH_DAYS: Final = 15  # at least 14 from any moment of that day
#: A local date may be a day behind UTC's, and a window may end a day after the date it belongs to.
DAYS_BEFORE: Final = 2

WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EVERY_DAY: Final = frozenset(range(len(WEEK)))
_DAY: Final = f"(?:{'|'.join(WEEK)})"
_DAYS: Final = f"{_DAY}(?:-{_DAY})?"
_WINDOW: Final = re.compile(
    rf"(?:(?P<days>{_DAYS}(?:, ?{_DAYS})*) )?(?P<start>[0-9]{{2}}:[0-9]{{2}})-(?P<end>[0-9]{{2}}:[0-9]{{2}})"
)
_WANTED: Final = "write one like 21:00-08:00 or mon-fri 21:00-08:00"

Span = tuple[datetime, datetime]


class Window(NamedTuple):
    """Quiet from `start` to `end`, in minutes of the local day, where it starts on one of `days` (Monday is 0).

    `end` may be 1440, which is midnight; an end before the start is on the next day.
    """

    start: int
    end: int
    days: frozenset[int] = _EVERY_DAY


class Look(NamedTuple):
    """What stands in the way now, and what will. Times are in UTC.

    `until`: it is quiet now, and this is the first allowed instant, or the end of the search; None: it is
    not quiet. `next_start`: the first instant after now at which it becomes quiet, or the end of the search
    if that comes first; None: never, because there are no windows.
    """

    until: datetime | None
    next_start: datetime | None


#: The purpose that keeps no quiet hours unless it is named: a code for a door is of no use tomorrow.
LOUD_PURPOSE: Final = "security"
#: There are no windows.
ANY_TIME: Final = Look(None, None)


# --- as text -------------------------------------------------------------------------------------


def read_windows(texts: Sequence[str]) -> tuple[Window, ...]:
    """At most 20 windows that leave some time of the week. Raises ValueError, whose text says what to write."""
    if len(texts) > WINDOWS_MAX:
        raise ValueError(f"there are over {WINDOWS_MAX} windows; write fewer, longer ones")
    windows = tuple(_numbered(number, text) for number, text in enumerate(texts, 1))
    if _cover_the_week(windows):
        raise ValueError("the windows cover the whole week, so nothing could ever be sent; leave some time free")
    return windows


def read_window(text: str) -> Window:
    """One window. Raises ValueError, whose text says what to write."""
    found = _WINDOW.fullmatch(text.lower()) if len(text) <= TEXT_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"it is not a window of quiet hours; {_WANTED}")
    start, end = _minutes(found["start"]), _minutes(found["end"])
    if start is None or end is None or start == DAY_MINUTES:
        raise ValueError(f"a time of it is on no clock (24:00 may be an end); {_WANTED}")
    if start == end:
        raise ValueError("it starts when it ends; a whole day is 00:00-24:00")
    return Window(start, end or DAY_MINUTES, _days(found["days"]))


def written(window: Window) -> str:
    """The window as `read_window` takes it, in one form for each: runs of days are joined, all of them left out."""
    hours = f"{_clock(window.start)}-{_clock(window.end)}"
    return hours if window.days == _EVERY_DAY else f"{','.join(_runs(window.days))} {hours}"


def _numbered(number: int, text: str) -> Window:
    try:
        return read_window(text)
    except ValueError as error:
        raise ValueError(f"window {number}: {error}") from None


def _minutes(clock: str) -> int | None:
    hours, minutes = int(clock[:2]), int(clock[3:])
    total = hours * 60 + minutes
    return total if minutes < 60 and total <= DAY_MINUTES else None  # noqa: PLR2004 - of an hour


def _days(text: str | None) -> frozenset[int]:
    if text is None:
        return _EVERY_DAY
    return frozenset(day for part in text.split(",") for day in _range(*part.strip().partition("-")))


def _range(first: str, _: str, last: str) -> Iterator[int]:
    """The days from one to another; from Saturday to Monday there are three."""
    start = WEEK.index(first)
    length = (WEEK.index(last or first) - start) % len(WEEK)
    return ((start + step) % len(WEEK) for step in range(length + 1))


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _runs(days: frozenset[int]) -> Iterator[str]:
    run: list[str] = []
    for number, name in enumerate([*WEEK, ""]):
        if number in days:
            run.append(name)
        elif run:
            yield f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run)  # noqa: PLR2004 - two days are no range
            run = []


def _cover_the_week(windows: Iterable[Window]) -> bool:
    """Whether no minute of a week is left, the week being a circle."""
    reached = 0
    for start, end in sorted(_in_week(windows)):
        if start > reached:
            return False
        reached = max(reached, end)
    return reached >= WEEK_MINUTES


def _in_week(windows: Iterable[Window]) -> Iterator[tuple[int, int]]:
    """Each window on each of its days, in minutes of the week; once more a week before, for what crosses its end."""
    for window in windows:
        for day in window.days:
            start = day * DAY_MINUTES + window.start
            end = start + _length(window)
            yield from ((start, end), (start - WEEK_MINUTES, end - WEEK_MINUTES))


def _length(window: Window) -> int:
    """In minutes; the whole day is the only window whose end is its start on the clock."""
    return (window.end - window.start) % DAY_MINUTES or DAY_MINUTES


# --- on the time line ----------------------------------------------------------------------------


def look(windows: Sequence[Window], zones: Sequence[tzinfo], now: datetime) -> Look:
    """Whether it is quiet now, and when that changes. `now` is in UTC.

    `zones` are those that may be the recipient's. Without any, quiet hours cannot be told, and nothing is
    allowed on a guess: ValueError. So whoever has windows must have a zone to fall back on, which the
    configuration demands.
    """
    if not windows:
        return ANY_TIME
    if not zones:
        raise ValueError("quiet hours without a zone cannot be told")
    mine, theirs, day = tuple(windows), tuple(zones), now.date()
    near = _quiet(mine, theirs, day, NEAR_DAYS)
    found = _read(near, now)
    return found if found.next_start != near.end else _read(_quiet(mine, theirs, day, SEARCH_DAYS), now)


class _Quiet(NamedTuple):
    """The stretches of quiet before `end`, and cut off there: their starts and ends, in order of time."""

    starts: tuple[datetime, ...]
    ends: tuple[datetime, ...]
    end: datetime


def _read(quiet: _Quiet, now: datetime) -> Look:
    begun = bisect_right(quiet.starts, now)
    until = quiet.ends[begun - 1] if begun and now < quiet.ends[begun - 1] else None
    return Look(until, quiet.starts[begun] if begun < len(quiet.starts) else quiet.end)


@lru_cache(SPANS_CACHED_MAX)
def _quiet(windows: tuple[Window, ...], zones: tuple[tzinfo, ...], day: date, days: int) -> _Quiet:
    """The stretches of quiet that touch the days from this one on, in UTC."""
    begin = datetime.combine(day, time(), UTC)
    end = begin + timedelta(days=days)
    spans = (span for zone in zones for span in _in_zone(windows, zone, begin, end))
    merged = _merged((start, stop) for start, stop in spans if begin < stop and start < end)
    return _Quiet(tuple(start for start, _ in merged), tuple(min(stop, end) for _, stop in merged), end)


def _in_zone(windows: tuple[Window, ...], zone: tzinfo, begin: datetime, end: datetime) -> Iterator[Span]:
    """The instants of every window that may touch the time between; some lie outside, and some are empty."""
    for number in range(-DAYS_BEFORE, (end - begin).days + 1):
        midnight = begin.replace(tzinfo=None) + timedelta(days=number)
        weekday = midnight.weekday()
        yield from (_instants(window, midnight, zone) for window in windows if weekday in window.days)


def _instants(window: Window, midnight: datetime, zone: tzinfo) -> Span:
    start = midnight + timedelta(minutes=window.start)
    return to_utc(start, zone), to_utc(start + timedelta(minutes=_length(window)), zone)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Stretches that overlap or touch as one, in order of time."""
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        elif start < stop:
            merged.append((start, stop))
    return merged
