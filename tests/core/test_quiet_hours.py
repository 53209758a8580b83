"""Quiet hours: read strictly, and placed on the time line as a minute-by-minute reading of the clocks places them."""

from __future__ import annotations

import timeit
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.core.quiet_hours import SEARCH_DAYS, WINDOWS_MAX, Look, Window, look, read_window, read_windows, written

MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
NEW_YORK: Final = ZoneInfo("America/New_York")
NIGHT: Final = read_windows(["21:00-08:00"])

WINDOWS: Final = st.builds(
    Window,
    st.integers(0, 1_439),
    st.integers(1, 1_440),
    st.one_of(st.just(frozenset(range(7))), st.frozensets(st.integers(0, 6), min_size=1)),
).filter(lambda window: window.start != window.end)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc] # whole numbers, as many as there are


# --- as text -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "window", "canonical"),
    [
        ("21:00-08:00", Window(1_260, 480), "21:00-08:00"),
        ("mon-fri 21:00-08:00", Window(1_260, 480, frozenset(range(5))), "mon-fri 21:00-08:00"),
        ("sat,sun 20:00-10:00", Window(1_200, 600, frozenset({5, 6})), "sat,sun 20:00-10:00"),
        ("SUN 00:00-24:00", Window(0, 1_440, frozenset({6})), "sun 00:00-24:00"),
        ("fri-mon, wed 12:30-13:30", Window(750, 810, frozenset({4, 5, 6, 0, 2})), "mon,wed,fri-sun 12:30-13:30"),
        ("mon-mon 00:01-00:00", Window(1, 1_440, frozenset({0})), "mon 00:01-24:00"),
        ("sun-sat 23:59-23:58", Window(1_439, 1_438), "23:59-23:58"),
    ],
)
def test_the_forms_of_a_window(text: str, window: Window, canonical: str) -> None:
    """Hours with or without days, days as a list of names and ranges; each window has one canonical text."""
    assert read_window(text) == window
    assert written(window) == canonical


@given(WINDOWS)
def test_a_window_comes_back_from_its_text(window: Window) -> None:
    """What is written is read as the same window."""
    assert read_window(written(window)) == window


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a window"),
        ("21-08", "not a window"),
        ("9:00-17:00", "not a window"),
        ("21:00 - 08:00", "not a window"),
        ("21:00-08:00\n", "not a window"),
        ("monday 21:00-08:00", "not a window"),
        ("mon 21:00-08:00 tue", "not a window"),
        ("mon-tue-wed 21:00-08:00", "not a window"),
        (",mon 21:00-08:00", "not a window"),
        ("\uff12\uff11:00-08:00", "not a window"),
        ("21:00-08:00\0", "not a window"),
        ("21:00-08:00\ud800", "not a window"),
        ("mon," * 20 + "tue 21:00-08:00", "not a window"),
        ("9" * 1_000_000, "not a window"),
        ("25:00-08:00", "on no clock"),
        ("21:60-08:00", "on no clock"),
        ("21:00-24:01", "on no clock"),
        ("24:00-08:00", "on no clock"),
    ],
)
def test_what_is_no_window(text: str, words: str) -> None:
    """Anything else is refused, and the complaint shows how a window is written, without quoting the text."""
    with pytest.raises(ValueError, match=rf"{words}.*write one like 21:00-08:00") as caught:
        read_window(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["08:00-08:00", "00:00-00:00", "sun 12:30-12:30"])
def test_a_window_has_an_end(text: str) -> None:
    """A start that is its own end may mean nothing or everything, so it is refused."""
    with pytest.raises(ValueError, match="starts when it ends; a whole day is 00:00-24:00"):
        read_window(text)


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[a-z, -]{0,20}[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2}")))
def test_no_text_breaks_the_reader_of_windows(text: str) -> None:
    """Every text is a window within the day, or a ValueError."""
    try:
        window = read_window(text)
    except ValueError:
        return
    assert 0 <= window.start < 1_440
    assert 0 < window.end <= 1_440
    assert window.days


def test_there_is_a_limit_of_windows() -> None:
    """Twenty windows are taken, one more is refused."""
    texts = [f"{hour:02}:00-{hour:02}:01" for hour in range(WINDOWS_MAX)]
    assert len(read_windows(texts)) == WINDOWS_MAX
    with pytest.raises(ValueError, match="over 20 windows"):
        read_windows([*texts, "23:00-23:01"])


@given(st.lists(WINDOWS, max_size=4))
@example([Window(0, 1_440)])
@example([Window(1_439, 1_438), Window(1_438, 1_439)])
@example([Window(0, 1_440, frozenset(range(6))), Window(1_000, 1_440, frozenset({6})), Window(0, 1_000)])
@example([Window(60, 30, frozenset({6})), Window(0, 1_440, frozenset(range(6))), Window(0, 60, frozenset({6}))])
def test_some_time_of_the_week_is_left(windows: list[Window]) -> None:
    """Windows are refused together if, and only if, they leave no minute of a week."""
    quiet = {minute % 10_080 for window in windows for minute in _minutes_of_the_week(window)}
    texts = [written(window) for window in windows]
    if len(quiet) < 10_080:
        assert read_windows(texts) == tuple(windows)
    else:
        with pytest.raises(ValueError, match="cover the whole week"):
            read_windows(texts)


def _minutes_of_the_week(window: Window) -> list[int]:
    end = window.end if window.end > window.start else window.end + 1_440
    return [day * 1_440 + minute for day in window.days for minute in range(window.start, end)]


# --- on the time line: examples --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "until", "next_start"),
    [
        (utc(2026, 12, 1, 17), None, utc(2026, 12, 2, 2)),
        (utc(2026, 12, 2, 1, 59, 59), None, utc(2026, 12, 2, 2)),
        (utc(2026, 12, 2, 2), utc(2026, 12, 2, 13), utc(2026, 12, 3, 2)),
        (utc(2026, 12, 2, 12, 59, 59), utc(2026, 12, 2, 13), utc(2026, 12, 3, 2)),
        (utc(2026, 12, 2, 13), None, utc(2026, 12, 3, 2)),
    ],
)
def test_a_night(now: datetime, until: datetime | None, next_start: datetime) -> None:
    """A window that crosses midnight holds from its start up to its end, which is allowed again."""
    assert look(NIGHT, [NEW_YORK], now) == Look(until, next_start)


def test_a_night_in_which_the_clocks_change() -> None:
    """The night in which clocks go forward is an hour shorter, the other an hour longer."""
    assert look(NIGHT, [NEW_YORK], utc(2026, 3, 8, 3)).until == utc(2026, 3, 8, 12)
    assert look(NIGHT, [NEW_YORK], utc(2026, 11, 1, 3)).until == utc(2026, 11, 1, 13)


def test_a_window_within_a_gap_comes_after_it() -> None:
    """02:15 to 02:45 on the day when clocks go forward is 03:15 to 03:45."""
    windows = read_windows(["02:15-02:45"])
    assert look(windows, [NEW_YORK], utc(2026, 3, 8, 6, 59)).next_start == utc(2026, 3, 8, 7, 15)
    assert look(windows, [NEW_YORK], utc(2026, 3, 8, 7, 30)).until == utc(2026, 3, 8, 7, 45)


def test_a_window_that_a_gap_turns_round_is_empty() -> None:
    """02:30 to 03:15 would begin at 03:30 on that day, after its end: there is none."""
    windows = read_windows(["02:30-03:15"])
    now = utc(2026, 3, 8, 5)
    assert look(windows, [NEW_YORK], now) == Look(None, utc(2026, 3, 9, 6, 30))


def test_repeated_times_are_their_first_pass() -> None:
    """From 01:15 to 01:45 it is quiet once on the day when clocks go back."""
    windows = read_windows(["01:15-01:45"])
    assert look(windows, [NEW_YORK], utc(2026, 11, 1, 5, 30)).until == utc(2026, 11, 1, 5, 45)
    assert look(windows, [NEW_YORK], utc(2026, 11, 1, 6, 30)) == Look(None, utc(2026, 11, 2, 6, 15))


def test_a_day_belongs_to_the_start() -> None:
    """Friday's night ends on Saturday; Saturday's own evening is free."""
    windows = read_windows(["fri 21:00-08:00"])
    saturday = utc(2026, 12, 5, 12)
    assert look(windows, [NEW_YORK], saturday).until == utc(2026, 12, 5, 13)
    assert look(windows, [NEW_YORK], utc(2026, 12, 6, 3)) == Look(None, utc(2026, 12, 12, 2))


def test_a_skipped_day_has_no_night() -> None:
    """Samoa had no 30 December 2011: Thursday's night ends on Saturday's first morning, eleven hours later."""
    apia = ZoneInfo("Pacific/Apia")
    assert look(NIGHT, [apia], utc(2011, 12, 30, 9)).until == utc(2011, 12, 30, 18)


def test_only_what_is_allowed_in_every_zone_is_allowed() -> None:
    """Between New York and Los Angeles, the night begins in the east and ends in the west."""
    zones = [NEW_YORK, ZoneInfo("America/Los_Angeles")]
    assert look(NIGHT, zones, utc(2026, 12, 2, 3)) == Look(utc(2026, 12, 2, 16), utc(2026, 12, 3, 2))


def test_the_search_ends_where_nothing_is_ever_allowed() -> None:
    """Zones of both sides of the earth leave no time: the end of the search is the answer, two weeks on."""
    zones = [timezone(timedelta(hours=offset)) for offset in (0, 12)]
    end = utc(2026, 12, 17)
    assert look(read_windows(["20:00-08:00"]), zones, utc(2026, 12, 2, 3)) == Look(end, end)


def test_a_window_far_ahead_bounds_at_the_end_of_the_search() -> None:
    """Where the only start of two weeks falls into a gap, it is known that nothing starts before the search ends."""
    windows = read_windows(["sun 02:30-03:15"])
    assert look(windows, [NEW_YORK], utc(2026, 3, 1, 12)) == Look(None, utc(2026, 3, 15, 6, 30))
    assert look(windows, [NEW_YORK], utc(2026, 2, 22, 12)).next_start == utc(2026, 3, 1, 7, 30)
    samoa = read_windows(["fri 12:00-24:00"])
    assert look(samoa, [ZoneInfo("Pacific/Apia")], utc(2011, 12, 25)).next_start == utc(2012, 1, 5, 22)


def test_without_windows_nothing_is_quiet() -> None:
    """No windows need no zone, and bound nothing."""
    assert look((), (), utc(2026, 12, 1)) == Look(None, None)


def test_without_a_zone_nothing_can_be_told() -> None:
    """Windows without a zone are a mistake of the caller: nothing is sent on a guess."""
    with pytest.raises(ValueError, match="without a zone"):
        look(NIGHT, (), utc(2026, 12, 1))


def test_looking_is_quick() -> None:
    """An answer takes microseconds without windows and under 50 with them, the first look of a day aside."""
    now, zones = utc(2026, 12, 1, 12), (NEW_YORK,)
    for windows, seconds_max in (((), 5e-6), (NIGHT, 50e-6)):
        best = min(timeit.repeat(lambda w=windows: look(w, zones, now), number=200, repeat=5)) / 200
        assert best < seconds_max


# --- on the time line: the oracle ------------------------------------------------------------------

#: Zones with a day on which something happens to their clocks, and zones with odd offsets on any day.
CHANGES: Final = (
    ("America/New_York", utc(2026, 3, 8)),
    ("America/New_York", utc(2026, 11, 1)),
    ("Europe/Berlin", utc(2027, 3, 28)),
    ("Australia/Lord_Howe", utc(2026, 10, 3)),
    ("Australia/Lord_Howe", utc(2027, 4, 3)),
    ("Antarctica/Troll", utc(2027, 3, 28)),
    ("Antarctica/Troll", utc(2026, 10, 25)),
    ("Africa/Casablanca", utc(2026, 2, 15)),
    ("Africa/Casablanca", utc(2026, 3, 22)),
    ("Pacific/Apia", utc(2011, 12, 30)),
    ("Pacific/Kwajalein", utc(1993, 8, 21)),
    ("America/Havana", utc(2026, 3, 8)),
    ("Asia/Beirut", utc(2026, 3, 29)),
    ("America/Caracas", utc(2016, 5, 1)),
    ("Asia/Pyongyang", utc(2018, 5, 4)),
    ("Asia/Kathmandu", utc(2026, 6, 1)),
    ("Pacific/Chatham", utc(2026, 9, 26)),
    ("Pacific/Kiritimati", utc(2026, 6, 1)),
    ("Pacific/Pago_Pago", utc(2026, 6, 1)),
)


@lru_cache(64)
def readings(zone: tzinfo, day: datetime) -> dict[datetime, datetime]:
    """What the clock shows, minute by minute, around a day: local time -> the first instant that shows it."""
    shown: dict[datetime, datetime] = {}
    for minute in range(-5 * 1_440, (SEARCH_DAYS + 5) * 1_440):
        instant = day + minute * MINUTE
        shown.setdefault(instant.astimezone(zone).replace(tzinfo=None), instant)
    return shown


def instant_of(local: datetime, shown: dict[datetime, datetime]) -> datetime:
    """The first instant that shows the time, or where the clock of before the gap would have shown it."""
    before = local
    while before not in shown:
        before -= MINUTE
    return shown[before] + (local - before)


def quiet_minutes(windows: Sequence[Window], zone: tzinfo, day: datetime) -> set[datetime]:
    """Every quiet minute around the day, one by one."""
    shown, quiet = readings(zone, day), set()
    for number in range(-4, SEARCH_DAYS + 4):
        date = day.replace(tzinfo=None) + number * DAY
        for window in windows:
            if date.weekday() in window.days:
                ends_on = date if window.end > window.start else date + DAY
                minute = instant_of(date + window.start * MINUTE, shown)
                end = instant_of(ends_on + window.end * MINUTE, shown)
                while minute < end:
                    quiet.add(minute)
                    minute += MINUTE
    return quiet


def oracle(windows: Sequence[Window], zones: Sequence[tzinfo], now: datetime) -> Look:
    """Look, minute by minute, up to the end of the search."""
    day = now.replace(hour=0, minute=0, second=0)
    end = day + SEARCH_DAYS * DAY
    quiet = set().union(*(quiet_minutes(windows, zone, day) for zone in zones))
    minute, until, next_start = now.replace(second=0), None, None
    if minute in quiet:
        until = minute
        while until in quiet and until < end:
            until += MINUTE
    while next_start is None and minute < end:
        minute += MINUTE
        next_start = minute if minute in quiet and minute - MINUTE not in quiet else None
    return Look(until, end if next_start is None else min(next_start, end))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(WINDOWS, min_size=1, max_size=3),
    st.sampled_from(CHANGES),
    st.lists(st.sampled_from(CHANGES), max_size=2),
    st.integers(-2, 2),
    st.integers(0, 86_399),
)
@example([Window(1_260, 1_200)], ("Pacific/Pago_Pago", utc(2026, 6, 1)), [], 0, 3_600)
@example([Window(600, 720), Window(720, 780)], ("Pacific/Kiritimati", utc(2026, 6, 1)), [], 0, 86_399)
@example([Window(1_260, 480)], ("Pacific/Apia", utc(2011, 12, 30)), [], 0, 9 * 3_600)
@example([Window(540, 1_020, frozenset({4}))], ("Pacific/Apia", utc(2011, 12, 30)), [], 0, 0)
@example([Window(1_410, 1_400, frozenset({4}))], ("Pacific/Apia", utc(2011, 12, 30)), [], 0, 0)
@example([Window(150, 195, frozenset({6}))], ("America/New_York", utc(2026, 3, 8)), [], -2, 0)
@example([Window(0, 1_440, frozenset({6}))], ("America/Havana", utc(2026, 3, 8)), [], 0, 0)
def test_looking_agrees_with_the_clocks(
    windows: list[Window], change: tuple[str, datetime], others: list[tuple[str, datetime]], days: int, seconds: int
) -> None:
    """Whatever the windows, the zones and what happens to their clocks, each minute is judged as they show it."""
    name, day = change
    zones = [ZoneInfo(zone) for zone in (name, *(other for other, _ in others))]
    now = day + days * DAY + timedelta(seconds=seconds)
    assert look(windows, zones, now) == oracle(windows, zones, now)
