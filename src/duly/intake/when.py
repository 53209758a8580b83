"""When a reminder is due, how it goes on, and until when each of its occurrences is of use.

`notify_at` with an offset is an instant. Without one it is a local time in `zone`; where that is not
given, in the account's configured zone, else in the recipient's. `zone: "recipient"` is the recipient's
zone, else the account's. What is kept is the IANA name of the zone in which the time was read.

`repeat` goes on from `notify_at`: a recurrence set (RFC 5545) or a cron expression. A set that starts at an instant,
with no zone named, goes on in UTC, as the RFC says; a cron expression is always read in a zone, and may do without
`notify_at`: then it counts from now. `starts_at` with `before` is an anchor with offsets before it. `missed` and
`grace` say what becomes of occurrences that no tick found in time.

`deadline` is a duration after the due time, or an instant after it where there is one occurrence only. Without one it
is the due time of the next occurrence, else 24 hours later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from duly.core import moments, schedule
from duly.core.deadlines import deadline_of
from duly.core.missed import SKIP_GRACE, read_missed
from duly.core.schedule import OFFSETS_MAX, Schedule, Slot
from duly.intake import zones
from duly.intake.fields import FIELDS, RECIPIENT_FIELDS, kind, known, label, need
from duly.intake.recipients import read_zone
from duly.intake.rejection import Rejection

__all__ = ["RECIPIENT", "When", "read_schedule", "read_when"]

TIME_CHARACTERS_MAX: Final = 64
MISSED_CHARACTERS_MAX: Final = 16
TIMES_CACHED_MAX: Final = 4_096
RULES_CACHED_MAX: Final = 4_096
#: `zone` may say this instead of a name.
RECIPIENT: Final = "recipient"

T = TypeVar("T")
V = TypeVar("V")

#: Many rows of a file share their times, durations and rules.
_parse_time: Final = lru_cache(TIMES_CACHED_MAX)(moments.parse_time)
_parse_duration: Final = lru_cache(TIMES_CACHED_MAX)(moments.parse_duration)
_read_repeat: Final = lru_cache(RULES_CACHED_MAX)(schedule.read_repeat)


class When(NamedTuple):
    """A schedule, checked. `notify_at`, `missed`, `grace` and `deadline` are as submitted."""

    schedule: Schedule
    zone: str | None  # an IANA name
    follows_recipient: bool  # the zone is the recipient's, and changes with it
    first: Slot
    missed: str | None
    grace: str | None
    deadline: str | None
    deadline_at: datetime  # of the first slot, in UTC
    notify_at: str  # for offsets, the anchor

    @property
    def goes_on(self) -> bool:
        """Whether there may be more than one occurrence."""
        return self.schedule.repeat is not None or bool(self.schedule.before)

    @property
    def in_zone(self) -> bool:
        """Whether it follows the clocks of a zone, so that new zone data may move it."""
        return self.zone is not None and (self.schedule.repeat is not None or self.schedule.start.tzinfo is None)


class _Start(NamedTuple):
    """What a schedule starts from: the field that says it, its text and its time."""

    field: str
    text: str
    moment: datetime
    in_zone: bool  # it has no meaning without a zone


class _Zone(NamedTuple):
    name: str | None
    found: tzinfo | None
    follows_recipient: bool


def read_when(
    row: Mapping[str, Any], account_zone: str | None, recipient_zone: str | None, now: datetime | None
) -> When:
    """`now` is when a cron expression without `notify_at` begins; None: such a row is refused. Raises Rejection."""
    rule = _rule(row)
    start = _start(row, rule, now)
    zone = _zone(label(row, "zone", zones.ZONE_CHARACTERS_MAX), account_zone, recipient_zone, start)
    found = Schedule(start.moment, _repeat(rule, start), _before(row, start))
    first = _first(found, zone.found, start, now)
    missed, grace = _missed(row, found), _grace(row, found)
    deadline = label(row, "deadline", TIME_CHARACTERS_MAX)
    deadline_at = _deadline(deadline, found, zone.found, first)
    return When(found, zone.name, zone.follows_recipient, first, missed, grace, deadline, deadline_at, start.text)


def read_schedule(raw: Mapping[str, Any], account_zone: str | None, now: datetime) -> When:
    """The schedule of a submission that may be wrong in all else. Raises Rejection."""
    row = known(raw, FIELDS)
    to = row.get("to")
    return read_when(row, account_zone, None if to is None else read_zone(known(to, RECIPIENT_FIELDS, "to")), now)


# --- the start -----------------------------------------------------------------------------------


def _start(row: Mapping[str, Any], rule: str | None, now: datetime | None) -> _Start:
    cron = rule is not None and not schedule.is_set(rule)
    if label(row, "starts_at", TIME_CHARACTERS_MAX) is not None:
        _refuse_beside_anchor(row)
        return _given(row, "starts_at", in_zone=False)
    if row.get("before") is not None:
        raise Rejection("is missing; give it beside before, or notify_at alone", "starts_at")
    if cron and now is not None and label(row, "notify_at", TIME_CHARACTERS_MAX) is None:
        now = now.replace(microsecond=0)
        return _Start("repeat", moments.write_time(now), now, in_zone=True)
    return _given(row, "notify_at", in_zone=cron)


def _given(row: Mapping[str, Any], field: str, *, in_zone: bool) -> _Start:
    text = need(row, field, TIME_CHARACTERS_MAX)
    moment = _read(_parse_time, text, field)
    return _Start(field, text, moment, in_zone or moment.tzinfo is None)


def _refuse_beside_anchor(row: Mapping[str, Any]) -> None:
    if row.get("before") is None:
        raise Rejection('is missing beside starts_at; write offsets like ["PT24H"], or give notify_at', "before")
    for field in ("notify_at", "repeat"):
        if row.get(field) not in (None, ""):
            raise Rejection("stands beside starts_at and before; leave it out, or give it instead of them", field)


# --- the zone ------------------------------------------------------------------------------------


def _zone(wanted: str | None, account: str | None, recipient: str | None, start: _Start) -> _Zone:
    """The zone; none only for an instant, and what goes on from one."""
    if wanted is not None and wanted != RECIPIENT:
        found = zones.find(wanted, "zone")
        return _Zone(found.key, found, follows_recipient=False)
    if not start.in_zone and wanted is None:
        return _Zone(None, None, follows_recipient=False)
    name = recipient or account if wanted == RECIPIENT else account or recipient
    if name is None and start.in_zone:
        raise _no_zone(wanted, start)
    follows = wanted == RECIPIENT or account is None
    return _Zone(name, None if name is None else zones.find(name, "zone"), follows)


def _no_zone(wanted: str | None, start: _Start) -> Rejection:
    if wanted is None and start.field == "repeat":
        return Rejection("is a cron expression without a zone; give zone or to.zone", "repeat")
    if wanted is None:
        return Rejection("is a local time without a zone; add an offset to it, or give zone or to.zone", start.field)
    return Rejection("the recipient has no zone; give to.zone, or a zone for the account in duly.toml", "zone")


# --- what follows --------------------------------------------------------------------------------


def _rule(row: Mapping[str, Any]) -> str | None:
    """The text of `repeat`, which may have several lines."""
    value = row.get("repeat")
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Rejection(f"must be text, not {kind(value)}", "repeat")
    return value


def _repeat(rule: str | None, start: _Start) -> str | None:
    return None if rule is None else _read(lambda text: _read_repeat(text, start.moment), rule, "repeat")


def _before(row: Mapping[str, Any], start: _Start) -> tuple[timedelta, ...]:
    """The offsets, largest first."""
    if start.field != "starts_at":
        return ()
    value = row.get("before")
    if not isinstance(value, (list, tuple)):
        raise Rejection(f'must be a list like ["PT24H", "PT1H"], not {kind(value)}', "before")
    if not 0 < len(value) <= OFFSETS_MAX:
        raise Rejection(f"must name one to {OFFSETS_MAX} offsets", "before")
    offsets = {_offset(text) for text in value}
    if len(offsets) < len(value):
        raise Rejection("names an offset twice", "before")
    return tuple(sorted(offsets, reverse=True))


def _offset(text: Any) -> timedelta:
    if not isinstance(text, str):
        raise Rejection(f"must be durations like PT24H, not {kind(text)}", "before")
    return _read(_parse_duration, text, "before")


def _first(found: Schedule, zone: tzinfo | None, start: _Start, now: datetime | None) -> Slot:
    """The first slot. What repeats begins now: what was due before anybody asked for it was not missed."""
    if found.repeat is None:
        return _read(lambda schedule_: schedule.first(schedule_, zone), found, start.field)
    first = _read(lambda schedule_: schedule.first(schedule_, zone), found, "repeat")
    if now is None or first.due_at > now - SKIP_GRACE:
        return first
    ahead = schedule.first_after(found, zone, now - SKIP_GRACE)
    if ahead is None:
        raise Rejection("has no occurrence that is still to come; its last one is past", "repeat")
    return ahead


def _missed(row: Mapping[str, Any], found: Schedule) -> str | None:
    missed = label(row, "missed", MISSED_CHARACTERS_MAX)
    if missed is not None:
        _check_repeats(found, "missed")
        _read(read_missed, missed, "missed")
    return missed


def _grace(row: Mapping[str, Any], found: Schedule) -> str | None:
    grace = label(row, "grace", TIME_CHARACTERS_MAX)
    if grace is not None:
        _check_repeats(found, "grace")
        _read(_parse_duration, grace, "grace")
    return grace


def _check_repeats(found: Schedule, field: str) -> None:
    if found.repeat is None:
        raise Rejection("is about reminders that repeat; leave it out, or give repeat", field)


def _deadline(deadline: str | None, found: Schedule, zone: tzinfo | None, first: Slot) -> datetime:
    once = found.repeat is None and not found.before
    if deadline and deadline[0].isdigit() and not once:
        raise Rejection("must be a duration like PT8H where there is more than one occurrence", "deadline")
    behind = None if once or deadline else schedule.first_after(found, zone, first.due_at)
    until = schedule.anchor(found, zone) if behind is None else behind.due_at
    moment = _read(lambda text: deadline_of(first.due_at, text, until), deadline, "deadline")
    if moment <= first.due_at:
        raise Rejection("is not after the due time; write a later one, or a duration like PT8H", "deadline")
    return moment


def _read(reader: Callable[[V], T], value: V, field: str) -> T:
    """What the reader makes of it, or its reason as a rejection of that field."""
    try:
        return reader(value)
    except ValueError as error:
        raise Rejection(str(error), field) from None
