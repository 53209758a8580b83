"""A worker's world in one process: a real ledger and real tasks, a transport that sends nothing, and hurried time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from duly.core.limits import Limits
from duly.core.model import Channel, OnDoubt
from duly.flows.tick import tick
from duly.intake import zones
from duly.ports import Filters, Provider, Store
from duly.runtime.worker import Plant, Worker
from duly.stores.sqlite import SqliteStore
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder
from duly.testing.clock import SimulatedDice
from duly.testing.transport import FakeTransport
from duly.testing.unsteady import UnsteadyStore
from tests.flows.scene import HOOKS, TEMPLATES, Chosen, provider
from tests.stores.ledgers import create_sqlite, raw

__all__ = ["World", "play", "until"]

#: So many seconds pass, for the worker and for its database, in each second of the machine.
HURRY: Final = 20.0
LEASE_SECONDS: Final = 40.0
GOOD_TIME_SECONDS: Final = 60.0
EVERYTHING: Final = Filters(limit=1_000)


class HurriedClock:
    """ports.Clock over asyncio, on which time passes faster. It is the database's clock too."""

    def __init__(self) -> None:
        self._started, self._start = time.monotonic(), time.time()

    def reading(self) -> float:
        """See Clock.reading."""
        return (time.monotonic() - self._started) * HURRY

    async def sleep(self, seconds: float) -> None:
        """See Clock.sleep."""
        await asyncio.sleep(seconds / HURRY)

    def microseconds(self) -> int:
        """The database's time."""
        return round((self._start + self.reading()) * 1e6)


class World:
    """What a worker runs on, and what a test may do and see."""

    def __init__(self, path: Path, store: SqliteStore, clock: HurriedClock, transport: FakeTransport) -> None:
        self.path, self.clock, self.transport = path, clock, transport
        self.looker = FakeTransport(clock, capacity=8)
        self.unsteady = UnsteadyStore(store)
        self.store = cast("Store", self.unsteady)
        self.provider: Provider = provider()
        self.dice = SimulatedDice(0.01)

    def plant(self, on_doubt: OnDoubt = OnDoubt.HOLD) -> Plant:
        """What bootstrap would build."""
        return Plant(
            store=self.store,
            namespace=NAMESPACE,
            providers={HOOKS: self.provider},
            transports={HOOKS: self.transport},
            lookers={HOOKS: self.looker},
            limits={HOOKS: Limits()},
            templates=TEMPLATES,
            policies=Chosen(on_doubt),
            clock=self.clock,
            dice=self.dice,
            lease_seconds=LEASE_SECONDS,
        )

    def worker(self, **how: bool) -> Worker:
        """A worker in this world."""
        return Worker(self.plant(), "w1", **how)

    async def schedule(self, *keys: str, url: str = "https://a.example/in", due_in: float = -1.0, **more: Any) -> None:
        """Write reminders that are due, or will be in `due_in` seconds."""
        due = datetime.fromtimestamp(self.clock.microseconds() / 1e6, UTC) + timedelta(seconds=due_in)
        addresses = {Channel.WEBHOOK: url}
        await self.store.schedule([new_reminder(key, due, addresses=addresses, **more) for key in keys])

    async def ready(self, *keys: str, **more: Any) -> None:
        """Deliveries that wait for a worker."""
        await self.schedule(*keys, **more)
        await tick(self.store, NAMESPACE, PROVIDERS, zones.known)

    async def states(self) -> dict[str, int]:
        """How many deliveries stand where."""
        rows = await self.store.views().deliveries(EVERYTHING)
        statuses = [row["status"] for row in rows]
        return {status: statuses.count(status) for status in sorted(set(statuses))}

    async def outcomes(self) -> list[list[str | None]]:
        """What became of each delivery's attempts."""
        views = self.store.views()
        rows = await views.deliveries(EVERYTHING)
        shown = [await views.show_delivery((await views.find(row["id"], None))[1]) for row in rows]
        return [[attempt["outcome"] for attempt in one["attempts"]] for one in shown]

    async def broken_invariants(self) -> list[str]:
        """Invariants of the ledger that do not hold."""
        return [name for name, count in await self.store.views().invariants() if count]

    def value(self, query: str) -> Any:
        """The first column of a query's first row."""
        with raw(self.path) as database:
            return database.execute(query).fetchone()[0]


Story = Callable[[World], Awaitable[None]]


def play(folder: Path, story: Story, **slots: Any) -> World:
    """Let a story happen in a world of its own; returns the world, for looking at the transport afterwards."""
    path = folder / "ledger.db"
    create_sqlite(path)

    async def played() -> World:
        async with _world(path, slots) as made:
            await asyncio.wait_for(story(made), GOOD_TIME_SECONDS)
            return made

    return asyncio.run(played())


@asynccontextmanager
async def _world(path: Path, slots: Mapping[str, Any]) -> AsyncIterator[World]:
    """An empty ledger and a transport. In the end no slot may be taken and every invariant must hold."""
    clock = HurriedClock()
    store = await SqliteStore.open(path, now=clock.microseconds)
    try:
        made = World(path, store, clock, FakeTransport(clock, **slots))
        yield made
        made.unsteady.away = False
        assert made.transport.taken == 0
        assert await made.broken_invariants() == []
    finally:
        await store.close()


async def until(so: Callable[[], bool], what: str) -> None:
    """Wait until something is so, in good time."""
    ends = time.monotonic() + GOOD_TIME_SECONDS
    while not so():
        assert time.monotonic() < ends, f"never came: {what}"
        await asyncio.sleep(0.005)
