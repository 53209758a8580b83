"""Ctrl-C and SIGTERM drain: no more claims, what is under way is finished and recorded, and nothing stays behind."""

from __future__ import annotations

import json
import signal
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import (
    DIALECTS,
    Installation,
    Run,
    Shown,
    attempts,
    reminder,
    settle_in,
    tell_on_both,
    wait_until,
)
from tests.end_to_end.recovering import ACCEPTED, LOST, leases_end, story, work

ROWS: Final = 150
#: Sooner than a request under way would end by itself, also on a busy machine.
SOON_SECONDS_MAX: Final = 15.0


class Stopped(NamedTuple):
    """A program that was stopped in the middle, and what stood then."""

    run: Run
    states: dict[str, int]
    accepted: int
    requests: int
    ledger: dict[str, Shown]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[list[Stopped]]]:
    """`work` is stopped by Ctrl-C; `up` goes on with the same rows, and is stopped by SIGTERM."""
    return tell_on_both(_stops, tmp_path_factory.mktemp("stops"))


@pytest.fixture(params=DIALECTS)
def stops(request: pytest.FixtureRequest, stories: dict[str, Future[list[Stopped]]]) -> list[Stopped]:
    """The story on each database in turn."""
    return stories[request.param].result()


def _stops(dialect: str, folder: Path) -> list[Stopped]:
    with beside(Receiver(slow_seconds=0.3)) as receiver, settle_in(dialect, folder) as duly:
        _fill(duly, receiver)
        return [_stop(duly, receiver, "work", signal.SIGINT), _stop(duly, receiver, "up", signal.SIGTERM)]


def _fill(duly: Installation, receiver: Receiver) -> None:
    duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY"] = "8"
    duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(ROWS))
    duly.told("tick")


def _stop(duly: Installation, receiver: Receiver, command: str, number: signal.Signals) -> Stopped:
    before = receiver.requests
    with duly.running(command, "--json") as program:
        wait_until(lambda: receiver.requests >= before + 10, "requests under way")
        run = program.end(number)
    return Stopped(run, duly.states(), len(receiver.accepted), receiver.requests, duly.ledger())


@pytest.mark.parametrize("which", [0, 1], ids=["work-SIGINT", "up-SIGTERM"])
def test_a_signal_drains(stops: list[Stopped], which: int) -> None:
    """The program ends with 0 and its tally: what was sent is recorded, and what was claimed is ready again."""
    stopped = stops[which]
    assert stopped.run.code == 0
    assert stopped.states == {"sent": stopped.requests, "ready": ROWS - stopped.requests}
    assert sum(one.run.document["sent"] for one in stops[: which + 1]) == stopped.requests == stopped.accepted


@pytest.mark.parametrize("which", [0, 1], ids=["work-SIGINT", "up-SIGTERM"])
def test_a_drain_leaves_no_doubt(stops: list[Stopped], which: int) -> None:
    """Every attempt that had begun has its answer on record."""
    begun = [one for one in stops[which].ledger.values() if one["attempts"]]
    assert len(begun) == stops[which].requests
    assert all(attempts(one) == [("accepted", None)] for one in begun)


def test_several_workers_drain(duly_on_postgres: Installation) -> None:
    """A signal to `work --processes 2` drains both, and their tallies are added up."""
    with beside(Receiver(slow_seconds=0.3)) as receiver:
        _fill(duly_on_postgres, receiver)
        with duly_on_postgres.running("work", "--processes", "2", "--json") as workers:
            wait_until(lambda: workers.said.count("worker_started") == 2, "both have started")
            wait_until(lambda: receiver.requests >= 20, "requests under way")
            run = workers.end(signal.SIGTERM)
        assert run.code == 0
        assert run.document["sent"] == receiver.requests
        assert duly_on_postgres.states() == {"sent": receiver.requests, "ready": ROWS - receiver.requests}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here that lists a program's children")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_workers_asked_to_leave_at_once_leave(duly_on_postgres: Installation, number: signal.Signals) -> None:
    """A signal that comes before the workers can listen ends them too, with an empty tally and no complaint."""
    with duly_on_postgres.running("work", "--processes", "2", "--json") as workers:
        wait_until(lambda: len(workers.children) == 2, "both were started")
        run = workers.end(number)
    assert (run.code, run.document["claimed"]) == (0, 0)


def test_an_idle_worker_leaves_soon(duly_on_postgres: Installation) -> None:
    """A worker that has nothing to do leaves within seconds of the signal."""
    with duly_on_postgres.running("work", "--json") as worker:
        wait_until(lambda: "worker_started" in worker.said, "started")
        assert worker.end(signal.SIGTERM, seconds=SOON_SECONDS_MAX).document["claimed"] == 0


def test_a_second_signal_leaves_at_once(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """Who asks twice does not wait for a silent receiver: exit code 130, and what was under way is found out later."""
    duly_on_sqlite.settings |= {"DULY_PROVIDERS__HOOKS__TIMEOUT_SECONDS": "20", "DULY_LEASE_SECONDS": "60"}
    duly_on_sqlite.take([reminder("r", webhook=receiver.url("silent"))])
    with duly_on_sqlite.running("up") as up:
        wait_until(lambda: receiver.requests, "the request")
        up.ask(signal.SIGINT)
        wait_until(lambda: "worker_draining" in up.said, "draining")
        assert up.end(signal.SIGINT, seconds=SOON_SECONDS_MAX).code == 130
    assert duly_on_sqlite.states() == {"sending": 1}
    leases_end(duly_on_sqlite)
    assert story(work(duly_on_sqlite)["r"]) == ("sent", (LOST, ACCEPTED))
    assert len(receiver.accepted) == 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here that lists a program's children")
def test_a_second_signal_takes_every_worker_along(duly_on_postgres: Installation, receiver: Receiver) -> None:
    """Who asks `work --processes 2` twice ends both workers at once, and the whole with 130."""
    duly = duly_on_postgres
    duly.settings |= {"DULY_PROVIDERS__HOOKS__TIMEOUT_SECONDS": "20", "DULY_LEASE_SECONDS": "60"}
    duly.take([reminder("r", webhook=receiver.url("silent"))])
    duly.told("tick")
    with duly.running("work", "--processes", "2") as workers:
        wait_until(lambda: receiver.requests and workers.said.count("worker_started") == 2, "the request")
        children = workers.children
        workers.ask(signal.SIGTERM)
        wait_until(lambda: workers.said.count("worker_draining") == 2, "both drain")
        assert workers.end(signal.SIGTERM, seconds=SOON_SECONDS_MAX).code == 130
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    assert duly.states() == {"sending": 1}


def test_an_interrupted_import_can_be_run_again(duly_on_sqlite: Installation) -> None:
    """Ctrl-C during an import leaves with 130 and no traceback; run again, it completes the same rows."""
    rows = [reminder(f"r-{number}", webhook="http://127.0.0.1:9/prvt", due_in=9e6) for number in range(20_000)]
    (duly_on_sqlite.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = duly_on_sqlite.folder / "duly.db-wal"
    with duly_on_sqlite.running("import", "rows.jsonl") as program:
        wait_until(lambda: log.exists() and log.stat().st_size > 500_000, "rows are written")
        run = program.end(signal.SIGINT)
    assert (run.code, run.err) == (130, "")
    told = duly_on_sqlite.told("import", "rows.jsonl")
    assert told["created"] + told["already"] == len(rows)
    assert told["already"] > 0
