"""The hours of regions: each can be chosen as it stands, and says why it is believed."""

from __future__ import annotations

import pytest

from duly.core.quiet_hours import Window, read_windows
from duly.core.regional_hours import REGIONS, Region


def minutes(windows: tuple[Window, ...]) -> set[int]:
    """The minutes of a week that the windows hold."""
    return {
        (day * 1_440 + minute) % 10_080
        for window in windows
        for day in window.days
        for minute in range(window.start, window.end if window.end > window.start else window.end + 1_440)
    }


@pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS.keys())
def test_a_region_is_quiet_whenever_it_is_not_allowed(region: Region) -> None:
    """Its windows are read, leave time, and together with the allowed hours fill the week without overlap."""
    allowed, quiet = minutes(read_windows(region.allowed)), minutes(region.windows)
    assert allowed
    assert not allowed & quiet
    assert len(allowed | quiet) == 10_080


@pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS.keys())
def test_a_region_says_why_it_is_believed(region: Region) -> None:
    """Basis and source are there; high confidence is for what names a rule and a page."""
    assert region.title
    assert region.basis
    assert region.source
    assert region.confidence != "high" or region.source.startswith("https://")


def test_a_state_is_no_freer_than_its_country() -> None:
    """What is quiet in all of the United States is quiet in each of its states."""
    federal = minutes(REGIONS["us"].windows)
    assert all(federal <= minutes(region.windows) for name, region in REGIONS.items() if name.startswith("us-"))
