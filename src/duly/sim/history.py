"""The history of a world: every call and what came of it, kept cheaply and told only when somebody asks.

A line keeps the values themselves. Most histories are thrown away unread; the one that ends in a violation is
told as the story of its delivery, which leaves out whatever is about others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from duly.core import keys
from duly.core.model import NewReminder
from duly.ports import Answer
from duly.sim.clocks import Time
from duly.sim.ledger import Change, Move
from duly.sim.truth import Left, Taken

__all__ = ["History", "Line"]

SHOWN_CHARACTERS: Final = 6
TEXT_CHARACTERS_MAX: Final = 300
#: Calls that concern every delivery.
ABOUT_ALL: Final = frozenset({"open_guard", "close_guard"})
EVERYBODY: Final = frozenset({"everybody", "operator", "world"})
WISHES: Final = frozenset({"schedule", "cancel", "record_consent", "revise"})


class Line(NamedTuple):
    """Something that happened: when, who did what, and the values that it was about."""

    at_us: int
    actor: str
    what: str
    about: tuple[Any, ...]

    def mentions(self, ids: Collection[bytes]) -> bool:
        """Whether it is about one of these."""
        return any(_mentions(value, ids) for value in self.about)


class History:
    """All lines, in order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, at_us: int, actor: str, what: str, *about: Any) -> None:
        """Remember a line."""
        self.lines.append(Line(at_us, actor, what, about))

    def trace(self) -> Iterator[str]:
        """All of it, as text."""
        return (_text(line) for line in self.lines)

    def story(self, delivery: bytes, *kin: bytes) -> Iterator[str]:
        """Only what is about one delivery; what people wish about its kin (its reminder, its contact); and what
        becomes of those who had to do with it.
        """
        ids = (delivery, *kin)
        mine = [line.mentions(ids if line.what in WISHES else ids[:1]) for line in self.lines]
        people = {line.actor for line, is_mine in zip(self.lines, mine, strict=True) if is_mine} | EVERYBODY
        for line, is_mine in zip(self.lines, mine, strict=True):
            if is_mine or (line.actor in people and (not line.about or line.what in ABOUT_ALL)):
                yield _told(line, delivery)


def _mentions(value: Any, ids: Collection[bytes]) -> bool:
    if isinstance(value, bytes):
        return value in ids
    if isinstance(value, NewReminder):
        return value.id in ids
    if isinstance(value, str):
        return len(value) == keys.SHOWN_CHARACTERS and keys.parse(value) in ids
    if isinstance(value, tuple | list | frozenset | dict):
        return any(_mentions(one, ids) for one in value)
    return False


def _told(line: Line, delivery: bytes) -> str:
    """A line of a story: what came of a call, not what went into it."""
    changes = [value for value in line.about if isinstance(value, Change)]
    if changes:
        return _line(line, _change(changes[0], delivery))
    telling = [value for value in line.about if isinstance(value, Left | Taken | Answer | Exception | str)]
    return _line(line, " ".join(_shown(value, delivery) for value in telling if value != "->"))


def _text(line: Line) -> str:
    """A line of a trace, in full."""
    parts = [_shown(value, None) for value in line.about]
    return _line(line, " ".join(part for part in parts if part))


def _line(line: Line, text: str) -> str:
    moment = f"{Time.moment(line.at_us):%d %H:%M:%S.%f}"[:-3]
    return f"{moment}  {line.actor:<12} {line.what:<12} {text}".rstrip()


def _shown(value: Any, delivery: bytes | None) -> str:
    if isinstance(value, Change):
        return _change(value, delivery)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        rows = [row for row in value if delivery is None or _mentions(row, (delivery,)) or not isinstance(row, tuple)]
        return "[" + ", ".join(_shown(row, delivery) for row in rows) + "]"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(_plain(one) for one in value)) + "}"
    if isinstance(value, tuple):
        return _fields(value, delivery)
    return _plain(value)


def _fields(value: Any, delivery: bytes | None) -> str:
    """A named tuple, without what is as usual: nothing, false, and long texts."""
    shown = (
        f"{name}={_shown(one, delivery)}"
        for name, one in zip(value._fields, value, strict=True)
        if one is not None and one is not False and name not in ("body", "frozen", "revisions", "data")
    )
    return f"{type(value).__name__}({', '.join(shown)})"


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return keys.show(value)[:SHOWN_CHARACTERS] if len(value) == keys.ID_BYTES else f"{len(value)} bytes"
    if isinstance(value, datetime):
        return f"{value:%d %H:%M:%S}"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value)[:TEXT_CHARACTERS_MAX]


def _change(change: Change, delivery: bytes | None) -> str:
    """What a commit did, in short."""
    mine = [move for move in change.moves if delivery is None or move.after.id == delivery]
    events = [row for row in change.events if delivery is None or row.delivery in (delivery, None)]
    results = [row for row in change.results if delivery is None or row.id == delivery]
    parts = [*map(_move, mine)]
    parts += [f"attempt {row.number} begins" for row in change.attempts if delivery in (None, row.id)]
    parts += [f"attempt {row.number}: {row.outcome}{' covered' if row.covered else ''}" for row in results]
    parts += [f"event {row.kind} ({row.reason}) by {row.actor}" for row in events]
    return "; ".join(parts)


def _move(move: Move) -> str:
    before, after = move
    flags = [name for name in ("doubt", "closed", "granted", "restored") if getattr(after, name)]
    why = f" ({after.reason})" if after.reason else ""
    origin = before.state if before else "new"
    name = keys.show(after.id)[:SHOWN_CHARACTERS]
    return f"{name} {origin} -> {after.state}{why} fence {after.fence} {' '.join(flags)}".rstrip()
