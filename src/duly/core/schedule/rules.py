"""One recurrence rule of RFC 5545 (3.3.10), read strictly and written in one way.

What the RFC forbids is refused, because libraries differ in what they make of it: BYWEEKNO outside YEARLY,
BYYEARDAY with DAILY, WEEKLY and MONTHLY, BYMONTHDAY with WEEKLY, a numbered BYDAY outside MONTHLY and YEARLY,
UNTIL beside COUNT. So is what has no firing: INTERVAL=0, COUNT=0, and more than one firing in a minute.

In sub-daily rules, which have no dates of their own to choose from, BYSETPOS chooses among the minutes of an
hour. It is written out as those minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from enum import IntEnum
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple, TypeVar

from duly.core.moments import YEAR_FIRST, YEAR_LAST

__all__ = ["COUNT_SLOTS_MAX", "Freq", "Rule", "chosen_of", "parse_moment", "parse_rule", "read_rule", "write_moment"]

COUNT_SLOTS_MAX: Final = 10_000
INTERVAL_UNITS_MAX: Final = 1_000_000
SHOWN_CHARACTERS_MAX: Final = 40
RULES_CACHED_MAX: Final = 4_096

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY: Final = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,7}")
_MOMENT: Final = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z)?)?")
T = TypeVar("T")

_END_OF_DAY: Final = time(23, 59, 59)


class Freq(IntEnum):
    """The unit of a rule. From HOURLY on a rule is sub-daily."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5

    @property
    def sub_daily(self) -> bool:
        """Whether it steps on UTC."""
        return self >= Freq.HOURLY


class Rule(NamedTuple):
    """A rule's parts; those that it does not name are empty. Weekdays are numbers from Monday, 0."""

    freq: Freq
    interval: int = 1
    total: int | None = None  # COUNT
    until: datetime | None = None  # naive: the last wall time; aware: the last instant
    week_start: int = 0
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()  # each with its number, 0 for every one of them
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    def times(self, start: time) -> tuple[time, ...]:
        """The times of a day, ascending. What the rule does not say, the start does."""
        parts = (self.hours or (start.hour,), self.minutes or (start.minute,), self.seconds or (start.second,))
        return tuple([time(*numbers, start.microsecond) for numbers in product(*parts)])


# --- reading -------------------------------------------------------------------------------------


def read_rule(text: str) -> str:
    """`FREQ=...` in its canonical text. Raises ValueError, which says what to write."""
    return _written(_checked(_parsed(text)))


@lru_cache(RULES_CACHED_MAX)
def parse_rule(text: str) -> Rule:
    """A rule from its canonical text."""
    return _parsed(text)


def parse_moment(text: str, name: str, end_of_day: bool = False) -> datetime:  # noqa: FBT001, FBT002
    """RFC 5545's DATE-TIME (3.3.5): naive, or in UTC where it ends in Z. Raises ValueError.

    With `end_of_day` a DATE is read as the last second of that day.
    """
    found = _MOMENT.fullmatch(text)
    if found is None or (found[2] is None and not end_of_day):
        raise ValueError(f"{name}={_shown(text)} is not a time; write one like 20261201T090000, with Z if it is in UTC")
    try:
        day = date.fromisoformat(found[1])
        clock = time.fromisoformat(found[2]) if found[2] else _END_OF_DAY
    except ValueError:
        raise ValueError(f"{name}={_shown(text)} is in no calendar or on no clock") from None
    if not YEAR_FIRST <= day.year <= YEAR_LAST:
        raise ValueError(f"{name}={_shown(text)} is not between the years {YEAR_FIRST} and {YEAR_LAST}")
    return datetime.combine(day, clock, UTC if found[3] else None)


def write_moment(moment: datetime) -> str:
    """The text that `parse_moment` reads."""
    return f"{moment:%Y%m%dT%H%M%S}{'Z' if moment.tzinfo else ''}"


def _parsed(text: str) -> Rule:
    given: dict[str, str] = {}
    for part in text.removesuffix(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise ValueError(f"{_shown(part)} is no part of a rule; write one like FREQ=WEEKLY;BYDAY=MO")
        if name in given:
            raise ValueError(f"{name} is there twice; write it once")
        given[name] = value
    freq = _freq(given.pop("FREQ", None))
    fields: dict[str, Any] = {_FIELD[name][0]: _FIELD[name][1](name, given[name]) for name in _known(given)}
    return Rule(freq, **fields)


def _known(given: Mapping[str, str]) -> Mapping[str, str]:
    for name in given:
        if name not in _FIELD:
            reason = "DTSTART is the reminder's own time; leave it out" if name == "DTSTART" else "leave it out"
            raise ValueError(f"{_shown(name)} is no part of a rule here; {reason}")
    return given


def _freq(word: str | None) -> Freq:
    if word == "SECONDLY":
        raise ValueError("FREQ=SECONDLY is not supported; the smallest interval is one minute")
    if word is None or word not in Freq.__members__:
        raise ValueError(f"FREQ is missing or unknown; write one of {', '.join(Freq.__members__)}")
    return Freq[word]


def _numbers(low: int, high: int, signed: bool = False) -> Callable[[str, str], tuple[int, ...]]:  # noqa: FBT001, FBT002
    """A reader of whole numbers within bounds; `signed` ones may count from the end, and have no zero."""

    def read(name: str, value: str) -> tuple[int, ...]:
        return tuple(sorted({_number(name, word, low, high, signed=signed) for word in value.split(",")}))

    return read


def _one_number(low: int, high: int) -> Callable[[str, str], int]:
    return lambda name, value: _number(name, value, low, high)


def _number(name: str, word: str, low: int, high: int, *, signed: bool = False) -> int:
    number = int(word) if _NUMBER.fullmatch(word) else None
    if number is None or not low <= (abs(number) if signed else number) <= high:
        raise ValueError(f"{name}={_shown(word)} is wrong; write {'+ or - ' if signed else ''}{low} to {high:,}")
    return number


def _weekdays(name: str, value: str) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({_weekday(name, word) for word in value.split(",")}, key=lambda day: (day[1], day[0])))


def _weekday(name: str, word: str) -> tuple[int, int]:
    found = _WEEKDAY.fullmatch(word)
    if found is None:
        raise ValueError(f"{name}={_shown(word)} is wrong; write days like MO, or 1MO and -1FR for the first and last")
    return _number(name, found[1], 1, 53, signed=True) if found[1] else 0, WEEKDAYS.index(found[2])


def _week_start(name: str, value: str) -> int:
    if value not in WEEKDAYS:
        raise ValueError(f"{name}={_shown(value)} is wrong; write one of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(value)


def _until(name: str, value: str) -> datetime:
    return parse_moment(value, name, end_of_day=True)


#: Each part, in the order in which it is written: its field, and how it is read.
_FIELD: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = {
    "INTERVAL": ("interval", _one_number(1, INTERVAL_UNITS_MAX)),
    "COUNT": ("total", _one_number(1, COUNT_SLOTS_MAX)),
    "UNTIL": ("until", _until),
    "WKST": ("week_start", _week_start),
    "BYMONTH": ("months", _numbers(1, 12)),
    "BYWEEKNO": ("week_numbers", _numbers(1, 53, signed=True)),
    "BYYEARDAY": ("year_days", _numbers(1, 366, signed=True)),
    "BYMONTHDAY": ("month_days", _numbers(1, 31, signed=True)),
    "BYDAY": ("weekdays", _weekdays),
    "BYHOUR": ("hours", _numbers(0, 23)),
    "BYMINUTE": ("minutes", _numbers(0, 59)),
    "BYSECOND": ("seconds", _numbers(0, 59)),
    "BYSETPOS": ("positions", _numbers(1, 366, signed=True)),
}


# --- what the RFC forbids ------------------------------------------------------------------------


def _checked(rule: Rule) -> Rule:
    """The rule, if it says one thing. Raises ValueError."""
    for wrong, reason in _contradictions(rule):
        if wrong:
            raise ValueError(f"{reason} (RFC 5545, 3.3.10)")
    if len(rule.seconds) > 1:
        raise ValueError("BYSECOND names several seconds; a reminder fires once a minute at most, so write one")
    return _with_positions_written_out(rule) if rule.positions and rule.freq.sub_daily else rule


def _contradictions(rule: Rule) -> list[tuple[bool, str]]:
    freq = rule.freq
    numbered = any(number for number, _ in rule.weekdays)
    by = any([rule.months, rule.week_numbers, rule.year_days, rule.month_days, rule.weekdays, *rule[10:13]])
    return [
        (bool(rule.total and rule.until), "COUNT and UNTIL contradict each other; write one of them"),
        (bool(rule.week_numbers) and freq is not Freq.YEARLY, "BYWEEKNO needs FREQ=YEARLY"),
        (
            bool(rule.year_days) and freq in (Freq.MONTHLY, Freq.WEEKLY, Freq.DAILY),
            f"BYYEARDAY has no meaning with FREQ={freq.name}; write FREQ=YEARLY",
        ),
        (bool(rule.month_days) and freq is Freq.WEEKLY, "BYMONTHDAY has no meaning with FREQ=WEEKLY; write FREQ=DAILY"),
        (
            numbered and freq > Freq.MONTHLY,
            f"a numbered BYDAY has no meaning with FREQ={freq.name}; write FREQ=MONTHLY",
        ),
        (numbered and bool(rule.week_numbers), "a numbered BYDAY has no meaning beside BYWEEKNO; write plain days"),
        (bool(rule.positions) and not by, "BYSETPOS needs another BY part to choose from"),
    ]


def _with_positions_written_out(rule: Rule) -> Rule:
    if rule.freq is Freq.HOURLY and rule.minutes:
        chosen = chosen_of(rule.minutes, rule.positions)
        if chosen:
            return rule._replace(minutes=chosen, positions=())
    elif {1, -1}.intersection(rule.positions):
        return rule._replace(positions=())
    raise ValueError("BYSETPOS chooses nothing; an hour or minute of this rule has fewer firings")


def chosen_of(values: tuple[T, ...], positions: tuple[int, ...]) -> tuple[T, ...]:
    """The values at these positions, counted from 1, or from -1 at the end."""
    places = {position - 1 if position > 0 else len(values) + position for position in positions}
    return tuple([values[place] for place in sorted(places) if 0 <= place < len(values)])


# --- writing -------------------------------------------------------------------------------------


def _written(rule: Rule) -> str:
    parts = [f"FREQ={rule.freq.name}"]
    defaults = Rule(rule.freq)
    for name, (field, _) in _FIELD.items():
        value = getattr(rule, field)
        if value != getattr(defaults, field):
            parts.append(f"{name}={_value(name, value)}")
    return ";".join(parts)


def _value(name: str, value: object) -> str:
    match value:
        case datetime():
            return write_moment(value)
        case tuple() if name == "BYDAY":
            return ",".join(f"{number or ''}{WEEKDAYS[day]}" for number, day in value)
        case tuple():
            return ",".join(map(str, value))
    return WEEKDAYS[value] if name == "WKST" and isinstance(value, int) else str(value)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:SHOWN_CHARACTERS_MAX])
