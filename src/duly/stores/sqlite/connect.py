"""One connection to a SQLite ledger: how it is opened, what time it is, and what its errors mean.

The file is in write-ahead mode: readers never wait for the writer, and a killed process loses nothing
that was committed (https://www.sqlite.org/wal.html). `synchronous=FULL` makes every commit durable
before it returns (https://www.sqlite.org/pragma.html#pragma_synchronous). Writers take their turn:
every writing transaction begins IMMEDIATE, so that it waits for its turn before it reads, and is never
refused half-way for having read too early (https://www.sqlite.org/lang_transaction.html).

`db_now()` is the ledger's clock, in microseconds since 1970-01-01T00:00:00Z. It never steps back on one
connection: a machine whose clock was set back waits until it has caught up. A simulation supplies it.

Nothing of sqlite3 leaves this module unmapped: `mapped` says in one line what went wrong with the file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from duly.errors import DulyError, SchemaError, StoreError, StoreUnavailable
from duly.stores.bisect import DataRefused
from duly.stores.steps import NEW_LEDGER

__all__ = ["BUSY_TIMEOUT_SECONDS", "OLDEST_SQLITE", "Database", "SteadyClock", "mapped", "refuse_old_sqlite"]

#: STRICT tables came with 3.37 (https://www.sqlite.org/stricttables.html), RETURNING with 3.35.
OLDEST_SQLITE: Final = (3, 37, 0)
BUSY_TIMEOUT_SECONDS: Final = 15.0
STATEMENTS_KEPT: Final = 256

SETTINGS: Final = (
    "pragma synchronous = full",
    "pragma foreign_keys = off",
    "pragma temp_store = memory",
    "pragma cache_size = -32768",  # KiB of pages per connection, whatever the size of the file
    "pragma wal_autocheckpoint = 4000",  # pages, 16 MiB: a checkpoint every few dozen batches
    "pragma journal_size_limit = 67108864",  # bytes of write-ahead log that are kept after a burst
)

NOT_DURABLE: Final = "pragma synchronous = off"

_NO_ANSWER: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_BUSY: f"another process has kept it busy for {BUSY_TIMEOUT_SECONDS:.0f} s",
    sqlite3.SQLITE_LOCKED: "another statement keeps it busy",
    sqlite3.SQLITE_FULL: "its disk is full; make room, and the work goes on",
    sqlite3.SQLITE_IOERR: "its disk does not answer as it should",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_INTERRUPT: "the statement was interrupted",
    sqlite3.SQLITE_PROTOCOL: "its lock could not be had",
}
_REFUSED: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database; check the path",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a backup",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the permissions of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its directory exists and may be written",
    sqlite3.SQLITE_PERM: "it cannot be opened; check the permissions of the file and its directory",
}
_BAD_DATA: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE}
)
_PRIMARY_CODE_MASK: Final = 0xFF  # the extended codes are in the higher bits


class SteadyClock:
    """Microseconds since 1970-01-01T00:00:00Z that never step back."""

    def __init__(self, source: Callable[[], int] | None = None) -> None:
        self._source = source or _system_microseconds
        self._last = 0

    def __call__(self) -> int:
        """The source's time, or the last one seen if that was later."""
        self._last = max(self._last, self._source())
        return self._last


class Database:
    """One connection, the named statements that run on it, and its clock. Used by one thread at a time."""

    def __init__(
        self,
        path: str | Path,
        statements: Mapping[str, str],
        now: Callable[[], int] | None = None,
        *,
        durable: bool = True,
    ) -> None:
        """Open the file. Raises StoreError where it cannot be used, SchemaError where it does not exist.

        Not `durable`: commits do not wait for the disk, and a machine that goes down may lose or ruin them all.
        """
        self.path = str(path)
        self.now = SteadyClock(now)
        self._statements = statements
        with mapped(self.path):
            refuse_old_sqlite()
            _forget_statistics(self.path, statements)
            self._raw = _connect(self.path)
            self._name = Path(path)
            self._file = _identity(self._name)
            self._set_up(durable)

    def _set_up(self, durable: bool) -> None:  # noqa: FBT001 - private
        try:
            # Deterministic: asked once per statement, as SQLite does with its own clock.
            self._raw.create_function("db_now", 0, self.now, deterministic=True)
            _write_ahead(self._raw, self.path)
            for setting in SETTINGS if durable else (*SETTINGS, NOT_DURABLE):
                self._raw.execute(setting)
        except BaseException:
            self._raw.close()
            raise

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One writing transaction: committed and durable at the end, or as if it had never been."""
        with mapped(self.path):
            self._refuse_another_file()
            self._raw.execute("begin immediate")
            try:
                yield
                self._raw.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One snapshot for several statements."""
        with mapped(self.path):
            self._raw.execute("begin")
            try:
                yield
            finally:
                self._roll_back()

    def rows(self, statement: str, /, **values: Any) -> list[Any]:
        """All rows of a named statement, as tuples."""
        return self._raw.execute(self._statements[statement], values).fetchall()

    def row(self, statement: str, /, **values: Any) -> Any:
        """The first row, or None."""
        return self._raw.execute(self._statements[statement], values).fetchone()

    def value(self, statement: str, /, **values: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.row(statement, **values)
        return None if row is None else row[0]

    def change(self, statement: str, /, **values: Any) -> int:
        """Run a writing statement; returns how many rows it changed."""
        return self._raw.execute(self._statements[statement], values).rowcount

    def change_one(self, statement: str, *values: Any) -> int:
        """Run a writing statement that takes its values by place; returns how many rows it changed."""
        return self._raw.execute(self._statements[statement], values).rowcount

    def change_each(self, statement: str, values: Iterable[Sequence[Any]]) -> int:
        """Run a writing statement once per row of values, by place; returns how many rows were changed in all."""
        return max(0, self._raw.executemany(self._statements[statement], values).rowcount)

    def close(self) -> None:
        """Give the file back."""
        with mapped(self.path):
            self._raw.close()

    def _refuse_another_file(self) -> None:
        """What is written into a file that has lost its name is lost, and sent again by whoever opens the new one."""
        if _identity(self._name) != self._file:
            raise StoreError(f"database {self.path}: the file was moved, deleted or replaced; stop every worker first")

    def _roll_back(self) -> None:
        """SQLite may have rolled back by itself (disk full): then there is nothing left to do."""
        if self._raw.in_transaction:
            with suppress(sqlite3.Error):
                self._raw.execute("rollback")


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Let only errors of `duly.errors` out."""
    try:
        yield
    except sqlite3.Error as error:
        raise _told(path, error) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise DataRefused(f"database {path}: a value cannot be stored ({type(error).__name__})") from error


def _told(path: str, error: sqlite3.Error) -> DulyError:
    """What an error of SQLite means. Its codes: https://www.sqlite.org/rescode.html."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE_MASK
    text = " ".join(str(error).split())
    if code in _NO_ANSWER:
        return StoreUnavailable(f"database {path}: {_NO_ANSWER[code]} ({text})")
    if code in _REFUSED:
        return StoreError(f"database {path}: {_REFUSED[code]} ({text})")
    if text.startswith(("no such table", "no such column", "no such index", "no such view")):
        return SchemaError(f"database {path}: {text}; run `duly migrate apply`")
    if code in _BAD_DATA or isinstance(error, (sqlite3.InterfaceError, sqlite3.DataError)):
        return DataRefused(f"database {path}: a value was refused ({text})")
    return StoreError(f"database {path}: {text}")


def _forget_statistics(path: str, statements: Mapping[str, str]) -> None:
    """On a connection of its own, because one that has read them keeps them in mind."""
    with closing(_connect(path)) as raw:
        (there,) = raw.execute(statements["statistics_there"]).fetchone()
        if there:
            raw.execute(statements["statistics_drop"])
            raw.execute(statements["statistics_drop_samples"])


def _identity(path: Path) -> tuple[int, int] | None:
    """The file behind the name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{_usable(path).as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
    )


def _usable(path: str) -> Path:
    """The absolute path; refuses what SQLite would report less clearly."""
    if "\0" in path:
        raise StoreError(f"database {path!r}: a path holds no NUL")
    file = Path(path).absolute()
    try:
        if not file.parent.is_dir():
            raise StoreError(f"database {path}: there is no directory {file.parent}; create it first")
        if not file.exists():
            raise SchemaError(f"database {path}: there is no such file; {NEW_LEDGER}")
    except OSError as error:
        raise StoreError(f"database {path}: it cannot be reached; {error.strerror}") from error
    return file


def _write_ahead(raw: sqlite3.Connection, path: str) -> None:
    (mode,) = raw.execute("pragma journal_mode = wal").fetchone()
    if mode != "wal":
        raise StoreError(f"database {path}: its file system does not allow write-ahead mode; put it on a local disk")


def refuse_old_sqlite() -> None:
    """Raise StoreError if the SQLite that Python was built with lacks what the schema needs."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; {needed} or newer is needed")


def _system_microseconds() -> int:
    return time.time_ns() // 1000
