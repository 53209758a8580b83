"""The pages' examples of configuration are taken as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from duly.core.caps import read_cap
from duly.core.quiet_hours import read_windows
from duly.runtime.config import parse

ROOT = Path(__file__).parents[2]


def test_the_quiet_hours_of_the_page_are_a_configuration() -> None:
    """The account of the page has the hours and caps that the page shows."""
    page = (ROOT / "docs/reference/quiet-hours.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    account = parse(f'database = "sqlite:///duly.db"\n{example}', None, {}).accounts["harbour-lofts"]
    assert account.windows == read_windows(["21:00-08:00", "sun 00:00-24:00"])
    assert account.caps == {"marketing": read_cap("3/P1D"), "service": read_cap("10/P1D")}


def test_every_window_of_the_page_is_one() -> None:
    """Each window that stands in the page's prose or table is read."""
    page = (ROOT / "docs/reference/quiet-hours.md").read_text(encoding="utf-8")
    windows = re.findall(r"`([a-z,-]* ?\d\d:\d\d-\d\d:\d\d)`", page)
    assert len(windows) > 20
    assert all(read_windows([text]) for text in windows)
