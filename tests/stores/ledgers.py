"""Ledgers for the conformance suite: an empty database of each dialect, a store on it, and power over its time.

A case must be able to let time pass. SQLite takes its clock from here. PostgreSQL keeps its own, so there
every stored moment is moved back instead, which comes to the same for all that compares moments.
"""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from duly.ports import Store, Views
from duly.stores import migrate
from duly.stores.sqlite import SqliteStore
from duly.testing.builders import NAMESPACE

SECOND_US = 1_000_000


class Ledger(Protocol):
    """What a case may do besides the ports: open a second store, let time pass, and look into the tables."""

    store: Store
    views: Views

    async def another(self) -> Store:
        """A second store on the same database, as another process would have."""
        ...

    async def pass_time(self, seconds: float) -> None:
        """Let the database's time pass."""
        ...

    async def change(self, sql: str) -> None:
        """Run a statement that both dialects understand."""
        ...

    async def value(self, sql: str) -> Any:
        """The first column of the first row of a query that both dialects understand."""
        ...


class Harness(Protocol):
    """Opens ledgers of one dialect."""

    def open(self) -> AbstractAsyncContextManager[Ledger]:
        """An empty ledger with its schema."""
        ...


# --- SQLite --------------------------------------------------------------------------------------


class SqliteLedger:
    """A SQLite file with a clock that can be moved."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ahead_us = 0
        self.opened: list[SqliteStore] = []

    def now(self) -> int:
        """The machine's time, and what has been let pass."""
        return time.time_ns() // 1000 + self.ahead_us

    async def set_up(self) -> SqliteLedger:
        """Open the first store."""
        store = await self.another()
        self.store: Store = store
        self.views: Views = store.views()
        return self

    async def another(self) -> SqliteStore:
        """See Ledger.another."""
        store = await SqliteStore.open(self.path, now=self.now)
        self.opened.append(store)
        return store

    async def pass_time(self, seconds: float) -> None:
        """See Ledger.pass_time."""
        self.ahead_us += round(seconds * SECOND_US)

    async def change(self, sql: str) -> None:
        """See Ledger.change."""
        with raw(self.path) as database:
            database.execute(sql)

    async def value(self, sql: str) -> Any:
        """See Ledger.value."""
        with raw(self.path) as database:
            return database.execute(sql).fetchone()[0]

    async def close(self) -> None:
        """Close every store."""
        for store in self.opened:
            await store.close()


class SqliteHarness:
    """Makes one SQLite ledger in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        create_sqlite(self.path)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SqliteLedger]:
        """See Harness.open."""
        ledger = await SqliteLedger(self.path).set_up()
        try:
            yield ledger
        finally:
            await ledger.close()


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection that commits every statement."""
    database = sqlite3.connect(path, isolation_level=None, timeout=15)
    try:
        yield database
    finally:
        database.close()


def create_sqlite(path: Path) -> None:
    """An empty SQLite ledger: a copy of one that was migrated once, because making a schema takes longer."""
    path.write_bytes(_migrated())


@functools.cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        asyncio.run(migrate.apply(f"sqlite:///{path}", NAMESPACE, by="tests"))
        return path.read_bytes()


# --- PostgreSQL ----------------------------------------------------------------------------------

#: Every table of the ledger that has moments, with their columns.
MOMENTS: Final = b"""
select c.relname, array_agg(a.attname::text) from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
and a.attnum > 0 and not a.attisdropped and a.atttypid = 'timestamptz'::regtype group by c.relname
"""
#: As after the first migration.
EMPTY: Final = f"""
truncate account, recipient, contact, reminder, delivery, work, attempt, attempt_result, frozen, event, budget, guard,
consent, consent_event, operation, paused_template, capped, template restart identity;
delete from installation;
insert into installation (namespace) values ('{NAMESPACE}');
"""  # noqa: S608 - a constant


class PostgresLedger:
    """A PostgreSQL database whose moments can be moved back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.opened: list[Any] = []

    async def set_up(self) -> PostgresLedger:
        """Open the first store."""
        store = await self.another()
        self.store: Any = store
        self.views: Views = store.views()
        return self

    async def another(self) -> Any:
        """See Ledger.another."""
        from duly.stores.postgres import PostgresStore  # noqa: PLC0415 - only where its driver is installed

        store = await PostgresStore.open(self.url)
        self.opened.append(store)
        return store

    async def pass_time(self, seconds: float) -> None:
        """See Ledger.pass_time."""
        await asyncio.to_thread(self._move_back, seconds)

    def _move_back(self, seconds: float) -> None:
        import psycopg  # noqa: PLC0415 - only where it is installed

        with psycopg.connect(self.url, autocommit=True) as connection:
            for table, columns in connection.execute(MOMENTS).fetchall():
                moved = ", ".join(f"{column} = {column} - interval '{seconds} s'" for column in columns)
                connection.execute(f"update {table} set {moved}".encode())  # noqa: S608 - names from the catalogue

    async def change(self, sql: str) -> None:
        """See Ledger.change."""
        await asyncio.to_thread(self._all, sql)

    async def value(self, sql: str) -> Any:
        """See Ledger.value."""
        return (await asyncio.to_thread(self._all, sql))[0][0]

    def _all(self, sql: str) -> list[Any]:
        import psycopg  # noqa: PLC0415 - only where it is installed

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        """Close every store."""
        for store in self.opened:
            await store.close()


class PostgresHarness:
    """Empties one PostgreSQL database again and again: making a new one for each case takes too long."""

    def __init__(self, url: str) -> None:
        self.url = url
        asyncio.run(self._create())

    async def _create(self) -> None:
        await migrate.apply(self.url, NAMESPACE, by="tests")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PostgresLedger]:
        """See Harness.open."""
        ledger = PostgresLedger(self.url)
        await ledger.change(EMPTY)
        try:
            yield await ledger.set_up()
        finally:
            await ledger.close()
