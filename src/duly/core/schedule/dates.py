"""The wall times of a rule of DAILY or longer (RFC 5545, 3.3.10), from any moment on, in order.

A rule has periods: its years, months, weeks or days, every `interval`-th from the one that holds the start.
In each of them the days that pass all BY parts are chosen, then the times of a day; BYSETPOS chooses among
both, in whole periods, the first one too. What the start implies is made explicit, so that the first period
to look at is found by a division and never by stepping from the start.

A period without a day is passed over. After 400 years without one (the Gregorian calendar repeats itself)
there is none, and the rule ends, as it does with the calendar of `moments`.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap, monthrange
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Final

from duly.core.moments import YEAR_LAST
from duly.core.schedule.rules import Freq, Rule, chosen_of

__all__ = ["SEARCH_YEARS_MAX", "day_filter", "last_of_count", "matching_days", "wall_times"]

SEARCH_YEARS_MAX: Final = 400
FILTERS_CACHED_MAX: Final = 1_024
PERIODS_CACHED_MAX: Final = 8_192
PATTERNS_CACHED_MAX: Final = 8_192
COUNTS_CACHED_MAX: Final = 4_096

_DAYS_AT_MOST: Final = {Freq.YEARLY: 366, Freq.MONTHLY: 31, Freq.DAILY: 1}
_DAY: Final = timedelta(days=1)
_LAST: Final = datetime(YEAR_LAST, 12, 31, 23, 59, 59)  # noqa: DTZ001 - wall time
_Filter = Callable[[date], bool]


def wall_times(rule: Rule, start: datetime, since: datetime) -> Iterator[datetime]:
    """The rule's wall times that are neither before `start` nor before `since`, up to its UNTIL if that is local.

    COUNT is not looked at here; `last_of_count` turns it into an UNTIL.
    """
    since, last = max(start, since), _last(rule)
    times, positions = rule.times(start.time()), rule.positions
    if positions and rule.freq is Freq.DAILY:
        times, positions = chosen_of(times, positions), ()
    by_day = _explicit(rule, start.date())
    days_at_most = len(by_day.weekdays) if rule.freq is Freq.WEEKLY else _DAYS_AT_MOST[rule.freq]
    if not times or (positions and min(map(abs, positions)) > days_at_most * len(times)):
        return
    for days in _periods(by_day, start.date(), since.date()):
        for local in _chosen(positions, days, times) if positions else _all_since(since.date(), days, times):
            if local > last:
                return
            if local >= since:
                yield local


def _last(rule: Rule) -> datetime:
    """The last wall time that there may be."""
    return rule.until if rule.until is not None and rule.until.tzinfo is None else _LAST


def matching_days(rule: Rule, since: date) -> Iterator[date]:
    """The days that pass the BY parts of a sub-daily rule, from this one on."""
    for days in _periods(_every_day(rule), since, since):
        yield from days[bisect_left(days, since) :]


@lru_cache(COUNTS_CACHED_MAX)
def last_of_count(rule: Rule, start: datetime) -> datetime | None:
    """The last wall time of a rule with COUNT; None if it has none at all."""
    found = deque(islice(wall_times(rule, start, start), rule.total), maxlen=1)
    return found[0] if found else None


def _all_since(first: date, days: tuple[date, ...], times: tuple[time, ...]) -> Iterator[datetime]:
    for day in days[bisect_left(days, first) :]:
        for clock in times:
            yield datetime.combine(day, clock)


def _chosen(positions: tuple[int, ...], days: tuple[date, ...], times: tuple[time, ...]) -> Iterator[datetime]:
    """Those of a period that stand at these positions, without writing the others down."""
    total = len(days) * len(times)
    places = {position - 1 if position > 0 else total + position for position in positions}
    for place in sorted(places):
        if 0 <= place < total:
            yield datetime.combine(days[place // len(times)], times[place % len(times)])


# --- periods -------------------------------------------------------------------------------------


def _explicit(rule: Rule, start: date) -> Rule:
    """The parts that choose days, with what the start implies (RFC 5545, 3.3.10)."""
    rule = rule._replace(total=None, until=None, hours=(), minutes=(), seconds=(), positions=())
    if rule.freq is Freq.DAILY:
        return _every_day(rule) if rule.interval == 1 and day_filter(rule) else rule
    if rule.year_days or rule.weekdays:
        return rule
    if rule.freq is Freq.WEEKLY or (rule.week_numbers and not rule.month_days):
        return rule._replace(weekdays=((0, start.weekday()),))
    if rule.freq is Freq.YEARLY and not rule.months and not rule.week_numbers:
        rule = rule._replace(months=(start.month,))
    return rule._replace(month_days=rule.month_days or (start.day,))


def _every_day(rule: Rule) -> Rule:
    """The days that pass, whatever the period: by the month or the year, whose days are remembered."""
    freq = Freq.YEARLY if rule.year_days else Freq.MONTHLY
    parts = Rule(freq, months=rule.months, year_days=rule.year_days, month_days=rule.month_days)
    return parts._replace(weekdays=rule.weekdays)


def _periods(rule: Rule, start: date, since: date) -> Iterator[tuple[date, ...]]:
    """The chosen days of each period that has any, from the one that holds `since`."""
    rule, interval = rule._replace(interval=1), rule.interval
    days_of = _days_of_short_period if rule.freq >= Freq.WEEKLY else _days_of_long_period
    origin = _number_of(rule, start)
    step = max(0, (_number_of(rule, since) - origin) // interval)
    year_max = min(since.year + SEARCH_YEARS_MAX, YEAR_LAST)
    while (first := _first_day(rule, origin + step * interval)) is not None and first.year <= year_max:
        days = days_of(rule, first)
        if days:
            yield days
            year_max = min(first.year + SEARCH_YEARS_MAX, YEAR_LAST)
        step = max(step + 1, (_next_number(rule, origin + step * interval) - origin) // interval)


def _next_number(rule: Rule, number: int) -> int:
    """The number of the next period that can have a day: months that BYMONTH does not name are jumped over."""
    after = _first_day(rule, number + 1)
    if not rule.months or after is None or after.month in rule.months:
        return number + 1
    return _number_of(rule, _in_named_month(rule.months, after))


def _number_of(rule: Rule, day: date) -> int:
    """The number of the period that holds a day."""
    match rule.freq:
        case Freq.YEARLY:
            return day.year
        case Freq.MONTHLY:
            return day.year * 12 + day.month - 1
        case Freq.WEEKLY:
            return (day.toordinal() - 1 - rule.week_start) // 7
    return day.toordinal()


def _first_day(rule: Rule, number: int) -> date | None:
    """The first day of a period; None far behind the end of the calendar."""
    match rule.freq:
        case Freq.YEARLY:
            ordinal = date(number, 1, 1).toordinal() if number <= YEAR_LAST else None
        case Freq.MONTHLY:
            year, month = divmod(number, 12)
            ordinal = date(year, month + 1, 1).toordinal() if year <= YEAR_LAST else None
        case Freq.WEEKLY:
            ordinal = number * 7 + 1 + rule.week_start
        case _:
            ordinal = number
    return date.fromordinal(ordinal) if ordinal is not None and ordinal <= _LAST_ORDINAL else None


_LAST_ORDINAL: Final = date(YEAR_LAST, 12, 31).toordinal()


def _days_of_short_period(rule: Rule, first: date) -> tuple[date, ...]:
    """The chosen days of a week or a day, by its first day."""
    chosen = day_filter(rule)
    days = [first + timedelta(days=n) for n in range(7)] if rule.freq is Freq.WEEKLY else [first]
    return tuple(days if chosen is None else filter(chosen, days))


@lru_cache(PERIODS_CACHED_MAX)
def _days_of_long_period(rule: Rule, first: date) -> tuple[date, ...]:
    """The chosen days of a year or a month, by its first day."""
    return tuple(
        [first + timedelta(days=n) for n in _pattern(rule, first.replace(year=_YEARS_LIKE[_kind(first.year)]))]
    )


@lru_cache(PATTERNS_CACHED_MAX)
def _pattern(rule: Rule, first: date) -> tuple[int, ...]:
    """The chosen days of a year or a month, counted from its first day."""
    chosen = day_filter(rule)
    days = _candidates(rule, first)
    return tuple([(day - first).days for day in (days if chosen is None else filter(chosen, days))])


def _kind(year: int) -> tuple[int, bool, bool]:
    """What its calendar depends on; that of its weeks also on the year before."""
    return date(year, 1, 1).weekday(), isleap(year), isleap(year - 1)


_YEARS_LIKE: Final = {_kind(year): year for year in range(1970, 2370)}


def _candidates(rule: Rule, first: date) -> Iterator[date]:
    """The days of a year or a month, without most of those that cannot pass."""
    if rule.freq is Freq.YEARLY and rule.year_days:
        yield from _numbered(first, rule.year_days, _year_length(first))
        return
    months = range(1, 13) if rule.freq is Freq.YEARLY else (first.month,)
    for month in months:
        if not rule.months or month in rule.months:
            begins = date(first.year, month, 1)
            length = _month_length(begins)
            yield from _numbered(begins, rule.month_days or range(1, length + 1), length)


def _numbered(begins: date, numbers: Iterable[int], length: int) -> Iterator[date]:
    """The days with these numbers from a first day on, ascending; negative ones count from the end."""
    for number in sorted({number if number > 0 else length + 1 + number for number in numbers}):
        if 1 <= number <= length:
            yield begins + (number - 1) * _DAY


def _in_named_month(months: tuple[int, ...], day: date) -> date:
    """The first day of the first named month that begins behind this day."""
    later = [month for month in months if month > day.month]
    return date(day.year, later[0], 1) if later else date(day.year + 1, months[0], 1)


# --- days ----------------------------------------------------------------------------------------


@lru_cache(FILTERS_CACHED_MAX)
def day_filter(rule: Rule) -> _Filter | None:
    """Whether a day passes every BY part that is about days; None if there is no such part."""
    tests = [
        make(rule)
        for given, make in (
            (rule.months, _by_month),
            (rule.month_days, _by_month_day),
            (rule.weekdays, _by_weekday),
            (rule.year_days, _by_year_day),
            (rule.week_numbers, _by_week_number),
        )
        if given
    ]
    if len(tests) == 1:
        return tests[0]
    return (lambda day: all(passes(day) for passes in tests)) if tests else None


def _by_month(rule: Rule) -> _Filter:
    months = frozenset(rule.months)
    return lambda day: day.month in months


def _by_month_day(rule: Rule) -> _Filter:
    days = frozenset(rule.month_days)
    if rule.month_days[0] > 0:
        return lambda day: day.day in days
    return lambda day: day.day in days or day.day - _month_length(day) - 1 in days


def _by_year_day(rule: Rule) -> _Filter:
    days = frozenset(rule.year_days)
    return lambda day: _year_day(day) in days or _year_day(day) - _year_length(day) - 1 in days


def _by_week_number(rule: Rule) -> _Filter:
    numbers, week_start = frozenset(rule.week_numbers), rule.week_start

    def passes(day: date) -> bool:
        number, from_end = _week_number(day, week_start)
        return number in numbers or from_end in numbers

    return passes


def _by_weekday(rule: Rule) -> _Filter:
    plain = frozenset(weekday for number, weekday in rule.weekdays if not number)
    numbered = frozenset(rule.weekdays)
    if len(plain) == len(numbered):
        return lambda day: day.weekday() in plain
    numbers_of = _numbers_in_month if rule.freq is Freq.MONTHLY or rule.months else _numbers_in_year

    def passes(day: date) -> bool:
        weekday = day.weekday()
        return weekday in plain or any((number, weekday) in numbered for number in numbers_of(day))

    return passes


def _numbers_in_month(day: date) -> tuple[int, int]:
    """The which of its weekdays it is in its month, from the beginning and from the end."""
    return (day.day - 1) // 7 + 1, -((_month_length(day) - day.day) // 7) - 1


def _numbers_in_year(day: date) -> tuple[int, int]:
    return (_year_day(day) - 1) // 7 + 1, -((_year_length(day) - _year_day(day)) // 7) - 1


def _week_number(day: date, week_start: int) -> tuple[int, int]:
    """The number of its week, from the beginning and from the end; week 1 has four days or more in its year."""
    middle = day - timedelta(days=(day.weekday() - week_start) % 7) + timedelta(days=3)
    number, total = (_year_day(middle) - 1) // 7 + 1, (_year_length(middle) - _year_day(middle)) // 7
    return number, -total - 1


def _month_length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def _year_length(day: date) -> int:
    return 366 if isleap(day.year) else 365


def _year_day(day: date) -> int:
    return day.toordinal() - date(day.year, 1, 1).toordinal() + 1
