"""The questions that are asked of a schedule, and how it is walked.

A schedule in a zone is a course (see `courses`). Courses and the answers to the two questions that a tick asks
about every reminder (which slot is this, and which comes next) are remembered, so that a million recipients at
09:00 are computed once for each zone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from typing import Final, NamedTuple

from duly.core.moments import to_utc, write_time
from duly.core.schedule.clocks import wall_time
from duly.core.schedule.courses import END, Course, Listed, Wall, With
from duly.core.schedule.cron import Cron, cron_times, days_since, parse_cron, read_cron
from duly.core.schedule.dates import day_filter, last_of_count, matching_days, wall_times
from duly.core.schedule.model import Schedule, Slot
from duly.core.schedule.rules import Freq, Rule
from duly.core.schedule.sets import RuleSet, is_set, parse_set, read_set
from duly.core.schedule.stepping import Days, Filtered, Grid, Stepping, mask_of

__all__ = [
    "WALKED_SLOTS_MAX",
    "Run",
    "anchor",
    "first",
    "first_after",
    "following",
    "read_repeat",
    "run_until",
    "slot",
    "slots",
    "slots_since",
]

WALKED_SLOTS_MAX: Final = 10_000
COURSES_CACHED_MAX: Final = 4_096
ANSWERS_CACHED_MAX: Final = 16_384

_BEFORE_ALL: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_EVERY_MINUTE: Final = mask_of(tuple(range(24 * 60)))


class Run(NamedTuple):
    """Slots that were walked, from a label on."""

    total: int
    tail: tuple[Slot, ...]  # the last of them, oldest first
    behind: Slot | None  # the slot behind them


def read_repeat(text: str, start: datetime | None) -> str:
    """A recurrence set (RFC 5545) or a cron expression in its canonical text.

    A set needs the `start`, from which it is counted. Raises ValueError, which says what to write, also for
    what never fires.
    """
    if not is_set(text):
        return read_cron(text)
    if start is None:
        raise ValueError("a rule counts from a start; give notify_at, or write a cron expression like 0 9 * * MON")
    if start.microsecond:
        raise ValueError("a rule starts at a whole second; leave the fraction out")
    canonical = read_set(text)
    found = parse_set(canonical)
    if found.rule and not found.added:
        _check_matching(found.rule, start.replace(tzinfo=None))
    return canonical


def _check_matching(rule: Rule, start: datetime) -> None:
    """Raises ValueError for a rule without a day. Whether minutes match is known only in a zone: `first` says it."""
    if rule.until and rule.until.replace(tzinfo=None) < start - timedelta(days=1):
        raise ValueError("its UNTIL is before its start, so it never fires; write a later one")
    open_ended = rule._replace(until=None)
    days = matching_days(rule, start.date()) if rule.freq.sub_daily else wall_times(open_ended, start, start)
    if next(days, None) is None:
        raise ValueError("it never fires: no day of the next 400 years matches it; change its BY parts")


# --- questions -----------------------------------------------------------------------------------


@lru_cache(ANSWERS_CACHED_MAX)
def first(schedule: Schedule, zone: tzinfo | None) -> Slot:
    """The earliest slot of all. Raises ValueError where there is none."""
    found = next(_course(schedule, zone or UTC).since(_BEFORE_ALL), None)
    if found is None:
        raise ValueError("it never fires; change it, or its start")
    return found


@lru_cache(ANSWERS_CACHED_MAX)
def following(schedule: Schedule, zone: tzinfo | None, label: str) -> Slot | None:
    """The next slot behind that label, in the schedule's own order; the label need not be a slot any more.

    Raises ValueError for a label of another kind of schedule.
    """
    course = _course(schedule, zone or UTC)
    place = course.place(label)
    return next((slot for slot in course.since(place.due_at) if _is_behind(slot, place)), None)


def anchor(schedule: Schedule, zone: tzinfo | None) -> datetime | None:
    """The instant before which its slots lie; None if they lie before none."""
    course = _course(schedule, zone or UTC)
    return course.anchor if isinstance(course, Listed) and course.before else None


@lru_cache(ANSWERS_CACHED_MAX)
def slot(schedule: Schedule, zone: tzinfo | None, label: str) -> Slot | None:
    """The slot of that label, perhaps under another zone than before; None if the schedule does not have it."""
    course = _course(schedule, zone or UTC)
    try:
        place = course.place(label)
    except ValueError:
        return None
    for found in course.since(place.due_at):
        if found.due_at > place.due_at:
            return None
        if found.label == label:
            return found
    return None


def first_after(schedule: Schedule, zone: tzinfo | None, moment: datetime) -> Slot | None:
    """The earliest slot with `due_at` behind an instant."""
    return next((slot for slot in _course(schedule, zone or UTC).since(moment) if slot.due_at > moment), None)


def slots(schedule: Schedule, zone: tzinfo | None, label: str) -> Iterator[Slot]:
    """The slots from that label on, in order."""
    course = _course(schedule, zone or UTC)
    place = course.place(label)
    return (slot for slot in course.since(place.due_at) if slot.label == label or _is_behind(slot, place))


def slots_since(schedule: Schedule, zone: tzinfo | None, moment: datetime) -> Iterator[Slot]:
    """The slots that are due at an instant or later, in order."""
    return _course(schedule, zone or UTC).since(moment)


def run_until(schedule: Schedule, zone: tzinfo | None, label: str, moment: datetime, tail_slots: int) -> Run:
    """Count the slots from `label` on that are due by an instant, and keep the last ones.

    At most 10,000 are walked, and then `behind` is still due.
    """
    course = _course(schedule, zone or UTC)
    tail: deque[Slot] = deque(maxlen=tail_slots)
    begin = next(slots(schedule, zone, label), None)
    if begin is None or begin.due_at > moment:
        return Run(0, (), begin)
    begin, count = course.leap(begin, moment, tail_slots)
    count_max = count + WALKED_SLOTS_MAX
    for found in slots(schedule, zone, begin.label):
        if found.due_at > moment or count == count_max:
            return Run(count, tuple(tail), found)
        tail.append(found)
        count += 1
    return Run(count, tuple(tail), None)


def _is_behind(slot: Slot, place: Slot) -> bool:
    return (slot.due_at, slot.label) > (place.due_at, place.label)


# --- courses -------------------------------------------------------------------------------------


@lru_cache(COURSES_CACHED_MAX)
def _course(schedule: Schedule, zone: tzinfo) -> Course:
    start, repeat = schedule.start, schedule.repeat
    begins = to_utc(start, zone) if start.tzinfo is None else start.astimezone(UTC)
    if repeat is None:
        return Listed(begins, schedule.before, schedule.left_out)
    if not is_set(repeat):
        return _cron_course(parse_cron(repeat), begins, zone)
    local = start if start.tzinfo is None else wall_time(start, zone)
    return _set_course(parse_set(repeat), begins, local, zone)


def _cron_course(cron: Cron, begins: datetime, zone: tzinfo) -> Course:
    if cron.sub_daily:
        days = None if cron.every_day else Days(partial(days_since, cron), cron.matches)
        return Filtered(zone, begins, END, mask_of(cron.minutes_of_day), days)
    return Wall(zone, partial(cron_times, cron), begins)


def _set_course(found: RuleSet, begins: datetime, local: datetime, zone: tzinfo) -> Course:
    rule = found.rule
    course = _rule_course(rule, begins, local, zone) if rule else Wall(zone, lambda _: iter(()))
    if not found.added and not found.without:
        return course
    sub_daily = rule is not None and rule.freq.sub_daily
    added = sorted({_as_slot(moment, zone, by_instant=sub_daily) for moment in found.added}, key=lambda s: s[::-1])
    without = frozenset(_as_name(moment, zone, by_instant=sub_daily) for moment in found.without)
    return With(course, tuple(added), without)


def _as_slot(moment: datetime, zone: tzinfo, *, by_instant: bool) -> Slot:
    due_at = to_utc(moment, zone) if moment.tzinfo is None else moment
    return Slot(write_time(due_at if by_instant else moment), due_at)


def _as_name(moment: datetime, zone: tzinfo, *, by_instant: bool) -> str | datetime:
    """What an EXDATE takes out: a wall time by its label, an instant by itself."""
    slot = _as_slot(moment, zone, by_instant=by_instant)
    return slot.due_at if moment.tzinfo or by_instant else slot.label


def _rule_course(rule: Rule, begins: datetime, local: datetime, zone: tzinfo) -> Course:
    if rule.freq.sub_daily:
        return _sub_daily_course(rule, begins, local, zone)
    if rule.total:
        rule = rule._replace(total=None, until=last_of_count(rule, local))
    until = rule.until if rule.until and rule.until.tzinfo else None
    return Wall(zone, partial(wall_times, rule, local), until=until)


def _sub_daily_course(rule: Rule, begins: datetime, local: datetime, zone: tzinfo) -> Course:
    until = END
    if rule.until:
        until = min(END, rule.until if rule.until.tzinfo else to_utc(rule.until, zone))
    course = _stepping(rule, begins, local, zone, until)
    if not rule.total:
        return course
    return _stepping(rule, begins, local, zone, course.last_of(rule.total) or _BEFORE_ALL)


def _stepping(rule: Rule, begins: datetime, local: datetime, zone: tzinfo, until: datetime) -> Stepping | Filtered:
    step = rule.interval * (_HOUR if rule.freq is Freq.HOURLY else _MINUTE)
    holds = day_filter(rule)
    if holds is None and not rule.hours and not rule.minutes and not rule.seconds:
        return Stepping(zone, begins, step, until)
    seconds = timedelta(seconds=rule.seconds[0] if rule.seconds else local.second)
    grid = None if step == _MINUTE else _grid(rule, begins, local, step, seconds)
    days = Days(partial(matching_days, rule), holds) if holds else None
    return Filtered(zone, begins, until, _minutes_of_day(rule), days, seconds, grid)


def _grid(rule: Rule, begins: datetime, local: datetime, step: timedelta, seconds: timedelta) -> Grid:
    """Every step from the start; where BYMINUTE chooses minutes, all of the hour that every step begins."""
    minute = begins.replace(tzinfo=None) - timedelta(seconds=local.second)
    if rule.freq is Freq.HOURLY and rule.minutes:
        return Grid(minute - local.minute * _MINUTE, step, _HOUR)
    return Grid(minute + seconds, step)


def _minutes_of_day(rule: Rule) -> int:
    if not rule.hours and not rule.minutes:
        return _EVERY_MINUTE
    hours, minutes = rule.hours or range(24), rule.minutes or range(60)
    return mask_of(tuple([hour * 60 + minute for hour in hours for minute in minutes]))
