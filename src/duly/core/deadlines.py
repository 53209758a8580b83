"""Until when an occurrence is of use."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from duly.core.moments import parse_duration, parse_time

__all__ = ["DEADLINE_DEFAULT", "deadline_of"]

DEADLINE_DEFAULT: Final = timedelta(hours=24)


def deadline_of(due_at: datetime, deadline: str | None, next_due_at: datetime | None) -> datetime:
    """The deadline of an occurrence that is due then: as submitted, else the next occurrence, else a day later.

    `deadline` is a duration after the due time, or an instant. Raises ValueError for anything else.
    """
    if deadline is None:
        return due_at + DEADLINE_DEFAULT if next_due_at is None else next_due_at
    if not deadline[0].isdigit():
        return due_at + parse_duration(deadline)
    moment = parse_time(deadline)
    if moment.tzinfo is None:
        raise ValueError("is a local time; add an offset to it, or write a duration like PT8H")
    return moment
