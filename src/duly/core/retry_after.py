"""Retry-After: how long a server asks us to stay away.

The field is a number of seconds or a date (RFC 9110, section 10.2.3), and a date comes in three forms
(section 5.6.7): IMF-fixdate, RFC 850 with a two-digit year, and asctime. Senders of webhooks also meet
fractions of a second, which are rounded up. Whatever else stands there is ignored: a malformed wish is
no wish. Names of months are matched here, not by `strptime`, whose names change with the locale.

The answer is bounded: a server may ask for a year of peace, not for a number that no column can hold.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["parse"]

FIELD_CHARACTERS_MAX: Final = 64
WAIT_SECONDS_MAX: Final = 366.0 * 86_400
#: RFC 9110, 5.6.7: a two-digit year that seems further ahead than this lies in the past.
TWO_DIGIT_AHEAD_YEARS_MAX: Final = 50
#: The grammar of the same section allows it; it is the first second of the next minute.
LEAP_SECOND: Final = 60

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH: Final = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME: Final = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DAY: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY: Final = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"

_SECONDS: Final = re.compile(r"(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?")
_DATES: Final = (
    re.compile(f"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(f"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(f"{_DAY} {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


def parse(value: str, now: datetime) -> float | None:
    """Seconds from `now` (aware) until the server may be asked again, 0 to 366 days; None if malformed."""
    text = value.strip(" \t")
    if len(text) > FIELD_CHARACTERS_MAX:
        return None
    seconds = _delay(text)
    if seconds is None:
        seconds = _until(text, now)
    return None if seconds is None else min(max(seconds, 0.0), WAIT_SECONDS_MAX)


def _delay(text: str) -> float | None:
    """Whole seconds; any fraction counts as one more."""
    found = _SECONDS.fullmatch(text)
    if found is None:
        return None
    begun = (found["fraction"] or "").strip("0") != ""
    return float(int(found["whole"]) + begun)


def _until(text: str, now: datetime) -> float | None:
    """Seconds until a date, negative if it has passed; None if it is none, or not in the calendar."""
    for form in _DATES:
        found = form.fullmatch(text)
        if found is not None:
            return _seconds_between(now, found)
    return None


def _seconds_between(now: datetime, found: re.Match[str]) -> float | None:
    try:
        return (_moment(found, now.astimezone(UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None


def _moment(found: re.Match[str], now: datetime) -> datetime:
    """Raises ValueError or OverflowError if the calendar or the clock has no such moment."""
    month = _MONTHS.index(found["month"]) + 1
    day, hour, minute, second = (int(found[name]) for name in ("day", "hour", "minute", "second"))
    leap = int(second == LEAP_SECOND)
    clock = (month, day, hour, minute, second - leap)
    return datetime(_year(found["year"], clock, now), *clock, tzinfo=UTC) + timedelta(seconds=leap)


def _year(digits: str, clock: tuple[int, int, int, int, int], now: datetime) -> int:
    """The year; of two digits the latest that does not lie more than 50 years ahead of `now`."""
    if len(digits) == len("YYYY"):
        return int(digits)
    farthest = (now.year + TWO_DIGIT_AHEAD_YEARS_MAX, now.month, now.day, now.hour, now.minute, now.second)
    year = now.year - now.year % 100 + 100 + int(digits)
    while (year, *clock) > farthest:
        year -= 100
    return year
