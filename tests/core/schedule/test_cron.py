"""Cron's own words: the days that have no number, and the two day fields together."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.schedule import read_repeat
from duly.core.schedule.cron import Cron, parse_cron
from tests.core.schedule.values import labels

NEW_YEAR = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 9 L * *", ["01-31", "02-28", "03-31"]),
        ("0 9 L-2 * *", ["01-29", "02-26", "03-29"]),
        ("0 9 L,1 * *", ["01-01", "01-31", "02-01"]),
        ("0 9 LW * *", ["01-30", "02-27", "03-31"]),
        ("0 9 31W * *", ["01-30", "03-31", "05-29"]),
        ("0 9 1W * *", ["01-01", "02-02", "03-02"]),
        ("0 9 15W 2,3,11 *", ["02-16", "03-16", "11-16"]),
        ("0 9 31W 5,8 *", ["05-29", "08-31"]),
        ("0 9 14W 2,3,6 *", ["02-13", "03-13", "06-15"]),
        ("0 9 * * 5L", ["01-30", "02-27", "03-27"]),
        ("0 9 * * FRI#L", ["01-30", "02-27", "03-27"]),
        ("0 9 * * MON#1", ["01-05", "02-02", "03-02"]),
        ("0 9 * * 1#5", ["03-30", "06-29", "08-31"]),
        ("0 9 * * FRI-SUN", ["01-02", "01-03", "01-04", "01-09"]),
        ("0 9 * * 5-7", ["01-02", "01-03", "01-04", "01-09"]),
        ("0 9 * * 7", ["01-04", "01-11"]),
        ("0 9 * * SUN", ["01-04", "01-11"]),
        ("0 9 13 * FRI", ["01-02", "01-09", "01-13", "01-16"]),
        ("0 9 */13 * FRI", ["02-27", "03-27", "05-01"]),
        ("0 9 ? * FRI", ["01-02", "01-09"]),
        ("0 9 1 * ?", ["01-01", "02-01"]),
        ("0 9 13 * +FRI", ["02-13", "03-13", "11-13"]),
        ("0 9 29 FEB *", ["02-29"]),
    ],
)
def test_days(text: str, days: list[str]) -> None:
    """They are counted within their month, and the fields for days are one condition or two."""
    assert [label[5:10] for label in labels(text, NEW_YEAR, len(days))] == days


@pytest.mark.parametrize(
    ("text", "sub_daily"),
    [
        ("0 * * * *", True),
        ("0 */2 * * *", True),
        ("* 9 * * *", False),
        ("0 0-23 * * *", False),
        ("0 *,5 * * *", False),
        ("0 0/2 * * *", False),
    ],
)
def test_what_is_sub_daily(text: str, sub_daily: bool) -> None:
    """Only a star for the hour makes it so, alone or with a step."""
    assert parse_cron(text).sub_daily is sub_daily


FIELDS = st.sampled_from(
    ["*", "*/7", "1", "2,3", "1-5", "1-5/2", "L", "LW", "15W", "MON", "5L", "MON#2", "?", "JAN", "0", "7"]
)


@given(st.lists(FIELDS | st.text(max_size=4), min_size=4, max_size=6).map(" ".join))
def test_no_expression_breaks_the_reader(text: str) -> None:
    """It is read, in a text that is read again as the same, or refused in one line."""
    try:
        canonical = read_repeat(text, NEW_YEAR)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - either way is right
        return
    assert isinstance(parse_cron(canonical), Cron)
    assert read_repeat(canonical, None) == canonical
