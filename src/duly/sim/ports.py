"""The ports of a world: the store, claims, templates and policies.

`SimStore` stands before the one SqliteStore of the world. Before every call it hands over to the scheduler,
which decides when the call is made and whether its caller hears of it. After every call the world looks at
what was committed, before anybody else can move.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from duly.core.caps import Cap
from duly.core.model import Claimed, Content, HoldPolicy, OnDoubt
from duly.core.quiet_hours import LOUD_PURPOSE, Window, read_windows
from duly.errors import DulyError, StoreUnavailable, Unrenderable
from duly.flows.claim import Cursors, claim, claim_alone
from duly.flows.route import Route
from duly.ports import Batch, Clock, Store
from duly.sim.chance import Chance
from duly.sim.clocks import Time
from duly.sim.faults import Faults, Kind
from duly.sim.scheduler import Deadly, Incarnation, Scheduler
from duly.sim.turns import Fate, Turn

__all__ = ["Hands", "Queue", "SimClaims", "SimPolicies", "SimStore", "SimTemplates", "Watcher"]

SLOW_REPLY_SECONDS: Final = (0.5, 90.0)
ASTRAY_SECONDS: Final = (0.001, 60.0)
#: How often a worker that holds nothing asks for a suspect that is to be held alone.
ALONE_PART: Final = 0.3
UNANSWERED: Final = "the database does not answer"


class Watcher(Protocol):
    """Who looks at the ledger after every call."""

    def called(self, life: Incarnation, call: str, arguments: tuple[Any, ...], reply: object) -> None:
        """A call was made. `reply` is an error where it was refused, and UNANSWERED where it did not happen."""
        ...


@dataclass(slots=True)
class SimStore:
    """ports.Store for one incarnation, over the world's own, which is None while it is away."""

    ledger: Callable[[], Store | None]
    life: Incarnation
    time: Time
    chance: Chance
    watcher: Watcher

    @property
    def port(self) -> Store:
        """The same, as the port that it is."""
        return cast("Store", self)

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._call(name, arguments, named)

        return call

    async def _call(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        fate = await Turn(f"store.{name}", fragile=True)
        store = self.ledger()
        if fate is Fate.UNANSWERED or store is None:
            self.watcher.called(self.life, name, arguments, UNANSWERED)
            raise StoreUnavailable(f"{UNANSWERED} ({name})")
        reply = await self._make(getattr(store, name), name, arguments, named)
        if fate is Fate.DIES_AFTER:
            raise Deadly(f"a crash just after store.{name}")
        if fate is Fate.REPLY_LOST:
            raise StoreUnavailable(f"the reply was lost ({name})")
        if fate is Fate.REPLY_SLOW:
            await Turn(f"slow reply of {name}", self.time.after(self.chance.spread(*SLOW_REPLY_SECONDS)))
        if self.ledger() is not store:  # stopped meanwhile, and no connection outlives that
            raise StoreUnavailable(f"the reply was lost ({name})")
        return reply

    async def _make(
        self, method: Callable[..., Awaitable[Any]], name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Any:
        said = (*arguments, *named.values())
        try:
            reply = await method(*arguments, **named)
        except DulyError as error:
            self.watcher.called(self.life, name, said, error)
            raise
        self.watcher.called(self.life, name, said, reply)
        return reply


# --- claims --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Queue:
    """Where a batch may go astray: what one worker was handed comes back by itself, for it or for another.

    So a copy is there although the ledger has nothing to send: it is a reason to look for the duty `send` (`is_due`).
    """

    scheduler: Scheduler
    faults: Faults
    chance: Chance
    strays: list[tuple[str, Batch]] = field(default_factory=list)  # (provider, batch)
    restarts: int = 0

    def let_stray(self, provider: str, batch: Batch) -> None:
        """Bring a copy back after a while, unless all is stopped before."""
        restarts = self.restarts

        def come_back() -> None:
            if self.restarts == restarts:
                self.strays.append((provider, batch))
                self.scheduler.rested()

        self.scheduler.at(self.scheduler.time.after(self.chance.spread(*ASTRAY_SECONDS)), come_back)

    def start_over(self) -> None:
        """Lose every copy."""
        self.restarts += 1
        self.strays.clear()

    def is_due(self, duty: str) -> bool:
        """Whether a copy waits for whoever has this duty."""
        return any(duty == f"send {provider}" for provider, _ in self.strays)

    def stray(self, provider: str) -> Batch | None:
        """A batch that somebody of this provider was handed before."""
        mine = [entry for entry in self.strays if entry[0] == provider]
        if not mine:
            return None
        self.faults.counts[Kind.BATCH_COPY] += 1
        entry = self.chance.pick(mine)
        self.strays.remove(entry)
        return entry[1]


@dataclass(slots=True)
class Hands:
    """What one worker holds, over all of its routes. `alone`: it is to hold one suspect and nothing else."""

    routes: list[Route] = field(default_factory=list)
    claiming: int = 0
    kept_back: int = 0
    alone: bool = False

    @property
    def empty(self) -> bool:
        """Whether it holds nothing, and is about to get nothing."""
        return not self.claiming and not self.kept_back and all(route.idle for route in self.routes)


@dataclass(slots=True)
class SimClaims:
    """ports.Claims of one worker and provider. Batches may come twice, late, or out of order."""

    store: Store
    clock: Clock
    provider: str
    worker: str
    lease_seconds: float
    queue: Queue
    hands: Hands
    cursors: Cursors = field(default_factory=Cursors)
    late: Batch | None = None

    async def take(self, limit: int, max_wait: float) -> Batch | None:  # noqa: ARG002 - a rest follows in any case
        """See Claims.take."""
        if self.hands.empty:
            self.hands.alone = False
        elif self.hands.alone:
            return None
        batch = self.queue.stray(self.provider) or self._come_late() or await self._claim(limit)
        if batch is None or self._keep_back(batch):
            return None
        if self.queue.faults.strikes(Kind.BATCH_TWICE):
            self.queue.let_stray(self.provider, batch)
        return batch

    def _come_late(self) -> Batch | None:
        batch, self.late = self.late, None
        self.hands.kept_back -= batch is not None
        return batch

    def _keep_back(self, batch: Batch) -> bool:
        """Whether what was claimed later will be handed out before it."""
        if self.late is not None or not self.queue.faults.strikes(Kind.BATCH_LATE):
            return False
        self.late = batch
        self.hands.kept_back += 1
        return True

    async def _claim(self, limit: int) -> Batch | None:
        alone = self.hands.empty and self.queue.chance.happens(ALONE_PART)
        self.hands.claiming += 1
        try:
            return (await self._claim_alone() if alone else None) or await self._claim_more(limit)
        finally:
            self.hands.claiming -= 1

    async def _claim_alone(self) -> Batch | None:
        self.hands.alone = True
        batch = None
        try:
            batch = await claim_alone(self.store, self.clock, self.provider, self.worker, self.lease_seconds)
        finally:
            self.hands.alone = batch is not None
        return batch

    async def _claim_more(self, limit: int) -> Batch | None:
        return await claim(self.store, self.clock, self.cursors, self.provider, limit, self.worker, self.lease_seconds)


# --- content, policies ---------------------------------------------------------------------------


@dataclass(slots=True)
class SimTemplates:
    """ports.Templates: the text of a row, marked with the version. A poisonous row kills whoever renders it."""

    version: str
    faults: Faults

    def render(self, row: Claimed) -> Content:
        """See Templates.render."""
        if row.data.get("poison"):
            self.faults.counts[Kind.POISON] += 1
            raise Deadly(f"rendering {row.reminder_key}")
        if row.data.get("unrenderable"):
            raise Unrenderable("its template cannot be rendered")
        return Content("", f"{row.reminder_key} {row.data.get('text', '')} {self.version}", None, self.version)


@dataclass(slots=True)
class SimPolicies:
    """ports.Policies: one choice for each account."""

    doubts: Mapping[str, OnDoubt]
    holds: Mapping[str, HoldPolicy]
    windows: Mapping[str, Sequence[str]] = field(default_factory=dict)
    caps: Mapping[str, Cap] = field(default_factory=dict)

    def on_doubt(self, account: str) -> OnDoubt:
        """See Policies.on_doubt."""
        return self.doubts[account]

    def hold(self, account: str) -> HoldPolicy:
        """See Policies.hold."""
        return self.holds[account]

    def quiet(self, account: str, purpose: str) -> tuple[Window, ...]:
        """See Policies.quiet."""
        return () if purpose == LOUD_PURPOSE else read_windows(self.windows.get(account, ()))

    def cap(self, account: str, purpose: str) -> Cap | None:  # noqa: ARG002 - the port's signature
        """See Policies.cap."""
        return self.caps.get(account)
