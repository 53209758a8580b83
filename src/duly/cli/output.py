"""How values become text: one JSON document on stdout, plain columns for people, everything else on stderr.

Our own words are ASCII. What comes from outside is stripped of control characters, so that a reminder's
data cannot move the cursor, and a character that the stream cannot take is written as an escape.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from duly.errors import InputError

__all__ = [
    "age",
    "columns",
    "complain",
    "fields",
    "plain",
    "progress",
    "reopen",
    "second",
    "soften",
    "table",
    "write_json",
    "write_text",
]


def reopen() -> None:
    """Let what goes to a stream that was closed before we started (as some supervisors do) go nowhere."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - as long as the program


def soften() -> None:
    """Let stdout and stderr escape what they cannot encode, and never raise for it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


def write_json(document: Any) -> None:
    """Write exactly one JSON document and a line end. Times become RFC 3339 in UTC, ending in Z."""
    import orjson

    text = orjson.dumps(document, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS).decode("utf-8")
    write_text(text)


def write_text(text: str) -> None:
    """Write one text to stdout, at once: a closed pipe shows here and not at the end.

    Raises InputError if it cannot be written, and BrokenPipeError if nobody reads any more.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _forget_stdout()
        raise InputError(f"standard output cannot be written: {error.strerror}") from None


def _forget_stdout() -> None:
    """What is still in its buffer would fail once more when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Write lines to stderr, each led by the program's name."""
    for line in text.splitlines() or [""]:
        sys.stderr.write(f"duly: {plain(line)}\n")
    sys.stderr.flush()


def plain(value: object) -> str:
    """A value as text without control characters; a flag as yes or no."""
    text = ("yes" if value else "no") if isinstance(value, bool) else "" if value is None else str(value)
    return "".join(c if c.isprintable() else "?" for c in text)


def columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under their titles, in columns as wide as their widest cell."""
    cells = [list(titles), *([plain(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def table(titles: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """What the rows have under these titles, in columns."""
    return columns(titles, [[row[title] for title in titles] for row in rows])


def fields(shown: Mapping[str, Any]) -> str:
    """Plain fields first, then each list of rows as a table; what says nothing is left out."""
    shown = {name: _joined(value) for name, value in shown.items()}
    plain_ones = [(name, value) for name, value in shown.items() if _says(value) and not isinstance(value, list | dict)]
    width = max(len(name) for name, _ in plain_ones)
    parts = ["\n".join(f"{name.ljust(width)}  {plain(value)}".rstrip() for name, value in plain_ones)]
    for name, rows in shown.items():
        if isinstance(rows, list) and rows:
            titles = [title for title in rows[0] if any(_says(row[title]) for row in rows)]
            parts.append(f"{name}\n{table(titles, rows)}")
    return "\n\n".join(parts)


def _joined(value: Any) -> Any:
    """A list of words as one text."""
    words = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    return ", ".join(value) if words else value


def _says(value: object) -> bool:
    """Nothing on record, and a flag that is not set, say nothing to a reader."""
    return value is not None and value is not False


def second(moment: datetime) -> str:
    """A moment of UTC as a person reads it: to the second."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def age(seconds: float | None) -> str:
    """A span of time in the unit that reads best; nothing for none."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr while the block runs; gives a function that moves it on.

    There is none where stderr is not a terminal. `total` is None if the end is not known.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(label, total=total)
        yield lambda count: bar.advance(line, count)
