"""The schema of a PostgreSQL database: which migrations it has seen, the next one applied, and what is there.

What should be there is found by running all migrations into the session's temporary schema, within a
transaction that is rolled back. That needs no right but to make temporary tables, which everybody has
unless it was taken away (https://www.postgresql.org/docs/current/sql-grant.html).
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg

from duly.stores.loader import load
from duly.stores.postgres.connect import Connection, Target, connect
from duly.stores.postgres.faults import mapped
from duly.stores.steps import Applied, Description, Migration, Step, check_namespace, pending

__all__ = ["PostgresSchema"]

NAMESPACE_BYTES: Final = 16


class PostgresSchema:
    """migrate.Schema of a database. A migration may take as long as it takes: there is no statement timeout."""

    dialect = "postgres"

    def __init__(self, url: str) -> None:
        self._target = Target.of(url)
        self._statements = {name: text.encode() for name, text in load(self.dialect).items()}

    async def applied(self) -> list[Applied]:
        """See Schema."""
        async with self._transaction() as connection:
            return await self._applied(connection)

    async def apply_next(self, known: tuple[Migration, ...], namespace: str | None, by: str) -> Step | None:
        """See Schema."""
        async with self._transaction() as connection:
            await self._rows(connection, "migration_lock")
            await connection.execute(self._statements["migration_table"])
            waiting = pending(known, await self._applied(connection))
            if waiting:
                await self._apply(connection, waiting[0], by)
            made = namespace or secrets.token_hex(NAMESPACE_BYTES)
            await connection.execute(self._statements["namespace_add"], [made])
            ((stored,),) = await self._rows(connection, "namespace")
            check_namespace(namespace, stored)
        return waiting[0].step if waiting else None

    async def live(self) -> Description:
        """See Schema."""
        async with self._transaction() as connection:
            return dict(await self._rows(connection, "describe", False))  # noqa: FBT003 - a parameter of SQL

    async def fresh(self, known: tuple[Migration, ...]) -> Description:
        """See Schema."""
        async with self._transaction() as connection:
            await connection.execute("set local search_path = pg_temp")
            for migration in known:
                await connection.execute(migration.script.encode())
            described = dict(await self._rows(connection, "describe", True))  # noqa: FBT003 - a parameter of SQL
            raise psycopg.Rollback
        return described

    async def _applied(self, connection: Connection) -> list[Applied]:
        ((seen,),) = await self._rows(connection, "migration_table_seen")
        return [Applied._make(row) for row in await self._rows(connection, "migrations_applied")] if seen else []

    async def _apply(self, connection: Connection, migration: Migration, by: str) -> None:
        await connection.execute(migration.script.encode())
        values = [migration.number, migration.name, migration.checksum, by]
        await connection.execute(self._statements["migration_add"], values)

    async def _rows(self, connection: Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await (await connection.execute(self._statements[statement], values or None)).fetchall()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        """A connection of its own, with one transaction on it."""
        connection = await connect(self._target)
        with mapped(self._target.place, self._target.password):
            try:
                async with connection.transaction():
                    yield connection
            finally:
                await connection.close()
