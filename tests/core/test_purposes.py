"""Which known purpose a word may be meant to be."""

from __future__ import annotations

import pytest

from duly.core.consent import KNOWN_PURPOSES
from duly.core.purposes import meant

KNOWN = frozenset({*KNOWN_PURPOSES, "Newsletter"})


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("marketing", None),
        ("Marketing", "marketing"),
        ("marketng", "marketing"),
        ("MARKETTING", "marketing"),
        ("servcie", "service"),
        ("newsletter", "Newsletter"),
        ("newsletters", "Newsletter"),
        ("survey", None),
        ("billing", None),
        ("secure", None),
        ("", None),
    ],
)
def test_a_word_is_compared_with_those_that_are_known(word: str, other: str | None) -> None:
    """One that is known is nobody else; case and a letter or two are a mistake, more is another word."""
    assert meant(word, KNOWN) == other
