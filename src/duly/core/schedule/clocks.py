"""A zone's changes of offset, found by looking at the zone: `tzinfo` does not tell them.

Between two changes the wall time is the instant plus one number. A *stretch* is such a time. A *jump* is by
how much the clocks go forward near an instant: wall times of so long are missing, and are read with the
offset before (see `moments.to_utc`), so up to so long behind it wall times and instants have another order.

Changes are looked for once a day. Two that undo each other within a day would be missed; no zone has had
any since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["Stretch", "jump_near", "offset_at", "stretches", "wall_time"]

JUMPS_CACHED_MAX: Final = 16_384

_STEP: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_NONE: Final = timedelta(0)
#: A day that begins here is asked about at these times of UTC. No zone is further than 24 h from it.
_ASKED: Final = tuple(timedelta(hours=hours) for hours in (-26, 0, 24, 50))


class Stretch(NamedTuple):
    """From `begins` until before `ends` (naive, UTC) the wall time is the instant plus `offset`."""

    begins: datetime
    ends: datetime
    offset: timedelta


def wall_time(instant: datetime, zone: tzinfo) -> datetime:
    """What the clocks of a zone show, as a naive time."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def offset_at(naive: datetime, zone: tzinfo) -> timedelta:
    """The offset from UTC at an instant that is given as a naive time of UTC."""
    return naive.replace(tzinfo=UTC).astimezone(zone).utcoffset() or _NONE


def stretches(zone: tzinfo, begins: datetime, ends: datetime) -> Iterator[Stretch]:
    """The stretches between two naive times of UTC, in order."""
    day, offset = begins, offset_at(begins, zone)
    while day < ends:
        until = min(day + _STEP, ends)
        if offset_at(until, zone) == offset:
            day = until
            continue
        day = _change(zone, day, until, offset)
        yield Stretch(begins, day, offset)
        begins, offset = day, offset_at(day, zone)
    if begins < ends:
        yield Stretch(begins, ends, offset)


def _change(zone: tzinfo, begins: datetime, ends: datetime, offset: timedelta) -> datetime:
    """The second from which on the offset is another one; it is at the end, and not at the beginning."""
    low, high = 0, -(-(ends - begins) // _SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_at(begins + middle * _SECOND, zone) == offset else (low, middle)
    return begins + high * _SECOND


def jump_near(zone: tzinfo, instant: datetime) -> timedelta:
    """By how much the clocks go forward within a day of an instant; zero if they do not."""
    return _NONE if zone is UTC else _jump_near(zone, instant.date())


@lru_cache(JUMPS_CACHED_MAX)
def _jump_near(zone: tzinfo, day: date) -> timedelta:
    lowest = highest_jump = None
    midnight = datetime.combine(day, time())
    for shift in _ASKED:
        offset = offset_at(midnight + shift, zone)
        lowest = offset if lowest is None else min(lowest, offset)
        highest_jump = max(highest_jump or _NONE, offset - lowest)
    return highest_jump or _NONE
