"""Every zone, every change of its clocks from 2000 to 2037, against a walk through its minutes, and against Java.

The walk knows nothing of schedules: it goes through UTC minute by minute and looks at the clock. A wall time fires at
the first minute that shows it. One that no minute shows fires as long after the last minute before the gap as the
clock would have needed to reach it. A sample is looked at in every run, all of it by `make proof`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest

from duly.core.schedule import Schedule, Slot, read_repeat, slots_since

FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
#: Java's data are older than ours by some months: what was decided lately is not compared.
JAVA_LAST: Final = datetime(2024, 1, 1, tzinfo=UTC)
AROUND: Final = timedelta(hours=26)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
TIMES: Final = (time(0), time(2, 30), time(23, 59))
ZONES_SAMPLED_EVERY: Final = 17
CHANGES_SAMPLED_EVERY: Final = 7
JAVA_SECONDS_MAX: Final = 120


class Change(NamedTuple):
    """The minute from which on the clocks of a zone have another offset."""

    zone: str
    at: datetime


def offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def change_moments(zone: ZoneInfo) -> Iterator[datetime]:
    """Every change, found by looking at the zone from UTC, a day at a time."""
    moment = FIRST
    while moment < LAST:
        if offset(zone, moment) != offset(zone, moment + DAY):
            low, high = 0, 24 * 60
            while high - low > 1:
                middle = (low + high) // 2
                same = offset(zone, moment + middle * MINUTE) == offset(zone, moment)
                low, high = (middle, high) if same else (low, middle)
            yield moment + high * MINUTE
        moment += DAY


@cache
def changes(zones_every: int = 1) -> list[Change]:
    """Every change of every zone; zones with the same clocks in all these years are looked at once."""
    seen: set[tuple[object, ...]] = set()
    found: list[Change] = []
    for name in sorted(available_timezones())[::zones_every]:
        zone = ZoneInfo(name)
        moments = list(change_moments(zone))
        history = (offset(zone, FIRST), *((moment, offset(zone, moment)) for moment in moments))
        if history not in seen:
            seen.add(history)
            found += [Change(name, moment) for moment in moments]
    return found


# --- the walk ------------------------------------------------------------------------------------


def walked(change: Change) -> list[tuple[datetime, datetime]]:
    """Minutes of UTC around a change with what the clocks show, as a naive time."""
    zone, begins = ZoneInfo(change.zone), change.at - AROUND
    minutes = [begins + number * MINUTE for number in range(2 * int(AROUND / MINUTE))]
    return [(minute, minute.astimezone(zone).replace(tzinfo=None, fold=0)) for minute in minutes]


def shown(walk: list[tuple[datetime, datetime]]) -> dict[datetime, datetime]:
    """The instant at which each wall time of the walk fires, also of those that no minute shows."""
    found: dict[datetime, datetime] = {walk[0][1]: walk[0][0]}
    for (before, old), (minute, new) in pairwise(walk):
        found.setdefault(new, minute)
        for missing in range(1, int((new - old) / MINUTE)):
            found.setdefault(old + missing * MINUTE, before + missing * MINUTE)
    return found


def expected(fires: dict[datetime, datetime], clock: time) -> list[Slot]:
    locals_ = [local for local in fires if local.time() == clock]
    return sorted([Slot(f"{local:%Y-%m-%dT%H:%M}", fires[local]) for local in locals_], key=lambda slot: slot[::-1])


def daily(change: Change, clock: time, rule: str) -> list[Slot]:
    """The slots of a daily schedule within the walk. Where it begins and ends, half a gap might be seen."""
    start = datetime.combine(date(1999, 12, 1), clock)
    schedule = Schedule(start, read_repeat(rule, start))
    zone, ends = ZoneInfo(change.zone), change.at + AROUND
    found = []
    for slot in slots_since(schedule, zone, change.at - AROUND):
        if slot.due_at >= ends:
            return found
        found.append(slot)
    return found


def check(change: Change) -> None:
    """All of it, around one change."""
    walk = walked(change)
    fires = shown(walk)
    for clock in TIMES:
        found = daily(change, clock, "FREQ=DAILY")
        assert found == expected(fires, clock), (change, clock)
        assert found == daily(change, clock, f"{clock.minute} {clock.hour} * * *"), (change, clock)
        check_days(change, found)
    check_every_minute(change, walk)


def check_days(change: Change, found: list[Slot]) -> None:
    """Each day has one, and instants increase; where a whole day is missing, its slot and the next share theirs."""
    zone = ZoneInfo(change.zone)
    days = [date.fromisoformat(slot.label[:10]) for slot in found]
    assert all(after - before == DAY for before, after in pairwise(days)), change
    instants = [slot.due_at for slot in found]
    if offset(zone, change.at) - offset(zone, change.at - MINUTE) < DAY:
        assert all(before < after for before, after in pairwise(instants)), change
    else:
        assert sorted(instants) == instants, change
        assert len(set(instants)) == len(instants) - 1, change


def check_every_minute(change: Change, walk: list[tuple[datetime, datetime]]) -> None:
    """A sub-daily expression fires whenever the clock shows a time that matches, in both passes."""
    wanted = [minute for minute, local in walk if local.minute % 20 == 0]
    schedule = Schedule(FIRST, read_repeat("*/20 * * * *", None))
    coming = slots_since(schedule, ZoneInfo(change.zone), walk[0][0])
    assert [next(coming).due_at for _ in wanted] == wanted, change


def test_a_sample_of_all_changes() -> None:
    """Daily at 00:00, 02:30 and 23:59, as a rule and as an expression, fires when the walk says so."""
    sample = changes(ZONES_SAMPLED_EVERY)[::CHANGES_SAMPLED_EVERY]
    assert len(sample) > 50
    for change in sample:
        check(change)


@pytest.mark.parametrize(
    ("zone", "moment"),
    [
        ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
        ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),
        ("Asia/Beirut", datetime(2026, 3, 28, 22, tzinfo=UTC)),
        ("Antarctica/Troll", datetime(2026, 3, 29, 1, tzinfo=UTC)),
        ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
        ("Africa/Casablanca", datetime(2026, 2, 15, 2, tzinfo=UTC)),
        ("America/Scoresbysund", datetime(2024, 3, 31, 1, tzinfo=UTC)),
    ],
)
def test_changes_with_a_name(zone: str, moment: datetime) -> None:
    """Gaps of half an hour, an hour, two hours and a day, at midnight and elsewhere, and a repeated hour."""
    check(Change(zone, moment))


@pytest.mark.proof
def test_all_changes() -> None:
    """As the sample: every distinct zone, every change from 2000 to 2037."""
    assert len(changes()) > 5_000
    for change in changes():
        check(change)


# --- Java ----------------------------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java on this machine")
def test_all_changes_as_java_knows_them() -> None:
    """The instants of daily schedules around every change are those of java.time, which has the same rule."""
    found = [
        (change.zone, slot)
        for change in changes()
        if change.at < JAVA_LAST
        for clock in TIMES
        for slot in daily(change, clock, "FREQ=DAILY")
    ]
    answers = _asked_java("".join(f"{zone} {slot.label}\n" for zone, slot in found))
    known = [(zone, slot, int(answer)) for (zone, slot), answer in zip(found, answers, strict=True) if answer != "-"]
    assert len(known) > 10_000
    assert [(zone, slot) for zone, slot, second in known if slot.due_at.timestamp() != second] == []


def _asked_java(lines: str) -> list[str]:
    source = str(Path(__file__).with_name("JavaTime.java"))
    done = subprocess.run(
        ["java", source], input=lines, capture_output=True, text=True, timeout=JAVA_SECONDS_MAX, check=True
    )
    return done.stdout.split()
