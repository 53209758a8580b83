"""Rezoning: the same occurrence at its new instant, after the zone data or a recipient's zone has changed.

A label is a name: 2026-12-01T09:00 stays that occurrence, whoever moves where, and only its instant follows the
zone. An occurrence that a change puts into the past was not sent. It is never skipped for that: it is due now, and
its deadline counts from now. What has become deliveries is not touched, because the label has moved on.

Where the instant is the same under the new data, only their version is written, so that nobody looks again.
"""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from typing import NamedTuple

from duly.core.deadlines import deadline_of
from duly.core.moments import instant, parse_time, to_utc
from duly.core.schedule import ONCE, Schedule, Slot, following, slot
from duly.core.upcoming import Timing, upcoming

__all__ = ["Retiming", "retime"]


class Retiming(NamedTuple):
    """A reminder's next occurrence as it is to be, where it stands as it was seen.

    `evidence` (JSON text: from, to, zone, zone_data) is there where the instant moved, and nowhere else.
    """

    reminder: bytes
    revision: int
    expected_due: datetime
    due_at: datetime
    deadline_at: datetime
    label: str | None
    zone_data: str
    evidence: str | None


def retime(row: Timing, zone: tzinfo | None, now: datetime, version: str) -> Retiming | None:
    """Tell the next occurrence's instant anew. None: all of it is as it was.

    `zone`: in which its local times are read, None where this machine does not know it. `version`: of the zone data.
    Raises ValueError where the moment cannot be told.
    """
    if zone is None:
        raise ValueError(f"this machine does not know its zone {row.zone}")
    label, due_at, deadline_at = _told(row, zone, now)
    if (label, due_at, deadline_at, version) == (row.label, row.due_at, row.deadline_at, row.zone_data):
        return None
    evidence = None if due_at == row.due_at else _evidence(row, due_at, version)
    return Retiming(row.reminder, row.revision, row.due_at, due_at, deadline_at, label, version, evidence)


def _told(row: Timing, zone: tzinfo, now: datetime) -> tuple[str | None, datetime, datetime]:
    """Label, instant and deadline of the next occurrence."""
    if row.schedule is None:
        due_at = _not_skipped(row, to_utc(parse_time(row.notify_at), zone), now)
        return row.label, due_at, deadline_of(due_at, row.deadline, None)
    schedule = Schedule.from_text(row.schedule)
    found = _slot(schedule, zone, row.label or ONCE)
    if found is None:  # the zone's change has ended the schedule: the tick finds nothing there
        return row.label, row.due_at, row.deadline_at
    told = upcoming(schedule, zone, Slot(found.label, _not_skipped(row, found.due_at, now)), row.deadline)
    return told.label, told.due_at, told.deadline_at


def _slot(schedule: Schedule, zone: tzinfo, label: str) -> Slot | None:
    """The slot of that label, or the one behind it where this zone does not have it."""
    return slot(schedule, zone, label) or following(schedule, zone, label)


def _not_skipped(row: Timing, instant: datetime, now: datetime) -> datetime:
    """What is due is due since it was found so, and not since an instant at which nobody could have sent it."""
    return instant if instant > now else min(row.due_at, now)


def _evidence(row: Timing, due_at: datetime, version: str) -> str:
    moments = {"from": instant(row.due_at), "to": instant(due_at)}
    return json.dumps({**moments, "zone": row.zone, "zone_data": version})
