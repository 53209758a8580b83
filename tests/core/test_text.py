"""What cannot be recorded is seen and taken out; what must stand on one line does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.text import has_controls, is_recordable, one_line, recordable

#: Any text, lone surrogates too, with what is dangerous more often than chance would have it.
ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\0\r\n\t\x1b\x7f\x85\u2028\ud800\udfff \u202e")))


@given(ANY_TEXT)
def test_recordable_text_is_utf8_without_nul(text: str) -> None:
    """What is left can be written as UTF-8, holds no NUL, and needs no second washing."""
    washed = recordable(text)
    assert b"\0" not in washed.encode()
    assert is_recordable(washed)
    assert recordable(washed) == washed


@given(ANY_TEXT)
def test_recordable_text_stays_as_it_is(text: str) -> None:
    """Text that can be recorded loses nothing, and only such text does not."""
    assert (recordable(text) == text) is is_recordable(text)


@given(ANY_TEXT, st.integers(0, 50))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    """No control character is left, the ends are bare and the limit holds."""
    line = one_line(text, limit)
    assert not has_controls(line)
    assert len(line.splitlines()) <= 1
    assert line == line.strip()
    assert len(line) <= limit


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Rent\r\nBcc: all@example.com", "Rent Bcc: all@example.com"),
        ("\n two\t\x00 words \x85", "two  words"),
        ("a\u2028b\u2029c\x7fd\x9be", "a b c d e"),
        ("\U0001f468\u200d\U0001f469 \u05e9\u05dc\u05d5\u05dd", "\U0001f468\u200d\U0001f469 \u05e9\u05dc\u05d5\u05dd"),
    ],
)
def test_runs_of_controls_become_one_space(text: str, line: str) -> None:
    """A line break cannot start a header of its own, and writing systems keep their characters."""
    assert one_line(text, 100) == line


def test_the_cut_leaves_no_blank_at_the_end() -> None:
    """A line that is cut behind a word ends with the word."""
    assert one_line("word other", 5) == "word"
