"""The database of a soak: a durable PostgreSQL cluster of its own, or a SQLite file.

What a crash may take must be what a power cut would take, and nothing more: so the cluster keeps fsync on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from soak.programs import Failed

if TYPE_CHECKING:
    from tests.stores.postgres_server import Cluster

__all__ = ["DATABASES", "Database", "open_database"]

DATABASES: Final = ("postgres", "sqlite")


class Database(Protocol):
    """Where the ledger is."""

    url: str
    is_a_server: bool

    def stop(self, how: signal.Signals) -> None:
        """SIGINT: disconnect everybody and stop; SIGQUIT: crash. Harmless if it is down."""
        ...

    def start(self) -> None:
        """Be up again when this returns. Harmless if it is up."""
        ...


class _Server:
    """A cluster, up when it is handed over."""

    is_a_server = True

    def __init__(self, own: Cluster) -> None:
        self.url = own.url
        self._own, self._is_up = own, True

    def stop(self, how: signal.Signals) -> None:
        """See Database."""
        self._own.stop(how)
        self._is_up = False

    def start(self) -> None:
        """See Database."""
        if not self._is_up:
            self._own.start()
            self._is_up = True


class _File:
    """A file is always there."""

    is_a_server = False

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"

    def stop(self, how: signal.Signals) -> None:
        """See Database."""

    def start(self) -> None:
        """See Database."""


@contextmanager
def open_database(name: str, folder: Path) -> Iterator[Database]:
    """An empty one, gone at the end. Raises Failed if there is no PostgreSQL to be had."""
    if name == "sqlite":
        yield _File(folder / "duly.db")
        return
    from tests.stores.postgres_server import NoServer, cluster  # noqa: PLC0415  needs the driver

    try:
        with cluster(durable=True) as own:
            yield _Server(own)
    except NoServer as error:
        raise Failed(str(error)) from error
