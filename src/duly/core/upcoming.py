"""The next occurrence of a reminder: what its moment is told from, and which one comes after an instant.

A reminder that was changed or resumed goes on with the first slot behind that moment: no change fires at once, and
what was due meanwhile does not come as a flood. What does not repeat keeps its moment: it was asked for once, it
was not sent, and its deadline says whether it is still of use.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import NamedTuple

from duly.core.deadlines import deadline_of
from duly.core.schedule import Schedule, Slot, anchor, first_after, following

__all__ = ["Resumption", "Timing", "Upcoming", "next_after", "resume", "upcoming"]


class Timing(NamedTuple):
    """A reminder's next occurrence, and all that its moment is told from."""

    reminder: bytes
    account: str
    key: str
    revision: int
    due_at: datetime
    deadline_at: datetime
    notify_at: str  # as submitted
    schedule: str | None  # JSON text; None: fires once
    label: str | None  # of the next occurrence; None: once
    zone: str | None  # in which local times are read now
    deadline: str | None  # as submitted; until when a late one is sent, where that is later
    zone_data: str | None  # the version by which the moment was told; None: it is an instant


class Upcoming(NamedTuple):
    """One occurrence, with its own deadline."""

    label: str
    due_at: datetime
    deadline_at: datetime


class Resumption(NamedTuple):
    """How a paused reminder goes on, where it stands as it was seen. `due_at` None: nothing is left of it."""

    reminder: bytes
    revision: int
    due_at: datetime | None
    deadline_at: datetime
    label: str | None
    zone_data: str | None


def upcoming(schedule: Schedule, zone: tzinfo | None, slot: Slot, deadline: str | None) -> Upcoming:
    """A slot as an occurrence, with its own deadline: as submitted, else what comes behind it."""
    behind = None if deadline else _due_behind(schedule, zone, slot.label)
    return Upcoming(slot.label, slot.due_at, deadline_of(slot.due_at, deadline, behind))


def _due_behind(schedule: Schedule, zone: tzinfo | None, label: str) -> datetime | None:
    """When the slot behind that label is due; behind the last one before an anchor comes the anchor itself."""
    behind = following(schedule, zone, label)
    return anchor(schedule, zone) if behind is None else behind.due_at


def next_after(schedule: Schedule, zone: tzinfo | None, moment: datetime, deadline: str | None) -> Upcoming | None:
    """The first occurrence behind an instant; None if there is none."""
    found = first_after(schedule, zone, moment)
    return None if found is None else upcoming(schedule, zone, found, deadline)


def resume(row: Timing, zone: tzinfo | None, now: datetime, version: str) -> Resumption:
    """How a paused reminder goes on: what repeats, behind now.

    `zone`: in which its local times are read, None where this machine does not know it. `version`: of the zone data.
    Raises ValueError, which says why it cannot go on.
    """
    schedule = None if row.schedule is None else Schedule.from_text(row.schedule)
    if schedule is None or schedule.repeat is None:
        return Resumption(row.reminder, row.revision, row.due_at, row.deadline_at, row.label, row.zone_data)
    if zone is None and row.zone is not None:
        raise ValueError(f"this machine does not know its zone {row.zone}; update the zone data (tzdata) first")
    told_by = None if row.zone_data is None else version
    found = next_after(schedule, zone, now, row.deadline)
    if found is None:
        return Resumption(row.reminder, row.revision, None, row.deadline_at, None, told_by)
    return Resumption(row.reminder, row.revision, found.due_at, found.deadline_at, found.label, told_by)
