"""Several workers on one ledger: each delivery is one request, and allowances are shared."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import LATER_SECONDS, LaterReceiver, TimedReceiver, beside
from tests.end_to_end.installation import Installation, attempts, reminder, wait_until

ROWS: Final = 200
RATE: Final = 20


def _fill(duly: Installation, url: str, rows: int = ROWS) -> None:
    duly.take(reminder(f"r-{number}", webhook=url) for number in range(rows))
    duly.told("tick")


def test_two_workers_send_each_once(duly: Installation, receiver: Receiver) -> None:
    """Two workers share the rows: each webhook is one request, and their tallies add up."""
    duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY"] = "16"
    receiver.slow_seconds = 0.05
    _fill(duly, receiver.url("slow"))
    with ExitStack() as stack:
        command = ("work", "--until-idle", "--json")
        workers = [stack.enter_context(duly.running(*command)) for _ in range(2)]
        sent = [worker.end(seconds=60).document["sent"] for worker in workers]
    assert sum(sent) == ROWS
    assert (receiver.requests, len(set(receiver.accepted))) == (ROWS, ROWS)
    assert duly.states() == {"sent": ROWS}


def test_processes_send_each_once(duly_on_postgres: Installation, receiver: Receiver) -> None:
    """`work --processes 2` is two workers and one tally; the ledger names both."""
    duly = duly_on_postgres
    duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY"] = "4"
    receiver.slow_seconds = 0.1
    _fill(duly, receiver.url("slow"))
    told = duly.told("work", "--processes", "2", "--until-idle")
    assert told["sent"] == receiver.requests == ROWS
    ledger = duly.ledger().values()
    assert all(attempts(one) == [("accepted", None)] for one in ledger)
    assert len({one["attempts"][0]["worker"] for one in ledger}) == 2


def test_a_rate_is_kept_across_workers(duly_on_postgres: Installation) -> None:
    """`rate_per_second` is one allowance for all workers: no second sees more than the burst and the rate."""
    duly = duly_on_postgres
    duly.settings["DULY_PROVIDERS__HOOKS__RATE_PER_SECOND"] = str(RATE)
    with beside(TimedReceiver()) as receiver, ExitStack() as stack:
        _fill(duly, receiver.url("ok"), RATE * 4)
        workers = [stack.enter_context(duly.running("work", "--until-idle")) for _ in range(2)]
        assert [worker.end(seconds=60).code for worker in workers] == [0, 0]
        assert len(receiver.times) == RATE * 4
        assert receiver.most_within(1.0) <= RATE * 3
        assert receiver.times[-1] - receiver.times[0] >= 2.5


def test_one_endpoints_retry_after_is_not_anothers(duly: Installation) -> None:
    """An endpoint that asks for a long wait is left alone; the others are sent meanwhile."""
    with beside(LaterReceiver()) as receiver:
        busy = [reminder(f"busy-{number}", webhook=receiver.url("busy"), due_in=-9) for number in range(10)]
        duly.take([*busy, *(reminder(f"ok-{number}", webhook=receiver.url("ok")) for number in range(10))])
        duly.run("up", "--until-idle", "--patience", str(LATER_SECONDS / 2))
        assert duly.states() == {"waiting": 10, "sent": 10}
        assert receiver.count("ok") == 10
        reasons = {one["reason"] for one in duly.ledger().values() if one["status"] == "waiting"}
        assert reasons <= {"refused_rate_limited", "retry_after"}


def test_up_until_idle_waits_for_its_first_tick(duly_on_postgres: Installation, receiver: Receiver) -> None:
    """`up --until-idle` does not leave before a tick has looked, however long the database keeps it waiting."""
    duly = duly_on_postgres
    duly.take([reminder("r", webhook=receiver.url("ok"))])
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(duly.database) as other, duly.running("up", "--until-idle") as up:
        other.execute("lock table reminder in access exclusive mode")
        wait_until(lambda: "worker_started" in up.said, "started")
        time.sleep(1.5)
        other.rollback()
        assert up.end().code == 0
    assert duly.states() == {"sent": 1}
