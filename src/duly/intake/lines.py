"""A file as lines, in constant memory, and never a longer one than 1 MiB.

A line that is too long is cut: its rest is read past without being kept. Lines can be given back, for a
reader that looked too far.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO, Final, NamedTuple

from duly.errors import InputError

__all__ = ["LINE_BYTES_MAX", "Line", "Lines"]

LINE_BYTES_MAX: Final = 1024 * 1024
SKIPPED_BYTES_MAX: Final = 64 * 1024
EXCERPT_BYTES: Final = 1_000

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Line(NamedTuple):
    """One line with its end; if it is `cut`, only its first 1,000 bytes."""

    number: int
    raw: bytes
    cut: bool = False

    @property
    def blank(self) -> bool:
        """Whether nothing stands on it."""
        return not self.raw.strip()

    @property
    def shown(self) -> str:
        """The line as text, whatever its bytes are."""
        return self.raw.decode("utf-8", "backslashreplace").rstrip("\r\n")


class Lines:
    """The lines of a binary stream, from 1. A UTF-8 byte order mark is dropped; UTF-16 is refused."""

    def __init__(self, stream: BinaryIO) -> None:
        self.bytes_read = 0
        self._stream = stream
        self._number = 0
        self._given_back: deque[Line] = deque()

    def take(self) -> Line | None:
        """The next line, or None at the end. Raises InputError if the file cannot be read."""
        if self._given_back:
            return self._given_back.popleft()
        raw = self._read(LINE_BYTES_MAX + 1)
        if not raw:
            return None
        self._number += 1
        if self._number == 1:
            raw = _without_mark(raw)
        if len(raw) > LINE_BYTES_MAX:
            self._skip(raw)
            return Line(self._number, raw[:EXCERPT_BYTES], cut=True)
        return Line(self._number, raw)

    def first(self) -> Line | None:
        """The next line that is not blank, which is not taken. Blank ones before it are."""
        while (line := self.take()) is not None:
            if not line.blank:
                self.give_back([line])
                return line
        return None

    def give_back(self, lines: Sequence[Line]) -> None:
        """Let these be the next ones."""
        self._given_back.extendleft(reversed(lines))

    def _skip(self, raw: bytes) -> None:
        while raw and not raw.endswith(b"\n"):
            raw = self._read(SKIPPED_BYTES_MAX)

    def _read(self, bytes_max: int) -> bytes:
        try:
            raw = self._stream.readline(bytes_max)
        except (OSError, ValueError) as error:
            raise InputError(f"the file cannot be read: {error}") from None
        self.bytes_read += len(raw)
        return raw


def _without_mark(raw: bytes) -> bytes:
    if raw.startswith(_UTF16):
        raise InputError("the file is UTF-16; save it as UTF-8")
    return raw.removeprefix(codecs.BOM_UTF8)
