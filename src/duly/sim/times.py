"""Times of a world: reminders that repeat, with every slot that they name by a reckoning of our own.

What is drawn is little and finite, so that it can be reckoned in a few lines that share nothing with the code that
they judge: so many steps of some minutes; the same wall time on some days; a cron expression for some hours of this
day; offsets before an anchor. A slot is a label and an instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from duly.sim.chance import Chance
from duly.sim.clocks import START

__all__ = [
    "ACCOUNT_ZONE",
    "ZONES",
    "Course",
    "Slot",
    "cron_of",
    "draw_course",
    "draw_window",
    "is_quiet",
    "slots_of",
    "wall_start",
    "zone_named",
]

#: Where a recipient may live, or not say it.
ZONES: Final = (None, "America/New_York", "Asia/Kolkata", "Europe/Berlin", "Pacific/Auckland")
#: Where quiet hours are kept of whoever has not said where he lives.
ACCOUNT_ZONE: Final = "Europe/Berlin"
DAY_MINUTES: Final = 1_440
CRON_HOURS: Final = 3
CRON_STEPS: Final = ("*/20", "*/30")


class Slot(NamedTuple):
    """A firing: its label, and when it is due."""

    label: str
    due_at: datetime


class Course(NamedTuple):
    """How a reminder goes on. There are steps, days, a cron expression's minutes, or offsets."""

    start: datetime  # an instant; for offsets the anchor
    missed: str  # latest, skip, or all:3
    step_minutes: int = 0
    days: bool = False
    cron: str = ""  # its minutes
    before_minutes: tuple[int, ...] = ()
    times: int = 0  # how many steps or days
    follows_recipient: bool = False

    @property
    def in_zone(self) -> bool:
        """Whether its slots are wall times."""
        return self.days or bool(self.cron)

    @property
    def repeats(self) -> bool:
        """Whether it is a rule: what has offsets does not repeat."""
        return not self.before_minutes


def draw_course(chance: Chance, due_seconds: float, horizon: float) -> Course:
    """Mostly steps of some minutes within the horizon: what matters is what comes while others fail."""
    start = (START + timedelta(seconds=due_seconds)).replace(second=0, microsecond=0) + timedelta(minutes=1)
    missed, count = chance.pick(("latest", "skip", "all:1", "all:3")), chance.number(2, 6)
    step = max(1, int(horizon * chance.between(0.05, 0.3) / 60))
    kind = chance.pick(("steps", "steps", "steps", "days", "cron", "before"))
    follows = chance.happens(0.5)
    if kind == "days":
        return Course(start, missed, days=True, times=chance.number(2, 3), follows_recipient=follows)
    if kind == "cron":
        return Course(start, missed, cron=chance.pick(CRON_STEPS), follows_recipient=follows)
    if kind == "before":
        offsets = tuple(sorted({chance.number(1, step * 3) for _ in range(count)}, reverse=True))
        return Course(start + timedelta(minutes=offsets[0]), missed, before_minutes=offsets)
    return Course(start, missed, step_minutes=step, times=count)


# --- reckoning -----------------------------------------------------------------------------------


def zone_named(name: str | None) -> ZoneInfo:
    """The zone of that name, else the account's."""
    return ZoneInfo(name or ACCOUNT_ZONE)


def slots_of(course: Course, home: str | None, zone: str | None) -> tuple[Slot, ...]:
    """Every slot, in order. `home`: where it was submitted for; `zone`: where its wall times are read now."""
    return tuple(_slots(course, zone_named(home), zone_named(zone)))


def _slots(course: Course, home: ZoneInfo, zone: ZoneInfo) -> Iterator[Slot]:
    if course.step_minutes:
        moments = [course.start + timedelta(minutes=course.step_minutes * n) for n in range(course.times)]
        yield from (Slot(f"{moment:%Y-%m-%dT%H:%M}Z", moment) for moment in moments)
    elif course.before_minutes:
        yield from (Slot(_offset(n), course.start - timedelta(minutes=n)) for n in course.before_minutes)
    else:
        walls = _days(course, home) if course.days else _matching(course, home)
        yield from (Slot(f"{wall:%Y-%m-%dT%H:%M}", wall.replace(tzinfo=zone).astimezone(UTC)) for wall in walls)


def _offset(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"-PT{f'{hours}H' if hours else ''}{f'{rest}M' if rest else ''}"


def wall_start(course: Course, home: ZoneInfo) -> datetime:
    """The wall time from which a course in a zone counts: that of its start where it was drawn."""
    return course.start.astimezone(home).replace(tzinfo=None)


def _days(course: Course, home: ZoneInfo) -> Iterator[datetime]:
    first = wall_start(course, home)
    return (first + timedelta(days=n) for n in range(course.times))


def cron_of(course: Course, home: ZoneInfo) -> str:
    """Its expression: some hours of the day on which it starts. The same day comes once in a year."""
    first = wall_start(course, home)
    return f"{course.cron} {first.hour}-{min(first.hour + CRON_HOURS, 23)} {first.day} {first.month} *"


def _matching(course: Course, home: ZoneInfo) -> Iterator[datetime]:
    first, step = wall_start(course, home), int(course.cron.removeprefix("*/"))
    midnight = datetime.combine(date(first.year, first.month, first.day), datetime.min.time())
    for minute in range(first.hour * 60, (min(first.hour + CRON_HOURS, 23) + 1) * 60):
        wall = midnight + timedelta(minutes=minute)
        if wall >= first and wall.minute % step == 0:
            yield wall


# --- quiet hours ---------------------------------------------------------------------------------


def is_quiet(window: str, zone: str, moment: datetime) -> bool:
    """Whether a moment lies in a window, like 21:00-08:00, of every day there."""
    local = moment.astimezone(ZoneInfo(zone))
    now, (start, end) = local.hour * 60 + local.minute, (_minutes(text) for text in window.split("-"))
    return start <= now < end if start < end else now >= start or now < end


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def draw_window(chance: Chance, zone: str, horizon: float, minutes_max: float) -> str:
    """A window that begins about now, there."""
    begins = (START + timedelta(seconds=chance.between(-3600.0, horizon))).astimezone(ZoneInfo(zone))
    ends = begins + timedelta(minutes=round(chance.spread(1.0, minutes_max)))
    return f"{begins:%H:%M}-{ends:%H:%M}"
