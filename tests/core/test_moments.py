"""Times and durations: read strictly, and placed on the time line by the rule for gaps and repeats."""

# ruff: noqa: DTZ001 - local times are what this is about
from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.moments import DURATION_DAYS_MAX, parse_duration, parse_time, to_utc, write_duration, write_time

NEW_YORK = ZoneInfo("America/New_York")
LOCAL = st.datetimes(datetime(1970, 1, 2), datetime(2999, 12, 30))
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))

# --- times ---------------------------------------------------------------------------------------


@given(LOCAL, OFFSETS, st.sampled_from("T t"), st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]))
def test_an_instant_is_read_as_it_was_written(local: datetime, offset: timezone, separator: str, spec: str) -> None:
    """Whatever offset and precision it is written with, the instant comes back, in UTC."""
    written = local.replace(tzinfo=offset).isoformat(separator, spec)
    read = parse_time(written)
    assert read == datetime.fromisoformat(written)
    assert read.tzinfo is UTC


@given(LOCAL)
def test_a_local_time_stays_local(local: datetime) -> None:
    """A time without an offset comes back naive and unchanged."""
    assert parse_time(local.isoformat()) == local


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01T09:00", datetime(2026, 12, 1, 9)),
        ("2026-12-01 09:00:30.5", datetime(2026, 12, 1, 9, 0, 30, 500_000)),
        ("2026-12-01T09:00:00,123456789", datetime(2026, 12, 1, 9, 0, 0, 123_456)),
        ("2026-12-01T09:00z", datetime(2026, 12, 1, 9, tzinfo=UTC)),
        ("2026-12-01T09:00:00-05:00", datetime(2026, 12, 1, 14, tzinfo=UTC)),
        ("2026-12-01T09:00:00+0530", datetime(2026, 12, 1, 3, 30, tzinfo=UTC)),
        ("2026-12-01T09:00:00+05", datetime(2026, 12, 1, 4, tzinfo=UTC)),
        ("2026-12-01T09:00:00-00:00", datetime(2026, 12, 1, 9, tzinfo=UTC)),
    ],
)
def test_the_forms_of_a_time(text: str, moment: datetime) -> None:
    """RFC 3339 and ISO 8601's shorter offsets are understood; a fraction is cut to microseconds."""
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a time"),
        ("tomorrow", "not a time"),
        ("2026-12-01", "not a time"),
        ("2026-W49-2T09:00", "not a time"),
        ("20261201T0900", "not a time"),
        ("2026-12-01T24:00", "not a time"),
        ("2026-12-01T09:00\n", "not a time"),
        ("2026-12-01T09:00 Z", "not a time"),
        ("\uff12026-12-01T09:00", "not a time"),
        ("2026-12-01T09:00" + "0" * 100, "not a time"),
        ("2026-13-45T09:00", "no calendar"),
        ("2026-02-29T09:00", "no calendar"),
        ("2026-12-01T23:59:60Z", "no calendar"),
        ("2026-12-01T09:00+24:00", "no calendar"),
        ("0001-01-01T00:00+14:00", "year"),
        ("9999-12-31T23:59-14:00", "year"),
    ],
)
def test_what_is_no_time(text: str, words: str) -> None:
    """Anything else is refused, and the complaint shows how a time is written."""
    with pytest.raises(ValueError, match=rf"{words}.*write a time like 2026-12-01T09:00"):
        parse_time(text)


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.[0-9:.,+Z-]{0,20}", fullmatch=True)))
def test_no_text_breaks_the_reader_of_times(text: str) -> None:
    """Every text is a time within the bounds of the calendar, or a ValueError."""
    try:
        moment = parse_time(text)
    except ValueError:
        return
    assert moment.replace(tzinfo=UTC) + timedelta(days=DURATION_DAYS_MAX)


# --- durations -----------------------------------------------------------------------------------


@given(st.integers(0, 3_000), st.integers(0, 999), st.integers(0, 9_999), st.integers(0, 999_999))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    """Days, hours, minutes and seconds add up, whichever of them are written."""
    wanted = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if n)
    text = "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
    if wanted:
        assert parse_duration(text) == wanted
    else:
        with pytest.raises(ValueError, match="duration"):
            parse_duration(text)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT8H", timedelta(hours=8)),
        ("P2W", timedelta(weeks=2)),
        ("P1DT12H30M5S", timedelta(days=1, hours=12, minutes=30, seconds=5)),
        ("pt90m", timedelta(minutes=90)),
        ("P3660D", timedelta(days=3_660)),
    ],
)
def test_the_forms_of_a_duration(text: str, duration: timedelta) -> None:
    """ISO 8601's weeks, and its days with hours, minutes and seconds."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a duration"),
        ("P", "not a duration"),
        ("PT", "not a duration"),
        ("P1DT", "not a duration"),
        ("8H", "not a duration"),
        ("-PT8H", "not a duration"),
        ("PT-8H", "not a duration"),
        ("PT1.5H", "not a duration"),
        ("P1W2D", "not a duration"),
        ("PT1H2D", "not a duration"),
        ("PT\u0661H", "not a duration"),
        ("P" + "9" * 100 + "D", "not a duration"),
        ("P1M", "no fixed length"),
        ("P1Y", "no fixed length"),
        ("P1D1M", "no fixed length"),
        ("PT0S", "zero"),
        ("P0DT0H", "zero"),
        ("P3661D", "3,660 days"),
        ("P99999999W", "3,660 days"),
        ("P99999999DT999999999H999999999M999999999S", "3,660 days"),
    ],
)
def test_what_is_no_duration(text: str, words: str) -> None:
    """Anything else is refused: nothing negative, empty, endless or without a fixed length."""
    with pytest.raises(ValueError, match=words):
        parse_duration(text)


@given(st.one_of(st.text(max_size=80), st.from_regex(r"P[0-9WDTHMSY]{0,30}", fullmatch=True)))
def test_no_text_breaks_the_reader_of_durations(text: str) -> None:
    """Every text is a positive duration within the bound, or a ValueError."""
    try:
        duration = parse_duration(text)
    except ValueError:
        return
    assert timedelta(0) < duration <= timedelta(days=DURATION_DAYS_MAX)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(hours=24), "PT24H"),
        (timedelta(hours=167, minutes=59), "PT167H59M"),
        (timedelta(days=7), "P7D"),
        (timedelta(days=7, hours=12), "P7DT12H"),
        (timedelta(minutes=90), "PT1H30M"),
        (timedelta(seconds=5), "PT5S"),
        (timedelta(days=3_660), "P3660D"),
    ],
)
def test_a_duration_has_one_text(duration: timedelta, text: str) -> None:
    """Hours below a week, days from a week on."""
    assert write_duration(duration) == text


@given(st.integers(1, DURATION_DAYS_MAX * 86_400).map(lambda seconds: timedelta(seconds=seconds)))
def test_a_written_duration_is_read_again(duration: timedelta) -> None:
    """The text says all of it."""
    assert parse_duration(write_duration(duration)) == duration


@given(LOCAL, st.booleans())
def test_a_written_time_is_read_again(local: datetime, instant: bool) -> None:
    """A local time stays local, an instant ends in Z, and seconds stand only where there are any."""
    moment = local.replace(tzinfo=UTC) if instant else local
    text = write_time(moment)
    assert parse_time(text) == moment
    assert text.endswith("Z") is instant
    assert (text.count(":") == 1) is (local.second == local.microsecond == 0)


# --- local times ---------------------------------------------------------------------------------


class Transition(NamedTuple):
    """A change of a zone's offset: from which second on, and the offsets around it."""

    at: datetime
    before: timedelta
    after: timedelta


def transitions(zone: ZoneInfo, first: datetime, last: datetime) -> Iterator[Transition]:
    """Every change between two instants, found by looking at the zone from UTC, a week at a time."""
    step, start = timedelta(days=7), first
    while start < last:
        end = start + step
        if _offset(zone, start) != _offset(zone, end):
            at = _bisect(zone, start, end)
            yield Transition(at, _offset(zone, start), _offset(zone, at))
        start = end


def _bisect(zone: ZoneInfo, start: datetime, end: datetime) -> datetime:
    old = _offset(zone, start)
    while end - start > timedelta(seconds=1):
        middle = (start + (end - start) / 2).replace(microsecond=0)
        start, end = (middle, end) if _offset(zone, middle) == old else (start, middle)
    return end


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def test_every_transition_of_every_zone() -> None:
    """A skipped or repeated local time is read with the offset before the change; its neighbours with their own."""
    seen = 0
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        for change in transitions(zone, datetime(2020, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)):
            wall = (change.at + min(change.before, change.after)).replace(tzinfo=None)
            width, second = abs(change.after - change.before), timedelta(seconds=1)
            for inside in (wall, wall + width / 2, wall + width - second):
                assert to_utc(inside, zone) == inside.replace(tzinfo=UTC) - change.before, (name, inside)
            assert to_utc(wall - second, zone) == (wall - second).replace(tzinfo=UTC) - change.before, name
            assert to_utc(wall + width, zone) == (wall + width).replace(tzinfo=UTC) - change.after, name
            seen += 1
    assert seen > 2_000


def test_a_skipped_time_runs_after_the_gap() -> None:
    """02:30 on the day when clocks go forward runs at 03:30 (RFC 5545, 3.3.5)."""
    instant = to_utc(datetime(2026, 3, 8, 2, 30), NEW_YORK)
    assert instant == datetime(2026, 3, 8, 7, 30, tzinfo=UTC)
    assert instant.astimezone(NEW_YORK).time().isoformat() == "03:30:00"


def test_a_repeated_time_runs_at_its_first_pass() -> None:
    """01:30 on the day when clocks go back is the one in summer time, also if the caller marked the second."""
    first = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert to_utc(datetime(2026, 11, 1, 1, 30), NEW_YORK) == first
    assert to_utc(datetime(2026, 11, 1, 1, 30, fold=1), NEW_YORK) == first


@given(LOCAL, st.sampled_from(["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]))
def test_local_times_come_back_unless_skipped(local: datetime, name: str) -> None:
    """Seen in its own zone, the instant shows the local time again, or a later one where that was skipped."""
    seen = to_utc(local, ZoneInfo(name)).astimezone(ZoneInfo(name)).replace(tzinfo=None)
    assert local <= seen <= local + timedelta(hours=1)
