"""JSON Lines are read one by one, whatever some of them hold."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InputError
from duly.intake.rejection import nearest_or_all
from tests.intake.samples import NAUGHTY, rows_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=5))
def test_objects_come_back_with_their_lines(objects: list[dict[str, Any]]) -> None:
    """What was written is read, big numbers and all, with line numbers from 1."""
    content = "".join(json.dumps(one) + "\n" for one in objects)
    assert rows_of(content, "jsonl") == list(enumerate(objects, 1))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blank_lines_marks_and_line_ends(mark: str, end: str) -> None:
    """A byte order mark, CRLF, blank lines and a missing last line end are nobody's fault."""
    content = f'{mark}{end}{{"a":1}}{end}  \t{end}{end}{{"a":2}}'
    assert rows_of(content, "jsonl") == [(2, {"a": 1}), (5, {"a": 2})]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_has_no_rows(content: str) -> None:
    """Nothing in, nothing out."""
    assert rows_of(content, "jsonl") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{not json", "the line is not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'{"a":1} {"b":2}', "the line is not JSON: Extra data at column 9"),
        (b'{"a":', "the line is not JSON: Expecting value"),
        (b'{"a":"x\ty"}', "the line is not JSON: Invalid control character"),
        (b'{"a":NaN}', "NaN is not a number of JSON"),
        (b'{"a":-Infinity}', "-Infinity is not a number of JSON"),
        (b'{"a":' + b"9" * 5_000 + b"}", "the line is not JSON: a number has more than 1,000 digits"),
        (b'{"a":"\xff"}', "the line is not UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "the line is not UTF-8"),
        (b'[{"a":1}]', "the line is JSON, and not an object"),
        (b'"text"', "the line is JSON, and not an object"),
        (b"null", "the line is JSON, and not an object"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"\xef\xbb\xbf{}", "the line is not JSON"),
    ],
)
def test_a_bad_line_costs_only_itself(line: bytes, words: str) -> None:
    """It is refused with a reason, and the lines around it are read."""
    before, (number, reason), after = rows_of(b'{"a":1}\n' + line + b'\n{"a":2}\n', "jsonl")
    assert (before, after) == ((1, {"a": 1}), (3, {"a": 2}))
    assert number == 2
    assert words in reason
    assert len(reason) < 200


def test_a_line_that_is_too_long_is_not_loaded() -> None:
    """It is passed over in pieces, and the next line is read."""
    long = b'{"a":"' + b"x" * 3_000_000 + b'"}\n'
    (number, reason), after = rows_of(long + b'{"a":2}\n', "jsonl")
    assert (number, reason) == (1, "the line is longer than 1,048,576 bytes; shorten it")
    assert after == (2, {"a": 2})


def test_a_long_line_at_the_end_is_one_line() -> None:
    """A file that ends within such a line ends there."""
    assert [line for line, _ in rows_of(b'{"a":1}\n' + b"x" * 2_000_000, "jsonl")] == [1, 2]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"a":123456789012345678901234567890}', 123456789012345678901234567890),
        ('{"a":-9223372036854775809}', -9223372036854775809),
        ('{"a":"\\ud800"}', "\ud800"),
        ('{"a":"\\u0000"}', "\0"),
        ('{"a":"\\ud83d\\ude00"}', "\U0001f600"),
        ('{"a":1e400}', math.inf),
    ],
)
def test_odd_values_arrive_as_they_are(line: str, value: object) -> None:
    """What becomes of them is for the check of the row to say; nothing is rounded or lost on the way."""
    assert rows_of(line, "jsonl") == [(1, {"a": value})]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[{"a":1},\n{"a":2}]\n', "one JSON array; write one object per line"),
        (b'\n\n  [\n{"a":1}\n]\n', "one JSON array"),
        (b'{\n  "a": 1\n}\n', "over several lines"),
        (b'{"a": 1,\n "b": {\n"c": 2}\n}\n{"a":\n2}\n', "over several lines"),
        ('{"a":1}\n'.encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("\ufeff{}".encode("utf-16-be"), "UTF-16"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_a_hint(content: bytes, words: str) -> None:
    """A thousand equal rejections would hide what is wrong."""
    with pytest.raises(InputError, match=words):
        rows_of(content, "jsonl")


def test_a_first_line_that_is_cut_off_costs_only_itself() -> None:
    """What follows is looked at, and read all the same, however much of it there is."""
    (bad, *others) = rows_of(b'{"a":\n' + b'{"a":2}\n' * 300, "jsonl")
    assert isinstance(bad[1], str)
    assert [line for line, _ in others] == list(range(2, 302))


@pytest.mark.parametrize(
    ("wrong", "known", "words"),
    [
        ("notes", ["other", "note"], '; did you mean "note"?'),
        ("zzz", ["note", "late"], "; there are late, note"),
        (
            "zzz",
            [f"n{number}" for number in "abcdefghijkl"],
            "; there are na, nb, nc, nd, ne, nf, ng, nh, ni, nj and 2 more",
        ),
        ("zzz", [], "; there is none"),
    ],
)
def test_the_nearest_or_all_names_are_told(wrong: str, known: list[str], words: str) -> None:
    """As many as can be read at once."""
    assert nearest_or_all(wrong, known) == words


@given(
    st.lists(st.one_of(st.binary(max_size=30), st.sampled_from(NAUGHTY).map(lambda text: json.dumps(text).encode())))
)
def test_no_bytes_break_the_reader(lines: list[bytes]) -> None:
    """Every line that is not blank is an object or a reason."""
    content = b'{"first":1}\n' + b"\n".join(lines)
    expected = [number for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    assert [line for line, _ in rows_of(content, "jsonl")] == expected
