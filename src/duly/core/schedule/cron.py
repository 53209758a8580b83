"""Cron expressions: five fields, read by cronsim, and what Duly makes of them.

    minute  hour  day-of-month  month  day-of-week

Names (JAN, MON), lists, ranges, steps, `L`, `LW`, `5L` (the last Friday), `5#2` (the second) and 7 for Sunday
are understood. Where both day fields are restricted, a day of either kind matches; where one begins with a
star, both must match (as in Debian's cron). `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are
written out. Six fields (seconds) and `@reboot` are refused.

An expression whose hour field is `*` or `*/n` is sub-daily: it matches every real instant whose wall time
matches. Any other has wall times, as a rule has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

from cronsim import CronSim, CronSimError

from duly.core.moments import YEAR_LAST

__all__ = ["Cron", "cron_times", "parse_cron", "read_cron"]

CRON_CHARACTERS_MAX: Final = 500
SEARCH_YEARS_MAX: Final = 50
CRONS_CACHED_MAX: Final = 1_024

_DAY: Final = timedelta(days=1)
_ANYTIME: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - cronsim wants a time; what is read does not depend on it
_LAST_DAY: Final = date(YEAR_LAST, 12, 31)
_NICKNAMES: Final = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_FIELDS: Final = "minute, hour, day-of-month, month and day-of-week, like 0 9 * * MON"


class Cron(NamedTuple):
    """An expression, read."""

    minutes_of_day: tuple[int, ...]  # ascending
    days: CronSim
    sub_daily: bool

    def matches(self, day: date) -> bool:
        """Whether it fires on that day."""
        return day.month in self.days.months and self.days.match_day(day)


def read_cron(text: str) -> str:
    """An expression in its canonical text: five fields in capitals. Raises ValueError, which says what to write."""
    if len(text) > CRON_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {CRON_CHARACTERS_MAX} characters; shorten it")
    fields = text.upper().split()
    if len(fields) == 1 and fields[0].startswith("@"):
        fields = _written_out(fields[0])
    if len(fields) != 5:  # noqa: PLR2004 - as many as a cron expression has
        raise ValueError(f"it has {len(fields)} fields, and cron has five: {_FIELDS}")
    canonical = " ".join(fields)
    if next(cron_times(_parsed(canonical), _ANYTIME), None) is None:
        raise ValueError("no day of any year matches it; change its day or month")
    return canonical


@lru_cache(CRONS_CACHED_MAX)
def parse_cron(text: str) -> Cron:
    """An expression from its canonical text."""
    return _parsed(text)


def cron_times(cron: Cron, since: datetime) -> Iterator[datetime]:
    """The wall times that match, from `since` on, in order."""
    times = [time(*divmod(minute, 60)) for minute in cron.minutes_of_day]
    for day in days_since(cron, since.date()):
        for clock in times:
            local = datetime.combine(day, clock)
            if local >= since:
                yield local


def days_since(cron: Cron, day: date) -> Iterator[date]:
    """The days that match, from this one on; none after 50 years without one."""
    year_max = day.year + SEARCH_YEARS_MAX
    while day <= _LAST_DAY and day.year <= year_max:
        if day.month not in cron.days.months:
            day = (day.replace(day=1) + 31 * _DAY).replace(day=1)
            continue
        if cron.days.match_day(day):
            yield day
            year_max = day.year + SEARCH_YEARS_MAX
        day += _DAY


def _written_out(nickname: str) -> list[str]:
    if nickname not in _NICKNAMES:
        reason = "nothing boots here" if nickname == "@REBOOT" else "there is no such word"
        raise ValueError(f"{reason}; write @daily or another of {', '.join(sorted(_NICKNAMES)).lower()}")
    return _NICKNAMES[nickname].split()


def _parsed(text: str) -> Cron:
    hour = text.split()[1]
    try:
        found = CronSim(text, _ANYTIME)
    except CronSimError as error:
        raise ValueError(f"{str(error).lower()}; cron has {_FIELDS}") from None
    minutes = tuple([hour * 60 + minute for hour, minute in product(sorted(found.hours), sorted(found.minutes))])
    return Cron(minutes, found, sub_daily=hour == "*" or hour.startswith("*/"))
