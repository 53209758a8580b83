"""Rezone: next occurrences are told anew, after the zone data or a recipient's zone has changed.

Page by page, in bounded batches: a page is read without locks, decided, and written by compare-and-set. What somebody
else has changed in between is looked at again: two imports of one recipient would otherwise leave the moment of
whoever read first. What still cannot be written (a restore guard covers it, a tick was faster) is counted as stale; a
tick tells it by the zone as it is then.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from duly.core.rezoning import Retiming, retime
from duly.core.schedule import ONCE
from duly.core.upcoming import Timing
from duly.ports import Store, ZonedBatch, Zones

__all__ = ["MOVED_TOLD_ROWS_MAX", "REZONE_BATCH_ROWS", "Change", "Moved", "Rezoned", "rezone"]

REZONE_BATCH_ROWS: Final = 1_000
MOVED_TOLD_ROWS_MAX: Final = 20
#: Somebody else has to be faster at each of these before we leave it to him.
LOOKS_MAX: Final = 3

ZONE_DATA_CHANGED: Final = "zone_data_changed"
RECIPIENT_MOVED: Final = "recipient_moved"


class Change(NamedTuple):
    """What has changed: the zone data, to this version, or the zones of these recipients (up to 1,000)."""

    version: str
    actor: str
    recipients: Sequence[bytes] | None = None


class Moved(NamedTuple):
    """An occurrence that moved."""

    account: str
    key: str
    label: str
    before: datetime
    after: datetime


class Unknown(Enum):
    """Why a moment cannot be told."""

    ZONE = "zone"


@dataclass(slots=True)
class Rezoned:
    """What a run did. Each row that was looked at is moved, the same, stale, or in a zone that nobody knows here."""

    looked: int = 0
    moved: int = 0
    same: int = 0
    stale: int = 0
    unknown: int = 0
    told: list[Moved] = field(default_factory=list)  # the first that moved


async def rezone(store: Store, zones: Zones, change: Change) -> Rezoned:
    """Tell every next occurrence anew that the change may have moved. Repeatable."""
    report = Rezoned()
    after: bytes | None = bytes(16)
    while after is not None:
        after = await _rezone_page(store, zones, change, after, report)
    return report


async def _rezone_page(store: Store, zones: Zones, change: Change, after: bytes, report: Rezoned) -> bytes | None:
    """Write one page; returns where it ended, None if nothing is there. What was changed meanwhile is read again."""
    batch = await store.zoned(after, REZONE_BATCH_ROWS, change.version, change.recipients)
    if not batch.rows:
        return None
    last, left = batch.rows[-1].reminder, {row.reminder for row in batch.rows}
    report.looked += len(left)
    for _ in range(LOOKS_MAX):
        left -= await _write(store, zones, change, batch, left, report)
        if not left:
            break
        batch = await store.zoned(after, REZONE_BATCH_ROWS, change.version, change.recipients)
    report.stale += len(left)
    return last


async def _write(
    store: Store, zones: Zones, change: Change, batch: ZonedBatch, left: Container[bytes], report: Rezoned
) -> set[bytes]:
    """Write what is to be written of these rows; returns those that are decided."""
    rows = {row.reminder: row for row in batch.rows if row.reminder in left}
    found = {identity: _retime(row, zones, batch.now, change.version) for identity, row in rows.items()}
    wanted = [one for one in found.values() if isinstance(one, Retiming)]
    reason = ZONE_DATA_CHANGED if change.recipients is None else RECIPIENT_MOVED
    written = await store.retime(change.actor, reason, wanted) if wanted else frozenset[bytes]()
    moved = [one for one in wanted if one.reminder in written and one.evidence is not None]
    unknown = [identity for identity, one in found.items() if one is Unknown.ZONE]
    decided = written | {identity for identity, one in found.items() if not isinstance(one, Retiming)}
    report.moved += len(moved)
    report.unknown += len(unknown)
    report.same += len(decided) - len(moved) - len(unknown)
    report.told += [_moved(rows[one.reminder], one) for one in moved][: MOVED_TOLD_ROWS_MAX - len(report.told)]
    return set(decided)


def _retime(row: Timing, zones: Zones, now: datetime, version: str) -> Retiming | Unknown | None:
    try:
        return retime(row, None if row.zone is None else zones(row.zone), now, version)
    except ValueError:
        return Unknown.ZONE


def _moved(row: Timing, one: Retiming) -> Moved:
    return Moved(row.account, row.key, one.label or ONCE, row.due_at, one.due_at)
