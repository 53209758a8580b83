"""JSON Lines: one object per line (https://jsonlines.org). Blank lines are passed over.

orjson reads a line in a microsecond or two, but takes a number of 20 digits as a float and refuses half a
surrogate pair. So a line that it refuses, or that holds many digits in a row, is read by Python's own
parser, which keeps both as they are; what becomes of them is for the check of the row to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import orjson

from duly.errors import InputError
from duly.intake.lines import LINE_BYTES_MAX, Line, Lines
from duly.intake.rejection import Rejection

__all__ = ["object_of", "read_jsonl"]

WHOLE_DIGITS_MAX: Final = 1_000
LOOK_AHEAD_LINES_MAX: Final = 200

_MANY_DIGITS: Final = re.compile(rb"[0-9]{19}")


def read_jsonl(lines: Lines) -> Iterator[tuple[int, Mapping[str, Any] | Rejection]]:
    """Line numbers with objects, or with why a line is none. Raises InputError if the whole file is something else."""
    first = True
    while (line := lines.take()) is not None:
        if line.blank:
            continue
        if first:
            _check_shape(line, lines)
            first = False
        yield line.number, object_of(line)


def _check_shape(line: Line, lines: Lines) -> None:
    """Raises InputError for a file that is JSON, and not one object per line: once, and not for each of its lines."""
    start = line.raw.strip()
    if start.startswith(b"["):
        raise InputError("the file is one JSON array; write one object per line, as `jq -c '.[]' FILE` does")
    if start == b"{" or (start.startswith(b"{") and _goes_on(line, lines)):
        raise InputError("an object goes over several lines; write each on one line, as `jq -c . FILE` does")


def _goes_on(line: Line, lines: Lines) -> bool:
    """Whether the object that begins on a line ends on one of the next; these are given back."""
    if not isinstance(object_of(line), Rejection):
        return False
    raw, ahead = line.raw, list[Line]()
    while len(ahead) < LOOK_AHEAD_LINES_MAX and len(raw) <= LINE_BYTES_MAX and (following := lines.take()) is not None:
        ahead.append(following)
        raw += following.raw
        if following.raw.rstrip().endswith(b"}") and not isinstance(object_of(line._replace(raw=raw)), Rejection):
            break
    else:
        raw = b""
    lines.give_back(ahead)
    return bool(raw)


def object_of(line: Line) -> Mapping[str, Any] | Rejection:
    """The object on a line, or why it holds none."""
    if line.cut:
        return Rejection(f"the line is longer than {LINE_BYTES_MAX:,} bytes; shorten it", text=line.shown)
    try:
        value = _parse(line.raw)
    except RecursionError:
        return Rejection("the line is nested too deep; make it flatter", text=line.shown)
    except ValueError as error:
        return Rejection(_reason(error), text=line.shown)
    if not isinstance(value, dict):
        return Rejection("the line is JSON, and not an object; write {...}", text=line.shown)
    return value


def _parse(raw: bytes) -> Any:
    """Raises ValueError or RecursionError."""
    if not _MANY_DIGITS.search(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass  # Python's parser says why, or knows better
    return json.loads(raw.decode(), parse_int=_whole, parse_constant=_refuse)


def _whole(digits: str) -> int:
    if len(digits) > WHOLE_DIGITS_MAX:
        raise ValueError(f"a number has more than {WHOLE_DIGITS_MAX:,} digits")
    return int(digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _reason(error: ValueError) -> str:
    match error:
        case UnicodeDecodeError():
            return "the line is not UTF-8; save the file as UTF-8"
        case json.JSONDecodeError():
            return f"the line is not JSON: {error.msg} at column {error.colno}"
    return f"the line is not JSON: {error}"
