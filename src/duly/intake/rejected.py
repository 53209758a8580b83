"""`FILE.rejected.jsonl`: the rows that were not taken, each with its reason, to be mended and imported again.

It is made with the first rejection, in place of one from an earlier run; a run without rejections removes
it. Only its owner may read it, because rows hold addresses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import orjson

from duly.errors import InputError
from duly.intake.rejection import Rejection

__all__ = ["RejectedFile", "set_aside"]

#: What marks a line of `FILE.rejected.jsonl`.
SET_ASIDE: Final = frozenset({"row", "reason"})
LINE_OF_REJECTED: Final = frozenset({"line", "reason", "field", "row"})


class RejectedFile:
    """Where the rejected rows of one file are set aside. A context manager."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        """`source` is the name of the imported file; `-` is standard input."""
        name = os.fspath(source)
        self.path = f"{'stdin' if name == '-' else name}.rejected.jsonl"
        self._file: BinaryIO | None = None

    def write(self, line: int, rejection: Rejection, row: Mapping[str, Any] | None) -> None:
        """Keep one row, or its text if it could not be read. Raises InputError if the file cannot be written."""
        entry: dict[str, Any] = {"line": line, "reason": rejection.reason, "field": rejection.field}
        if row is not None:
            entry["row"] = row
        elif rejection.text is not None:
            entry["text"] = rejection.text
        try:
            self._file = self._file or self._create()
            self._file.write(_encode(entry) + b"\n")
        except OSError as error:
            raise self._unwritable(error) from None

    def close(self) -> None:
        """Close the file; remove an old one if nothing was rejected."""
        try:
            if self._file is not None:
                self._file.close()
            else:
                Path(self.path).unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # An import that broke off has not shown that an old file is out of date.
        if error is None or self._file is not None:
            self.close()

    def _create(self) -> BinaryIO:
        Path(self.path).unlink(missing_ok=True)
        return os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written: {error.strerror}")


def _encode(entry: dict[str, Any]) -> bytes:
    """JSON of whatever a row may hold. What orjson refuses (big numbers, half surrogates), Python's writer takes."""
    try:
        return orjson.dumps(entry)
    except TypeError:
        pass
    try:
        return json.dumps(entry, default=repr, skipkeys=True).encode()
    except (ValueError, RecursionError):
        return orjson.dumps(entry | {"row": None, "text": "the row cannot be written as JSON"})


def set_aside(raw: Mapping[str, Any]) -> Any:
    """The row within a line of `FILE.rejected.jsonl`: that file, mended, may be imported as it is."""
    return (
        raw["row"] if isinstance(raw, Mapping) and raw.keys() >= SET_ASIDE and raw.keys() <= LINE_OF_REJECTED else raw
    )
