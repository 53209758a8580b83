"""Times and durations as people and programs write them, read without a clock and without a file.

An instant carries an offset (RFC 3339, or ISO 8601's shorter offsets): it is read as UTC. A local time
carries none, and means nothing without a zone: `to_utc` gives it one. A local time that the clocks skip
is read with the offset before the gap, so 02:30 runs at 03:30 (RFC 5545, 3.3.5); one that comes twice is
its first pass. Both are what Python calls `fold=0` (PEP 495).

Durations are ISO 8601's weeks, days, hours, minutes and seconds. Months and years have no fixed length
and are refused. A day is 24 hours.

Written, a time ends with its minutes where its seconds are zero, and an instant ends in Z. A duration of less
than a week is written in hours, minutes and seconds (PT24H), a longer one in days and what remains (P7D,
P7DT12H), so that one duration has one text. Both are read again as what they were.

Zones are arguments: finding one by name reads files, which the core does not do.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

__all__ = [
    "YEAR_FIRST",
    "YEAR_LAST",
    "instant",
    "is_before",
    "parse_duration",
    "parse_time",
    "to_utc",
    "write_duration",
    "write_time",
]

#: Far from the edges of Python's calendar, so that no sum of a time, an offset and a duration leaves it.
YEAR_FIRST: Final = 1970
YEAR_LAST: Final = 2999
DURATION_DAYS_MAX: Final = 3_660
DURATION_IN_DAYS_FROM: Final = timedelta(days=7)
TEXT_CHARACTERS_MAX: Final = 64

_TIME: Final = re.compile(
    r"([0-9]{4})-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>[0-9]{1,8})W"
    r"|(?:(?P<days>[0-9]{1,8})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,9})S)?)?)"
)
_CALENDAR_UNITS: Final = re.compile(r"P[0-9WD]*[0-9][YM]")


def parse_time(text: str) -> datetime:
    """An instant as an aware datetime in UTC, or a local time as a naive one.

    Raises ValueError, whose text says what to write.
    """
    wanted = "write a time like 2026-12-01T09:00 or 2026-12-01T09:00:00-05:00"
    found = _TIME.fullmatch(text.upper()) if len(text) <= TEXT_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"it is not a time; {wanted}")
    if not YEAR_FIRST <= int(found[1]) <= YEAR_LAST:
        raise ValueError(f"its year is not between {YEAR_FIRST} and {YEAR_LAST}; {wanted}")
    try:
        moment = datetime.fromisoformat(found[0])
    except ValueError:
        raise ValueError(f"no calendar or clock has this time; {wanted}") from None
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def parse_duration(text: str) -> timedelta:
    """A positive ISO 8601 duration of at most 3,660 days. Raises ValueError, whose text says what to write."""
    written = text.upper() if len(text) <= TEXT_CHARACTERS_MAX else ""
    if _CALENDAR_UNITS.match(written):
        raise ValueError("months and years have no fixed length; write days, like P30D")
    found = _DURATION.fullmatch(written)
    parts = {unit: int(number) for unit, number in found.groupdict().items() if number} if found else {}
    if not parts:
        raise ValueError("it is not a duration; write one like PT8H, P2D or P1DT12H")
    return _bounded(timedelta(**parts))


def write_time(moment: datetime) -> str:
    """A naive time as `2026-12-01T09:00`, an aware one in UTC as `2026-12-01T14:00Z`; seconds only where there are."""
    local = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    text = local.isoformat() if local.second or local.microsecond else local.isoformat(timespec="minutes")
    return text if moment.tzinfo is None else f"{text}Z"


def instant(moment: datetime) -> str:
    """An aware time as the record shows it: RFC 3339 in UTC, ending in Z."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def is_before(one: str, other: str) -> bool:
    """Whether a moment of a view (RFC 3339) is before another."""
    return datetime.fromisoformat(one) < datetime.fromisoformat(other)


def write_duration(duration: timedelta) -> str:
    """A positive duration of whole seconds as its one text: `PT24H`, `PT1H30M`, `P7D`."""
    days = duration.days if duration >= DURATION_IN_DAYS_FROM else 0
    minutes, seconds = divmod(int((duration - timedelta(days=days)).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    clock = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if number)
    return f"P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}"


def to_utc(local: datetime, zone: tzinfo) -> datetime:
    """The instant of a naive local time in a zone, in UTC. Skipped and repeated times: see above."""
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)


def _bounded(duration: timedelta) -> timedelta:
    if not duration:
        raise ValueError("a duration of zero leaves no time; write one like PT8H")
    if duration > timedelta(days=DURATION_DAYS_MAX):
        raise ValueError(f"it is longer than {DURATION_DAYS_MAX:,} days; write a shorter one")
    return duration
