"""No rule hangs, and none costs more because it is old. What is counted is how often a zone is looked at."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.core.missed import catch_up, read_missed
from duly.core.schedule import Schedule, first, first_after, following, run_until, slots, slots_since
from duly.core.schedule.cron import cron_times, parse_cron
from duly.core.schedule.stepping import COUNT_STEPS_MAX, LEAP_STEPS_MAX, SEARCH_STEPS_MAX, Days, Filtered
from tests.core.schedule.values import NEW_YORK, repeating, utc

LONG_AGO: Final = datetime(1971, 1, 1, 9)
TIMES: Final = 40
SLOTS_WALKED_MAX: Final = 10_000


class Watched(ZoneInfo):
    """New York, which counts how often somebody looks."""

    looks: int = 0

    def fromutc(self, moment: datetime) -> datetime:
        self.looks += 1
        return super().fromutc(moment)

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        self.looks += 1
        return super().utcoffset(moment)


def watched() -> Watched:
    """Of no cache, so that nothing about it is remembered."""
    return Watched.no_cache("America/New_York")


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=3;BYHOUR=9,18;BYMINUTE=0,30",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;WKST=SU",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=WEEKLY;COUNT=10000",
        "FREQ=MINUTELY;INTERVAL=15",
        "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9,10",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29",
        "0 9 * * MON-FRI",
        "*/15 * * * *",
    ],
)
def test_an_old_rule_costs_no_more(text: str) -> None:
    """For the next firing of a rule of 1971 a few days are looked at: nothing is stepped from the start."""
    schedule = repeating(text, LONG_AGO)
    found = first_after(schedule, NEW_YORK, utc(2026, 3, 1))
    assert found is not None
    label, zone = found.label, watched()
    for _ in range(TIMES):
        behind = following(schedule, zone, label)
        assert behind is not None
        label = behind.label
    assert zone.looks / TIMES < 60


def test_an_answer_is_remembered() -> None:
    """A million reminders with one rule, one zone and one label are computed once."""
    following.cache_clear()
    for _ in range(1_000):
        schedule = Schedule.from_text('{"start":"2026-03-01T09:00","repeat":"RRULE:FREQ=DAILY"}')
        assert following(schedule, NEW_YORK, "2026-03-01T09:00")
    assert (following.cache_info().misses, following.cache_info().hits) == (1, 999)


@pytest.mark.parametrize(
    ("text", "now", "skipped"),
    [
        ("FREQ=MINUTELY;INTERVAL=15", datetime(2026, 1, 8, 0, 7), 672),
        ("FREQ=MINUTELY", datetime(2027, 1, 1), 525_600),
        ("* * * * *", datetime(2027, 1, 1), 525_600),
        ("FREQ=MINUTELY;BYHOUR=9,10,11", datetime(2027, 1, 1), 365 * 180 - 1),
        ("FREQ=HOURLY;INTERVAL=2", datetime(2027, 1, 1), 4_380),
    ],
)
def test_what_can_be_counted_is_not_walked(text: str, now: datetime, skipped: int) -> None:
    """Minutes of a year that no tick saw are caught up with a few looks at each of its days."""
    schedule = repeating(text, datetime(2026, 1, 1))
    label, until = first_after(schedule, None, utc(2025, 1, 1)), utc(*now.timetuple()[:5])
    assert label is not None
    for policy in ("latest", "all:1"):
        caught = catch_up(schedule, None, label.label, until, read_missed(policy))
        assert (len(caught.fire), caught.skipped) == (1, skipped)
        assert run_until(schedule, None, label.label, until, 1)[:2] == (skipped + 1, (caught.fire[0],))
    zone = watched()
    catch_up(schedule, zone, label.label, until, read_missed("latest"))
    assert zone.looks < 4 * 365


def test_a_walk_has_an_end() -> None:
    """A rule that can only be walked is caught up in steps, each of which is bounded and moves on."""
    schedule = repeating("* 0-23 * * *", datetime(2026, 1, 1))
    now, label, calls, skipped = utc(2026, 1, 31), "2026-01-01T00:00", 0, 0
    while calls < 10:
        caught = catch_up(schedule, None, label, now, read_missed("all:3"))
        calls, skipped = calls + 1, skipped + caught.skipped
        assert caught.next is not None
        label = caught.next.label
        if caught.fire:
            break
        assert caught.skipped <= 10_000
    assert [slot.label for slot in caught.fire] == ["2026-01-30T23:58", "2026-01-30T23:59", "2026-01-31T00:00"]
    assert (calls, skipped, label) == (5, 30 * 1_440 + 1 - 3, "2026-01-31T00:01")


def test_a_search_has_an_end() -> None:
    """Where no day matches, minutes are not looked for for ever."""
    found = Filtered(NEW_YORK, utc(2026, 1, 1), utc(2900, 1, 1), 1, Days(lambda _: iter(()), lambda _: False))
    assert next(found.since(utc(2026, 1, 1)), None) is None
    asked: list[date] = []

    def on_each_but_none(day: date) -> Iterator[date]:
        asked.append(day)
        return iter([day + timedelta(days=2)])

    found = replace(found, days=Days(on_each_but_none, lambda _: False))
    assert next(found.since(utc(2026, 1, 1)), None) is None
    assert len(asked) == SEARCH_STEPS_MAX + 1


#: Each took a second and more while it was walked, or was not bounded at all.
HEAVY: Final = [
    "FREQ=MINUTELY;INTERVAL=10080;COUNT=2",
    "FREQ=MINUTELY;INTERVAL=10080;BYDAY=MO;COUNT=2",
    "FREQ=MINUTELY;INTERVAL=10080;BYHOUR=4",
    "FREQ=MINUTELY;INTERVAL=1441;BYHOUR=9;BYMINUTE=0;COUNT=10000",
    "FREQ=MINUTELY;INTERVAL=1440;BYDAY=FR,SA",
    "FREQ=MINUTELY;INTERVAL=7;BYHOUR=18;BYMINUTE=14",
    "FREQ=MINUTELY;INTERVAL=3;COUNT=2;BYMINUTE=1,10;BYMONTH=2,10;BYMONTHDAY=-31,-1,2,28,30",
    "FREQ=MINUTELY;INTERVAL=97;BYMONTHDAY=1,29",
    "FREQ=MINUTELY;INTERVAL=999983;BYHOUR=18;BYMINUTE=14",
    "FREQ=HOURLY;INTERVAL=25;COUNT=10000;BYHOUR=20",
    "FREQ=HOURLY;INTERVAL=999;BYMINUTE=1,2,3,50;BYDAY=MO;COUNT=10000",
    "FREQ=HOURLY;INTERVAL=1000000;BYHOUR=3",
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;COUNT=10000",
    "FREQ=MONTHLY;BYDAY=5MO;COUNT=10000",
    "FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO;COUNT=10000",
    "FREQ=DAILY;COUNT=10000",
    "*/7 * L * MON",
    "59 23 29 2 +MON",
]


@pytest.mark.parametrize("text", HEAVY)
def test_a_rule_of_decades_is_read_or_refused_in_bounded_steps(text: str) -> None:
    """What an import, `duly next` and a tick ask of a rule of 2000 looks at a zone some ten thousand times at most."""
    now, zone = utc(2026, 11, 30), watched()
    schedule = repeating(text, datetime(2000, 12, 1, 9))
    try:
        begin = first(schedule, zone)
    except ValueError as error:
        assert str(error).startswith(("it never fires", "its COUNT ends too far ahead"))  # noqa: PT017 - or none
        assert zone.looks < 4 * COUNT_STEPS_MAX
        return
    asked, zone.looks = zone.looks, 0
    first_after(schedule, zone, now)
    assert max(asked, zone.looks) < 4 * COUNT_STEPS_MAX
    zone.looks = 0
    catch_up(schedule, zone, begin.label, now, read_missed("latest"))
    assert zone.looks < 4 * LEAP_STEPS_MAX + 8 * SLOTS_WALKED_MAX


def test_a_count_that_ends_too_far_ahead_is_refused() -> None:
    """Ten thousand firings, one in 25 days, are 685 years; a thousand of another rule are found."""
    with pytest.raises(ValueError, match="its COUNT ends too far ahead to be found; write a smaller one, or UNTIL"):
        first(repeating("FREQ=HOURLY;INTERVAL=25;BYHOUR=20;COUNT=10000"), NEW_YORK)
    few = repeating("FREQ=HOURLY;INTERVAL=25;BYHOUR=20;COUNT=100")
    assert len(list(slots_since(few, NEW_YORK, utc(1970, 1, 1)))) == 100


# --- jumps and walks -----------------------------------------------------------------------------

PARTS: Final = {
    "BYHOUR": st.lists(st.integers(0, 23), max_size=3),
    "BYMINUTE": st.lists(st.integers(0, 59), max_size=4),
    "BYDAY": st.lists(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), max_size=4),
    "BYMONTHDAY": st.lists(st.integers(1, 31), max_size=6),
}
WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
ZONES: Final = [
    ZoneInfo(name) for name in ("America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "UTC")
]
INTERVALS: Final = st.one_of(st.integers(1, 100), st.sampled_from([60, 240, 1439, 1440, 1441, 2880, 4321, 10_080]))
MINUTES_LOOKED_AT: Final = 2_000


@st.composite
def filtered_rules(draw: st.DrawFn) -> tuple[str, int, dict[str, set[str]]]:
    """A sub-daily rule: its text, its step in minutes, and its BY parts."""
    hourly, interval = draw(st.booleans()), draw(INTERVALS)
    parts = {name: {str(one) for one in draw(values)} for name, values in PARTS.items()}
    text = f"FREQ={'HOURLY' if hourly else 'MINUTELY'};INTERVAL={interval}"
    text += "".join(f";{name}={','.join(values)}" for name, values in parts.items() if values)
    return text, interval * (60 if hourly else 1), parts


def walked(
    rule: tuple[str, int, dict[str, set[str]]], start: datetime, zone: tzinfo, begins: datetime
) -> Iterator[datetime]:
    """Minute after minute, with a look at the clock: what knows nothing of days, masks and jumps."""
    text, step, parts = rule
    block = 60 if "HOURLY" in text and parts["BYMINUTE"] else 1
    origin = start.replace(tzinfo=zone).astimezone(utc(2000, 1, 1).tzinfo)
    origin -= timedelta(minutes=start.minute) if block > 1 else timedelta(0)
    for number in range(MINUTES_LOOKED_AT):
        instant = begins + timedelta(minutes=number)
        shown = instant.astimezone(zone)
        clock = {
            "BYHOUR": str(shown.hour),
            "BYMINUTE": str(shown.minute),
            "BYDAY": WEEKDAYS[shown.weekday()],
            "BYMONTHDAY": str(shown.day),
        }
        on_grid = (instant - origin) // timedelta(minutes=1) % step < block and instant >= origin
        if on_grid and all(not parts[name] or value in parts[name] for name, value in clock.items()):
            yield instant


@settings(max_examples=30)
@given(filtered_rules(), st.sampled_from(ZONES), st.datetimes(datetime(2000, 1, 1), datetime(2012, 1, 1)))
def test_a_jump_is_a_walk(rule: tuple[str, int, dict[str, set[str]]], zone: ZoneInfo, around: datetime) -> None:
    """From any moment on, the slots of a rule of 2000 are the minutes that a walk through the clock finds."""
    start, begins = datetime(2000, 1, 1, 0, 30), utc(*around.timetuple()[:5])
    schedule = Schedule(start, f"RRULE:{rule[0]}")
    ends = begins + timedelta(minutes=MINUTES_LOOKED_AT)
    found = takewhile(lambda one: one.due_at < ends, slots_since(schedule, zone, begins))
    after_start = start.replace(tzinfo=zone).astimezone(begins.tzinfo)
    assert [one.due_at for one in found] == [one for one in walked(rule, start, zone, begins) if one >= after_start]


@settings(max_examples=30)
@given(filtered_rules(), st.sampled_from(ZONES), st.integers(1, 90), st.integers(1, 9))
def test_what_is_leapt_over_is_counted(
    rule: tuple[str, int, dict[str, set[str]]], zone: ZoneInfo, hours: int, keep: int
) -> None:
    """A run counts what a walk counts, and keeps the same slots."""
    schedule = Schedule(datetime(2011, 10, 1, 0, 30), f"RRULE:{rule[0]}")
    begin = first_after(schedule, zone, utc(2011, 12, 28))
    if begin is None:
        return
    until = begin.due_at + timedelta(hours=hours)
    due = list(takewhile(lambda one: one.due_at <= until, slots(schedule, zone, begin.label)))
    run = run_until(schedule, zone, begin.label, until, keep)
    assert (run.total, run.tail[-keep:]) == (len(due), tuple(due[-keep:]))


@settings(max_examples=15)
@given(filtered_rules(), st.sampled_from(ZONES), st.integers(1, 15))
def test_a_count_is_a_walk(rule: tuple[str, int, dict[str, set[str]]], zone: ZoneInfo, total: int) -> None:
    """A rule with COUNT has the first slots of the same rule without it."""
    start, begins = datetime(2011, 12, 28, 0, 30), utc(2011, 12, 1)
    counted = Schedule(start, f"RRULE:{rule[0]};COUNT={total}")
    with suppress(ValueError):  # it may end too far ahead to be found
        found = list(slots_since(counted, zone, begins))
        assert found == list(islice(slots_since(Schedule(start, f"RRULE:{rule[0]}"), zone, begins), total))


def test_a_schedule_ends_with_the_calendar() -> None:
    """Behind the year 2999 there is nothing, and nothing goes wrong."""
    for text in ("FREQ=DAILY", "FREQ=MONTHLY", "FREQ=YEARLY", "FREQ=WEEKLY", "FREQ=HOURLY", "0 9 * * *", "0 * * * *"):
        schedule = repeating(text, datetime(2999, 12, 28, 9))
        found = first_after(schedule, NEW_YORK, utc(1990, 1, 1))
        steps = 0
        while found is not None:
            assert found.due_at < utc(3000, 1, 1)
            found, steps = following(schedule, NEW_YORK, found.label), steps + 1
        assert 1 <= steps <= 100
    assert first_after(repeating("FREQ=DAILY"), None, utc(2999, 12, 31)) is None
    assert len(list(cron_times(parse_cron("0 9 * * *"), datetime(2999, 12, 30)))) == 2
    assert run_until(Schedule(utc(2026, 1, 1)), None, "once", utc(2026, 1, 1) + timedelta(days=1), 1).total == 1
