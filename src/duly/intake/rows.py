"""Reading submissions, or the rows of another table, from a file or a stream, one by one, in constant memory.

The format is told by the file's ending (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv`), else by the first
character that is not blank: `{` or `[` is JSON Lines, anything else is CSV.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from duly.errors import InputError
from duly.intake.csv_rows import read_csv
from duly.intake.jsonl import read_jsonl
from duly.intake.lines import Lines
from duly.intake.rejection import Rejection
from duly.intake.tables import Table

__all__ = ["FORMATS", "Rows", "named_stream", "open_rows", "read"]

FORMATS: Final = ("jsonl", "csv")

_ENDINGS: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}


class Rows(Iterator[tuple[int, Mapping[str, Any] | Rejection]]):
    """Rows by the line on which they start. `total_bytes` is None if the end is not known (a pipe)."""

    def __init__(self, stream: BinaryIO, form: str | None, *, owned: bool, table: Table | None = None) -> None:
        self.total_bytes = _total_bytes(stream)
        self._stream, self._owned = stream, owned
        self._lines = Lines(stream)
        self._rows = self._start(form, table)

    @property
    def bytes_read(self) -> int:
        """How much of the file has been read."""
        return self._lines.bytes_read

    def __next__(self) -> tuple[int, Mapping[str, Any] | Rejection]:
        return next(self._rows)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned:
            self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _start(self, form: str | None, table: Table | None) -> Iterator[tuple[int, Mapping[str, Any] | Rejection]]:
        """The first line is read only when the first row is asked for."""
        form = form or _sniff(self._lines)
        yield from read_jsonl(self._lines) if form == "jsonl" else read_csv(self._lines, table)


def read(source: str | os.PathLike[str] | BinaryIO, form: str | None = None, table: Table | None = None) -> Rows:
    """The rows of a path, or of a binary stream. Raises InputError if it cannot be opened, or later, cannot be read."""
    if form is not None and form not in FORMATS:
        raise InputError(f"format {form} is not known; it is {' or '.join(FORMATS)}")
    if not isinstance(source, (str, os.PathLike)):
        return Rows(source, form, owned=False, table=table)
    path = Path(source)
    return Rows(_open(path), form or _ENDINGS.get(path.suffix.lower()), owned=True, table=table)


def open_rows(name: str, form: str | None = None, table: Table | None = None) -> Rows:
    """As `read`, of a file named on the command line: `-` is standard input. Raises InputError."""
    return read(_standard_input() if name == "-" else name, form, table)


@contextmanager
def named_stream(name: str) -> Iterator[BinaryIO]:
    """The bytes of a file named on the command line: `-` is standard input, which stays open. Raises InputError."""
    if name == "-":
        yield _standard_input()
        return
    with _open(Path(name)) as stream:
        yield stream


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("standard input is closed; pipe the rows in, or name a file")
    return sys.stdin.buffer


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "that is no name of a file"
        raise InputError(f"{path} cannot be opened: {reason}") from None


def _total_bytes(stream: BinaryIO) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, io.UnsupportedOperation, AttributeError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _sniff(lines: Lines) -> str:
    line = lines.first()
    return "csv" if line and line.raw.lstrip()[:1] not in (b"{", b"[") else "jsonl"
