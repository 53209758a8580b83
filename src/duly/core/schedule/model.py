"""A schedule and its slots as values. What they mean is told in the package's own text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from duly.core.moments import parse_duration, parse_time, write_duration, write_time

__all__ = ["OFFSETS_MAX", "ONCE", "Schedule", "Slot"]

#: The label of a reminder that fires once.
ONCE: Final = "once"
OFFSETS_MAX: Final = 20
TEXTS_CACHED_MAX: Final = 4_096

_NONE: Final = timedelta(0)
_DAY: Final = timedelta(days=1)


class Slot(NamedTuple):
    """One firing that a schedule names."""

    label: str
    due_at: datetime  # UTC, aware


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a reminder fires; hashable, so that what is computed from it may be remembered.

    `start` is an instant if it is aware, and wall time in a zone if it is naive. `repeat` is text that
    `read_repeat` made. `before` are positive offsets before `start`, largest first; those of them that are
    `left_out` do not fire. There is a `repeat`, or there are offsets, or neither.
    """

    start: datetime
    repeat: str | None = None
    before: tuple[timedelta, ...] = ()
    left_out: tuple[timedelta, ...] = ()  # of `before`: what was sent before the anchor moved

    def __post_init__(self) -> None:
        """Raises ValueError for what is no schedule."""
        if self.repeat is not None and self.before:
            raise ValueError("a schedule has a rule or offsets, not both; give one of them")
        if len(self.before) > OFFSETS_MAX:
            raise ValueError(f"there are more than {OFFSETS_MAX} offsets; give fewer")
        if list(self.before) != sorted(set(self.before), reverse=True) or min(self.before, default=_DAY) <= _NONE:
            raise ValueError("offsets are positive and different from each other, the largest first")
        if not set(self.left_out) <= set(self.before):
            raise ValueError("only offsets that it has can be left out")

    def to_text(self) -> str:
        """JSON text that `from_text` reads back exactly: times and durations as `moments` writes them."""
        parts: dict[str, str | list[str]] = {"start": write_time(self.start)}
        if self.repeat is not None:
            parts["repeat"] = self.repeat
        if self.before:
            parts["before"] = [write_duration(offset) for offset in self.before]
        if self.left_out:
            parts["left_out"] = [write_duration(offset) for offset in self.left_out]
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Schedule:
        """What `to_text` wrote. Raises ValueError for anything else."""
        return _from_text(text)


@lru_cache(TEXTS_CACHED_MAX)
def _from_text(text: str) -> Schedule:
    parts = json.loads(text)
    try:
        before, left_out = (tuple(map(parse_duration, parts.get(word, ()))) for word in ("before", "left_out"))
        return Schedule(parse_time(parts["start"]), parts.get("repeat"), before, left_out)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is not a schedule's text: {error}") from None
