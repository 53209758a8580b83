"""The PostgreSQL store alone, by hand: rows per second and CPU per row of each of its five batches.

    python -m bench.store [--rows 20000] [--batch 500] [--accounts 100] [--rate 1000000]

Nothing is sent: the store's calls follow one another on one connection each, so the figures are what a
worker could reach if it did nothing else. Every row has the shape of a webhook reminder with a body of
600 bytes and an endpoint of its own; with `--rate` each of these has a budget, the dearest case of all.
The tables are analysed while every row is ready, which is when the planner is tempted most.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psycopg

from duly.core.firing import fire
from duly.core.model import Begun, Channel, Claimed, NewReminder, Outcome, Result, Settlement
from duly.ports import ClaimOrder
from duly.stores import migrate
from duly.stores.postgres import PostgresStore
from duly.testing.builders import NAMESPACE, PROVIDERS, frozen, new_reminder, settlement, start
from tests.stores.postgres_server import cluster, fresh_database

HOOKS: Final = "hooks"
BODY: Final = b"{" + b"x" * 598 + b"}"
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Meter:
    """Time and CPU, ours and the server's, by what was done."""

    postmaster: int
    spent: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def measure(self, what: str, rows: int) -> Iterator[None]:
        """Count what happens inside as so many rows of `what`."""
        server = _cpu_of_children(self.postmaster)
        wall, client = time.perf_counter(), time.process_time()
        yield
        used = [rows, time.perf_counter() - wall, time.process_time() - client]
        used.append(_cpu_of_children(self.postmaster) - server)
        total = self.spent.setdefault(what, [0.0] * 4)
        self.spent[what] = [sum(pair) for pair in zip(total, used, strict=True)]

    def report(self) -> None:
        """Print the table."""
        print(f"{'':10}{'rows/s':>10}{'client us':>12}{'server us':>12}")
        for what, (rows, wall, client, server) in self.spent.items():
            print(f"{what:10}{rows / wall:>10,.0f}{client / rows * 1e6:>12.1f}{server / rows * 1e6:>12.1f}")


def _cpu_of_children(parent: int) -> float:
    """CPU seconds of the server's processes (Linux)."""
    seconds = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            seconds += (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return seconds


def reminders(rows: int, accounts: int) -> list[NewReminder]:
    """Reminders that are due now, spread over accounts, each with a recipient and an address of its own."""
    due = datetime.now(UTC) - timedelta(seconds=5)
    return [
        new_reminder(
            f"inspection-{row}",
            due,
            account=f"account-{row % accounts}",
            ref=f"tenant-{row}",
            addresses={Channel.WEBHOOK: f"https://app.example.com/hooks/{row}"},
            data={"unit": "4B", "day": "Tuesday", "time": "10:00"},
        )
        for row in range(rows)
    ]


async def schedule(store: PostgresStore, meter: Meter, rows: Sequence[NewReminder], batch: int) -> None:
    """Write the reminders."""
    for first in range(0, len(rows), batch):
        part = rows[first : first + batch]
        with meter.measure("schedule", len(part)):
            await store.schedule(part)


async def tick(store: PostgresStore, meter: Meter) -> None:
    """Make deliveries, 2,000 at a time."""
    while True:
        found = await store.due(2_000)
        if not found.rows:
            return
        fired = [fire(row, found.now, NAMESPACE, PROVIDERS) for row in found.rows]
        with meter.measure("tick", len(fired)):
            await store.materialise(fired)


async def deliver(store: PostgresStore, meter: Meter, batch: int, rate: float | None) -> int:
    """Claim, begin and settle batches until nothing is ready."""
    after, done = 0, 0
    while True:
        with meter.measure("claim", batch):
            claim = await store.claim(ClaimOrder(HOOKS, "normal", batch, after, "bench", 60))
        if not claim.rows:
            return done
        after, done = claim.next_account, done + len(claim.rows)
        starts = [start(row, rate=rate, frozen=frozen(row, BODY)) for row in claim.rows]
        with meter.measure("begin", len(starts)):
            begun: Begun = await store.begin(HOOKS, "bench", starts)
        outcomes = [_accepted(row, begun.numbers[row.id], claim.now) for row in claim.rows if row.id in begun.numbers]
        with meter.measure("settle", len(outcomes)):
            await store.settle(HOOKS, outcomes, [])


def _accepted(row: Claimed, number: int, at: datetime) -> Settlement:
    result = Result(Outcome.ACCEPTED, http_status=200, request_id=f"req-{row.reminder_key}", excerpt="ok")
    return settlement(row, number, Outcome.ACCEPTED, at, result=result)


def analyse(url: str) -> None:
    """Refresh the planner's statistics."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


async def run(url: str, meter: Meter, options: argparse.Namespace) -> None:
    """One run on an empty database."""
    await migrate.apply(url, NAMESPACE, by="bench")
    store = await PostgresStore.open(url)
    await schedule(store, meter, reminders(options.rows, options.accounts), options.batch)
    await tick(store, meter)
    analyse(url)
    done = await deliver(store, meter, options.batch, options.rate)
    await store.close()
    print(f"{done:,} deliveries in batches of {options.batch}, {options.accounts} accounts, rate {options.rate}")
    meter.report()


def main() -> None:
    """Read the options, start a durable cluster and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--accounts", type=int, default=100)
    parser.add_argument("--rate", type=float, default=None)
    options = parser.parse_args()
    with cluster(durable=True) as own, fresh_database(own.url) as url:
        asyncio.run(run(url, Meter(own.pid), options))


if __name__ == "__main__":
    main()
