"""CSV (RFC 4180) with the names of a submission's fields as columns, or with those of another, flat table.

`to.email` and `data.unit` are fields of `to` and `data`. An empty cell is an absent field. Numbers in data
stay text, because a table does not say which digits are numbers (a unit `007` is not 7). Several channels in one
cell are parted by `|` or commas, several windows of quiet hours by `|` alone, because a window may hold commas.
Commas, semicolons or tabs part the cells: whatever the header line uses most.

A quote that never closes would swallow the rest of the file. So a row is at most 1 MiB and 1,000 lines;
one that is not well formed is refused by its first line alone, and reading goes on with the next line.
After 1,000 such quotes the file is refused, because something else is wrong with it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from duly.errors import InputError
from duly.intake.fields import FIELDS, RECIPIENT_FIELDS, shown
from duly.intake.lines import LINE_BYTES_MAX, Line, Lines
from duly.intake.rejection import Rejection, did_you_mean
from duly.intake.tables import Table

__all__ = ["read_csv"]

ROW_LINES_MAX: Final = 1_000
OPEN_QUOTES_MAX: Final = 1_000
COLUMNS_MAX: Final = 500
COLUMN_PARTS_MAX: Final = 8
WHOLE_DIGITS_MAX: Final = 19

_DELIMITERS: Final = ",;\t"
_QUOTED: Final = re.compile(r'"[^"]*"')
#: A header that is none may hold somebody's address, which no complaint repeats.
_ADDRESS: Final = re.compile(r"@|://|^\+[0-9]")
_BETWEEN_WORDS: Final = re.compile(r"[|,]")
_NEEDED: Final = ("idempotency_key", "account", "template")
#: One of them says when. `notify_at` is the one to add where there is none.
_WHEN: Final = ("notify_at", "starts_at", "repeat")
_LISTS: Final = (("channels",), ("before",))

#: The names of one column: ("data", "unit").
Column: TypeAlias = tuple[str, ...]


class _TooLong(Exception):
    """The row has more lines or bytes than a row may have."""


class _Record(NamedTuple):
    """One row: its first line, its cells, and why it is refused if it is."""

    line: Line
    cells: Sequence[str]
    reason: str | None


def read_csv(lines: Lines, table: Table | None = None) -> Iterator[tuple[int, Mapping[str, Any] | Rejection]]:
    """Line numbers with objects, or with why a row is none. `table`: what stands there instead of submissions.

    Raises InputError if the header is wrong.
    """
    first = lines.first()
    if first is None:
        return
    records = _Records(lines, _delimiter(first))
    columns: list[Column] | None = None
    for record in records:
        if columns is None:
            columns = _columns(record, table)
        elif any(record.cells) or record.reason:
            yield record.line.number, _row(record, columns)


class _Records:
    """Rows of cells. The csv module reads them; this class bounds them, and finds the next row after a bad one."""

    def __init__(self, lines: Lines, delimiter: str) -> None:
        self._lines = lines
        self._taken: list[Line] = []
        self._bytes_taken = 0
        self._open_quotes = 0
        self._utf8 = True
        self._csv = csv.reader(_Feed(self), delimiter=delimiter, strict=True)

    def __iter__(self) -> Iterator[_Record]:
        while (record := self._next()) is not None:
            yield record

    def take(self) -> str:
        """The next line of the row that the csv module is reading."""
        line = self._lines.take()
        if line is None:
            raise StopIteration
        self._taken.append(line)
        self._bytes_taken += len(line.raw)
        if line.cut or self._bytes_taken > LINE_BYTES_MAX or len(self._taken) > ROW_LINES_MAX:
            raise _TooLong
        return self._decode(line.raw)

    def _next(self) -> _Record | None:
        self._taken, self._bytes_taken, self._utf8 = [], 0, True
        try:
            cells = next(self._csv)
        except StopIteration:
            return None
        except _TooLong:
            return self._refuse(f"the row is longer than {LINE_BYTES_MAX:,} bytes or {ROW_LINES_MAX:,} lines")
        except csv.Error as error:
            return self._refuse(_why_not(str(error)))
        return _Record(self._taken[0], cells, None if self._utf8 else "the row is not UTF-8; save the file as UTF-8")

    def _refuse(self, reason: str) -> _Record:
        """Refuse the first line, and read on with the second."""
        first, *rest = self._taken
        if rest:
            self._count_open_quote()
            self._lines.give_back(rest)
            reason = 'a quote opens a cell here and does not close it; close it, or write "" for a quote in a cell'
        return _Record(first, (), reason)

    def _count_open_quote(self) -> None:
        self._open_quotes += 1
        if self._open_quotes > OPEN_QUOTES_MAX:
            raise InputError(f"over {OPEN_QUOTES_MAX:,} quotes do not close; look at how the file quotes its cells")

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self._utf8 = False
            return raw.decode("utf-8", "backslashreplace")


def _why_not(error: str) -> str:
    if error.startswith("new-line"):
        return "a carriage return stands in a cell without quotes; quote the cell"
    if error.startswith("field larger"):
        return f"a cell is longer than {csv.field_size_limit():,} characters"
    return 'a quote is not closed, or text follows it; write "" for a quote in a cell'


class _Feed:
    """What the csv module pulls its lines from. A generator would end at the first error; this goes on."""

    def __init__(self, records: _Records) -> None:
        self._records = records

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        return self._records.take()


# --- the header ----------------------------------------------------------------------------------


def _delimiter(header: Line) -> str:
    bare = _QUOTED.sub("", header.shown)
    return max(_DELIMITERS, key=bare.count)


def _columns(header: _Record, table: Table | None) -> list[Column]:
    """Raises InputError, which names the column."""
    if header.reason:
        raise InputError(f"the header: {header.reason}")
    if len(header.cells) > COLUMNS_MAX:
        raise InputError(f"the header has over {COLUMNS_MAX} columns")
    names = [cell.strip() for cell in header.cells]
    if table is None:
        columns = [_column(number, name) for number, name in enumerate(names, 1)]
    elif table.bare and len(names) == 1 and names[0] not in table.columns:
        raise InputError(f"the file has one column, and no header that says what it is; {table.bare}")
    else:
        columns = [_plain_column(number, name, table.columns) for number, name in enumerate(names, 1)]
    _check_twice(columns)
    _check_needed(columns, _NEEDED if table is None else table.needed)
    return columns


def _plain_column(number: int, name: str, known: frozenset[str]) -> Column:
    _check_name(number, name)
    if name not in known:
        called = f"column {number}" if _ADDRESS.search(name) else f'column "{shown(name)}"'
        guess = did_you_mean(name, sorted(known))
        these = " There are" if guess else "; there are"
        raise InputError(f"{called} is no field{guess}{these} {', '.join(sorted(known))}")
    return (name,)


def _check_name(number: int, name: str) -> None:
    if not name:
        raise InputError(f"column {number} of the header has no name")


def _column(number: int, name: str) -> Column:
    _check_name(number, name)
    group, _, rest = name.partition(".")
    column = tuple(name.split("."))
    if group == "data" and rest and all(column) and len(column) <= COLUMN_PARTS_MAX:
        return column
    known = FIELDS - {"to", "data"} | {f"to.{field}" for field in RECIPIENT_FIELDS}
    if name in known:
        return column
    if name in ("to", "data"):
        raise InputError(f'column "{name}": write one column for each of its fields, like {name}.name')
    raise InputError(f'column "{shown(name)}" is no field{did_you_mean(name, sorted(known))}')


def _check_twice(columns: list[Column]) -> None:
    seen: set[Column] = set()
    for column in columns:
        if column in seen:
            raise InputError(f'column "{shown(".".join(column))}" is there twice')
        seen.add(column)
    for column in columns:
        for length in range(2, len(column)):
            if column[:length] in seen:
                raise InputError(f'column "{shown(".".join(column[:length]))}" is a value and an object; rename one')


def _check_needed(columns: list[Column], needed: Sequence[str]) -> None:
    for name in needed:
        if (name,) not in columns:
            raise InputError(f"the header has no column {name}")
    if needed is _NEEDED and not any((name,) in columns for name in _WHEN):
        raise InputError(f"the header has no column {_WHEN[0]}")


# --- a row ---------------------------------------------------------------------------------------


def _row(record: _Record, columns: list[Column]) -> Mapping[str, Any] | Rejection:
    if record.reason:
        return Rejection(record.reason, text=record.line.shown)
    if len(record.cells) != len(columns):
        reason = f"the row has {len(record.cells)} cells, and the header {len(columns)}; quote cells that hold commas"
        return Rejection(reason, text=record.line.shown)
    row: dict[str, Any] = {}
    for column, cell in zip(columns, record.cells, strict=True):
        if cell:
            _put(row, column, cell)
    return row


def _put(row: dict[str, Any], column: Column, cell: str) -> None:
    *groups, name = column
    for group in groups:
        row = row.setdefault(group, {})
    if name == "quiet_hours" and groups in ([], ["to"]):
        row[name] = [window.strip() for window in cell.split("|")]
    elif column in _LISTS:
        row[name] = [word.strip() for word in _BETWEEN_WORDS.split(cell)]
    elif column == ("event_version",):
        row[name] = int(cell) if cell.isdecimal() and cell.isascii() and len(cell) <= WHOLE_DIGITS_MAX else cell
    else:
        row[name] = cell
