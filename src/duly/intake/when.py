"""When a reminder is due, and until when it is of use.

`notify_at` with an offset is an instant. Without one it is a local time in `zone`; where that is not
given, in the account's configured zone, else in the recipient's. `zone: "recipient"` is the recipient's
zone, else the account's. What is kept is the name of the zone in which the time was read.

`deadline` is a duration after the due time, or an instant after it; 24 hours if it is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from duly.core import moments
from duly.intake import zones
from duly.intake.fields import label, need
from duly.intake.rejection import Rejection

__all__ = ["When", "read_when"]

TIME_CHARACTERS_MAX: Final = 64
DEADLINE_DEFAULT: Final = timedelta(hours=24)
TIMES_CACHED_MAX: Final = 4_096
#: `zone` may say this instead of a name.
RECIPIENT: Final = "recipient"

#: Many rows of a file share their times and durations.
_parse_time: Final = lru_cache(TIMES_CACHED_MAX)(moments.parse_time)
_parse_duration: Final = lru_cache(TIMES_CACHED_MAX)(moments.parse_duration)


class When(NamedTuple):
    """A schedule, checked. `notify_at` and `deadline` are as submitted, the other times in UTC."""

    notify_at: str
    zone: str | None
    due_at: datetime
    deadline: str | None
    deadline_at: datetime


def read_when(row: Mapping[str, Any], account_zone: str | None, recipient_zone: str | None) -> When:
    """Raises Rejection."""
    notify_at = need(row, "notify_at", TIME_CHARACTERS_MAX)
    moment = _time(notify_at, "notify_at")
    zone = _zone(label(row, "zone", zones.ZONE_CHARACTERS_MAX), account_zone, recipient_zone, moment)
    due_at = moment if zone is None or moment.tzinfo else moments.to_utc(moment, zones.find(zone, "zone"))
    deadline = label(row, "deadline", TIME_CHARACTERS_MAX)
    return When(notify_at, zone, due_at, deadline, _deadline(deadline, due_at))


def _zone(wanted: str | None, account: str | None, recipient: str | None, moment: datetime) -> str | None:
    """The zone's name; None only for an instant."""
    if wanted is not None and wanted != RECIPIENT:
        zones.find(wanted, "zone")
        return wanted
    if moment.tzinfo is not None and wanted is None:
        return None
    zone = recipient or account if wanted == RECIPIENT else account or recipient
    if zone is None and moment.tzinfo is None:
        raise _no_zone(wanted)
    return zone


def _no_zone(wanted: str | None) -> Rejection:
    if wanted is None:
        return Rejection("is a local time without a zone; add an offset to it, or give zone or to.zone", "notify_at")
    return Rejection("the recipient has no zone; give to.zone, or a zone for the account in duly.toml", "zone")


def _deadline(deadline: str | None, due_at: datetime) -> datetime:
    if deadline is None:
        return due_at + DEADLINE_DEFAULT
    if not deadline[0].isdigit():
        return due_at + _duration(deadline)
    moment = _time(deadline, "deadline")
    if moment.tzinfo is None:
        raise Rejection("is a local time; add an offset to it, or write a duration like PT8H", "deadline")
    if moment <= due_at:
        raise Rejection("is not after the due time; write a later one, or a duration like PT8H", "deadline")
    return moment


def _time(text: str, field: str) -> datetime:
    try:
        return _parse_time(text)
    except ValueError as error:
        raise Rejection(str(error), field) from None


def _duration(text: str) -> timedelta:
    try:
        return _parse_duration(text)
    except ValueError as error:
        raise Rejection(str(error), "deadline") from None
