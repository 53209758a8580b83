"""The ideal loop's ledger on SQLite: one connection, one transaction at a time, whoever's turn it is."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from bench.ideal.message import TEMPLATE, Message, Row
from bench.ideal.posts import Landed
from duly.stores.loader import statements

__all__ = ["SqliteLedger"]

STATEMENTS: Final = dict(statements(Path(__file__).with_suffix(".sql").read_text("utf-8")))
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TRUST_SECONDS: Final = 12.0  # a provider's timeout and a margin
#: The journal, the durability and the sizes that Duly itself asks for.
SETTINGS: Final = (
    "pragma journal_mode = wal",
    "pragma synchronous = full",
    "pragma cache_size = -32768",
    "pragma wal_autocheckpoint = 4000",
)


class SqliteLedger:
    """One writer."""

    def __init__(self, path: str, provider: str, worker: str, lease_seconds: float, version: str) -> None:
        self._provider, self._worker, self._lease_seconds, self._version = provider, worker, lease_seconds, version
        self._turn = threading.Lock()
        self._raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in SETTINGS:
            self._raw.execute(setting)

    def claim(self, rows_max: int) -> list[Row]:
        """Lease ready rows, one commit."""
        with self._transaction() as now:
            found = self._raw.execute(
                STATEMENTS["claim"], {"provider": self._provider, "rows_max": rows_max}
            ).fetchall()
            until = now + int(self._lease_seconds * 1e6)
            self._raw.executemany(
                STATEMENTS["lease"],
                [
                    {"id": row[0], "fence": row[1], "worker": self._worker, "lease_until": until, "now": now}
                    for row in found
                ],
            )
        return [_row(row) for row in found]

    def begin(self, messages: Sequence[Message]) -> list[Message]:
        """Compare the revisions, write attempts and frozen bytes: one commit."""
        with self._transaction() as now:
            begun = [(message, value) for message in messages if (value := self._begin(message, now))]
            self._raw.executemany(STATEMENTS["attempt"], [value for _, value in begun])
            self._raw.executemany(STATEMENTS["frozen"], [value for _, value in begun])
        return [message._replace(number=value["number"]) for message, value in begun]

    def settle(self, landed: Sequence[Landed]) -> int:
        """Record acceptance, one commit."""
        with self._transaction():
            closed = [value for one in landed if (value := self._close(one))]
            self._raw.executemany(STATEMENTS["finish"], closed)
            self._raw.executemany(STATEMENTS["result"], closed)
        return len(closed)

    @contextmanager
    def _transaction(self) -> Iterator[int]:
        with self._turn:
            self._raw.execute("begin immediate")
            yield time.time_ns() // 1000
            self._raw.execute("commit")

    def _begin(self, message: Message, now: int) -> dict[str, Any] | None:
        row = message.row
        value = {
            "id": row.id,
            "fence": row.fence,
            "worker": self._worker,
            "provider": self._provider,
            "now": now,
            "trust_until": now + int(TRUST_SECONDS * 1e6),
            "account_revision": row.account_revision,
            "reminder_revision": row.reminder_revision,
            "recipient_revision": row.recipient_revision,
            "contact_revision": row.contact_revision,
            "hash": message.hash,
            "destination": row.address,
            "body": message.body,
            "template": TEMPLATE,
            "template_version": self._version,
        }
        found = self._raw.execute(STATEMENTS["begin"], value).fetchall()
        return {**value, "number": found[0][0]} if found else None

    def _close(self, one: Landed) -> dict[str, Any] | None:
        row = one.message.row
        if not self._raw.execute(STATEMENTS["close"], {"id": row.id, "fence": row.fence}).rowcount:
            return None
        finished_at = (one.finished_at - EPOCH) // timedelta(microseconds=1)
        return {"id": row.id, "number": one.message.number, "finished_at": finished_at}


def _row(found: tuple[Any, ...]) -> Row:
    *before, due_at, address, ref, name, data = found
    return Row._make((*before, EPOCH + timedelta(microseconds=due_at), address, ref, name, orjson.loads(data)))
