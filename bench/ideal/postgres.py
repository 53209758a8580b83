"""The ideal loop's ledger on PostgreSQL: three connections, one short transaction each, arrays in binary form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.json import set_json_loads
from psycopg.types.string import ByteaBinaryLoader

from bench.ideal.message import TEMPLATE, Message, Row
from bench.ideal.posts import Landed
from duly.stores.loader import statements
from duly.stores.postgres.arrays import Packed, byteas, ints, texts, times, uuids

__all__ = ["PostgresLedger"]

STATEMENTS: Final = {
    name: text.encode() for name, text in statements(Path(__file__).with_suffix(".sql").read_text("utf-8"))
}
TRUST_SECONDS: Final = 12.0  # a provider's timeout and a margin


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return bytes(obj)


class PostgresLedger:
    """One connection per thread."""

    def __init__(self, url: str, provider: str, worker: str, lease_seconds: float, version: str) -> None:
        self._provider, self._worker, self._lease_seconds, self._version = provider, worker, lease_seconds, version
        self._claims, self._begins, self._settles = (_connect(url) for _ in range(3))

    def claim(self, rows_max: int) -> list[Row]:
        """Lease ready rows, one commit."""
        found = self._claims.execute(
            STATEMENTS["claim"], (self._provider, rows_max, self._worker, self._lease_seconds), binary=True
        )
        return [Row._make(row) for row in found.fetchall()]

    def begin(self, messages: Sequence[Message]) -> list[Message]:
        """Lock the revisions, compare them, write attempts and frozen bytes: one commit, one round trip."""
        rows = [message.row for message in messages]
        with self._begins.pipeline(), self._begins.transaction():
            self._begins.execute(
                STATEMENTS["lock"],
                (
                    uuids([row.reminder_id for row in rows]),
                    uuids([row.recipient_id for row in rows]),
                    uuids([row.contact_id for row in rows]),
                ),
            )
            begun = self._begins.execute(STATEMENTS["begin"], self._begin_values(messages), binary=True)
        numbers = dict(begun.fetchall())
        return [one._replace(number=numbers[one.row.id]) for one in messages if one.row.id in numbers]

    def settle(self, landed: Sequence[Landed]) -> int:
        """Record acceptance, one commit."""
        rows = [one.message.row for one in landed]
        values = (
            uuids([row.id for row in rows]),
            ints(row.fence for row in rows),
            ints(one.message.number for one in landed),
            times(one.finished_at for one in landed),
        )
        return len(self._settles.execute(STATEMENTS["settle"], values, binary=True).fetchall())

    def _begin_values(self, messages: Sequence[Message]) -> tuple[Any, ...]:
        rows = [message.row for message in messages]
        return (
            uuids([row.id for row in rows]),
            ints(row.fence for row in rows),
            ints(row.account_revision for row in rows),
            ints(row.reminder_revision for row in rows),
            ints(row.recipient_revision for row in rows),
            ints(row.contact_revision for row in rows),
            texts(row.address for row in rows),
            byteas(message.body for message in messages),
            byteas(message.hash for message in messages),
            self._worker,
            TRUST_SECONDS,
            self._provider,
            TEMPLATE,
            self._version,
        )


def _connect(url: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor, options="-c timezone=UTC")
    connection.prepare_threshold = None
    connection.adapters.register_dumper(Packed, _Dumper)
    connection.adapters.register_loader("uuid", ByteaBinaryLoader)
    set_json_loads(orjson.loads, connection)
    return connection
