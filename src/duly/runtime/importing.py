"""Import: a stream of rows becomes reminders, batch by batch, in constant memory.

While the database writes one batch, a thread reads and checks the next. Whose zone a row needs and does not
say is looked up, in one read for each account of a batch. Every row is decided: created, already there, or
rejected with a reason and set aside in a file; a bad row never stops the rest. An import may be stopped and
run again at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from duly.core.model import NewReminder, Scheduled
from duly.core.revising import Revised
from duly.flows.revise import Wish, revise_reminder
from duly.intake import Intake, Rejection, zones
from duly.ports import Store
from duly.runtime.outage import Outage
from duly.runtime.recipient_zones import KnownZones

__all__ = ["IMPORT_BATCH_ROWS", "LEFT_OUT_TOLD_ROWS_MAX", "Imported", "LeftOut", "Misspelt", "Rejects", "import_rows"]

IMPORT_BATCH_ROWS: Final = 1_000
LEFT_OUT_TOLD_ROWS_MAX: Final = 20
MISSPELT_ROWS_MAX: Final = 3

NOT_NEWER: Final = ("event_version", "it is not newer than the version on record; versions never go back")
_WHY: Final[Mapping[Scheduled | Revised, tuple[str, str]]] = {
    Scheduled.CONFLICT: (
        "idempotency_key",
        "this key was submitted before with another body; use a new key, the same body, or a higher event_version",
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
    Revised.CHANGED: NOT_NEWER,
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


class Misspelt(NamedTuple):
    """A row that was taken, its purpose, and the known one that may be meant."""

    line: int
    purpose: str
    near: str


class LeftOut(NamedTuple):
    """A row that revised its reminder, and the offsets of it that were sent before and so do not come again."""

    line: int
    idempotency_key: str
    labels: tuple[str, ...]


class _Done(NamedTuple):
    """What became of one row; `left_out` as in `Plan`."""

    answer: Answer
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class Imported:
    """What an import did, in the words of `duly import --json`."""

    rows: int = 0
    created: int = 0
    already: int = 0
    rejected: int = 0
    revised: int = 0
    left_out: int = 0  # of these, rows with an offset that was sent before
    left_out_rows: list[LeftOut] = field(default_factory=list)  # the first of them
    likely_misspelt: int = 0  # rows that were taken, and whose purpose is near a known one
    first_misspelt: list[Misspelt] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    """Rows that were checked: what to schedule, with where it came from."""

    read: int
    accepted: list[NewReminder]
    origins: list[tuple[int, Mapping[str, Any]]]
    rejections: list[tuple[int, Rejection, Mapping[str, Any] | None]]
    misspelt: list[Misspelt] = field(default_factory=list)


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
    reader = _Reader(store, outage, intake, rows, now)
    batch = await reader.next_batch()
    while batch.read:
        writing = asyncio.ensure_future(_write(store, outage, batch))
        try:
            following = await reader.next_batch()
        finally:  # also where the rest cannot be read: what was read is written and told
            _record(report, batch, await writing, rejects)
            progress(report)
        batch = following
    return report


class _Reader:
    """Reads and checks rows, batch by batch."""

    def __init__(self, store: Store, outage: Outage, intake: Intake, rows: Iterator[Row], now: datetime | None) -> None:
        self._store, self._outage = store, outage
        self._intake, self._rows, self._now = intake, rows, now
        self._zones = KnownZones()

    async def next_batch(self) -> _Batch:
        """The next rows, checked."""
        read = await asyncio.to_thread(lambda: list(islice(self._rows, IMPORT_BATCH_ROWS)))
        await self._look_up(row for _, row in read if not isinstance(row, Rejection))
        return await asyncio.to_thread(self._check, read)

    async def _look_up(self, rows: Iterable[Mapping[str, Any]]) -> None:
        asked = frozenset(filter(None, map(self._intake.asks_zone, rows)))
        await self._outage.until_done(lambda: self._zones.look_up(self._store, asked))

    def _check(self, read: Sequence[Row]) -> _Batch:
        batch = _Batch(len(read), [], [], [])
        for line, row in read:
            if isinstance(row, Rejection):
                batch.rejections.append((line, row, None))
            else:
                self._accept(batch, line, row)
        return batch

    def _accept(self, batch: _Batch, line: int, row: Mapping[str, Any]) -> None:
        try:
            reminder = self._intake.accept(row, self._now, self._zones)
        except Rejection as rejection:
            batch.rejections.append((line, rejection, row))
        else:
            self._zones.introduce(reminder)
            batch.accepted.append(reminder)
            batch.origins.append((line, row))
            if near := self._intake.near_purpose(reminder):
                batch.misspelt.append(Misspelt(line, reminder.purpose, near))


async def _write(store: Store, outage: Outage, batch: _Batch) -> list[_Done]:
    if not batch.accepted:
        return []
    scheduled = await outage.until_done(lambda: store.schedule(batch.accepted))
    return [
        await _revise(store, outage, new) if answer is Scheduled.NEWER else _Done(answer)
        for answer, new in zip(scheduled, batch.accepted, strict=True)
    ]


async def _revise(store: Store, outage: Outage, new: NewReminder) -> _Done:
    """A lost answer is asked for again: then the version on record may be this very one."""
    wish = Wish(new, ACTOR, NEWER_VERSION, newer_only=True)
    plan = await outage.until_done(lambda: revise_reminder(store, zones.known, wish))
    if plan.answer is not Revised.NOT_NEWER:
        return _Done(plan.answer, plan.left_out)
    (answer,) = await outage.until_done(lambda: store.schedule([new]))
    return _Done(Revised.MOVED if answer is Scheduled.ALREADY else plan.answer)


def _record(report: Imported, batch: _Batch, done: list[_Done], rejects: Rejects) -> None:
    """Count the answers, and set rejected rows aside."""
    report.rows += batch.read
    report.likely_misspelt += len(batch.misspelt)
    report.first_misspelt = [*report.first_misspelt, *batch.misspelt][:MISSPELT_ROWS_MAX]
    for (answer, left_out), new, (line, row) in zip(done, batch.accepted, batch.origins, strict=True):
        if answer is Scheduled.CREATED:
            report.created += 1
        elif answer is Scheduled.ALREADY:
            report.already += 1
        elif answer is Revised.MOVED:
            report.revised += 1
            if left_out:
                _leave_out(report, LeftOut(line, new.key, left_out))
        else:
            field, reason = _WHY[answer]
            batch.rejections.append((line, Rejection(reason, field), row))
    report.rejected += len(batch.rejections)
    for line, rejection, origin in sorted(batch.rejections, key=lambda item: item[0]):
        rejects.write(line, rejection, origin)


def _leave_out(report: Imported, row: LeftOut) -> None:
    """Count a row that does not do all that it says."""
    report.left_out += 1
    if len(report.left_out_rows) < LEFT_OUT_TOLD_ROWS_MAX:
        report.left_out_rows.append(row)
