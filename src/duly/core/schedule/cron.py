"""Cron expressions of five fields, as crontab(5) and the Open Cron Pattern Specification (OCPS) have them.

    minute  hour  day-of-month  month  day-of-week

Each is `*`, or numbers with lists, ranges and steps (`1-5`, `*/15`, `10-50/20`, `5/15`), months and weekdays also by
name (JAN, MON). Sunday is 0 and 7. Days of a month may be `L` (the last), `L-3` (three days before it), `15W` (the
weekday nearest to the 15th, within its month) and `LW`; days of a week `5L` or `FRI#L` (the last Friday) and `5#2`
(the second one). `?` in a day field is `*`.

Where both day fields are restricted, a day of either kind matches. Where one begins with a star (as in Vixie's and
Debian's cron), or the day-of-week with a plus (OCPS 1.4), both must match. `@hourly`, `@daily`, `@weekly`, `@monthly`
and `@yearly` are written out. Six fields (seconds) and `@reboot` are refused.

An expression whose hour field is `*` or `*/n` is sub-daily: it matches every real instant whose wall time
matches. Any other has wall times, as a rule has.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from duly.core.moments import YEAR_LAST

__all__ = ["Cron", "cron_times", "days_since", "parse_cron", "read_cron"]

CRON_CHARACTERS_MAX: Final = 500
SEARCH_YEARS_MAX: Final = 50
CRONS_CACHED_MAX: Final = 1_024
MONTHS_CACHED_MAX: Final = 8_192
SHOWN_CHARACTERS_MAX: Final = 40

_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NICKNAME: Final = "@daily, @hourly, @weekly, @monthly or @yearly"
_WHOLE: Final = (12, 31, 7)  # months, days of a month, days of a week
_EXAMPLE: Final = "like 0 9 * * MON"
_TERM: Final = re.compile(r"(?P<low>\*|[A-Z0-9]{1,3})(?:-(?P<high>[A-Z0-9]{1,3}))?(?:/(?P<step>[0-9]{1,4}))?")
_MONTH_DAY: Final = re.compile(r"L(?:-(?P<back>[0-9]{1,2}))?|(?P<near>[0-9]{1,2}|L)W")
_WEEKDAY: Final = re.compile(r"(?P<digit>[0-7])L|(?P<day>[A-Z0-9]{1,3})#(?P<number>[1-5L])")


class _Field(NamedTuple):
    """What stands at one place of an expression."""

    name: str
    low: int
    high: int
    words: Mapping[str, int]


_ZEROS: Final = frozenset({"0", "00", "000", "0000"})


def _words(text: str, first: int) -> Mapping[str, int]:
    return {word: number for number, word in enumerate(text.split(), first)}


_MINUTE: Final = _Field("minute", 0, 59, {})
_HOUR: Final = _Field("hour", 0, 23, {})
_DAY_OF_MONTH: Final = _Field("day-of-month", 1, 31, {})
_MONTH: Final = _Field("month", 1, 12, _words("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
_DAY_OF_WEEK: Final = _Field("day-of-week", 0, 7, _words("SUN MON TUE WED THU FRI SAT", 0))


class Cron(NamedTuple):
    """An expression, read. Weekdays are numbers from Sunday, 0; days from the end of a month are negative."""

    minutes_of_day: tuple[int, ...]  # ascending
    months: frozenset[int]
    month_days: frozenset[int]
    nearest: frozenset[int]  # days whose nearest weekday it is; 0 for the last weekday
    weekdays: frozenset[int]
    numbered: frozenset[tuple[int, int]]  # weekday and its number in the month, -1 for the last
    both: bool  # a day must match both day fields
    sub_daily: bool

    @property
    def every_day(self) -> bool:
        """Whether its days are restricted in no way."""
        fields = (self.months, self.month_days, self.weekdays)
        return self.both and tuple(map(len, fields)) == _WHOLE

    def matches(self, day: date) -> bool:
        """Whether it fires on that day."""
        return day in _days_of(self, day.year, day.month)


# --- reading -------------------------------------------------------------------------------------


def read_cron(text: str) -> str:
    """An expression in its canonical text: five fields in capitals. Raises ValueError, which says what to write."""
    if len(text) > CRON_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {CRON_CHARACTERS_MAX} characters; shorten it")
    fields = text.split()
    if len(fields) == 1 and fields[0].startswith("@"):
        fields = _written_out(fields[0])
    if len(fields) != 5:  # noqa: PLR2004 - as many as a cron expression has
        raise ValueError(f"cron has five fields, {_EXAMPLE}, and this has {len(fields)}; a rule begins with FREQ=")
    canonical = " ".join(fields).upper()
    if next(days_since(parse_cron(canonical), date(2000, 1, 1)), None) is None:
        raise ValueError("it never fires: no day of any year matches it; change its day or month")
    return canonical


@lru_cache(CRONS_CACHED_MAX)
def parse_cron(text: str) -> Cron:
    """An expression from its canonical text. Raises ValueError."""
    minute, hour, month_day, month, weekday = text.split()
    month_days, nearest = _month_days(month_day)
    weekdays, numbered = _weekdays(weekday.removeprefix("+"))
    hours, minutes = sorted(_numbers(_HOUR, hour)), sorted(_numbers(_MINUTE, minute))
    return Cron(
        minutes_of_day=tuple([hour * 60 + minute for hour in hours for minute in minutes]),
        months=frozenset(_numbers(_MONTH, month)),
        month_days=month_days,
        nearest=nearest,
        weekdays=weekdays,
        numbered=numbered,
        both=month_day[0] in "*?" or weekday[0] in "*?+",
        sub_daily=hour == "*" or hour.startswith("*/"),
    )


def _written_out(nickname: str) -> list[str]:
    if nickname not in _NICKNAMES:
        reason = "nothing starts up here" if nickname == "@reboot" else "there is no such word"
        raise ValueError(f"{reason}; write {_NICKNAME}")
    return _NICKNAMES[nickname].split()


def _month_days(text: str) -> tuple[frozenset[int], frozenset[int]]:
    days: set[int] = set()
    nearest: set[int] = set()
    for term in _terms(text):
        found = _MONTH_DAY.fullmatch(term)
        if found is None:
            days |= _term_numbers(_DAY_OF_MONTH, term)
        elif found["near"]:
            nearest.add(0 if found["near"] == "L" else _one(_DAY_OF_MONTH, found["near"]))
        else:
            days.add(-1 - int(found["back"] or 0))
    return frozenset(days), frozenset(nearest)


def _weekdays(text: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    days: set[int] = set()
    numbered: set[tuple[int, int]] = set()
    for term in _terms(text):
        found = _WEEKDAY.fullmatch(term)
        if found:
            number = found["number"] or "L"
            day = _one(_DAY_OF_WEEK, found["digit"] or found["day"])
            numbered.add((day % 7, -1 if number == "L" else int(number)))
        else:
            days |= {number % 7 for number in _term_numbers(_DAY_OF_WEEK, term)}
    return frozenset(days), frozenset(numbered)


def _terms(text: str) -> list[str]:
    """The parts of a day field."""
    return ["*" if text == "?" else term for term in text.split(",")]


def _numbers(field: _Field, text: str) -> set[int]:
    return {number for term in text.split(",") for number in _term_numbers(field, term)}


def _term_numbers(field: _Field, term: str) -> set[int]:
    """`*`, `5`, `1-5`, and each of them with a step; a single number with a step goes on to the end."""
    found = _TERM.fullmatch(term)
    if found is None or (found["low"] == "*" and found["high"]) or found["step"] in _ZEROS:
        raise _wrong(field, term)
    low = field.low if found["low"] == "*" else _one(field, found["low"])
    high = field.high if found["step"] or found["low"] == "*" else low
    if found["high"]:
        high = _one(field, found["high"])
    if field is _DAY_OF_WEEK:
        high = _last_weekday(found["low"], found["high"], high)
    if high < low:
        raise _wrong(field, term)
    return set(range(low, high + 1, int(found["step"] or 1)))


def _last_weekday(low: str, high_word: str | None, high: int) -> int:
    """Sunday ends a range as 7 (FRI-SUN); a star is seven days, not eight."""
    if low == "*":
        return 6
    return 7 if high_word == "SUN" and low != "SUN" else high


def _one(field: _Field, word: str) -> int:
    number = field.words.get(word)
    if number is None:
        number = int(word) if word.isascii() and word.isdecimal() else -1
    if not field.low <= number <= field.high:
        raise _wrong(field, word)
    return number


def _wrong(field: _Field, term: str) -> ValueError:
    shown = "".join(c if c.isprintable() else "?" for c in term[:SHOWN_CHARACTERS_MAX])
    words = f", {next(iter(field.words))} and so on" if field.words else ""
    return ValueError(f"its {field.name}, {shown!r}, is wrong; write * or {field.low} to {field.high}{words}")


# --- days ----------------------------------------------------------------------------------------


def cron_times(cron: Cron, since: datetime) -> Iterator[datetime]:
    """The wall times that match, from `since` on, in order."""
    times = [time(*divmod(minute, 60)) for minute in cron.minutes_of_day]
    for day in days_since(cron, since.date()):
        for clock in times:
            local = datetime.combine(day, clock)
            if local >= since:
                yield local


def days_since(cron: Cron, since: date) -> Iterator[date]:
    """The days that match, from this one on; none after 50 years without one."""
    month, year_max = since.year * 12 + since.month - 1, since.year + SEARCH_YEARS_MAX
    while month // 12 <= min(year_max, YEAR_LAST):
        for day in _days_of(cron, month // 12, month % 12 + 1):
            if day >= since:
                yield day
                year_max = day.year + SEARCH_YEARS_MAX
        month += 1


@lru_cache(MONTHS_CACHED_MAX)
def _days_of(cron: Cron, year: int, month: int) -> tuple[date, ...]:
    """The days of a month that match."""
    if month not in cron.months:
        return ()
    length = monthrange(year, month)[1]
    first = date(year, month, 1)
    by_month = {day if day > 0 else length + 1 + day for day in cron.month_days}
    by_month |= {_nearest_weekday(first, length, day) for day in cron.nearest if day <= length}
    by_week = set(_by_week(cron, first, length))
    found = by_month & by_week if cron.both else by_month | by_week
    return tuple([first.replace(day=day) for day in sorted(found) if 1 <= day <= length])


def _by_week(cron: Cron, first: date, length: int) -> Iterable[int]:
    weekday_before = first.weekday()
    for day in range(1, length + 1):
        weekday = (weekday_before + day) % 7
        names = {(weekday, (day - 1) // 7 + 1), (weekday, -1 if day + 7 > length else 0)}
        if weekday in cron.weekdays or not names.isdisjoint(cron.numbered):
            yield day


def _nearest_weekday(first: date, length: int, day: int) -> int:
    """The weekday nearest to a day, which does not leave the month; of 0, the last weekday."""
    wanted = day or length
    weekday = (first + timedelta(days=wanted - 1)).weekday()
    saturday, sunday = 5, 6
    if weekday == saturday:
        return wanted - 1 if wanted > 1 else wanted + 2
    if weekday == sunday:
        return wanted + 1 if wanted < length else wanted - 2
    return wanted
