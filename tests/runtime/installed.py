"""An installation in a folder: a ledger with due reminders for a receiver that runs beside the test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from duly.core.model import Channel
from duly.flows.tick import tick
from duly.intake import zones
from duly.runtime.config import Config, load
from duly.stores.sqlite import SqliteStore
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder
from duly.testing.driving import at_once, drive
from duly.testing.receiver import Receiver
from tests.flows.scene import SECRET
from tests.stores.ledgers import create_sqlite, raw

__all__ = ["TEXT", "Installed"]

TEXT = f"""
database = "sqlite:///ledger.db"

[providers.hooks]
kind = "webhook"
secret = "{SECRET}"
allow_private_networks = true
concurrency = 4

[templates.note]
text = "hello"
"""


class Installed:
    """A folder with a configuration and a ledger, and a receiver."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.folder, self.receiver = folder, receiver
        self.path = folder / "duly.toml"
        self.path.write_text(TEXT)
        create_sqlite(folder / "ledger.db")

    @property
    def config(self) -> Config:
        """The configuration."""
        return load(self.path, {})

    def schedule(self, count: int, mood: str = "ok", *, ticked: bool = True) -> None:
        """Write reminders that are due, as deliveries unless they are yet to be found."""
        store = drive(SqliteStore.open(self.folder / "ledger.db", run=at_once))
        due = datetime.now(UTC) - timedelta(seconds=1)
        addresses = {Channel.WEBHOOK: self.receiver.url(mood)}
        drive(store.schedule([new_reminder(f"r{number}", due, addresses=addresses) for number in range(count)]))
        if ticked:
            drive(tick(store, NAMESPACE, PROVIDERS, zones.known))
        drive(store.close())

    def value(self, query: str) -> int:
        """The first column of a query's first row."""
        with raw(self.folder / "ledger.db") as database:
            return int(database.execute(query).fetchone()[0])
