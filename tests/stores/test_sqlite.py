"""What only SQLite promises: its settings, its clock, its errors, its plans, and that a kill loses nothing."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from duly.core import keys
from duly.core.model import Outcome
from duly.errors import DulyError, SchemaError, StoreError, StoreUnavailable
from duly.ports import ClaimOrder, Filters
from duly.stores.bisect import DataRefused
from duly.stores.loader import load
from duly.stores.sqlite import SqliteStore, connect
from duly.stores.sqlite.connect import SteadyClock, mapped
from duly.testing.builders import NAMESPACE, new_reminder
from tests.stores.conformance.scene import HOOKS, Scene
from tests.stores.ledgers import SqliteHarness, SqliteLedger, create_sqlite, raw

T = TypeVar("T")
ORDER: Final = ClaimOrder(HOOKS, "normal", 10, 0, "w1", 60.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty ledger."""
    create_sqlite(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


def with_store(path: Path, use: Callable[[SqliteStore], Awaitable[T]], **how: Any) -> T:
    """Open, use and close a store."""

    async def run() -> T:
        store = await SqliteStore.open(path, **how)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())


def with_scene(folder: Path, use: Callable[[Scene, SqliteLedger], Awaitable[None]]) -> None:
    """Use a scene on a new ledger."""
    harness = SqliteHarness(folder)

    async def run() -> None:
        async with harness.open() as ledger:
            await use(Scene(ledger), ledger)

    asyncio.run(run())


# --- settings ------------------------------------------------------------------------------------

SETTINGS: Final = {
    "journal_mode": "wal",
    "synchronous": 2,  # FULL
    "busy_timeout": 15_000,  # ms
    "foreign_keys": 0,
    "temp_store": 2,  # memory
    "wal_autocheckpoint": 4_000,  # pages
    "cache_size": -32_768,  # KiB
    "journal_size_limit": 67_108_864,
}


@pytest.mark.parametrize("which", ["_writer", "_reader"])
def test_settings_hold_on_both_connections(path: Path, which: str) -> None:
    """Every setting that durability, waiting and memory rest on is in force."""

    async def look(store: SqliteStore) -> dict[str, Any]:
        connection = getattr(store, which)._raw
        return {name: connection.execute(f"pragma {name}").fetchone()[0] for name in SETTINGS}

    assert with_store(path, look) == SETTINGS


def test_every_write_takes_its_turn_before_it_reads(tmp_path: Path) -> None:
    """Each writing call is one transaction that begins immediate, and ends with a commit."""

    async def watch(scene: Scene, ledger: SqliteLedger) -> None:
        row = await scene.sending("r")
        now, store = await scene.now(), ledger.store
        assert isinstance(store, SqliteStore)
        statements: list[str] = []
        store._writer._raw.set_trace_callback(statements.append)
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.schedule([new_reminder("r2", now)]),
            lambda: store.materialise([]),
            lambda: store.claim(ORDER),
            lambda: store.begin(HOOKS, "w1", []),
            lambda: store.abandon("w1", [(row.id, 9)]),
            lambda: store.decide("somebody", []),
            lambda: store.settle(HOOKS, [], []),
            lambda: store.promote(10),
            lambda: store.take_back(10, "upkeep"),
            lambda: store.sweep(10, "upkeep"),
            lambda: store.doubtful([HOOKS], 10, 60.0),
            lambda: store.renew("w1", [(row.id, row.fence)], 60.0),
            lambda: store.looked("reconcile", []),
            lambda: store.requeue("ana", "mended", []),
            lambda: store.heartbeat("w1"),
            lambda: store.open_guard("ana", "restored"),
            lambda: store.close_guard("ana", "submitted again"),
            lambda: store.probe_circuits([HOOKS]),
            lambda: store.look_again("others", 10),
            lambda: store.cancel("ana", "moved out", reminder=None, delivery=row.id),
        ]
        for call in calls:
            statements.clear()
            await call()
            assert statements[0].lower() == "begin immediate"
            assert statements[-1].lower() == "commit"
            assert sum(text.lower().startswith(("begin", "commit")) for text in statements) == 2

    with_scene(tmp_path, watch)


# --- the clock -----------------------------------------------------------------------------------


def test_the_clock_never_steps_back() -> None:
    """A clock that is set back stands still until it has caught up."""
    readings = iter([100, 200, 150, 50, 201])
    clock = SteadyClock(lambda: next(readings))
    assert [clock() for _ in range(5)] == [100, 200, 200, 200, 201]


def test_the_ledger_keeps_time_by_the_clock_that_it_is_given(path: Path) -> None:
    """`db_now()` is the clock of the constructor, in microseconds, also inside statements."""
    readings = iter(range(1_000_000_000_000_000, 2_000_000_000_000_000, 1_000_000))

    async def look(store: SqliteStore) -> tuple[str, int]:
        batch = await store.due(1)
        await store.schedule([new_reminder("r", batch.now)])
        (created_at,) = store._writer._raw.execute("select created_at from reminder").fetchone()
        return batch.now.isoformat(), created_at

    now, created_at = with_store(path, look, now=lambda: next(readings))
    assert now.startswith("2001-09-09T01:46:")
    assert 1_000_000_000_000_000 < created_at < 1_000_000_100_000_000


def test_a_lease_outlasts_a_clock_that_is_set_back(path: Path) -> None:
    """Setting the machine's clock back ends no lease early and makes nothing due again."""
    readings = [1_000_000_000_000_000]

    async def look(store: SqliteStore) -> None:
        before = (await store.due(1)).now
        readings[0] -= 3_600_000_000
        assert (await store.due(1)).now == before
        readings[0] += 3_601_000_000
        assert (await store.due(1)).now == before + timedelta(seconds=1)

    with_store(path, look, now=lambda: readings[0])


# --- where it runs -------------------------------------------------------------------------------


class Now:
    """An awaitable whose result is there already."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def __await__(self) -> Generator[None, None, Any]:
        return self._result
        yield


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that must not wait for anything."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AssertionError("it waited for something else than `run`")


def test_the_store_awaits_only_run(path: Path) -> None:
    """With a `run` that calls at once, every call is finished at once, without an event loop."""

    def run(call: Callable[[], T]) -> Now:
        return Now(call())

    store = finished(SqliteStore.open(path, run=run))
    views = store.views()
    assert finished(store.namespace()) == NAMESPACE
    now = finished(store.due(1)).now
    assert finished(store.schedule([new_reminder("r", now)])) == ["created"]
    assert finished(store.due_remain()) is True
    assert finished(store.claim(ORDER)).rows == []
    assert finished(store.suspects([HOOKS])) == []
    assert finished(store.settle(HOOKS, [], [])).stale == 0
    assert finished(store.next_step([HOOKS])) is None
    assert finished(views.deliveries(Filters())) == []
    finished(store.close())


def test_only_one_module_knows_asyncio() -> None:
    """The synchronous core imports no event loop and no threads."""
    folder = Path(inspect.getfile(connect)).parent
    found = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in {"asyncio", "concurrent", "threading"} for name in names):
                found.add(file.name)
    assert found == {"threads.py"}


def test_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    """While somebody writes, everything that only reads is answered at once, from before the write."""

    async def look(scene: Scene, ledger: SqliteLedger) -> None:
        (delivery,) = await scene.ready("r")
        with raw(ledger.path) as other:
            other.execute("begin immediate")
            other.execute("update work set state = 'held'")
            started = time.monotonic()
            assert (await ledger.store.due(10)).rows == []
            assert await ledger.store.due_remain() is False
            assert await ledger.store.next_step([HOOKS]) == 0
            assert await scene.state(delivery) == "ready"
            assert (await scene.views.status())["states"]["ready"]["count"] == 1
            assert time.monotonic() - started < 10
            other.execute("rollback")

    with_scene(tmp_path, look)


# --- errors --------------------------------------------------------------------------------------


def opening(path: str | Path) -> DulyError:
    """The error of opening a file."""

    async def nothing(store: SqliteStore) -> None:
        await store.namespace()

    with pytest.raises(DulyError) as error:
        with_store(path, nothing)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return error.value


def test_a_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    """Opening a missing file says how to make it, and makes none."""
    error = opening(tmp_path / "missing.db")
    assert isinstance(error, SchemaError)
    assert "duly migrate apply" in str(error)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """Opening a file in a directory that is not there names the directory."""
    error = opening(tmp_path / "nowhere" / "ledger.db")
    assert type(error) is StoreError
    assert "nowhere" in str(error)


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file of something else, and a directory, are refused in one line."""
    (tmp_path / "letter.txt").write_text("Dear Ana, this is no database at all." * 100)
    assert "not a SQLite database" in str(opening(tmp_path / "letter.txt"))
    assert type(opening(tmp_path)) is StoreError
    assert type(opening("a\0b")) is StoreError


def test_a_database_of_something_else_is_no_ledger(tmp_path: Path) -> None:
    """A SQLite file without our tables is refused when it is opened, with what to do."""
    with raw(tmp_path / "other.db") as other:
        other.execute("create table something (else_ integer)")
    with pytest.raises(SchemaError, match=r"other\.db: .*no ledger is there yet; .*duly migrate apply"):
        asyncio.run(SqliteStore.open(tmp_path / "other.db"))


def test_a_ledger_that_lost_a_table_says_so(path: Path) -> None:
    """A table that was dropped while the ledger was open raises SchemaError."""

    async def use(store: SqliteStore) -> None:
        with raw(path) as other:
            other.execute("drop table installation")
        with pytest.raises(SchemaError, match="no such table"):
            await store.namespace()

    with_store(path, use)


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_ledger_that_lost_its_file_writes_nothing(path: Path, what: str) -> None:
    """Whoever opens the file of that name next would not know what was written, and send it again."""

    def lose() -> None:
        path.rename(path.with_suffix(".old"))
        if what == "replaced":
            create_sqlite(path)

    async def use(store: SqliteStore) -> None:
        lose()
        with pytest.raises(StoreError, match="moved, deleted or replaced; stop every worker first"):
            await store.claim(ORDER)

    with_store(path, use)


def test_a_busy_ledger_is_unavailable(path: Path) -> None:
    """Where another process writes for longer than the timeout, the call is unavailable and may be repeated."""

    async def use(store: SqliteStore) -> None:
        store._writer._raw.execute("pragma busy_timeout = 50")
        with raw(path) as other:
            other.execute("begin immediate")
            with pytest.raises(StoreUnavailable) as error:
                await store.promote(10)
            assert "another process" in str(error.value)
            other.execute("rollback")
        assert await store.promote(10) == 0

    with_store(path, use)


def test_a_full_disk_is_unavailable_and_loses_nothing(tmp_path: Path) -> None:
    """Where there is no room, the call is unavailable, leaves nothing by halves, and works once there is room."""

    async def use(scene: Scene, ledger: SqliteLedger) -> None:
        store = ledger.store
        assert isinstance(store, SqliteStore)
        connection = store._writer._raw
        (pages,) = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {pages + 5}")
        now = await scene.now()
        rows = [new_reminder(f"r{i}", now, data={"long": "x" * 2000}) for i in range(200)]
        with pytest.raises(StoreUnavailable) as error:
            await store.schedule(rows)
        assert "full" in str(error.value)
        assert await ledger.value("select count(*) from reminder") == 0
        connection.execute("pragma max_page_count = 1000000")
        assert len(set(await store.schedule(rows))) == 1
        assert await ledger.value("select count(*) from reminder") == 200

    with_scene(tmp_path, use)


CODES: Final = [
    (sqlite3.SQLITE_BUSY, StoreUnavailable),
    (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailable),
    (sqlite3.SQLITE_LOCKED, StoreUnavailable),
    (sqlite3.SQLITE_FULL, StoreUnavailable),
    (sqlite3.SQLITE_IOERR, StoreUnavailable),
    (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable),
    (sqlite3.SQLITE_NOMEM, StoreUnavailable),
    (sqlite3.SQLITE_READONLY, StoreError),
    (sqlite3.SQLITE_CANTOPEN, StoreError),
    (sqlite3.SQLITE_CORRUPT, StoreError),
    (sqlite3.SQLITE_NOTADB, StoreError),
    (sqlite3.SQLITE_PERM, StoreError),
    (sqlite3.SQLITE_CONSTRAINT_UNIQUE, DataRefused),
    (sqlite3.SQLITE_TOOBIG, DataRefused),
    (sqlite3.SQLITE_MISUSE, StoreError),
    (0, StoreError),
]


@pytest.mark.parametrize(("code", "kind"), CODES)
def test_every_code_of_sqlite_has_its_meaning(code: int, kind: type[DulyError]) -> None:
    """An error of SQLite becomes one of ours, by its code, in one line that names the file."""
    error = sqlite3.OperationalError("something went\nwrong")
    error.sqlite_errorcode = code
    with pytest.raises(DulyError) as told, mapped("ledger.db"):
        raise error
    assert type(told.value) is kind
    assert re.fullmatch(r"database ledger\.db: .*", str(told.value))


@pytest.mark.parametrize("bad", ["half a pair \ud800", 2**64])
def test_a_value_that_cannot_be_stored_is_refused(path: Path, bad: object) -> None:
    """Text that UTF-8 cannot carry, and a number that is too large, are refused as data, unquoted."""

    async def use(store: SqliteStore) -> None:
        now = (await store.due(1)).now
        more: dict[str, Any] = {"event_version": bad} if isinstance(bad, int) else {"recipient_name": bad}
        with pytest.raises(DataRefused) as error:
            await store.schedule([new_reminder("fine", now), new_reminder("r", now, **more)])
        assert "pair" not in str(error.value)
        assert (await store.due(10)).rows == []

    with_store(path, use)


def test_a_closed_store_says_so(path: Path) -> None:
    """After `close`, calls are refused in one line."""

    async def use() -> None:
        store = await SqliteStore.open(path)
        await store.close()
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.promote(1)
        with pytest.raises(StoreError, match="closed"):
            await store.due(1)

    asyncio.run(use())


# --- plans ---------------------------------------------------------------------------------------

#: Statements of the hot path; each must find its rows by an index, however large the ledger is.
HOT: Final = (
    *("due", "due_remain", "reminders_where_they_stand", "deliveries_there", "claim_next_account", "claim_ready"),
    *(
        "claim_bring",
        "claim_lease",
        "frozen_latest",
        "begin_seen",
        "budgets_seen",
        "open_rows",
        "open_of_reminder",
        "work_move",
    ),
    *("work_close", "deliveries_ended", "delivery_finish", "result_seen", "attempt_seen", "unknown_attempts"),
    *("promote", "open_with_ended_lease", "open_past_deadline", "uncertain_due", "held_due", "doubtful_lease"),
    *("doubtful_seen", "work_look", "results_cover", "claim_suspects", "suspects", "renewable", "renew", "next_ready"),
    *("double_acceptance_seen", "work_reopen", "reminder_revise", "contact_stand", "guard_standing"),
    *("next_lease_end", "next_look", "next_expiry", "circuit_wake", "reminder_submitted", "recipient_addresses"),
    *("find_delivery", "find_reminder", "find_key", "show_delivery", "show_attempts", "show_events", "list"),
    *("list_of_reminder", "finals_of_reminder"),
)
#: Walks along an index in its own order that stop early, or along one that is small.
WALKS: Final = {
    "uncertain_due": "SCAN json_each VIRTUAL TABLE INDEX 1:",
    "held_due": "SCAN json_each VIRTUAL TABLE INDEX 1:",
    "guard_standing": "SCAN guard USING INDEX guard_open",
    "next_ready": "SCAN guard USING INDEX guard_open",
    "reminder_revise": "SCAN g",  # as many guards as there were restores
    "suspects": "SCAN s",  # the three suspicions
    "results_cover": "SCAN attempts",  # the numbers of one delivery's attempts
    "circuit_wake": "SCAN json_each VIRTUAL TABLE INDEX 1:",
    "next_look": "SCAN w USING INDEX work_next",
    "next_lease_end": "SCAN work USING INDEX work_leased",
    "next_expiry": "SCAN w USING INDEX work_expiry",
    "list": "SCAN d",
}
ALWAYS: Final = ("SCAN place", "SCAN CONSTANT ROW")
SORTED_IN_MEMORY: Final = ("list_of_reminder",)  # the few deliveries of one reminder


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    """How SQLite would run a statement."""
    values = dict.fromkeys(re.findall(r":(\w+)", statement)) or [None] * _places(statement)
    return [row[3] for row in connection.execute(f"explain query plan {statement}", values)]


def _places(statement: str) -> int:
    """How many values a statement takes by place, numbered or not."""
    numbers = re.findall(r"\?(\d+)", statement)
    return max(map(int, numbers)) if numbers else statement.count("?")


def slow(name: str, steps: list[str]) -> list[str]:
    """Steps that read more than they need, or sort."""
    allowed = (*ALWAYS, WALKS.get(name, "nothing"))
    scans = [step for step in steps if step.startswith("SCAN") and not step.startswith(allowed)]
    return scans + [step for step in steps if "TEMP B-TREE" in step and name not in SORTED_IN_MEMORY]


def slow_plans(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """The hot statements that are slow, and how."""
    plans = {name: plan(connection, load("sqlite")[name]) for name in HOT}
    return {name: found for name, steps in plans.items() if (found := slow(name, steps))}


def test_hot_statements_seek(path: Path) -> None:
    """No hot statement reads a whole table or sorts."""
    assert with_store(path, _slow_plans_of_both) == [{}, {}]


def test_statistics_of_a_young_ledger_mislead_nobody(tmp_path: Path) -> None:
    """Statistics that were gathered when each table held one row are forgotten when the ledger is opened."""

    async def look(scene: Scene, ledger: SqliteLedger) -> None:
        await scene.ready("r")
        await ledger.change("analyze")
        store = await ledger.another()
        assert await _slow_plans_of_both(store) == [{}, {}]

    with_scene(tmp_path, look)


def test_statistics_of_a_full_table_mislead_nobody(tmp_path: Path) -> None:
    """Right after ANALYZE, while every row is ready, the running store's statements still seek."""

    async def look(scene: Scene, ledger: SqliteLedger) -> None:
        for number in range(300):
            await scene.schedule(f"r{number}", account=f"account-{number % 20}", ref=f"p{number}")
        await scene.tick()
        await ledger.change("analyze")
        assert isinstance(ledger.store, SqliteStore)
        assert len((await ledger.store.claim(ORDER)).rows) == 10
        assert await _slow_plans_of_both(ledger.store) == [{}, {}]

    with_scene(tmp_path, look)


async def _slow_plans_of_both(store: SqliteStore) -> list[dict[str, list[str]]]:
    return [slow_plans(store._writer._raw), slow_plans(store._reader._raw)]


# --- processes -----------------------------------------------------------------------------------

WRITER: Final = """
import asyncio, sys
from tests.stores.conformance.scene import Scene
from tests.stores.ledgers import SqliteLedger
from duly.core.model import Outcome
from duly.testing.builders import settlement
from pathlib import Path

async def write(path, name):
    ledger = await SqliteLedger(Path(path)).set_up()
    scene = Scene(ledger)
    scene.store = ledger.store
    print("up", flush=True)
    for batch in range(10_000):
        keys = [f"{name}-{batch}-{row}" for row in range(20)]
        await scene.ready(*keys, account=name)
        print("scheduled", *keys, flush=True)
        rows = (await scene.claim(20, worker=name)).rows
        await scene.begin(*rows, worker=name)
        now = await scene.now()
        await ledger.store.settle("hooks", [settlement(row, 1, Outcome.ACCEPTED, now) for row in rows], [])
        print("sent", *(row.account + "/" + row.reminder_key for row in rows), flush=True)

asyncio.run(write(*sys.argv[1:]))
"""


@contextlib.contextmanager
def writer(path: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """A process that schedules, sends and settles, and says on stdout what was acknowledged to it."""
    command = [sys.executable, "-c", WRITER, str(path), name]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == "up\n"
            yield started
        finally:
            started.kill()


def acknowledged(lines: list[str], word: str) -> set[str]:
    """What the writer had been told is durable. A line that the kill cut short does not count."""
    return {name for line in lines if line.endswith("\n") and line.startswith(word + " ") for name in line.split()[1:]}


async def _states(store: SqliteStore) -> dict[str, str]:
    lines = await store.views().deliveries(Filters(limit=1_000_000))
    return {f"{line['account']}/{line['reminder']}": line["status"] for line in lines}


def test_a_kill_loses_nothing_that_was_acknowledged(path: Path) -> None:
    """After kill -9 in the midst of writing, every acknowledged batch is there, and the ledger is whole."""
    scheduled: set[str] = set()
    sent: set[str] = set()
    for round_ in range(3):
        name = f"w{round_}"
        with writer(path, name) as started:
            assert started.stdout is not None
            lines = [started.stdout.readline() for _ in range(6 + round_)]
            started.kill()
            lines += started.stdout.readlines()
        scheduled |= {f"{name}/{key}" for key in acknowledged(lines, "scheduled")}
        sent |= acknowledged(lines, "sent")
        states = with_store(path, _states)
        assert scheduled <= states.keys()
        assert all(states[key] == "sent" for key in sent)
        assert [one for one in with_store(path, lambda store: store.views().invariants()) if one[1]] == []
    assert len(sent) >= 120
    with raw(path) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def test_what_was_under_way_at_a_kill_is_taken_back(path: Path) -> None:
    """What a killed worker had begun is in doubt once its lease has ended, and nothing else is."""
    with writer(path, "w1") as started:
        assert started.stdout is not None
        for _ in range(4):
            started.stdout.readline()
        started.kill()

    async def use() -> None:
        ledger = await SqliteLedger(path).set_up()
        before = (await ledger.views.status())["states"]
        await ledger.pass_time(120)
        taken = await ledger.store.take_back(1000, "upkeep")
        assert taken.uncertain == before.get("sending", {"count": 0})["count"]
        assert taken.ready == before.get("leased", {"count": 0})["count"]
        assert not {"sending", "leased"} & (await ledger.views.status())["states"].keys()
        await ledger.close()

    asyncio.run(use())


def test_processes_share_a_file(path: Path) -> None:
    """Several processes write to one file at once; each waits for its turn, and none disturbs another."""
    with writer(path, "w1") as first, writer(path, "w2") as second:
        for _ in range(8):
            for started in (first, second):
                assert started.stdout is not None
                assert started.stdout.readline().startswith(("scheduled", "sent"))
    states = with_store(path, _states)
    accounts = {key.split("/")[0] for key in states}
    assert accounts == {"w1", "w2"}
    assert sum(state == "sent" for state in states.values()) >= 120


# --- one delivery twice --------------------------------------------------------------------------


def test_an_answer_is_written_even_if_nothing_else_fits(tmp_path: Path) -> None:
    """A row that is refused is settled without the words that could not be stored, and says so."""

    async def use(scene: Scene, ledger: SqliteLedger) -> None:
        row = await scene.sending("r")
        await scene.settle(row, Outcome.UNKNOWN, reason="unknown \ud800")
        shown = await scene.show(row.id)
        assert (shown["status"], shown["reason"]) == ("uncertain", "unknown ")
        detail = await ledger.value("select detail from attempt_result")
        assert detail == "a part of the answer could not be recorded"
        assert shown["id"] == keys.show(row.id)

    with_scene(tmp_path, use)
