"""Ctrl-C and SIGTERM drain: no more claims, what is under way is finished and recorded, and nothing stays behind."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import Installation, reminder, wait_until

ROWS: Final = 150
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def slow() -> Iterator[Receiver]:
    """A receiver that takes its time."""
    with beside(Receiver(slow_seconds=0.4)) as running:
        yield running


def _fill(duly: Installation, receiver: Receiver) -> None:
    duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY"] = "8"
    duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(ROWS))
    duly.told("tick")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_drains(duly: Installation, slow: Receiver, number: signal.Signals) -> None:
    """Both signals end a worker with 0 and its tally: what was sent is recorded, what was claimed is ready again."""
    _fill(duly, slow)
    with duly.running("work", "--json") as worker:
        wait_until(lambda: slow.requests >= 10, "requests under way")
        run = worker.end(number)
    assert run.code == 0
    sent = run.document["sent"]
    assert slow.requests == len(slow.accepted) == sent
    assert duly.states() == {"sent": sent, "ready": ROWS - sent}
    assert {one["attempts"][0]["outcome"] for one in duly.ledger().values() if one["attempts"]} == {"accepted"}


def test_up_drains_too(duly: Installation, slow: Receiver) -> None:
    """A signal drains `up` like `work`."""
    _fill(duly, slow)
    with duly.running("up") as up:
        wait_until(lambda: slow.requests >= 10, "requests under way")
        assert up.end(signal.SIGINT).code == 0
    assert duly.states() == {"sent": slow.requests, "ready": ROWS - slow.requests}


def test_several_workers_drain(duly_on_postgres: Installation, slow: Receiver) -> None:
    """A signal to `work --processes 2` drains both, and their tallies are added up."""
    _fill(duly_on_postgres, slow)
    with duly_on_postgres.running("work", "--processes", "2", "--json") as workers:
        wait_until(lambda: slow.requests >= 20, "requests under way")
        run = workers.end(signal.SIGTERM)
    assert run.code == 0
    assert run.document["sent"] == slow.requests
    assert duly_on_postgres.states() == {"sent": slow.requests, "ready": ROWS - slow.requests}


def test_an_idle_worker_leaves_at_once(duly: Installation) -> None:
    """A worker that has nothing to do leaves within a second or two of the signal."""
    with duly.running("work", "--json") as worker:
        wait_until(lambda: "worker_started" in worker.said, "started")
        assert worker.end(signal.SIGTERM, seconds=5).document["claimed"] == 0


def test_a_second_signal_leaves_at_once(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """Who asks twice does not wait for a silent receiver: exit code 130, and the ledger knows what was under way."""
    duly_on_sqlite.settings |= {"DULY_PROVIDERS__HOOKS__TIMEOUT_SECONDS": "20", "DULY_LEASE_SECONDS": "60"}
    duly_on_sqlite.take([reminder("r", webhook=receiver.url("silent"))])
    with duly_on_sqlite.running("up") as up:
        wait_until(lambda: receiver.requests, "the request")
        up.ask(signal.SIGINT)
        wait_until(lambda: "worker_draining" in up.said, "draining")
        assert up.end(signal.SIGINT, seconds=5).code == 130
    assert duly_on_sqlite.states() == {"sending": 1}


def test_an_interrupted_import_can_be_run_again(duly_on_sqlite: Installation, tmp_path: Path) -> None:
    """Ctrl-C during an import leaves with 130 and no traceback; run again, it completes the same rows."""
    rows = [reminder(f"r-{number}", webhook="http://127.0.0.1:9/prvt", due_in=9e6) for number in range(30_000)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = duly_on_sqlite.folder / "duly.db-wal"
    with duly_on_sqlite.running("import", "rows.jsonl") as program:
        wait_until(lambda: file.exists() and file.stat().st_size > 500_000, "rows are written")
        run = program.end(signal.SIGINT)
    assert (run.code, run.err) == (130, "")
    told = duly_on_sqlite.told("import", "rows.jsonl")
    assert told["created"] + told["already"] == len(rows)
    assert told["already"] > 0
