"""A storm: workers are killed, the database crashes, receivers misbehave, and in the end every promise holds.

These take minutes and are left out of `make test`; `make heavy` runs them.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import Installation, Program, attempts, reminder, settle_in, settle_on, wait_until

if TYPE_CHECKING:
    from tests.stores.postgres_server import Cluster

pytestmark = pytest.mark.heavy

HOOKS: Final = ("slow", "busy", "down", "reset", "silent", "lost", "ok")
MAILS: Final = ("slow", "busy", "dropped", "ok")
EACH: Final = 200
STORM_SECONDS: Final = 30.0
LONG_SECONDS: Final = 20.0


def _rows(receiver: Receiver) -> list[dict[str, Any]]:
    numbers = range(EACH)
    hooks = [reminder(f"{mood}-{n}", webhook=receiver.url(mood, str(n))) for n in numbers for mood in HOOKS]
    mails = [reminder(f"m-{mood}-{n}", email=f"{mood}-{n}@prvt.example.com") for n in numbers for mood in MAILS]
    return [*hooks, *mails]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_promise_holds_after_a_storm(
    dialect: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Nothing is lost, no mail comes twice, and a webhook is repeated only under its key with the same bytes."""
    own: Cluster | None = request.getfixturevalue("own_cluster") if dialect == "postgres" else None
    with ExitStack() as stack:
        receiver = stack.enter_context(beside(Receiver(slow_seconds=0.1)))
        sink = stack.enter_context(beside(MailSink(slow_seconds=0.1)))
        duly = _installed(own, tmp_path, sink, stack)
        duly.settings |= {
            "DULY_LEASE_SECONDS": "5",
            "DULY_PROVIDERS__HOOKS__CONCURRENCY": "8",
            "DULY_PROVIDERS__MAIL__CONCURRENCY": "4",
        }
        duly.take(_rows(receiver))
        duly.told("tick")
        _storm(duly, own, random.Random(seed), stack)
        duly.run("work", "--until-idle")
        _require_promises(duly, receiver, sink)


def _installed(own: Cluster | None, folder: Path, sink: MailSink, stack: ExitStack) -> Installation:
    if own is None:
        return stack.enter_context(settle_in("sqlite", folder, sink.url))
    from tests.stores.postgres_server import fresh_database  # noqa: PLC0415 - needs the driver

    return settle_on(stack.enter_context(fresh_database(own.url)), folder, sink.url)


def _storm(duly: Installation, own: Cluster | None, dice: random.Random, stack: ExitStack) -> None:
    """Two workers; every second or so one of them is killed or drained, or the database crashes."""
    workers = [_worker(duly, stack) for _ in range(2)]
    ends = time.monotonic() + STORM_SECONDS
    while time.monotonic() < ends:
        time.sleep(dice.uniform(0.3, 2.5))
        if own is not None and dice.random() < 0.3:
            own.stop(signal.SIGQUIT)
            time.sleep(dice.uniform(0.0, 1.5))
            own.start()
            continue
        fallen = workers.pop(dice.randrange(len(workers)))
        if dice.random() < 0.3:
            fallen.end(signal.SIGTERM)
        fallen.kill()
        workers.append(_worker(duly, stack))
    for worker in workers:
        worker.kill()


def _worker(duly: Installation, stack: ExitStack) -> Program:
    return stack.enter_context(duly.running("work"))


def _require_promises(duly: Installation, receiver: Receiver, sink: MailSink) -> None:
    ledger = duly.ledger()
    hooks = [one for one in ledger.values() if one["channel"] == "webhook"]
    assert {one["status"] for one in hooks} == {"sent"}
    assert any(("unknown", "worker_lost") in attempts(one) for one in hooks), "the storm met nobody"
    assert sorted(receiver.accepted) == sorted(one["id"] for one in hooks)
    _require_same_bytes(receiver)
    mails = [one for one in ledger.values() if one["channel"] == "email"]
    assert {one["status"] for one in mails} <= {"sent", "held"}
    assert all(len(messages) == 1 for messages in sink.messages.values())
    assert len(ledger) == EACH * (len(HOOKS) + len(MAILS))


def _require_same_bytes(receiver: Receiver) -> None:
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for mood in HOOKS:
        for number in range(EACH):
            for one in receiver.received(mood, str(number)):
                bodies[one.headers["webhook-id"]].add(one.body)
    assert {len(same) for same in bodies.values()} == {1}


def test_a_drain_waits_for_its_database(own_cluster: Cluster, tmp_path: Path) -> None:
    """Asked to leave while the database is away, a worker keeps the outcomes in its hands until they are recorded."""
    from tests.stores.postgres_server import fresh_database  # noqa: PLC0415 - needs the driver

    with beside(Receiver(slow_seconds=0.5)) as receiver, fresh_database(own_cluster.url) as url:
        duly = settle_on(url, tmp_path)
        duly.settings |= {"DULY_LEASE_SECONDS": "60", "DULY_PROVIDERS__HOOKS__CONCURRENCY": "8"}
        duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(100))
        duly.told("tick")
        with duly.running("work", "--json") as worker:
            wait_until(lambda: receiver.requests >= 10, "requests under way")
            own_cluster.stop(signal.SIGQUIT)
            worker.ask(signal.SIGTERM)
            time.sleep(3.0)
            assert worker.is_running
            own_cluster.start()
            run = worker.end()
        assert run.code == 0
        assert duly.states() == {"sent": receiver.requests, "ready": 100 - receiver.requests}


def test_a_sqlite_file_that_is_kept_for_long_is_an_outage(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """Another program that keeps the file beyond all patience is told once, waited for, and costs nothing."""
    duly = duly_on_sqlite
    duly.settings |= {"DULY_LEASE_SECONDS": "60", "DULY_PROVIDERS__HOOKS__CONCURRENCY": "8"}
    receiver.slow_seconds = 0.1
    duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(100))
    with duly.running("up", "--until-idle") as up:
        wait_until(lambda: receiver.requests >= 8, "requests under way")
        with closing(sqlite3.connect(duly.folder / "duly.db", isolation_level=None, timeout=10)) as other:
            other.execute("begin immediate")
            time.sleep(LONG_SECONDS)
            other.execute("rollback")
        run = up.end(seconds=90)
    assert run.code == 0
    assert (len(run.events("database_away")), len(run.events("database_back"))) == (1, 1), run.err
    assert duly.states() == {"sent": 100}
    assert receiver.requests == 100
