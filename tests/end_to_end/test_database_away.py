"""The database goes away in the middle of the work: the worker waits, says so once, and loses nothing."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import Installation, Run, Shown, attempts, reminder, settle_on, wait_until

if TYPE_CHECKING:
    from tests.stores.postgres_server import Cluster

ROWS: Final = 150
MAILS: Final = 50
AWAY_SECONDS: Final = 2.0
#: As `pg_ctl stop -m` calls them: all are disconnected, or it is a crash.
STOPS: Final = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Outage(NamedTuple):
    """A worker that met an outage, and what came of it."""

    worked: Run
    ledger: dict[str, Shown]
    receiver: Receiver
    sink: MailSink


@pytest.fixture(scope="module", params=STOPS)
def outage(
    request: pytest.FixtureRequest, own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outage]:
    """The server stops while requests are under way, and comes back."""
    from tests.stores.postgres_server import fresh_database  # noqa: PLC0415 - needs the driver

    with (
        beside(Receiver(slow_seconds=0.2)) as receiver,
        beside(MailSink(slow_seconds=0.2)) as sink,
        fresh_database(own_cluster.url) as url,
    ):
        duly = settle_on(url, tmp_path_factory.mktemp("outage"), sink.url)
        duly.settings |= {
            "DULY_LEASE_SECONDS": "15",
            "DULY_PROVIDERS__HOOKS__CONCURRENCY": "10",
            "DULY_PROVIDERS__MAIL__CONCURRENCY": "4",
        }
        duly.take(_rows(receiver))
        duly.told("tick")
        with duly.running("work", "--until-idle", "--json") as worker:
            wait_until(lambda: receiver.requests >= 20 and sink.accepted >= 8, "requests under way")
            own_cluster.stop(STOPS[request.param])
            time.sleep(AWAY_SECONDS)
            own_cluster.start()
            worked = worker.end()
        yield Outage(worked, duly.ledger(), receiver, sink)


def _rows(receiver: Receiver) -> list[dict[str, object]]:
    hooks = [reminder(f"hook-{number}", webhook=receiver.url("slow")) for number in range(ROWS)]
    return [*hooks, *(reminder(f"mail-{n}", email=f"slow-{n}@prvt.example.com") for n in range(MAILS))]


def test_it_waits_and_finishes(outage: Outage) -> None:
    """The worker outlives the outage, leaves with 0, and every delivery ends as sent."""
    assert outage.worked.code == 0
    assert [one["status"] for one in outage.ledger.values()] == ["sent"] * (ROWS + MAILS)


def test_it_says_so_once(outage: Outage) -> None:
    """One line says that the database went away, and one that it is back and how long it was away."""
    away, back = outage.worked.events("database_away"), outage.worked.events("database_back")
    assert (len(away), len(back)) == (1, 1), outage.worked.err
    assert away[0]["why"]
    assert back[0]["away_seconds"] >= AWAY_SECONDS / 2


def test_outcomes_in_hand_are_not_lost(outage: Outage) -> None:
    """What was answered during the outage is recorded after it: nothing is sent twice, no attempt stays unknown."""
    assert all(attempts(one) == [("accepted", None)] for one in outage.ledger.values())
    assert outage.receiver.requests == ROWS
    assert outage.receiver.duplicates_dropped == 0
    assert all(len(messages) == 1 for messages in outage.sink.messages.values())


def test_nobody_there_at_the_start(tmp_path: Path) -> None:
    """A database that refuses the connection at the start is one line, exit code 1, and no waiting."""
    duly = Installation(tmp_path, "postgresql://postgres@127.0.0.1:9/nowhere")
    for arguments in (["work"], ["import", "-"]):
        run = duly.run(*arguments, code=1)
        assert (run.out, len(run.lines)) == ("", 1)
        assert "nowhere" in run.err


def test_a_busy_sqlite_file_is_waited_for(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """Another writer may hold the file for some seconds: the worker waits its turn, and each delivery is sent once."""
    duly_on_sqlite.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(40))
    duly_on_sqlite.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY"] = "8"
    receiver.slow_seconds = 0.1
    with duly_on_sqlite.running("up", "--until-idle") as up:
        wait_until(lambda: receiver.requests >= 8, "requests under way")
        other = sqlite3.connect(duly_on_sqlite.folder / "duly.db", isolation_level=None, timeout=10)
        other.execute("begin immediate")
        time.sleep(3)
        other.execute("rollback")
        other.close()
        assert up.end().code == 0
    assert duly_on_sqlite.states() == {"sent": 40}
    assert receiver.requests == 40


def test_a_sqlite_file_that_was_moved_away_is_waited_for(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """Nothing is written to a file that has lost its name; when it is back in its place, the work goes on."""
    duly, file = duly_on_sqlite, duly_on_sqlite.folder / "duly.db"
    duly.settings |= {"DULY_PROVIDERS__HOOKS__CONCURRENCY": "8", "DULY_LEASE_SECONDS": "60"}
    duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(40))
    with duly.running("up", "--until-idle") as up:
        wait_until(lambda: receiver.requests >= 8, "requests under way")
        file.rename(file.with_suffix(".moved"))
        wait_until(lambda: "database_away" in up.said, "it notices")
        file.with_suffix(".moved").rename(file)
        assert up.end().code == 0
    assert duly.states() == {"sent": 40}
    assert receiver.requests == 40
