"""Dates and times as the recipient writes them: the filters `date`, `time` and `datetime`.

A value is `due_at`, or text of the data: RFC 3339 with an offset, which is shown in the recipient's zone; a
local time without one, which is shown as it stands; or, for `date`, a date alone. The forms are CLDR's, in the
recipient's locale. A locale that is not known is looked up as RFC 4647, 3.4 says: its last part is taken off
until one is found, and English is the last.

Two liberties, because these are reminders. `time` is short and `datetime` goes to the minute, whatever its
style: nobody is told to come at 9:00:00. And CLDR's no-break blanks become blanks: the one before "AM" alone
would put an SMS into an encoding that holds half as much.

Source: https://cldr.unicode.org/translation/date-time/date-time-patterns
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Undefined, pass_context
from jinja2.runtime import Context

from duly.core.moments import parse_time

if TYPE_CHECKING:
    from babel import Locale

__all__ = ["FILTERS", "READER", "STYLES", "NotATime", "Reader", "UnknownStyle", "is_moment", "lateness"]

STYLES: Final = ("short", "medium", "long", "full")
#: Where a rendering keeps who reads it. No template can write a name with a space in it.
READER: Final = "who reads it"
LOCALES_CACHED_MAX: Final = 1_024
TAG_CHARACTERS_MAX: Final = 35  # RFC 5646, 4.4.1

_TAG: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BLANKS: Final = str.maketrans("\u00a0\u202f", "  ")


class NotATime(Exception):
    """A value was to be shown as a date or time, and is none."""


class UnknownStyle(Exception):
    """A style is none of the four. The text says which they are."""


class Reader(NamedTuple):
    """In which zone and locale times are shown. The locale is a tag as submitted, or None."""

    zone: tzinfo
    locale: str | None


def is_moment(value: Any) -> bool:
    """Whether a value can be shown as a date and time."""
    try:
        _read(value)
    except NotATime:
        return False
    return True


def lateness(late: timedelta | None, reader: Reader) -> Mapping[str, Any] | None:
    """`late` as templates see it: None where it is on time, else how late in words and in whole minutes."""
    if late is None or late <= timedelta(0):
        return None
    from babel import dates  # noqa: PLC0415 - slow to load, and seldom needed

    words = dates.format_timedelta(late, granularity="minute", locale=_locale(reader.locale))
    return {"by": words.translate(_BLANKS), "minutes": late // timedelta(minutes=1)}


# --- the filters ---------------------------------------------------------------------------------


@pass_context
def _date(context: Context, value: Any, style: str = "medium") -> str:
    """The day: `Dec 1, 2026`."""
    return _date_of(_day(value, context[READER]), style, context[READER])


@pass_context
def _time(context: Context, value: Any, style: str = "short") -> str:
    """The time of day: `9:00 AM`."""
    return _time_of(_moment(value, context[READER]), style, context[READER])


@pass_context
def _datetime(context: Context, value: Any, style: str = "medium") -> str:
    """The day in a style, and the time to the minute: `Dec 1, 2026, 9:00 AM`."""
    from babel import dates  # noqa: PLC0415 - as above

    reader: Reader = context[READER]
    moment = _moment(value, reader)
    day, time = _date_of(moment, style, reader), _time_of(moment, "short", reader)
    pattern = dates.get_datetime_format(_known(style), _locale(reader.locale))
    return str(pattern).replace("'", "").replace("{0}", time).replace("{1}", day).translate(_BLANKS)


FILTERS: Final[Mapping[str, Callable[..., str]]] = {"date": _date, "time": _time, "datetime": _datetime}


def _date_of(day: date, style: str, reader: Reader) -> str:
    from babel import dates  # noqa: PLC0415 - as above

    return dates.format_date(day, _known(style), _locale(reader.locale)).translate(_BLANKS)


def _time_of(moment: datetime, style: str, reader: Reader) -> str:
    from babel import dates  # noqa: PLC0415 - as above

    return dates.format_time(moment, _known(style), locale=_locale(reader.locale)).translate(_BLANKS)


def _known(style: Any) -> Any:
    if style not in STYLES:
        raise UnknownStyle(f"the style of a date or time is none of {', '.join(STYLES)}")
    return style


# --- what was written ----------------------------------------------------------------------------


def _day(value: Any, reader: Reader) -> date:
    """A day that stands alone has no zone; another is the day in the reader's zone."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        return _read(f"{value}T00:00").date()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return _moment(value, reader)


def _moment(value: Any, reader: Reader) -> datetime:
    moment = _read(value)
    return moment.astimezone(reader.zone) if moment.tzinfo else moment.replace(tzinfo=reader.zone)


def _read(value: Any) -> datetime:
    """Raises NotATime; for a name that is not there, what Jinja2 raises."""
    if isinstance(value, Undefined):
        str(value)
    if isinstance(value, str):
        try:
            return parse_time(value)
        except ValueError:
            raise NotATime from None
    if not isinstance(value, datetime):
        raise NotATime
    return value


# --- locales -------------------------------------------------------------------------------------


@lru_cache(LOCALES_CACHED_MAX)
def _locale(tag: str | None) -> Locale:
    """The best that is known for a tag like `pt-BR`; `_` is taken for `-`."""
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415 - as above

    for candidate in _candidates((tag or "").replace("_", "-")):
        try:
            return Locale.parse(candidate, sep="-")
        except (ValueError, UnknownLocaleError):
            continue
    return Locale("en")


def _candidates(tag: str) -> Iterator[str]:
    """The tag, then without its last part, and so on."""
    if len(tag) > TAG_CHARACTERS_MAX or not _TAG.fullmatch(tag):
        return
    while tag:
        yield tag
        tag = tag.rpartition("-")[0]
