"""Retry-After in all its forms. Dates are those of RFC 9110, section 5.6.7, where not said otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core import retry_after

NOW = datetime(2015, 10, 21, 7, 0, tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        # svix/svix-webhooks, server/svix-server/src/worker.rs, test_retry_after
        ("120", 120),
        ("120.1", 121),
        ("120.6", 121),
        ("120.0", 120),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 28 * 60),
        ("invalid", None),
        # ours
        ("0", 0),
        (" 5\t", 5),
        ("007", 7),
        ("0.0001", 1),
        ("9" * 60, retry_after.WAIT_SECONDS_MAX),
    ],
)
def test_seconds(value: str, seconds: float | None) -> None:
    """Whole seconds are taken, fractions are rounded up, and a huge number is held to a year."""
    assert retry_after.parse(value, NOW) == seconds


@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_three_forms_of_one_date(value: str) -> None:
    """IMF-fixdate, RFC 850 and asctime name the same moment."""
    assert retry_after.parse(value, datetime(1994, 11, 6, 8, 49, 7, tzinfo=UTC)) == 30


def test_a_date_in_the_past_means_now() -> None:
    """A date that has passed asks for no wait."""
    assert retry_after.parse("Wed, 21 Oct 2015 06:59:59 GMT", NOW) == 0


def test_a_date_far_ahead_is_held_to_a_year() -> None:
    """A date centuries ahead gives the longest wait, not a number that no column can hold."""
    assert retry_after.parse("Fri, 31 Dec 9999 23:59:60 GMT", NOW) is None
    assert retry_after.parse("Fri, 31 Dec 9999 23:59:59 GMT", NOW) == retry_after.WAIT_SECONDS_MAX


@pytest.mark.parametrize(
    ("now", "value", "seconds"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "Thursday, 01-Jan-26 00:00:10 GMT", 10),
        (datetime(2026, 1, 1, tzinfo=UTC), "Wednesday, 01-Jan-76 00:00:00 GMT", retry_after.WAIT_SECONDS_MAX),
        (datetime(2026, 1, 1, tzinfo=UTC), "Thursday, 01-Jan-76 00:00:01 GMT", 0),
        (datetime(2099, 12, 31, 23, 59, 55, tzinfo=UTC), "Friday, 01-Jan-00 00:00:00 GMT", 5),
        (datetime(2024, 2, 29, tzinfo=UTC), "Thursday, 29-Feb-24 00:01:00 GMT", 60),
    ],
)
def test_two_digit_years(now: datetime, value: str, seconds: float) -> None:
    """A two-digit year reads as the future up to 50 years ahead, and as the past beyond."""
    assert retry_after.parse(value, now) == seconds


def test_a_leap_second_is_the_next_minute() -> None:
    """Second 60, which the grammar allows, is the first second of the next minute."""
    assert retry_after.parse("Wed, 21 Oct 2015 07:00:60 GMT", NOW) == 60


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-1",
        "+1",
        "1.",
        ".5",
        "1e3",
        "1_000",
        "\N{ARABIC-INDIC DIGIT ONE}",
        "12 s",
        "9" * 65,
        "Wed, 31 Feb 2015 07:28:00 GMT",
        "Wed, 21 Oct 2015 07:28:61 GMT",
        "Wed, 21 Oct 2015 24:28:00 GMT",
        "Wed, 21 Oct 0000 07:28:00 GMT",
        "Wed, 21 Oct 2015 07:28:00 UTC",
        "Wed, 21 Oct 2015 07:28:00 +0100",
        "wed, 21 oct 2015 07:28:00 gmt",
        "Wed, 1 Oct 2015 07:28:00 GMT",
        "21 Oct 2015 07:28:00 GMT",
        "2015-10-21T07:28:00Z",
        "Wed, 21 Oct 2015 07:28:00 GMT\n",
        "120, 120",
        "\x00",
        "\ud800",
    ],
)
def test_malformed_values_are_no_wish(value: str) -> None:
    """What is neither seconds nor a date of the calendar is ignored."""
    assert retry_after.parse(value, NOW) is None


def test_the_clock_may_stand_in_any_zone() -> None:
    """The moment counts, not the zone in which the caller's clock is written."""
    there = NOW.astimezone(timezone(timedelta(hours=-9)))
    assert retry_after.parse("Wednesday, 21-Oct-15 07:00:10 GMT", there) == 10


@given(st.text(), MOMENTS)
def test_no_text_raises(value: str, now: datetime) -> None:
    """Any text gives a wait within bounds, or none."""
    seconds = retry_after.parse(value, now)
    assert seconds is None or 0 <= seconds <= retry_after.WAIT_SECONDS_MAX


@given(
    st.sampled_from(retry_after._DATES).flatmap(lambda form: st.from_regex(form, fullmatch=True)),
    MOMENTS,
)
def test_no_date_raises(value: str, now: datetime) -> None:
    """Anything in the shape of a date, possible or not, gives a wait within bounds, or none."""
    seconds = retry_after.parse(value, now)
    assert seconds is None or 0 <= seconds <= retry_after.WAIT_SECONDS_MAX


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001  Hypothesis wants naive bounds
def test_a_date_written_is_the_date_read(moment: datetime) -> None:
    """A moment written in each form is read back to the second."""
    whole = moment.replace(microsecond=0)
    month = retry_after._MONTHS[whole.month - 1]
    clock = f"{whole:%H:%M:%S}"
    for value in (
        f"Mon, {whole.day:02} {month} {whole.year} {clock} GMT",
        f"Monday, {whole.day:02}-{month}-{whole.year % 100:02} {clock} GMT",
        f"Mon {month} {whole.day:2} {clock} {whole.year}",
    ):
        assert retry_after.parse(value, whole - timedelta(seconds=90)) == 90
