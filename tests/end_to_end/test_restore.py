"""A restored backup: nothing that was sent after it is accepted twice, and nothing leaves before an operator says so.

One story per database, with a real backup of each: `pg_dump` and `psql` into a new database, and SQLite's backup
into a new file. After the backup an hour's events happen: deliveries are sent, reminders come in, one is cancelled
and one contact opts out. Then the database is lost. Three receivers make different promises: one drops repeats, one
can be looked up, and one does neither.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import (
    ACCOUNT,
    DIALECTS,
    Installation,
    Run,
    Shown,
    reminder,
    settle_in,
    tell_on_both,
    wait_until,
)
from tests.end_to_end.recovering import opt_out

KINDS: Final = ("keyed", "lookable", "bare")
#: What a reminder's key begins with, by what became of it.
SENT_BEFORE: Final = "before"  # sent before the backup
SENT_SINCE: Final = ("open", "new")  # ready in the backup, and not there yet; sent since
MOVED: Final = "moved"  # never sent; moved to a moment between the loss and the closing
LATER: Final = "later"  # never sent; moved to a moment after the closing
HOUR: Final = 3600.0
LATE: Final = -60.0  # due before the last sign of life of the backup, and submitted after it
WHY: Final = "the disk failed; backup of 03:00"
ENDPOINTS: Final = """
[endpoints.lookable]
url = "{lookable}"
deduplicates = false
lookup_url = "{lookup}"
settling_seconds = 0.5

[endpoints.bare]
url = "{bare}"
deduplicates = false
"""


@dataclass
class Receivers:
    """The receiving side: it remembers what the restored ledger does not."""

    keyed: Receiver
    lookable: Receiver
    bare: Receiver

    def url(self, kind: str) -> str:
        """Where a reminder of that kind is sent."""
        receiver: Receiver = getattr(self, kind)
        return receiver.url("ok", kind)

    @property
    def requests(self) -> int:
        """How many messages came, repeats too."""
        return self.keyed.requests + self.lookable.requests + self.bare.requests


@dataclass
class Story:
    """What was seen on the way; the ledger and the receivers as they are in the end."""

    requests_before: int
    requests_under_guard: int = -1
    opened: dict[str, Any] = field(default_factory=dict)
    guard_events: list[dict[str, Any]] = field(default_factory=list)
    plan: dict[str, Any] = field(default_factory=dict)
    doctor: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, Run] = field(default_factory=dict)
    under_guard: dict[str, Shown] = field(default_factory=dict)
    healthy: dict[str, Any] = field(default_factory=dict)
    ledger: dict[str, Shown] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[tuple[Story, Receivers]]]:
    """The story on each database."""
    return tell_on_both(_restored, tmp_path_factory.mktemp("restored"))


@pytest.fixture(params=DIALECTS)
def told(
    request: pytest.FixtureRequest, stories: dict[str, Future[tuple[Story, Receivers]]]
) -> tuple[Story, Receivers]:
    """The story on each database in turn, and who received."""
    return stories[request.param].result()


@pytest.fixture
def story(told: tuple[Story, Receivers]) -> Story:
    """The story alone."""
    return told[0]


@pytest.fixture
def receivers(told: tuple[Story, Receivers]) -> Receivers:
    """The receivers alone."""
    return told[1]


# --- the story -----------------------------------------------------------------------------------


def _restored(dialect: str, folder: Path) -> tuple[Story, Receivers]:
    with ExitStack() as stack:
        receivers = Receivers(
            stack.enter_context(beside(Receiver())),
            stack.enter_context(beside(Receiver(deduplicates=False, lookup=True))),
            stack.enter_context(beside(Receiver(deduplicates=False))),
        )
        duly = stack.enter_context(settle_in(dialect, folder))
        _configure(duly, receivers)
        rows = _rows(receivers)
        backup = _live_until_the_backup(duly, rows, folder)
        ids = _live_on(duly, rows, receivers)
        restored = stack.enter_context(backup(duly))
        return _come_back(restored, dialect, rows, ids, receivers), receivers


def _configure(duly: Installation, receivers: Receivers) -> None:
    duly.text += ENDPOINTS.format(
        lookable=receivers.url("lookable"), lookup=receivers.lookable.lookup_url(), bare=receivers.url("bare")
    )
    duly.file.write_text(duly.text, encoding="utf-8")


def _rows(receivers: Receivers) -> dict[str, dict[str, Any]]:
    """Reminders by their keys. What is not due yet is due in an hour."""
    due = {SENT_BEFORE: -1.0, "open": -1.0, MOVED: HOUR, LATER: HOUR}
    rows = {
        f"{what}-{kind}": reminder(f"{what}-{kind}", webhook=receivers.url(kind), due_in=due_in)
        for what, due_in in due.items()
        for kind in KINDS
    }
    url = receivers.keyed.url("ok", "opted-out")
    called_off = reminder("cancelled", webhook=receivers.url("keyed"), due_in=HOUR)
    return {**rows, "cancelled": called_off, "opted-out": reminder("opted-out", webhook=url, due_in=HOUR)}


def _take(duly: Installation, rows: Mapping[str, Any], *whats: str) -> None:
    told = duly.take(row for key, row in rows.items() if key.startswith(whats))
    assert told["rejected"] == 0


def _live_until_the_backup(duly: Installation, rows: Mapping[str, Any], folder: Path) -> Callable[[Installation], Any]:
    """Some are sent, some are ready, some are not due yet."""
    _take(duly, rows, SENT_BEFORE)
    duly.run("up", "--until-idle", "--patience", "0")
    _take(duly, rows, "open", MOVED, LATER, "cancelled", "opted-out")
    duly.run("tick")
    return _back_up(duly, folder)


def _live_on(duly: Installation, rows: dict[str, Any], receivers: Receivers) -> dict[str, str]:
    """What the backup does not know; returns the ids of all deliveries so far."""
    rows |= {f"new-{kind}": reminder(f"new-{kind}", webhook=receivers.url(kind), due_in=LATE) for kind in KINDS}
    _take(duly, rows, "new")
    duly.run("up", "--until-idle", "--patience", "0")
    _call_off(duly, rows)
    ledger = duly.ledger()
    assert {one["status"] for one in ledger.values()} == {"sent"}
    return {key: one["id"] for key, one in ledger.items()}


def _call_off(duly: Installation, rows: Mapping[str, Any]) -> None:
    """A cancel and an opt-out."""
    duly.told("cancel", "cancelled", "--account", ACCOUNT)
    opt_out(duly, rows["opted-out"]["to"]["webhook"])


def _move(duly: Installation, *names: str) -> None:
    """Reschedule these to now."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    for name in names:
        duly.run("reschedule", name, "--account", ACCOUNT, "--at", now, "--deadline", "P1D", "--why", "moved")


def _come_back(
    duly: Installation, dialect: str, rows: Mapping[str, Any], ids: dict[str, str], receivers: Receivers
) -> Story:
    """Open the guard, find out, submit again, close it, and go on."""
    story = Story(receivers.requests, ids=ids)
    if dialect == "sqlite":
        story.refused["ahead"] = duly.run("restore", "open", "--why", WHY, "--since", _ahead(), code=1)
        story.opened = duly.told("restore", "open", "--why", WHY)
    with duly.running("up") as up:
        wait_until(lambda: "restore_guard_open" in up.said, "the guard")
        _require(duly, "open")
        _take(duly, rows, "new")
        _call_off(duly, rows)
        _move(duly, *(f"{MOVED}-{kind}" for kind in KINDS))
        _require(duly, "new", MOVED)
        story.plan, story.doctor = duly.told("restore", "plan"), duly.told("doctor", code=1)
        story.refused["close"] = duly.run("restore", "close", "--why", WHY, code=1)
        story.under_guard, story.requests_under_guard = duly.ledger(), receivers.requests
        story.guard_events = up.end(signal.SIGTERM).events("restore_guard_open")
    duly.told("restore", "close", "--why", WHY, "--submitted-again")
    story.refused["again"] = duly.run("restore", "close", "--why", WHY, "--submitted-again", code=1)
    _move(duly, *(f"{LATER}-{kind}" for kind in KINDS), "opted-out")
    duly.run("up", "--until-idle")
    story.healthy, story.ledger = duly.told("doctor"), duly.ledger()
    return story


def _ahead() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def _require(duly: Installation, *whats: str) -> None:
    """Wait until nothing more can be found out about these while nothing may be sent."""
    wanted = {f"{what}-{kind}": status for what in whats for kind, status in zip(KINDS, STANDS[what], strict=True)}

    def stands() -> bool:
        return {key: one["status"] for key, one in duly.ledger().items() if key in wanted} == wanted

    wait_until(stands, f"{wanted}")


#: Where a delivery of each kind stands while the guard is open, once everything was asked that can be asked.
STANDS: Final = {
    "open": ("ready", "sent", "held"),
    "new": ("ready", "sent", "held"),
    MOVED: ("ready", "ready", "held"),
}


# --- backups -------------------------------------------------------------------------------------


def _back_up(duly: Installation, folder: Path) -> Callable[[Installation], Any]:
    """Back the database up; gives what restores it, as a context."""
    if duly.database.startswith("sqlite"):
        return _back_up_sqlite(folder)
    return _back_up_postgres(duly.database, folder)


def _back_up_sqlite(folder: Path) -> Callable[[Installation], Any]:
    """SQLite's own online backup (https://www.sqlite.org/backup.html)."""
    live, kept = folder / "duly.db", folder / "backup.db"
    with closing(sqlite3.connect(live)) as source, closing(sqlite3.connect(kept)) as target:
        source.backup(target)

    @contextmanager
    def restore(duly: Installation) -> Iterator[Installation]:
        for name in ("duly.db", "duly.db-wal", "duly.db-shm"):
            (folder / name).unlink(missing_ok=True)
        shutil.copyfile(kept, live)
        yield duly

    return restore


def _back_up_postgres(url: str, folder: Path) -> Callable[[Installation], Any]:
    """pg_dump, and psql into a database that is new (https://www.postgresql.org/docs/current/backup-dump.html)."""
    from tests.stores.postgres_server import find_binaries, fresh_database  # noqa: PLC0415 - needs the driver

    dump, programs = folder / "backup.sql", find_binaries()
    if programs is None or not (programs / "pg_dump").exists() or "search_path" in url:
        pytest.skip("a restore is not tested: there is no pg_dump, or the server gives no databases")
    _run([programs / "pg_dump", "--no-owner", f"--file={dump}", url])

    @contextmanager
    def restore(duly: Installation) -> Iterator[Installation]:
        with fresh_database() as new:
            _run([programs / "psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}", new])
            duly.text = duly.text.replace(duly.database, new)
            duly.database = new
            duly.file.write_text(duly.text, encoding="utf-8")
            yield duly

    return restore


def _run(command: list[Any]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=180)
    assert done.returncode == 0, done.stderr


# --- while the guard is open ---------------------------------------------------------------------


def test_nothing_leaves_while_the_guard_is_open(story: Story) -> None:
    """A worker that runs before the closing looks and decides, and sends nothing at all."""
    assert story.requests_under_guard == story.requests_before
    assert {key: one["status"] for key, one in story.under_guard.items() if one["attempts"]} == {
        f"before-{kind}": "sent" for kind in KINDS
    }


def test_the_guard_is_told(story: Story) -> None:
    """The worker's log, the plan and the doctor say that it is open; the doctor says what to do."""
    (event,) = story.guard_events
    assert (event["level"], bool(event["why"])) == ("error", True)
    assert story.plan["open"]["closed_at"] is None
    found = {check["check"]: check for check in story.doctor["checks"] if check["found"]}
    assert list(found) == ["work: guard open"]
    assert "duly restore close" in found["work: guard open"]["advice"]


def test_the_plan_tells_what_each_receiver_lets_us_find_out(story: Story) -> None:
    """Counts by provider and state, and the way from there: repeated, asked, or left to the policy."""
    assert {line["provider"] for line in story.plan["covered"]} == {"hooks"}
    covered = {line["state"]: line["count"] for line in story.plan["covered"]}
    assert covered["held"] == len([what for what in STANDS if STANDS[what][2] == "held"])
    then = {(one["provider"], one["endpoint"]): " ".join(one["then"]) for one in story.plan["providers"]}
    assert "repeated under the same key" in then["hooks", None]
    assert "asked for our key" in then["hooks", "lookable"]
    for receiver in [("hooks", "bare"), ("mail", None)]:
        assert then[receiver] == "else held, until an operator decides"
    counts = {(one["endpoint"], one["outcome"]): one["count"] for one in story.plan["outcomes"]}
    assert sum(counts.values()) == sum(covered.values())
    assert counts["bare", "held by policy"] == covered["held"]
    assert counts[None, "repeated under the same key"] >= len(SENT_SINCE)


def test_who_can_be_looked_up_is_asked_at_once(story: Story) -> None:
    """What was sent since the backup is found, with the receiver's own name for it, and needs no request."""
    for key in ("open-lookable", "new-lookable"):
        one = story.under_guard[key]
        assert (one["status"], one["reason"], one["attempts"]) == ("sent", "found_by_look_up", [])
        assert one["request_id"].startswith("accepted-")
    assert story.under_guard["moved-lookable"]["status"] == "ready"


def test_who_promises_nothing_is_not_sent_again(story: Story) -> None:
    """Where nobody can be asked, an operator decides: it is held."""
    for what in ("open", "new", "moved"):
        one = story.under_guard[f"{what}-bare"]
        assert (one["status"], one["reason"]) == ("held", "no_way_to_ask")


REFUSED: Final = {
    "close": "--submitted-again",
    "again": "no restore guard is open",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_closing_that_must_not_be_is_refused(story: Story, what: str) -> None:
    """It closes only for an operator who says that what came in since was submitted again, and only once."""
    run = story.refused[what]
    (line,) = run.complaints
    assert run.out == ""
    assert REFUSED[what] in line


# --- in the end ----------------------------------------------------------------------------------


def test_nothing_is_accepted_twice(story: Story, receivers: Receivers) -> None:
    """Each receiver has accepted each delivery once, and those that were sent before the backup were not touched."""
    expected = {
        "keyed": ["before", "open", "new", "moved", "later"],
        "lookable": ["before", "open", "new", "moved", "later"],
        "bare": ["before", "open", "new", "later"],
    }
    for kind, whats in expected.items():
        receiver: Receiver = getattr(receivers, kind)
        ids = [story.ledger[f"{what}-{kind}"]["id"] for what in whats]
        assert Counter(receiver.accepted) == Counter(ids)
        assert receiver.duplicates_accepted == 0


def test_only_who_drops_repeats_is_sent_one(receivers: Receivers) -> None:
    """The keyed receiver is sent the same key once more for what was sent since the backup; the others get nothing."""
    assert receivers.keyed.duplicates_dropped == len(SENT_SINCE)
    assert receivers.lookable.requests == len(receivers.lookable.accepted)
    assert receivers.bare.requests == len(receivers.bare.accepted)


def test_nothing_is_lost(story: Story) -> None:
    """Every reminder has come to the end that it should have, and the ledger says so."""
    ends = {key: one["status"] for key, one in story.ledger.items()}
    held = {f"{what}-bare" for what in ("open", "new", "moved")}
    assert {key for key, status in ends.items() if status == "held"} == held
    assert ends.pop("opted-out") == "suppressed"
    assert {status for key, status in ends.items() if key not in held} == {"sent"}
    assert "cancelled" not in ends
    assert len(ends) == len(KINDS) * 5


def test_a_delivery_of_the_lost_time_is_the_same_one(story: Story) -> None:
    """What is submitted again becomes the same delivery, under the same id and key."""
    assert {key: story.ledger[key]["id"] for key in story.ids} == story.ids


def test_the_doctor_is_content_again(story: Story) -> None:
    """After the closing nothing is found."""
    assert [check for check in story.healthy["checks"] if check["found"]] == []


def test_a_guard_cannot_begin_ahead(stories: dict[str, Future[tuple[Story, Receivers]]]) -> None:
    """`--since` may only move the guard's beginning back."""
    run = stories["sqlite"].result()[0].refused["ahead"]
    assert "lies ahead of the last sign of life" in run.err
    assert stories["sqlite"].result()[0].opened["covered"] == len(KINDS)
