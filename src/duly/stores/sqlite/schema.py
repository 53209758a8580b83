"""The schema of a SQLite file: which migrations it has seen, the next one applied, and what is there.

Writers take turns (BEGIN IMMEDIATE), and a migration is one transaction, tables and all
(https://www.sqlite.org/lang_transaction.html). Python's `executescript` would commit in between, so a
script is cut into its statements here.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from duly.stores.loader import load
from duly.stores.sqlite.connect import BUSY_TIMEOUT_SECONDS, mapped, refuse_old_sqlite
from duly.stores.steps import Applied, Description, Migration, Step, check_namespace, pending

__all__ = ["SqliteSchema"]

NAMESPACE_BYTES: Final = 16


class SqliteSchema:
    """migrate.Schema of a file. The calls are short, and block."""

    dialect = "sqlite"

    def __init__(self, path: str) -> None:
        self._path = path
        self._statements = load(self.dialect)

    async def applied(self) -> list[Applied]:
        """See Schema. A file that does not exist is not made."""
        return self._remembered()

    async def apply_next(self, known: tuple[Migration, ...], namespace: str | None, by: str) -> Step | None:
        """See Schema."""
        with mapped(self._path), closing(self._connect()) as database:
            database.execute("begin immediate")
            step = self._apply_next(database, known, namespace, by)
            database.execute("commit")
        return step

    async def live(self) -> Description:
        """See Schema."""
        with mapped(self._path), closing(self._connect()) as database:
            return self._describe(database)

    async def fresh(self, known: tuple[Migration, ...]) -> Description:
        """See Schema: all migrations on a database in memory."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            for migration in known:
                _run(database, migration.script)
            return self._describe(database)

    def _connect(self) -> sqlite3.Connection:
        refuse_old_sqlite()
        return sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS)

    def _remembered(self) -> list[Applied]:
        if not Path(self._path).exists():
            return []
        with mapped(self._path), closing(self._connect()) as database:
            return self._applied(database)

    def _applied(self, database: sqlite3.Connection) -> list[Applied]:
        if not database.execute(self._statements["migration_table_seen"]).fetchone()[0]:
            return []
        return [Applied._make(row) for row in database.execute(self._statements["migrations_applied"])]

    def _apply_next(
        self, database: sqlite3.Connection, known: tuple[Migration, ...], namespace: str | None, by: str
    ) -> Step | None:
        database.execute(self._statements["migration_table"])
        waiting = pending(known, self._applied(database))
        if waiting:
            _run(database, waiting[0].script)
            self._record(database, waiting[0], by)
        made = namespace or secrets.token_hex(NAMESPACE_BYTES)
        database.execute(self._statements["namespace_add"], {"namespace": made})
        check_namespace(namespace, database.execute(self._statements["namespace"]).fetchone()[0])
        return waiting[0].step if waiting else None

    def _record(self, database: sqlite3.Connection, done: Migration, by: str) -> None:
        values = {"number": done.number, "name": done.name, "checksum": done.checksum, "by": by}
        database.execute(self._statements["migration_add"], values)

    def _describe(self, database: sqlite3.Connection) -> Description:
        return dict(database.execute(self._statements["describe"]).fetchall())


def _run(database: sqlite3.Connection, script: str) -> None:
    for statement in _cut(script):
        database.execute(statement)


def _cut(script: str) -> Iterator[str]:
    """The statements of a script. A semicolon inside a comment or a text ends none."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
