"""The databases of a run: a throw-away PostgreSQL cluster and SQLite files, durable both.

A ground makes empty ledgers, and copies of a ledger that was filled once, so that every round begins with
the same rows. Copies carry the statistics of a fresh ANALYZE, in which every row is pending: the case in
which planners err most.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

import psycopg

from bench.programs import Failed
from bench.readings import tree_cpu_seconds
from tests.stores.postgres_server import NoServer, cluster

__all__ = ["GROUNDS", "Ground", "Ledger", "open_ground"]

#: How many rows each table holds; then the seconds from the first begin to the last answer.
COUNTS: Final = """
select (select count(*) from attempt), (select count(*) from attempt_result where outcome = 'accepted'),
       (select count(*) from frozen), (select count(*) from delivery where status = 'sent'), (select count(*) from work)
"""
WINDOW: Final = "select (select max(finished_at) from attempt_result), (select min(started_at) from attempt)"
BYTES: Final = """
select a.payload_hash, f.body, f.destination, f.template_version, d.attempts, d.reason
from attempt a join frozen f on f.delivery_id = a.delivery_id and f.number = a.number
join delivery d on d.id = a.delivery_id
order by a.delivery_id
"""


class Ledger:
    """One database, by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def counts(self) -> dict[str, int]:
        """Attempts, accepted results, frozen requests, sent deliveries, and open work."""
        words = ("attempts", "accepted", "frozen", "sent", "open")
        return dict(zip(words, self._rows(COUNTS)[0], strict=True))

    def window_seconds(self) -> float:
        """From the first begin to the last answer, by the ledger's own times."""
        last, first = self._rows(WINDOW)[0]
        seconds = (last - first) / 1e6 if isinstance(last, int) else (last - first).total_seconds()
        return float(seconds)

    def fingerprint(self) -> str:
        """A hash of what was frozen and recorded, the same for two loops that wrote the same."""
        digest = hashlib.sha256()
        for row in self._rows(BYTES):
            digest.update(repr(row).encode())
        return digest.hexdigest()

    def analyze(self) -> None:
        """Let the planner learn what is there."""
        self._rows("analyze")

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        if self.url.startswith("sqlite:///"):
            raw = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                return raw.execute(statement).fetchall()
            finally:
                raw.close()
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []


class Ground(Protocol):
    """Where ledgers are made. They are gone when their context ends."""

    name: str

    def empty(self) -> AbstractContextManager[Ledger]:
        """A ledger without tables."""
        ...

    def copy(self, ledger: Ledger) -> AbstractContextManager[Ledger]:
        """A ledger with the same rows. Nobody may be connected to the first."""
        ...

    def cpu_seconds(self) -> float:
        """What the server has used so far; 0 if there is none."""
        ...


class PostgresGround:
    """Databases of one cluster."""

    name = "postgres"

    def __init__(self, url: str) -> None:
        self._url = url
        self._made = 0
        with psycopg.connect(url) as connection:
            found = connection.execute("select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int").fetchone()
        self._server_pid: int = found[0] if found else 0

    @contextmanager
    def empty(self) -> Iterator[Ledger]:
        """See Ground."""
        with self._database("template0") as ledger:
            yield ledger

    @contextmanager
    def copy(self, ledger: Ledger) -> Iterator[Ledger]:
        """See Ground."""
        with self._database(urlsplit(ledger.url).path.removeprefix("/")) as copied:
            yield copied

    def cpu_seconds(self) -> float:
        """See Ground."""
        return tree_cpu_seconds(self._server_pid)

    @contextmanager
    def _database(self, template: str) -> Iterator[Ledger]:
        self._made += 1
        name = f"bench_{self._made}"
        self._execute(f"create database {name} template {template}")
        self._execute("checkpoint")  # what was copied is not this round's to write
        try:
            yield Ledger(urlunsplit(urlsplit(self._url)._replace(path=f"/{name}")))
        finally:
            self._execute(f"drop database {name} with (force)")

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement.encode())


class SqliteGround:
    """Files of one folder."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def empty(self) -> Iterator[Ledger]:
        """See Ground."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            yield Ledger(f"sqlite:///{folder}/ledger.db")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def copy(self, ledger: Ledger) -> Iterator[Ledger]:
        """See Ground."""
        with self.empty() as copied:
            shutil.copyfile(ledger.url.removeprefix("sqlite:///"), copied.url.removeprefix("sqlite:///"))
            yield copied

    def cpu_seconds(self) -> float:
        """See Ground."""
        return 0.0


GROUNDS: Final = ("postgres", "sqlite")


@contextmanager
def open_ground(name: str) -> Iterator[Ground]:
    """A ground by its name. Raises Failed if there is no server and none could be started."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder:
            yield SqliteGround(Path(folder))
        return
    try:
        with cluster(durable=True) as own:
            yield PostgresGround(own.url)
    except NoServer as error:
        raise Failed(str(error)) from error
