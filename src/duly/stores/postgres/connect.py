"""Connections to a PostgreSQL ledger, and the one shape in which they are used: a short transaction.

Every call of the store is one transaction: begin, a preamble, statements, commit, sent through the
driver's pipeline, so that statements whose answers are not needed yet cost no round trip. The preamble
sets the server's own time limits for this transaction only and reads its time. Nothing is left on the
session: no prepared statements, no session locks, no LISTEN, no startup options. So it works behind a
transaction pooler (PgBouncer's `pool_mode = transaction`, https://www.pgbouncer.org/features.html).

Statements are not prepared, for two reasons. The plans that PostgreSQL keeps for prepared statements do
not look at the arrays that they are given; settle, kept, cost twice as much as settle planned afresh
(docs/decisions/0002-psycopg.md). And a kept plan outlives the statistics that it was made for.

An error costs its connection: it is closed, whatever state it is in, and the next call makes another.
Nothing is repeated here. Where a connection was lost, the idle ones are thought lost too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime, timedelta
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format

from duly.errors import StoreError, StoreUnavailable
from duly.stores.postgres.arrays import POSTGRES_EPOCH, Packed
from duly.stores.postgres.faults import mapped

__all__ = ["Connection", "Connections", "Cursor", "Row", "Target", "Transaction", "connect"]

#: What the client allows the server beyond its own time limit before it gives the connection up, in seconds.
GRACE_SECONDS: Final = 5.0

Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = psycopg.AsyncConnection[Row]
Cursor: TypeAlias = psycopg.AsyncCursor[Row]


# --- types ---------------------------------------------------------------------------------------


class _PackedDumper(Dumper):
    """Bytes that are already what the server wants. The statement's cast names the type."""

    format = Format.BINARY

    def dump(self, obj: Packed) -> Buffer:
        return obj


class _IdLoader(Loader):
    """uuid as 16 bytes."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class _MomentLoader(Loader):
    """timestamptz in UTC, whatever the session's zone: times of one zone subtract as on its wall clocks."""

    format = Format.BINARY
    _unpack = Struct(">q").unpack

    def load(self, data: Buffer) -> datetime:
        return POSTGRES_EPOCH + timedelta(0, 0, self._unpack(data)[0])


class _JsonbLoader(Loader):
    """jsonb, which in binary form is a version byte and text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        return orjson.loads(bytes(data)[1:])


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(Packed, _PackedDumper)
    adapters.register_loader("uuid", _IdLoader)
    adapters.register_loader("timestamptz", _MomentLoader)
    adapters.register_loader("jsonb", _JsonbLoader)
    return adapters


class _Context:
    """What psycopg takes adapters from when it connects."""

    connection = None
    adapters = _adapters()


# --- one connection ------------------------------------------------------------------------------


class Target(NamedTuple):
    """Where the ledger is and how long anything may take there, in seconds."""

    options: Mapping[str, Any]
    connect_timeout: float
    statement_timeout_seconds: float

    @classmethod
    def of(cls, url: str, connect_timeout: float = 5.0, statement_timeout_seconds: float = 30.0) -> Target:
        """Read a URL. Raises StoreError, which does not repeat it: it may hold a password."""
        try:
            options = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise StoreError("the database's URL cannot be read; write postgresql://user@host:5432/name") from None
        return cls(options, connect_timeout, statement_timeout_seconds)

    @property
    def place(self) -> str:
        """The database's name for messages."""
        named, host = self.options.get("dbname"), self.options.get("host")
        return "database" + (f" {named}" if named else "") + (f" on {host}" if host else "")

    @property
    def password(self) -> str | None:
        """For hiding it."""
        return self.options.get("password")

    def settings(self) -> dict[str, Any]:
        """The driver's options: the URL's own win. A dead peer is noticed by keepalives and unacknowledged data."""
        ours = {
            "application_name": "duly",
            "connect_timeout": max(1, round(self.connect_timeout)),
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": round((self.statement_timeout_seconds + GRACE_SECONDS) * 1000),
        }
        return {**ours, **self.options}


async def connect(target: Target) -> Connection:
    """A new connection in autocommit mode. Raises StoreUnavailable or StoreError."""
    with mapped(target.place, target.password):
        async with asyncio.timeout(target.connect_timeout + GRACE_SECONDS):
            return await psycopg.AsyncConnection.connect(
                **target.settings(),
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=psycopg.AsyncRawCursor,
                context=_Context(),
            )


# --- one transaction -----------------------------------------------------------------------------


class Transaction:
    """Named statements on one connection, within one transaction."""

    def __init__(self, connection: Connection, statements: Mapping[str, bytes]) -> None:
        self._connection = connection
        self._statements = statements
        self._opening: Cursor | None = None

    async def open(self, statement_timeout_seconds: float) -> None:
        """Queue the begin and the preamble."""
        await self._connection.execute("begin isolation level read committed read write")
        self._opening = await self.send("preamble", str(round(statement_timeout_seconds * 1000)))

    async def now(self) -> datetime:
        """The database's time when the transaction began. May be asked for after the commit, once."""
        found = await self._opening.fetchone() if self._opening else None
        if found is None:
            raise StoreUnavailable("the database did not say what time it is")
        moment: datetime = found[0]
        return moment

    async def send(self, statement: str, *values: Any) -> Cursor:
        """Queue a named statement; its rows can be fetched from the cursor, now or after the commit."""
        cursor = self._connection.cursor(binary=True)
        return await cursor.execute(self._statements[statement], values)

    async def rows(self, statement: str, *values: Any) -> list[Row]:
        """Send a statement and wait for all its rows."""
        return await (await self.send(statement, *values)).fetchall()

    async def row(self, statement: str, *values: Any) -> Row:
        """The first row of a statement that always has one."""
        return (await self.rows(statement, *values))[0]


class Losses:
    """How often the server was lost. Connections of before a loss are not used again, whoever noticed it."""

    def __init__(self) -> None:
        self.count = 0


class Connections:
    """At most `size` connections to one database, made when they are needed."""

    def __init__(self, target: Target, statements: Mapping[str, str], size: int, losses: Losses) -> None:
        self.target = target
        self._losses = losses
        self._statements = {name: statement.encode() for name, statement in statements.items()}
        self._room = asyncio.Semaphore(size)
        self._idle: list[tuple[int, Connection]] = []  # with the losses when it was made

    @asynccontextmanager
    async def transaction(self, seconds: float | None = None) -> AsyncIterator[Transaction]:
        """Lend a transaction: committed at the end, or rolled back with its connection closed.

        A statement may take `seconds`, where that is more than usual. Raises StoreUnavailable where the server did
        not answer in time: the commit may have happened.
        """
        allowed = seconds or self.target.statement_timeout_seconds
        async with self._room:
            made, connection = await self._take()
            pipeline = connection.pipeline()
            try:
                with mapped(self.target.place, self.target.password):
                    async with asyncio.timeout(allowed + GRACE_SECONDS):
                        await pipeline.__aenter__()
                        transaction = Transaction(connection, self._statements)
                        await transaction.open(allowed)
                        yield transaction
                        await connection.execute("commit")
                        await pipeline.__aexit__(None, None, None)
            except BaseException as error:
                await _give_up(connection, pipeline)
                if isinstance(error, StoreUnavailable) and made == self._losses.count:
                    self._losses.count += 1
                raise
            self._idle.append((made, connection))

    async def close(self) -> None:
        """Close what is idle."""
        idle, self._idle = self._idle, []
        for _, connection in idle:
            await connection.close()

    async def _take(self) -> tuple[int, Connection]:
        while self._idle:
            made, connection = self._idle.pop()
            if made == self._losses.count and not connection.closed:
                return made, connection
            await connection.close()
        return self._losses.count, await connect(self.target)


async def _give_up(connection: Connection, pipeline: AbstractAsyncContextManager[Any]) -> None:
    """Close a connection after an error, and let go of its pipeline, which has nothing new to say."""
    with suppress(psycopg.Error, OSError):
        await connection.close()
    with suppress(Exception):
        await pipeline.__aexit__(None, None, None)
