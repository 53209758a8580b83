"""The SQLite store alone, by hand: rows per second and CPU per row of each of its five batches.

    python -m bench.store_sqlite [--rows 20000] [--batch 500] [--accounts 100] [--rate 1000000] [--folder .]

Nothing is sent: the store's calls follow one another, so the figures are what a worker could reach if it
did nothing else. Every row has the shape of a webhook reminder with a body of 600 bytes and an endpoint
of its own; with `--rate` each of these has a budget, the dearest case of all. Every commit is durable.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from duly.core.firing import fire
from duly.core.model import Channel, Claimed, NewReminder, Outcome
from duly.ports import ClaimOrder
from duly.stores import migrate
from duly.stores.sqlite import SqliteStore
from duly.testing.builders import NAMESPACE, PROVIDERS, frozen, new_reminder, settlement, start

HOOKS: Final = "hooks"
BODY: Final = b"{" + b"x" * 598 + b"}"
DATA: Final = {"unit": "4B", "day": "Tuesday", "time": "10:00"}


@dataclass(slots=True)
class Meter:
    """Time and CPU of all threads, by what was done."""

    spent: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def measure(self, what: str, rows: int) -> Iterator[None]:
        """Count what happens inside as so many rows of `what`."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        used = [rows, time.perf_counter() - wall, time.process_time() - cpu]
        total = self.spent.setdefault(what, [0.0] * 3)
        self.spent[what] = [sum(pair) for pair in zip(total, used, strict=True)]

    def report(self) -> None:
        """Print the table."""
        print(f"{'':22}{'rows/s':>10}{'cpu us':>10}")
        for what, (rows, wall, cpu) in self.spent.items():
            print(f"{what:22}{rows / wall:10.0f}{cpu / rows * 1e6:10.1f}")
        sending = [self.spent[what] for what in ("claim", "begin", "settle")]
        rows, wall = sending[0][0], sum(wall for _, wall, _ in sending)
        print(f"{'claim + begin + settle':22}{rows / wall:10.0f}")
        print(f"memory, at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def reminders(rows: int, accounts: int) -> list[NewReminder]:
    """Due reminders, each with an endpoint of its own."""
    due = datetime.now(UTC) - timedelta(seconds=1)
    return [
        new_reminder(
            f"r{number}",
            due,
            account=f"account-{number % accounts}",
            ref=f"p{number}",
            addresses={Channel.WEBHOOK: f"https://app-{number}.example.com/hooks"},
            data=DATA,
        )
        for number in range(rows)
    ]


async def intake(store: SqliteStore, meter: Meter, options: argparse.Namespace) -> None:
    """Schedule and tick."""
    rows = reminders(options.rows, options.accounts)
    for first in range(0, len(rows), options.batch):
        batch = rows[first : first + options.batch]
        with meter.measure("schedule", len(batch)):
            await store.schedule(batch)
    while (due := await store.due(2000)).rows:
        fired = [fire(row, due.now, NAMESPACE, PROVIDERS) for row in due.rows]
        with meter.measure("materialise", len(fired)):
            await store.materialise(fired)


async def sending(store: SqliteStore, meter: Meter, options: argparse.Namespace) -> None:
    """Claim, begin and settle, until nothing is ready."""
    after = 0
    while True:
        with meter.measure("claim", options.batch):
            claim = await store.claim(ClaimOrder(HOOKS, "normal", options.batch, after, "w1", 60.0))
        after = claim.next_account
        if not claim.rows:
            return
        await _send(store, meter, claim.rows, claim.now, options.rate)


async def _send(store: SqliteStore, meter: Meter, rows: Sequence[Claimed], now: datetime, rate: float | None) -> None:
    starts = [start(row, rate=rate, frozen=frozen(row, BODY)) for row in rows]
    with meter.measure("begin", len(rows)):
        await store.begin(HOOKS, "w1", starts)
    settlements = [settlement(row, 1, Outcome.ACCEPTED, now) for row in rows]
    with meter.measure("settle", len(rows)):
        await store.settle(HOOKS, settlements, [])


async def run(options: argparse.Namespace) -> Meter:
    """All of it on a new file."""
    meter = Meter()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder, "ledger.db")
        await migrate.apply(f"sqlite:///{path}", NAMESPACE, by="bench")
        store = await SqliteStore.open(path)
        await intake(store, meter, options)
        await sending(store, meter, options)
        await store.close()
    return meter


def main() -> None:
    """Read the options, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--accounts", type=int, default=100)
    parser.add_argument("--rate", type=float, default=None)
    parser.add_argument("--folder", default=None)
    asyncio.run(run(parser.parse_args())).report()


if __name__ == "__main__":
    main()
