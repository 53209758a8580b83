"""CSV rows become the same objects that JSON Lines would bring."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InputError
from tests.intake.samples import intake, row, rows_of

HEADER: Final = "idempotency_key,account,template,notify_at,to.email,data.unit"
FIRST: Final = "k1,a,note,2026-12-01T09:00Z,ana@example.com,4B"


def found(*lines: str, header: str = HEADER) -> list[tuple[int, Any]]:
    """The rows below a header."""
    return rows_of("\n".join([header, *lines]), "csv")


def units(content: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Line numbers with `data.unit`, or with the reason."""
    return [(line, one if isinstance(one, str) else one["data"]["unit"]) for line, one in content]


def test_columns_are_fields() -> None:
    """Dotted names are parts of `to` and `data`; channels are a list; the event's version is a number."""
    header = "idempotency_key,account,template,notify_at,to.id,to.email,channels,event_version,data.a,data.b.c,lane"
    assert found("k1,acc,note,2026-12-01T09:00,r1,a@example.com,email|sms,3,007,1.50,", header=header) == [
        (
            2,
            {
                "idempotency_key": "k1",
                "account": "acc",
                "template": "note",
                "notify_at": "2026-12-01T09:00",
                "to": {"id": "r1", "email": "a@example.com"},
                "channels": ["email", "sms"],
                "event_version": 3,
                "data": {"a": "007", "b": {"c": "1.50"}},
            },
        )
    ]


def test_windows_of_quiet_hours_are_parted_by_bars() -> None:
    """A comma belongs to a window."""
    header = f"{HEADER},to.quiet_hours"
    ((_, one),) = found(f'{FIRST},"sat,sun 20:00-10:00 | 21:00-08:00"', header=header)
    assert one["to"]["quiet_hours"] == ["sat,sun 20:00-10:00", "21:00-08:00"]


def test_a_row_is_the_same_reminder_in_both_formats() -> None:
    """Submitted once as CSV and once as JSON Lines, it is `already` there, not a conflict."""
    header = "data.unit,to.name,to.email,notify_at,template,account,idempotency_key,to.id,late"
    line = "4B,Ana,ana@example.com,2026-12-01T09:00:00Z,note,harbour-lofts,inspection-4411,recipient-17,"
    ((_, from_csv),) = found(line, header=header)
    assert intake().accept(from_csv) == intake().accept(row(data={"unit": "4B"}, repeat=None))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_spreadsheets_write(mark: str, end: str, delimiter: str) -> None:
    """Commas, semicolons or tabs, any line end, a byte order mark, blank and empty lines at the end."""
    lines = [HEADER.replace(",", delimiter), FIRST.replace(",", delimiter), "", delimiter * 5, ""]
    assert units(rows_of(mark + end.join(lines), "csv")) == [(2, "4B")]


def test_the_delimiter_is_not_sought_in_quotes() -> None:
    """A quoted column may hold commas."""
    header = HEADER.replace(",", ";").replace("data.unit", '"data.a,b,c,d,e,f,g"')
    assert found(FIRST.replace(",", ";"), header=header)[0][1]["data"] == {"a,b,c,d,e,f,g": "4B"}


@pytest.mark.parametrize(
    ("cell", "channels"), [("email", ["email"]), ("email|sms", ["email", "sms"]), ('"email, sms"', ["email", "sms"])]
)
def test_channels_are_parted_by_bars_or_commas(cell: str, channels: list[str]) -> None:
    """A comma inside quotes parts channels, not cells."""
    assert found(f"{FIRST},{cell}", header=f"{HEADER},channels")[0][1]["channels"] == channels


@pytest.mark.parametrize(
    ("cell", "version"), [("3", 3), ("x", "x"), ("-3", "-3"), ("\u0663", "\u0663"), ("9" * 20, "9" * 20)]
)
def test_only_digits_are_an_event_version(cell: str, version: object) -> None:
    """Anything else stays text, and the check of the row refuses it."""
    assert found(f"{FIRST},{cell}", header=f"{HEADER},event_version")[0][1]["event_version"] == version


def test_quoted_cells_hold_lines_quotes_and_delimiters() -> None:
    """A row counts from the line on which it starts."""
    text = FIRST.removesuffix("4B")
    rows = found(f'{text}"two\nlines, and ""quotes"""', FIRST, f"{text}\u05e9\u05dc\u05d5\u05dd {{{{ 7*7 }}}}")
    assert units(rows) == [(2, 'two\nlines, and "quotes"'), (4, "4B"), (5, "\u05e9\u05dc\u05d5\u05dd {{ 7*7 }}")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("k1,a", "the row has 2 cells, and the header 6"),
        (FIRST + ",more", "the row has 7 cells, and the header 6"),
        ('"k"1' + FIRST.removeprefix("k1"), "a quote is not closed, or text follows it"),
        ("k\r1" + FIRST.removeprefix("k1"), "a carriage return stands in a cell"),
        (FIRST.removesuffix("4B") + '"' + "x" * 200_000 + '"', "a cell is longer than 131,072 characters"),
        ("x" * 1_100_000, "the row is longer than 1,048,576 bytes"),
    ],
)
def test_a_bad_row_costs_only_itself(line: str, words: str) -> None:
    """It is refused with a reason, and the rows around it are read."""
    before, (number, reason), after = found(FIRST, line, FIRST)
    assert units([before, after]) == [(2, "4B"), (4, "4B")]
    assert number == 3
    assert words in reason


def test_bytes_that_are_not_utf8_cost_only_their_row() -> None:
    """One old row in Latin-1 does not make the file unreadable."""
    content = "\n".join([HEADER, FIRST, FIRST.replace("4B", "caf\u00e9"), FIRST]).encode("latin-1")
    assert units(rows_of(content, "csv")) == [(2, "4B"), (3, "the row is not UTF-8; save the file as UTF-8"), (4, "4B")]


@pytest.mark.parametrize(
    "rest",
    [
        [FIRST] * 5,
        [FIRST] * 2_000,
        [FIRST.replace("4B", '"4B"')] * 5,
        [FIRST.replace("4B", "x" * 100_000)] * 15,
        [FIRST.replace("4B", '"a\nb"')],
    ],
    ids=["to the end", "many lines", "closed by the next", "many bytes", "closed within"],
)
def test_an_open_quote_swallows_nothing(rest: list[str]) -> None:
    """A quote that never closes costs its own row, and every row after it is read."""
    opened = FIRST.replace("4B", '"4B')
    (line, reason), *after = found(opened, *rest)
    assert line == 2
    assert "a quote opens a cell here and does not close it" in reason
    assert [type(one) for _, one in after] == [dict] * len(rest)
    assert after[0][0] == 3


def test_endless_open_quotes_refuse_the_file() -> None:
    """A file that is quoted in another way is refused, instead of being read a thousand times over."""
    with pytest.raises(InputError, match="over 1,000 quotes do not close"):
        found(*[FIRST.replace("4B", 'a",x,"')] * 3_000)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("idempotencykey,account", 'column "idempotencykey" is no field; did you mean "idempotency_key"?'),
        (HEADER + ",to.emial", 'column "to.emial" is no field; did you mean "to.email"?'),
        (HEADER + ",xyz", 'column "xyz" is no field'),
        (HEADER + ",data.", 'column "data." is no field'),
        (HEADER + ",data.a..b", 'column "data.a..b" is no field'),
        (HEADER + ",data" + ".a" * 20, "is no field"),
        (HEADER + ",to", 'column "to": write one column for each of its fields, like to.name'),
        (HEADER + ",data", 'column "data": write one column'),
        (HEADER + ",", "column 7 of the header has no name"),
        (HEADER + ",account", 'column "account" is there twice'),
        (HEADER + ", data.unit", 'column "data.unit" is there twice'),
        (HEADER + ",data.unit.number", 'column "data.unit" is a value and an object'),
        ("account,template,notify_at", "the header has no column idempotency_key"),
        (HEADER + ",data.x" * 500, "over 500 columns"),
        (HEADER + ',"open', "the header: "),
        ("x" * 2_000_000, "the header: "),
    ],
)
def test_a_wrong_header_refuses_the_file(header: str, words: str) -> None:
    """One clear complaint about a column is better than the same one for each row."""
    with pytest.raises(InputError) as caught:
        found(FIRST, header=header)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("content", ["", "\ufeff", "\n \r\n", HEADER, "\n" + HEADER + "\n"])
def test_a_file_without_rows_has_none(content: str) -> None:
    """Nothing in, nothing out."""
    assert rows_of(content, "csv") == []


CELLS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.lists(CELLS, min_size=6, max_size=6), max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_what_python_writes_is_read(cells: list[list[str]], end: str) -> None:
    """Any text in quoted cells comes back, row by row."""
    written = io.StringIO()
    csv.writer(written, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([HEADER.split(","), *cells])
    expected = [line[5] for line in cells if any(line)]
    read = [one.get("data", {}).get("unit", "") for _, one in rows_of(written.getvalue(), "csv")]
    assert read == expected


@given(st.lists(st.one_of(st.text(st.sampled_from('a",;\t\r|\0\ud800'), max_size=20), st.just(FIRST)), max_size=30))
def test_no_row_breaks_the_reader(lines: list[str]) -> None:
    """Every row is an object or a reason, in the order of the lines, and good rows outside quotes are read."""
    content = "\n".join([HEADER, *lines, FIRST]).encode("utf-8", "surrogatepass")
    numbers = [line for line, _ in rows_of(content, "csv")]
    assert numbers == sorted(set(numbers))
    assert all(2 <= line <= len(lines) + 2 for line in numbers)
