"""Named statements are found by their names, and a wrong file is noticed when it is read."""

from __future__ import annotations

import pytest

from duly.stores.loader import load, merged, statements

DIALECTS = ("sqlite", "postgres")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_is_there(dialect: str) -> None:
    """The statements of a dialect are loaded, once, without comments and without their last semicolon."""
    found = load(dialect)
    assert "namespace" in found
    assert all(text and not text.startswith("--") and not text.endswith(";") for text in found.values())
    assert load(dialect) is found


def test_comments_are_not_sent() -> None:
    """Whole lines of comment are taken out, before and within a statement."""
    text = "-- About all.\n\n-- name: one\n-- Why.\nselect 1\n  -- and why here\n  + 2;\n\n-- name: two\nselect '--';\n"
    assert dict(statements(text)) == {"one": "select 1\n  + 2", "two": "select '--'"}


@pytest.mark.parametrize(
    "text", ["-- name: \nselect 1;\n", "-- name: one\n-- nothing\n", "-- name: One Two\nselect 1;\n"]
)
def test_a_statement_without_a_name_or_a_text_raises(text: str) -> None:
    """A name that is missing or cannot be one, and a statement without a text, are refused."""
    with pytest.raises(ValueError, match="has no name"):
        list(statements(text))


def test_a_name_that_is_there_twice_raises() -> None:
    """Two statements of one name would hide each other, so they are refused."""
    with pytest.raises(ValueError, match="'one' is there twice"):
        merged("sqlite", [("a.sql", "-- name: one\nselect 1;\n"), ("b.sql", "-- name: one\nselect 2;\n")])


def test_a_part_stands_in_every_statement_that_holds_it() -> None:
    """A rule that several statements obey is written once, and is no statement by itself."""
    text = "-- name: part_rule\nx > 1\n-- name: one\nselect {part_rule} from t;\n-- name: two\nselect '{}';\n"
    assert merged("sqlite", [("a.sql", text)]) == {"one": "select x > 1 from t", "two": "select '{}'"}


def test_a_part_that_is_not_there_raises() -> None:
    """A statement that holds an unknown part is refused when it is read."""
    with pytest.raises(ValueError, match="'part_rule', which is not there"):
        merged("sqlite", [("a.sql", "-- name: one\nselect {part_rule};\n")])
