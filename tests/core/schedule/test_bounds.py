"""No rule hangs, and none costs more because it is old."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import pytest

from duly.core.missed import catch_up, read_missed
from duly.core.schedule import Schedule, first_after, following, run_until
from duly.core.schedule.cron import cron_times, parse_cron
from duly.core.schedule.stepping import Days, Filtered
from tests.core.schedule.values import NEW_YORK, repeating, utc

LONG_AGO: Final = datetime(1971, 1, 1, 9)
TIMES: Final = 40


def best_seconds(once: Callable[[], object], times: int = 3) -> float:
    """The best of a few, of our own time: what else the machine does is not counted."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        once()
        taken.append(time.process_time() - began)
    return min(taken)


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
    """The next firing of a rule of 1971 takes well under a millisecond: nothing is stepped from the start."""
    schedule = repeating(text, LONG_AGO)
    found = first_after(schedule, NEW_YORK, utc(2026, 3, 1))
    assert found is not None
    labels = [found.label]
    for _ in range(TIMES):
        behind = following(schedule, NEW_YORK, labels[-1])
        assert behind is not None
        labels.append(behind.label)

    def walk_anew() -> None:
        following.cache_clear()
        for label in labels:
            following(schedule, NEW_YORK, label)

    assert best_seconds(walk_anew) / len(labels) < 0.001


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
    """Minutes of a year that no tick saw are caught up in under 50 ms."""
    schedule = repeating(text, datetime(2026, 1, 1))
    label, until = first_after(schedule, None, utc(2025, 1, 1)), utc(*now.timetuple()[:5])
    assert label is not None
    for policy in ("latest", "all:1"):
        caught = catch_up(schedule, None, label.label, until, read_missed(policy))
        assert (len(caught.fire), caught.skipped) == (1, skipped)
        assert run_until(schedule, None, label.label, until, 1)[:2] == (skipped + 1, (caught.fire[0],))
        assert best_seconds(lambda: catch_up(schedule, None, label.label, until, read_missed("latest"))) < 0.05


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
    found = Filtered(NEW_YORK, utc(2026, 1, 1), utc(2900, 1, 1), (0,), Days(lambda _: iter(()), lambda _: False))
    began = time.process_time()
    assert next(found.since(utc(2026, 1, 1)), None) is None
    assert time.process_time() - began < 1.0


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
