"""The receivers' journal: one line of JSON for everything they saw, in the order in which they saw it.

A line is in the hands of the operating system before the sender hears a word, so it survives whatever
happens to the programs. Nothing is ever changed or taken out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

__all__ = ["Entry", "Journal", "Seen", "read"]


class Seen(StrEnum):
    """What a line tells."""

    REQUEST = "request"  # a whole POST has come
    ACCEPTED = "accepted"  # it counts: its recipient has a message
    REPEAT = "repeat"  # it would have counted, and was dropped: its id counted before
    LOOK = "look"  # a GET asked for an id


class Entry(NamedTuple):
    """One line. `act` is how the receiver behaved; for a look, what it said or how it failed."""

    at: float  # seconds since 1970
    seen: Seen
    path: str
    id: str
    body_hash: str  # SHA-256 in hexadecimal; empty for a look
    act: str


class Journal:
    """The writing end."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._clock = clock

    def write(self, seen: Seen, path: str, identity: str, body_hash: str, act: str) -> None:
        """Append a line. Not buffered: it is written when this returns."""
        entry = Entry(self._clock(), seen, path, identity, body_hash, act)
        os.write(self._file, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)


def read(path: Path) -> list[Entry]:
    """Every line, oldest first."""
    return list(_entries(path))


def _entries(path: Path) -> Iterator[Entry]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            at, seen, where, identity, body_hash, act = json.loads(line)
            yield Entry(at, Seen(seen), where, identity, body_hash, act)
