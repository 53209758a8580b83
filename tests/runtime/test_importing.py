"""Importing: every row is decided, batches overlap, and neither a bad row nor an outage loses one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from duly.core.model import NewReminder, Scheduled
from duly.errors import InputError, StoreError, StoreUnavailable
from duly.intake import Rejection
from duly.ports import Store
from duly.runtime.importing import IMPORT_BATCH_ROWS, Imported, Row, import_rows
from duly.runtime.outage import Outage
from duly.runtime.telemetry import Telemetry
from duly.stores.sqlite import SqliteStore
from duly.testing.clock import SimulatedClock, SimulatedDice
from duly.testing.driving import at_once, drive
from duly.testing.unsteady import UnsteadyStore
from tests.intake.samples import intake, row
from tests.stores.ledgers import create_sqlite, raw


class Rejected:
    """Where rejected rows are set aside, as (line, field, reason, the row's key)."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str | None, str, str | None]] = []

    def write(self, line: int, rejection: Rejection, row: Mapping[str, Any] | None) -> None:
        """See Rejects.write."""
        key = None if row is None else row["idempotency_key"]
        self.rows.append((line, rejection.field, rejection.reason, key))


class Import:
    """An empty ledger, and imports into it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        create_sqlite(self.path)
        self.unsteady = UnsteadyStore(drive(SqliteStore.open(self.path, run=at_once)))
        self.rejected = Rejected()
        self.seen: list[int] = []

    def run(self, rows: Iterator[Row], store: object = None) -> Imported:
        """Import rows; `seen` is what progress was told, batch by batch."""
        outage = Outage(SimulatedClock(), SimulatedDice(), Telemetry("import"))
        port = cast("Store", store or self.unsteady)
        flow = import_rows(port, outage, intake(), rows, self.rejected, lambda now: self.seen.append(now.rows))
        return asyncio.run(flow)

    def keys(self) -> int:
        """How many reminders there are."""
        with raw(self.path) as database:
            return int(database.execute("select count(*) from reminder").fetchone()[0])


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Import]:
    """An empty ledger."""
    opened = Import(tmp_path)
    yield opened
    drive(opened.unsteady.close())


def rows_of(count: int) -> Iterator[Row]:
    """So many good rows, on lines 1 and up."""
    return ((number, row(idempotency_key=f"k-{number}")) for number in range(1, count + 1))


def test_every_row_is_created_and_the_second_time_already_there(ledger: Import) -> None:
    """An import may be run again: it touches nothing, and says so."""
    assert ledger.run(rows_of(3)) == Imported(rows=3, created=3, already=0, rejected=0)
    assert ledger.run(rows_of(3)) == Imported(rows=3, created=0, already=3, rejected=0)
    assert (ledger.keys(), ledger.rejected.rows) == (3, [])


def test_nothing_to_import_is_nothing(ledger: Import) -> None:
    """An empty file is read, and that is all."""
    assert ledger.run(iter(())) == Imported()
    assert (ledger.seen, ledger.unsteady.calls) == ([], [])


def test_bad_rows_are_set_aside_in_the_order_of_the_file(ledger: Import) -> None:
    """What cannot be read, what cannot be taken and what the ledger refuses: each with its line and its reason."""
    ledger.run(iter([(1, row(idempotency_key="taken", template="note"))]))
    rows: list[Row] = [
        (1, row(idempotency_key="taken", template="note", lane="bulk")),
        (2, Rejection("this line is not JSON")),
        (3, row(idempotency_key="good")),
        (4, row(idempotency_key="bad", template="nowhere")),
        (5, row(idempotency_key="nobody", to={"id": "stranger"}, channels=["email"])),
        (6, row(idempotency_key="no-address", to={"id": "recipient-17"}, channels=["sms"])),
    ]
    assert ledger.run(iter(rows)) == Imported(rows=6, created=1, already=0, rejected=5)
    assert [(line, field, key) for line, field, _, key in ledger.rejected.rows] == [
        (1, "idempotency_key", "taken"),
        (2, None, None),
        (4, "template", "bad"),
        (5, "to.id", "nobody"),
        (6, "to.id", "no-address"),
    ]
    reasons = {line: reason for line, _, reason, _ in ledger.rejected.rows}
    assert "submitted before with another body" in reasons[1]
    assert "a higher event_version" in reasons[1]
    assert "nobody goes by this id" in reasons[5]
    assert "no address for a channel" in reasons[6]


def test_a_batch_of_bad_rows_asks_the_ledger_nothing(ledger: Import) -> None:
    """Where no row can be taken, nothing is written."""
    assert ledger.run(iter([(1, Rejection("no")), (2, Rejection("no"))])) == Imported(rows=2, rejected=2)
    assert ledger.unsteady.calls == []


def test_a_long_file_goes_in_batches_and_progress_is_told(ledger: Import) -> None:
    """No batch is longer than the store takes, whatever the file's length."""
    count = 2 * IMPORT_BATCH_ROWS + 7
    assert ledger.run(rows_of(count)) == Imported(rows=count, created=count)
    assert [len(rows) for (rows,) in ledger.unsteady.called("schedule")] == [IMPORT_BATCH_ROWS, IMPORT_BATCH_ROWS, 7]
    assert ledger.seen == [IMPORT_BATCH_ROWS, 2 * IMPORT_BATCH_ROWS, count]


def test_the_next_batch_is_read_while_this_one_is_written(ledger: Import) -> None:
    """The first batch's write does not end before the second batch's first row was read."""
    reading_on = threading.Event()

    def rows() -> Iterator[Row]:
        for line, one in rows_of(IMPORT_BATCH_ROWS + 1):
            if line > IMPORT_BATCH_ROWS:
                reading_on.set()
            yield line, one

    class Waiting:
        """A store that writes only once somebody reads on."""

        async def schedule(self, batch: list[NewReminder]) -> list[Scheduled]:
            assert await asyncio.to_thread(reading_on.wait, 5.0), "nobody reads on"
            answers: list[Scheduled] = await ledger.unsteady.schedule(batch)
            return answers

    assert ledger.run(rows(), Waiting()).created == IMPORT_BATCH_ROWS + 1


def test_an_outage_in_the_middle_is_waited_for(ledger: Import) -> None:
    """Nothing is lost or rejected; a batch whose reply was lost is found already there."""
    count = IMPORT_BATCH_ROWS + 5
    ledger.unsteady.refuse("schedule", StoreUnavailable("away"), StoreUnavailable("away"))
    ledger.unsteady.lose("schedule")
    with capture_logs() as lines:
        report = ledger.run(rows_of(count))
    assert report == Imported(rows=count, created=5, already=IMPORT_BATCH_ROWS)
    assert ledger.keys() == count
    assert [line["event"] for line in lines] == ["database_away", "database_back"]


def test_a_file_that_breaks_off_loses_no_batch_that_was_read(ledger: Import) -> None:
    """The batch that was read before the break is written and told, and the break is an error."""

    def rows() -> Iterator[Row]:
        yield from rows_of(IMPORT_BATCH_ROWS - 1)
        yield IMPORT_BATCH_ROWS, Rejection("this line is not JSON")
        raise InputError("rows.jsonl cannot be read: input/output error")

    with pytest.raises(InputError, match="cannot be read"):
        ledger.run(rows())
    assert ledger.keys() == IMPORT_BATCH_ROWS - 1
    assert [line for line, *_ in ledger.rejected.rows] == [IMPORT_BATCH_ROWS]
    assert ledger.seen == [IMPORT_BATCH_ROWS]


def test_a_ledger_that_refuses_ends_the_import(ledger: Import) -> None:
    """A database that answers no is not asked for ever."""
    ledger.unsteady.refuse("schedule", StoreError("permission denied"))
    with pytest.raises(StoreError, match="permission denied"):
        ledger.run(rows_of(2))
    assert ledger.keys() == 0


# --- zones of recipients ------------------------------------------------------------------------


def by_id(line: int, ref: str, **more: Any) -> Row:
    """A row that names its recipient by his id alone, and reads its time where he lives."""
    local = {"notify_at": "2026-12-24T09:00", "zone": "recipient", "channels": ["email"], "account": "acme"}
    return (line, row(**{"idempotency_key": f"by-id-{line}", "to": {"id": ref}, **local, **more}))


def introduces(line: int, ref: str, zone: str | None) -> Row:
    """A row that brings its recipient with his address."""
    to = {"id": ref, "name": "Ana", "email": f"{ref}@example.com", "zone": zone}
    return (line, row(idempotency_key=f"k-{line}", account="acme", to=to))


def moments(ledger: Import) -> dict[str, str]:
    """When those that name an id alone are due, in UTC."""
    with raw(ledger.path) as database:
        found = database.execute(
            "select caller_key, strftime('%H:%M', next_due_at / 1000000, 'unixepoch') from reminder where not inline"
        )
        return dict(found.fetchall())


def test_an_id_alone_is_read_where_its_recipient_lives(ledger: Import) -> None:
    """The ledger knows him, or an earlier row of the file does; one read asks for all of a batch."""
    ledger.run(iter([introduces(1, "ana", "Europe/Berlin"), introduces(2, "eve", None)]))
    ledger.unsteady.calls.clear()
    rows = [by_id(3, "ana"), by_id(4, "bob"), introduces(5, "bob", "Asia/Tokyo"), by_id(6, "bob"), by_id(7, "eve")]
    assert ledger.run(iter(rows)) == Imported(rows=5, created=3, rejected=2)
    assert [(line, field) for line, field, _, _ in ledger.rejected.rows] == [(4, "zone"), (7, "zone")]
    assert moments(ledger) == {"by-id-3": "08:00", "by-id-6": "00:00"}
    ((account, refs),) = ledger.unsteady.called("recipient_zones")[:1]
    assert (account, sorted(refs)) == ("acme", ["ana", "bob", "eve"])


def test_who_was_introduced_by_the_batch_before_is_known(ledger: Import) -> None:
    """His row may not be written yet when the next batch is checked."""
    filler = (introduces(line, "ana", "Europe/Berlin") for line in range(1, IMPORT_BATCH_ROWS + 1))
    rows = [*filler, by_id(IMPORT_BATCH_ROWS + 1, "ana")]

    class Slow:
        """A store that writes the first batch only once the zones of the second were read."""

        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def schedule(self, batch: list[NewReminder]) -> list[Scheduled]:
            await asyncio.wait_for(self.asked.wait(), 60.0)
            answers: list[Scheduled] = await ledger.unsteady.schedule(batch)
            return answers

        async def recipient_zones(self, account: str, refs: list[str]) -> dict[str, str | None]:
            found: dict[str, str | None] = await ledger.unsteady.recipient_zones(account, refs)
            self.asked.set()
            return found

    assert ledger.run(iter(rows), Slow()).rejected == 0
    assert moments(ledger) == {f"by-id-{IMPORT_BATCH_ROWS + 1}": "08:00"}


def test_what_says_its_zone_asks_for_none(ledger: Import) -> None:
    """No read is spent on rows that say a zone, or whose account has one."""
    ledger.run(iter([introduces(1, "ana", "Europe/Berlin")]))
    ledger.unsteady.calls.clear()
    said = by_id(2, "ana", zone="Asia/Tokyo")
    configured = (3, row(idempotency_key="k-3", notify_at="2026-12-24T09:00"))
    assert ledger.run(iter([said, configured])).created == 2
    assert ledger.unsteady.called("recipient_zones") == []


def test_an_outage_while_zones_are_read_is_waited_for(ledger: Import) -> None:
    """The rows are refused by nobody but their own reasons."""
    ledger.run(iter([introduces(1, "ana", "Europe/Berlin")]))
    ledger.unsteady.refuse("recipient_zones", StoreUnavailable("away"))
    with capture_logs():
        assert ledger.run(iter([by_id(2, "ana")])).created == 1


# --- versions ------------------------------------------------------------------------------------


def version(number: int | None, key: str = "k", **more: Any) -> Row:
    """A row of that version."""
    return (1, row(idempotency_key=key, event_version=number, **more))


def test_a_newer_version_takes_the_place_of_the_one_on_record(tmp_path: Path) -> None:
    """Another body under a higher event_version revises its reminder; the same again is already there."""
    imported = Import(tmp_path)
    assert imported.run(iter([version(1)])).created == 1
    newer = version(2, notify_at="2026-12-24T09:00:00Z")
    assert imported.run(iter([newer])) == Imported(rows=1, revised=1)
    assert imported.run(iter([newer])) == Imported(rows=1, already=1)
    with raw(imported.path) as database:
        assert database.execute("select notify_at, event_version, revision from reminder").fetchall() == [
            ("2026-12-24T09:00:00Z", 2, 2)
        ]


def test_versions_never_go_back(tmp_path: Path) -> None:
    """Another body under a version that is not higher is set aside with that reason, and so is one under none."""
    imported = Import(tmp_path)
    imported.run(iter([version(5)]))
    other = {"notify_at": "2026-12-24T09:00:00Z"}
    done = imported.run(iter([version(5, **other), version(4, **other), version(None, **other)]))
    assert done == Imported(rows=3, rejected=3)
    assert [field for _, field, _, _ in imported.rejected.rows] == ["event_version", "event_version", "idempotency_key"]


def test_a_version_whose_answer_was_lost_is_in_force_once(tmp_path: Path) -> None:
    """The database has revised the reminder and its answer is lost: asked again, that is no version gone back."""
    imported = Import(tmp_path)
    imported.run(iter([version(1)]))
    imported.unsteady.lose("revise")
    assert imported.run(iter([version(2, notify_at="2026-12-24T09:00:00Z")])) == Imported(rows=1, revised=1)


def test_what_was_cancelled_is_not_brought_back(tmp_path: Path) -> None:
    """A version that comes after its reminder's cancel is set aside with that reason."""
    imported = Import(tmp_path)
    imported.run(iter([version(1)]))
    with raw(imported.path) as database:
        database.execute("update reminder set status = 'cancelled', next_due_at = null")
    done = imported.run(iter([version(2, notify_at="2026-12-24T09:00:00Z")]))
    assert done == Imported(rows=1, rejected=1)
    assert "cancelled" in imported.rejected.rows[0][2]
