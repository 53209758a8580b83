"""Reading a rule: one canonical text for what means the same, and a reason for what means nothing."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.schedule import OFFSETS_MAX, Schedule, first, read_repeat
from tests.core.schedule.values import NEW_YORK, START, coming, repeating, utc

SECONDS_MAX = 1.0
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("FREQ=DAILY", "RRULE:FREQ=DAILY"),
        ("rrule:freq=weekly;byday=fr,mo,fr;", "RRULE:FREQ=WEEKLY;BYDAY=MO,FR"),
        ("FREQ=DAILY;INTERVAL=1;WKST=MO", "RRULE:FREQ=DAILY"),
        ("RRULE:BYHOUR=9;FREQ=DAILY", "RRULE:FREQ=DAILY;BYHOUR=9"),
        ("FREQ=MONTHLY;BYDAY=-1FR,+2MO;WKST=SU", "RRULE:FREQ=MONTHLY;WKST=SU;BYDAY=2MO,-1FR"),
        ("FREQ=DAILY;UNTIL=20270101", "RRULE:FREQ=DAILY;UNTIL=20270101T235959"),
        ("FREQ=DAILY;UNTIL=20270101T090000Z", "RRULE:FREQ=DAILY;UNTIL=20270101T090000Z"),
        ("FREQ=HOURLY;BYMINUTE=50,0,10;BYSETPOS=-1,1", "RRULE:FREQ=HOURLY;BYMINUTE=0,50"),
        ("FREQ=MINUTELY;BYHOUR=9;BYSETPOS=1", "RRULE:FREQ=MINUTELY;BYHOUR=9"),
        (
            "\nEXDATE:20261225T090000\r\nRRULE:FREQ=DAILY\n\nEXDATE;VALUE=DATE-TIME:20261224T090000",
            "RRULE:FREQ=DAILY\nEXDATE:20261224T090000,20261225T090000",
        ),
        ("RDATE:20261225T090000Z,20261225T090000Z", "RDATE:20261225T090000Z"),
        ("0  9 * * mon", "0 9 * * MON"),
        ("@weekly", "0 0 * * 0"),
    ],
)
def test_one_text_for_one_meaning(text: str, canonical: str) -> None:
    """Order, case, defaults and repeats do not matter; the canonical text is read again as itself."""
    assert read_repeat(text, START) == canonical
    assert read_repeat(canonical, START) == canonical


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cron has five fields"),
        ("daily", "cron has five fields, like 0 9 * * MON, and this has 1; a rule begins with FREQ="),
        ("0 0 9 * * MON", "and this has 6"),
        ("60 9 * * *", "its minute, '60', is wrong; write * or 0 to 59"),
        ("0 9 * * FOO", "its day-of-week, 'FOO', is wrong; write * or 0 to 7, SUN and so on"),
        ("0 9 0 * *", "its day-of-month, '0', is wrong"),
        ("0 9 32W * *", "its day-of-month, '32', is wrong"),
        ("@reboot", "nothing starts up here; write @daily"),
        ("@hourli", "there is no such word; write @daily"),
        ("0 9 30 2 *", "no day of any year matches it"),
        ("* " * 400, "longer than 500 characters"),
        ("FREQ=FORTNIGHTLY", "FREQ is missing or unknown; write one of YEARLY, MONTHLY"),
        ("RRULE:BYDAY=MO", "FREQ is missing or unknown"),
        ("FREQ=SECONDLY", "FREQ=SECONDLY is not supported; the smallest interval is one minute"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0 is wrong; write 1 to"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL=-1 is wrong"),
        ("FREQ=DAILY;COUNT=0", "COUNT=0 is wrong; write 1 to 10,000"),
        ("FREQ=DAILY;COUNT=10001", "COUNT=10001 is wrong; write 1 to 10,000"),
        ("FREQ=DAILY;COUNT=9" + "9" * 200, "is wrong; write 1 to 10,000"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101T000000", "COUNT and UNTIL contradict each other"),
        ("FREQ=DAILY;UNTIL=20260101T000000", "its UNTIL is before its start"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL=TOMORROW is not a time; write one like 20261201T090000"),
        ("FREQ=DAILY;UNTIL=20261301", "in no calendar"),
        ("FREQ=DAILY;UNTIL=00010101", "not between the years"),
        ("FREQ=DAILY;DTSTART=20260101", "DTSTART is the reminder's own time; leave it out"),
        ("DTSTART:20260101T090000\nRRULE:FREQ=DAILY", "DTSTART is the reminder's own time (notify_at); leave it out"),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ is there twice"),
        ("FREQ=DAILY;BYEASTER=1", "BYEASTER is no part of a rule here; leave it out"),
        ("FREQ=DAILY;;BYHOUR=9", "is no part of a rule"),
        ("FREQ=DAILY;BYHOUR=", "is no part of a rule"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR=24 is wrong; write 0 to 23"),
        ("FREQ=DAILY;BYSECOND=60", "BYSECOND=60 is wrong"),
        ("FREQ=DAILY;BYSECOND=0,30", "BYSECOND names several seconds"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY=0 is wrong; write + or - 1 to 31"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY=0 is wrong"),
        ("FREQ=MONTHLY;BYDAY=MONDAY", "BYDAY=MONDAY is wrong; write days like MO"),
        ("FREQ=WEEKLY;WKST=1", "WKST=1 is wrong; write one of MO, TU"),
        ("FREQ=WEEKLY;BYDAY=1MO", "a numbered BYDAY has no meaning with FREQ=WEEKLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY has no meaning with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO needs FREQ=YEARLY (RFC 5545, 3.3.10)"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "a numbered BYDAY has no meaning beside BYWEEKNO"),
        ("FREQ=DAILY;BYYEARDAY=1", "BYYEARDAY has no meaning with FREQ=DAILY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS needs another BY part"),
        ("FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=3", "BYSETPOS chooses nothing"),
        ("FREQ=MINUTELY;BYHOUR=9;BYSETPOS=2", "BYSETPOS chooses nothing"),
        ("FREQ=DAILY;BYHOUR=9;BYSETPOS=2", "no day of the next 400 years matches it"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "it never fires: no day of the next 400 years matches it"),
        ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", "it never fires"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=SA", "it never fires"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "it has several rules; write one RRULE"),
        ("EXDATE:20261225T090000", "it has no rule; write one like FREQ=WEEKLY;BYDAY=MO"),
        ("EXRULE:FREQ=DAILY", "EXRULE was taken out of the standard"),
        ("RRULE:FREQ=DAILY\nEXDATE;TZID=Europe/Berlin:20261225T090000", "EXDATE takes times of the reminder's zone or"),
        ("RRULE:FREQ=DAILY\nRDATE;VALUE=PERIOD:20261225T090000/PT1H", "RDATE takes times of the reminder's zone"),
        ("RRULE:FREQ=DAILY\nEXDATE:20261225", "EXDATE=20261225 is not a time; write one like 20261201T090000"),
        ("RRULE:FREQ=DAILY\nSUMMARY:x", "a line is no rule; write RRULE:FREQ=..., RDATE:... or EXDATE:..."),
        ("FREQ=DAILY\n" * 11, "it has more than 10 lines"),
        ("FREQ=DAILY;BYHOUR=" + "9," * 2_000 + "9", "it is longer than 4,000 characters"),
    ],
)
def test_what_means_nothing(text: str, words: str) -> None:
    """It is refused in one line that says what to write, and soon."""
    began = time.process_time()
    with pytest.raises(ValueError, match=r"\S") as caught:
        read_repeat(text, START)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert time.process_time() - began < SECONDS_MAX


def test_a_set_counts_from_a_start() -> None:
    """Without one there is nothing to count from, and a fraction of a second is none."""
    with pytest.raises(ValueError, match=r"a rule counts from a start; give notify_at"):
        read_repeat("FREQ=DAILY", None)
    with pytest.raises(ValueError, match="whole second"):
        read_repeat("FREQ=DAILY", datetime(2026, 1, 1, 9, 0, 0, 1))
    assert read_repeat("0 9 * * *", None) == "0 9 * * *"


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
        "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1,3,5,7,9,11,13,15,17,19,21,23,25,27,29",
        "RRULE:FREQ=DAILY;COUNT=2\nEXDATE:20260306T090000,20260307T090000",
        "FREQ=DAILY;UNTIL=20260306T080000",
    ],
)
def test_what_never_fires_in_a_zone(text: str) -> None:
    """Only the zone's clocks tell; it is found out when the first firing is asked for, within bounds."""
    began = time.process_time()
    schedule = repeating(text)
    with pytest.raises(ValueError, match="it never fires; change it, or its start"):
        first(schedule, NEW_YORK if "HOURLY" not in text else None)
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(utc(2026, 12, 1, 9)),
        Schedule(datetime(2026, 12, 1, 9, 0, 30)),
        Schedule(datetime(2026, 12, 1, 9), before=(timedelta(days=8, hours=2), timedelta(days=7), 36 * HOUR, HOUR / 4)),
        Schedule(datetime(2026, 12, 1, 9), before=(2 * HOUR, HOUR), left_out=(2 * HOUR,)),
        repeating("RRULE:FREQ=DAILY;BYHOUR=9\nEXDATE:20261225T090000"),
    ],
)
def test_a_schedule_is_text_and_back(schedule: Schedule) -> None:
    """What the store keeps says all of it."""
    text = schedule.to_text()
    assert Schedule.from_text(text) == schedule
    assert Schedule.from_text(text).to_text() == text
    assert coming(schedule)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"start":1}', '{"start":"x"}', '{"start":"2026-12-01T09:00","before":3}']
)
def test_what_is_no_schedule(text: str) -> None:
    """Other text is refused, and never half understood."""
    with pytest.raises(ValueError, match=r"\S"):
        Schedule.from_text(text)


@pytest.mark.parametrize(
    ("repeat", "before", "words"),
    [
        ("0 9 * * *", (HOUR,), "a rule or offsets, not both"),
        (None, tuple(n * HOUR for n in range(30, 30 - OFFSETS_MAX - 1, -1)), "more than 20 offsets"),
        (None, (HOUR, HOUR), "different from each other"),
        (None, (HOUR, 2 * HOUR), "the largest first"),
        (None, (HOUR, 0 * HOUR), "positive"),
        (None, (-HOUR,), "positive"),
    ],
)
def test_a_schedule_has_one_meaning(repeat: str | None, before: tuple[timedelta, ...], words: str) -> None:
    """What contradicts itself cannot be made."""
    with pytest.raises(ValueError, match=words):
        Schedule(START, repeat, before)


def test_only_what_it_has_can_be_left_out() -> None:
    """An offset that is not one of the schedule's is refused."""
    with pytest.raises(ValueError, match="only offsets that it has"):
        Schedule(START, None, (HOUR,), (2 * HOUR,))


@given(
    st.text(max_size=60)
    | st.from_regex(r"(RRULE:)?FREQ=(DAILY|YEARLY|HOURLY)(;[A-Z]{4,8}=[-0-9A-Z,]{1,9}){0,4}", fullmatch=True)
)
def test_no_text_breaks_the_reader(text: str) -> None:
    """Every text is a rule that fires, or a ValueError, within a second."""
    began = time.process_time()
    try:
        first(Schedule(START, read_repeat(text, START)), NEW_YORK)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - either way is right
    assert time.process_time() - began < SECONDS_MAX
