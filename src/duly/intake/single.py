"""One reminder from a file or a stream: a JSON object on several lines, or the first line of JSON Lines.

At most 1 MiB is read: what follows the first line of a long file is of no interest here.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from duly.errors import InputError
from duly.intake.jsonl import object_of
from duly.intake.lines import LINE_BYTES_MAX, Line, Lines
from duly.intake.rejection import Rejection
from duly.intake.rows import named_stream

__all__ = ["read_single"]


def read_single(name: str) -> Mapping[str, Any]:
    """The object of a file named on the command line: `-` is standard input. Raises InputError."""
    rest = io.BytesIO(_read(name))
    first = Lines(rest).first()
    if first is None:
        raise InputError("the file is empty; write one reminder into it, as a JSON object")
    found = object_of(first)
    if isinstance(found, Rejection):
        found = _over_several_lines(first, rest.read(), found)
    return found


def _read(name: str) -> bytes:
    with named_stream(name) as stream:
        try:
            return stream.read(LINE_BYTES_MAX + 1)
        except (OSError, ValueError) as error:
            raise InputError(f"the file cannot be read: {error}") from None


def _over_several_lines(first: Line, rest: bytes, refused: Rejection) -> Mapping[str, Any]:
    """The object that begins on the first line. Raises InputError, with what is wrong with the line if it is whole."""
    if not rest.strip() or first.raw.rstrip().endswith(b"}"):
        raise InputError(f"line {first.number}: {refused.reason}")
    found = object_of(Line(first.number, first.raw + rest))
    if isinstance(found, Rejection):
        raise InputError("the file does not begin with a whole JSON object; `jq . FILE` says where it breaks off")
    return found
