"""The order of a schedule where wall times and instants have another one, and the zone that follows."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import islice, pairwise
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.moments import to_utc
from duly.core.schedule import Slot, first_after, following, slot, slots, slots_since
from duly.core.schedule.clocks import jump_near, stretches
from tests.core.schedule.values import NEW_YORK, coming, labels, repeating, utc

APIA: Final = ZoneInfo("Pacific/Apia")
ZONES: Final = [*map(ZoneInfo, sorted(available_timezones())), UTC, timezone(timedelta(hours=5, minutes=45))]


def test_a_skipped_time_stands_where_it_is_due() -> None:
    """When clocks go forward, 02:30 is due with 03:30, behind 03:15; at one instant the earlier label comes first."""
    found = coming(repeating("FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=15,30", datetime(2026, 3, 8)), count=7)
    assert [one.label[8:] for one in found] == [
        "08T01:15",
        "08T01:30",
        "08T02:15",
        "08T03:15",
        "08T02:30",
        "08T03:30",
        "09T01:15",
    ]
    assert found[2].due_at == found[3].due_at == utc(2026, 3, 8, 7, 15)


def test_a_repeated_time_fires_at_its_first_pass() -> None:
    """On the night when clocks go back, 01:30 fires once; a sub-daily rule goes through both passes."""
    found = coming(repeating("30 1 * * *", datetime(2026, 11, 1)), count=2)
    assert [one.due_at for one in found] == [utc(2026, 11, 1, 5, 30), utc(2026, 11, 2, 6, 30)]
    assert labels("30 * * * *", datetime(2026, 11, 1, 1), 3) == [
        "2026-11-01T05:30Z",
        "2026-11-01T06:30Z",
        "2026-11-01T07:30Z",
    ]
    assert labels("FREQ=HOURLY", datetime(2026, 11, 1, 1, 30), 2) == ["2026-11-01T05:30Z", "2026-11-01T06:30Z"]


def test_a_day_that_never_was() -> None:
    """Apia had no 30 December 2011: its slot is due with the next day's."""
    found = coming(repeating("FREQ=DAILY", datetime(2011, 12, 29, 9)), APIA, 4)
    assert [(one.label[5:10], one.due_at) for one in found] == [
        ("12-29", utc(2011, 12, 29, 19)),
        ("12-30", utc(2011, 12, 30, 19)),
        ("12-31", utc(2011, 12, 30, 19)),
        ("01-01", utc(2011, 12, 31, 19)),
    ]


def test_a_label_follows_the_zone() -> None:
    """Another zone gives the same label another instant; an instant of a sub-daily rule may not be there any more."""
    daily = repeating("FREQ=DAILY")
    assert slot(daily, APIA, "2026-03-06T09:00") == Slot("2026-03-06T09:00", utc(2026, 3, 5, 20))
    quarter = repeating("FREQ=HOURLY")
    assert slot(quarter, NEW_YORK, "2026-03-06T14:00Z") == Slot("2026-03-06T14:00Z", utc(2026, 3, 6, 14))
    assert slot(quarter, ZoneInfo("Asia/Kathmandu"), "2026-03-06T14:00Z") is None
    assert slot(quarter, ZoneInfo("Asia/Kathmandu"), "2026-03-06T14:15Z") is not None


def test_an_instant_starts_a_rule_in_utc_or_in_a_zone() -> None:
    """Without a zone the rule goes on in UTC; in a zone it goes on at the wall time that the instant had there."""
    schedule = repeating("FREQ=DAILY", utc(2026, 3, 7, 14))
    assert [one.due_at.hour for one in coming(schedule, None, 3)] == [14, 14, 14]
    assert [one.due_at.hour for one in coming(schedule, NEW_YORK, 3)] == [14, 13, 13]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("RRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260307T090000", ["06T09:00", "08T09:00"]),
        ("RRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260307T140000Z", ["06T09:00", "08T09:00"]),
        ("RRULE:FREQ=DAILY;COUNT=2\nRDATE:20260306T090000", ["06T09:00", "07T09:00"]),
        ("RRULE:FREQ=DAILY;COUNT=2\nRDATE:20260306T140000Z", ["06T09:00", "06T14:00Z", "07T09:00"]),
        ("RRULE:FREQ=DAILY;COUNT=1\nRDATE:20260401T090000,20260301T090000", ["01T09:00", "06T09:00", "01T09:00"]),
        (
            "RRULE:FREQ=HOURLY;COUNT=3\nEXDATE:20260306T100000\nRDATE:20260306T103000",
            ["06T14:00Z", "06T15:30Z", "06T16:00Z"],
        ),
        ("RRULE:FREQ=DAILY;UNTIL=20260308T130000Z", ["06T09:00", "07T09:00", "08T09:00"]),
        ("RRULE:FREQ=DAILY;UNTIL=20260308T125959Z", ["06T09:00", "07T09:00"]),
        ("RRULE:FREQ=DAILY;UNTIL=20260308T090000", ["06T09:00", "07T09:00", "08T09:00"]),
        ("RRULE:FREQ=HOURLY;UNTIL=20260306T110000", ["06T14:00Z", "06T15:00Z", "06T16:00Z"]),
        (
            "RRULE:FREQ=HOURLY;BYMINUTE=0,40;UNTIL=20260306T154000Z",
            ["06T14:00Z", "06T14:40Z", "06T15:00Z", "06T15:40Z"],
        ),
        ("RRULE:FREQ=HOURLY;INTERVAL=2;BYMINUTE=30;COUNT=2", ["06T14:30Z", "06T16:30Z"]),
        ("RRULE:FREQ=MINUTELY;BYHOUR=23;BYSECOND=30;COUNT=2", ["07T04:00:30Z", "07T04:01:30Z"]),
    ],
)
def test_sets(text: str, wanted: list[str]) -> None:
    """What is added is in its place once, what is taken out is gone, and the ends are where they are said to be."""
    assert [label[8:] for label in labels(text, count=9)] == wanted


@given(st.sampled_from(ZONES), st.datetimes(datetime(1971, 1, 1), datetime(2040, 1, 1)), st.integers(1, 500))
def test_stretches_are_the_zone(zone: tzinfo, begins: datetime, hours: int) -> None:
    """They follow each other without a gap, and in each the clocks show the instant plus its offset."""
    begins, ends = begins.replace(microsecond=0), begins.replace(microsecond=0) + timedelta(hours=hours)
    found = list(stretches(zone, begins, ends))
    assert (found[0].begins, found[-1].ends) == (begins, ends)
    assert all(before.ends == after.begins for before, after in pairwise(found))
    for one in found:
        for moment in (one.begins, one.ends - timedelta(seconds=1)):
            assert moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) == moment + one.offset
        assert jump_near(zone, one.begins.replace(tzinfo=UTC)) >= timedelta(0)


def test_a_stretch_may_end_where_the_clocks_change() -> None:
    """Nothing is left behind it, and the next one begins there."""
    change = datetime(2026, 3, 8, 7)
    (before,) = stretches(NEW_YORK, change - timedelta(hours=1), change)
    (after,) = stretches(NEW_YORK, change, change + timedelta(hours=1))
    assert (before.ends, after.begins, after.offset - before.offset) == (change, change, timedelta(hours=1))


DENSE: Final = st.lists(st.integers(0, 23), min_size=1, max_size=12, unique=True)


@given(st.sampled_from(ZONES), st.datetimes(datetime(1971, 1, 1), datetime(2040, 1, 1)), DENSE, st.integers(0, 59))
def test_slots_are_in_the_order_of_their_instants(zone: tzinfo, start: datetime, hours: list[int], minute: int) -> None:
    """In any zone: each wall time of a day is there once, in order, wherever one begins to look."""
    rule = f"FREQ=DAILY;BYHOUR={','.join(map(str, hours))};BYMINUTE={minute},{59 - minute}"
    schedule = repeating(rule, start.replace(second=0, microsecond=0))
    begin = first_after(schedule, zone, utc(1970, 1, 1))
    assert begin is not None
    found = list(islice(slots(schedule, zone, begin.label), 60))
    assert found == sorted(found, key=lambda one: one[::-1])
    assert len({one.label for one in found}) == len(found)
    assert all(one.due_at == to_utc(datetime.fromisoformat(one.label), zone) for one in found)
    middle = found[30]
    later = [one for one in found if one.due_at >= middle.due_at]
    assert list(islice(slots_since(schedule, zone, middle.due_at), len(later))) == later
    assert following(schedule, zone, middle.label) == found[31]
