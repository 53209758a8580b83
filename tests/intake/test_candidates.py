"""Where somebody may live: his own zone, or those of his number, or the account's; never a guess out of nothing."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.intake.candidates import CANDIDATES_ZONES_MAX, zones_of, zones_of_phone
from tests.intake.samples import NAUGHTY


@pytest.mark.parametrize(
    ("number", "zones"),
    [
        ("+14155550100", ("America/Los_Angeles",)),
        ("+12125551234", ("America/New_York",)),
        ("+493012345678", ("Europe/Berlin",)),
        ("+4915112345678", ("Europe/Berlin",)),
        ("+12684641234", ("America/Antigua",)),
    ],
)
def test_a_prefix_tells_the_zone(number: str, zones: tuple[str, ...]) -> None:
    """A prefix of a city, a state or a country with one zone names that zone, also for a mobile number."""
    assert zones_of_phone(number) == zones


def test_a_number_may_belong_to_many_zones() -> None:
    """A Russian mobile number may ring anywhere between Moscow and Kamchatka."""
    zones = zones_of_phone("+79161234567")
    assert len(zones) == CANDIDATES_ZONES_MAX
    assert {"Europe/Moscow", "Asia/Kamchatka"} <= set(zones)


@pytest.mark.parametrize("number", ["+18005551234", "+80012345678", "+870773111632", "+999123456789", "4155550100"])
def test_a_number_of_nowhere_tells_nothing(number: str) -> None:
    """Toll-free, satellite and unknown numbers have no zone: not all of them, and not one that does not exist."""
    assert zones_of_phone(number) == ()


@given(st.one_of(st.sampled_from(NAUGHTY), st.text(max_size=60), st.from_regex(r"\+[0-9]{0,20}", fullmatch=True)))
def test_any_text_tells_a_few_zones_or_none(text: str) -> None:
    """Whatever stands there, the answer is short and holds zones that exist."""
    zones = zones_of_phone(text)
    assert len(zones) <= CANDIDATES_ZONES_MAX
    assert [ZoneInfo(name).key for name in zones] == list(zones)


@pytest.mark.parametrize(
    ("zone", "phone", "account_zone", "zones"),
    [
        ("Asia/Tokyo", "+14155550100", "Europe/Berlin", ("Asia/Tokyo",)),
        (None, "+14155550100", "Europe/Berlin", ("America/Los_Angeles",)),
        (None, "+18005551234", "Europe/Berlin", ("Europe/Berlin",)),
        (None, None, "Europe/Berlin", ("Europe/Berlin",)),
        (None, "+18005551234", None, ()),
        (None, None, None, ()),
    ],
)
def test_what_is_known_best_counts(
    zone: str | None, phone: str | None, account_zone: str | None, zones: tuple[str, ...]
) -> None:
    """The recipient's zone before his number's, that before the account's; without any there is none, not UTC."""
    assert zones_of(zone, phone, account_zone) == zones
