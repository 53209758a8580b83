"""Until when an occurrence is of use."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from duly.core.deadlines import DEADLINE_DEFAULT, deadline_of
from tests.core.values import NOW, later


@pytest.mark.parametrize(
    ("text", "behind", "deadline"),
    [
        ("PT8H", None, later(hours=8)),
        ("PT8H", later(hours=1), later(hours=8)),
        (None, None, NOW + DEADLINE_DEFAULT),
        (None, later(hours=1), later(hours=1)),
        (None, later(days=30), later(days=30)),
        (None, NOW, NOW + DEADLINE_DEFAULT),
        ("2030-01-01T00:00Z", None, datetime.fromisoformat("2030-01-01T00:00Z")),
    ],
)
def test_a_deadline(text: str | None, behind: datetime | None, deadline: datetime) -> None:
    """A duration counts from the due time; without one it is the next occurrence that is due later, else a day."""
    assert deadline_of(NOW, text, behind) == deadline


@pytest.mark.parametrize("text", ["", "8 hours", "PT0S", "2030-01-01T00:00", "P1M"])
def test_what_is_no_deadline(text: str) -> None:
    """It is refused with what to write."""
    with pytest.raises(ValueError, match="write"):
        deadline_of(NOW, text, NOW + timedelta(days=1))
