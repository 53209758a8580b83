"""Import: a stream of rows becomes reminders, batch by batch, in constant memory.

While the database writes one batch, a thread reads and checks the next. Every row is decided: created,
already there, or rejected with a reason and set aside in a file; a bad row never stops the rest. An
import may be stopped and run again at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from duly.core.model import NewReminder, Scheduled
from duly.core.revising import Revised
from duly.flows.revise import Wish, revise_reminder
from duly.intake import Intake, Rejection, zones
from duly.ports import Store
from duly.runtime.outage import Outage

__all__ = ["IMPORT_BATCH_ROWS", "Imported", "Rejects", "import_rows"]

IMPORT_BATCH_ROWS: Final = 1_000

NOT_NEWER: Final = ("event_version", "it is not newer than the version on record; versions never go back")
_WHY: Final[Mapping[Scheduled | Revised, tuple[str, str]]] = {
    Scheduled.CONFLICT: (
        "idempotency_key",
        "this key was submitted before with another body; use a new key, or the same body",
    ),
    Scheduled.OLDER: NOT_NEWER,
    Scheduled.NO_RECIPIENT: ("to.id", "nobody goes by this id in this account; give an address"),
    Scheduled.NO_ADDRESS: ("to.id", "this recipient has no address for a channel of this reminder; give one"),
    Revised.NOT_NEWER: NOT_NEWER,
    Revised.ALREADY_SENT: ("event_version", "the version before it was sent already; nothing was changed"),
    Revised.ALREADY_SENDING: (
        "event_version",
        "the version before it is being sent, or may have been; nothing was changed",
    ),
    Revised.CANCELLED: ("event_version", "this reminder was cancelled; use a new key"),
    Revised.UNDER_GUARD: (
        "event_version",
        "the version before it may have been sent before a backup was restored; nothing was changed",
    ),
}
#: Who revises a reminder, and why, where an import brings a newer version of it.
ACTOR: Final = "import"
NEWER_VERSION: Final = "newer_version"

#: What became of a row that was checked.
Answer = Scheduled | Revised
#: A row as it was read: its line number, and the object or why it could not be read.
Row = tuple[int, Mapping[str, Any] | Rejection]


class Rejects(Protocol):
    """Where rejected rows are set aside."""

    def write(self, line: int, rejection: Rejection, row: Mapping[str, Any] | None) -> None:
        """Keep one rejected row with its reason."""
        ...


@dataclass(slots=True)
class Imported:
    """What an import did, in the words of `duly import --json`."""

    rows: int = 0
    created: int = 0
    already: int = 0
    rejected: int = 0
    revised: int = 0


@dataclass(slots=True)
class _Batch:
    """Rows that were checked: what to schedule, with where it came from."""

    read: int
    accepted: list[NewReminder]
    origins: list[tuple[int, Mapping[str, Any]]]
    rejections: list[tuple[int, Rejection, Mapping[str, Any] | None]]


async def import_rows(
    store: Store,
    outage: Outage,
    intake: Intake,
    rows: Iterator[Row],
    rejects: Rejects,
    progress: Callable[[Imported], None],
    now: datetime | None = None,
) -> Imported:
    """Schedule every row that can be; returns the counts. `progress` is called once per batch.

    What repeats begins `now`: what was due before is nobody's. None: it begins where it says.
    """
    report = Imported()
    batch = await asyncio.to_thread(_check, intake, rows, now)
    while batch.read:
        writing = asyncio.ensure_future(_write(store, outage, batch))
        try:
            following = await asyncio.to_thread(_check, intake, rows, now)
        finally:  # also where the rest cannot be read: what was read is written and told
            _record(report, batch, await writing, rejects)
            progress(report)
        batch = following
    return report


def _check(intake: Intake, rows: Iterator[Row], now: datetime | None) -> _Batch:
    """Read and check the next rows."""
    batch = _Batch(0, [], [], [])
    for line, row in rows:
        batch.read += 1
        if isinstance(row, Rejection):
            batch.rejections.append((line, row, None))
        else:
            _accept(batch, intake, line, row, now)
        if batch.read >= IMPORT_BATCH_ROWS:
            break
    return batch


def _accept(batch: _Batch, intake: Intake, line: int, row: Mapping[str, Any], now: datetime | None) -> None:
    try:
        reminder = intake.accept(row, now)
    except Rejection as rejection:
        batch.rejections.append((line, rejection, row))
    else:
        batch.accepted.append(reminder)
        batch.origins.append((line, row))


async def _write(store: Store, outage: Outage, batch: _Batch) -> list[Answer]:
    if not batch.accepted:
        return []
    scheduled = await outage.until_done(lambda: store.schedule(batch.accepted))
    return [
        await _revise(store, outage, new) if answer is Scheduled.NEWER else answer
        for answer, new in zip(scheduled, batch.accepted, strict=True)
    ]


async def _revise(store: Store, outage: Outage, new: NewReminder) -> Revised:
    """A lost answer is asked for again: then the version on record may be this very one."""
    wish = Wish(new, ACTOR, NEWER_VERSION, newer_only=True)
    revised = await outage.until_done(lambda: revise_reminder(store, zones.known, wish))
    if revised is not Revised.NOT_NEWER:
        return revised
    (answer,) = await outage.until_done(lambda: store.schedule([new]))
    return Revised.MOVED if answer is Scheduled.ALREADY else revised


def _record(report: Imported, batch: _Batch, answers: list[Answer], rejects: Rejects) -> None:
    """Count the answers and set rejected rows aside."""
    report.rows += batch.read
    for answer, (line, row) in zip(answers, batch.origins, strict=True):
        if answer is Scheduled.CREATED:
            report.created += 1
        elif answer is Scheduled.ALREADY:
            report.already += 1
        elif answer is Revised.MOVED:
            report.revised += 1
        else:
            field, reason = _WHY[answer]
            batch.rejections.append((line, Rejection(reason, field), row))
    report.rejected += len(batch.rejections)
    for line, rejection, origin in sorted(batch.rejections, key=lambda item: item[0]):
        rejects.write(line, rejection, origin)
