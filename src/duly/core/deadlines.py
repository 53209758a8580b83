"""Until when an occurrence is of use: it belongs to each one, and counts from its due time."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from duly.core.moments import parse_duration, parse_time

__all__ = ["DEADLINE_DEFAULT", "deadline_of"]

DEADLINE_DEFAULT: Final = timedelta(hours=24)
TEXTS_CACHED_MAX: Final = 4_096


def deadline_of(due_at: datetime, deadline_text: str | None, next_due_at: datetime | None) -> datetime:
    """The deadline of an occurrence, in UTC.

    `deadline_text` is a duration after the due time, or an instant. Without one it is the time when what comes behind
    is due (`next_due_at`: the next occurrence, or the anchor), else 24 hours; what comes at the same instant is not
    behind. Raises ValueError for a text that is neither.
    """
    if deadline_text is None:
        return next_due_at if next_due_at and next_due_at > due_at else due_at + DEADLINE_DEFAULT
    read = _read(deadline_text)
    return due_at + read if isinstance(read, timedelta) else read


@lru_cache(TEXTS_CACHED_MAX)
def _read(text: str) -> timedelta | datetime:
    """Many reminders share their text."""
    if not text[:1].isdigit():
        return parse_duration(text)
    moment = parse_time(text)
    if moment.tzinfo is None:
        raise ValueError("it is a local time; add an offset to it, or write a duration like PT8H")
    return moment
