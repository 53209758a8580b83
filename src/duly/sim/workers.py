"""Workers: the production flows in loops, as `duly work` runs them, on the ports of a world.

Each loop survives what the store says, and rests while the ledger has nothing for it. Any other error is a
bug, and ends the world. Every incarnation has a name of its own and its own clock.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from duly.errors import StoreError, StoreUnavailable
from duly.flows.deliver import send_some, settle_some
from duly.flows.reconcile import Desk, reconcile
from duly.flows.renew import renew_some
from duly.flows.route import Route
from duly.flows.tick import tick
from duly.flows.upkeep import keep_up
from duly.intake import zones
from duly.intake.quiet import QuietHours
from duly.ports import Store
from duly.sim.chance import Chance
from duly.sim.clocks import PACE_DIFFERENCE, WorkerClock
from duly.sim.facts import NAMESPACE
from duly.sim.faults import Faults
from duly.sim.network import Network, SimTransport
from duly.sim.plan import ACCOUNTS, Plan, ProviderPlan, Settings
from duly.sim.ports import Hands, Queue, SimClaims, SimPolicies, SimTemplates
from duly.sim.providers import SimProvider
from duly.sim.scheduler import Incarnation, Scheduler
from duly.sim.times import ACCOUNT_ZONE
from duly.sim.turns import Turn

__all__ = ["Worker", "clock_of"]

CLOCK_OFFSET_SECONDS: Final = (1.0, 1e7)
REST_SECONDS: Final = (0.05, 2.0)
REST_SECONDS_MAX: Final = 600.0
OUTAGE_SECONDS: Final = (0.1, 10.0)
WAIT_SECONDS: Final = 0.25
#: An answer wakes whoever waits for it; nothing else has to.
PATIENCE_SECONDS: Final = math.inf


@dataclass(slots=True)
class Worker:
    """One incarnation at work. `start` lets all of its loops take part."""

    life: Incarnation
    plan: Plan
    settings: Settings
    store: Store
    scheduler: Scheduler
    network: Network
    queue: Queue
    chance: Chance
    faults: Faults
    clock: WorkerClock
    hands: Hands = field(default_factory=Hands)
    seen: datetime | None = None

    def start(self) -> None:
        """Begin, as a program does: with a sign of life."""
        self.scheduler.start(self.life, self.life.name, self._begin())

    async def _begin(self) -> None:
        await self._until_done(self._show_life)
        providers = [provider.name for provider in self.plan.providers]
        await self._until_done(lambda: self.store.probe_circuits(providers))
        for provider in self.plan.providers:
            self._start_route(self._route(provider))
        self._loop("upkeep", "upkeep", self._keep_up)
        self._loop("reconcile", "reconcile", partial(self._reconcile, self._desk()))
        self._loop("tick", "tick", self._tick)

    async def _until_done(self, step: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await step()
            except StoreUnavailable:
                await self.clock.sleep(self.chance.spread(*OUTAGE_SECONDS))
            else:
                return

    def _start_route(self, route: Route) -> None:
        self.hands.routes.append(route)
        name = route.provider.name
        self._loop(f"send {name}", f"send {name}", partial(self._send, route))
        self._loop(f"settle {name}", None, partial(settle_some, route, PATIENCE_SECONDS))
        self._loop(f"renew {name}", f"renew {self.life.name}", partial(renew_some, route))

    # --- loops -----------------------------------------------------------------------------------

    def _loop(self, name: str, duty: str | None, step: Callable[[], Awaitable[int]]) -> None:
        """Repeat a step, and rest after each round if it has a duty to rest from."""

        async def repeat() -> None:
            idle = 0
            while True:
                try:
                    idle = 0 if await step() else idle + 1
                except (StoreUnavailable, StoreError):
                    await self.clock.sleep(self.chance.spread(*OUTAGE_SECONDS))
                else:
                    if duty is not None:
                        await self._rest(duty, idle)

        self.scheduler.start(self.life, f"{self.life.name} {name}", repeat())

    async def _rest(self, duty: str, idle: int) -> None:
        """Whoever looks in vain rests longer and longer, until something changes."""
        seconds = self.chance.spread(*REST_SECONDS)
        turn = Turn("rest", self.scheduler.time.after(seconds), duty=duty)
        turn.rest_us = self.scheduler.time.after(min(seconds * 2.0 ** min(idle, 20), REST_SECONDS_MAX))
        await turn

    async def _send(self, route: Route) -> int:
        sent = await send_some(route, WAIT_SECONDS)
        if route.held_back or route.claims.late is not None:  # type: ignore[attr-defined]  # SimClaims
            await self.clock.sleep(self.chance.spread(*REST_SECONDS))
        return sent

    async def _keep_up(self) -> int:
        if self.chance.happens(0.2):
            await self._show_life()
        return (await keep_up(self.store, self.life.name, self.settings.deaths_max)).total()

    async def _show_life(self) -> None:
        self.seen = (await self.store.heartbeat(self.life.name, self.seen)).now

    async def _reconcile(self, desk: Desk) -> int:
        return (await reconcile(desk)).total()

    async def _tick(self) -> int:
        channels = {str(provider.channel): provider.name for provider in self.plan.providers}
        return (await tick(self.store, NAMESPACE, channels, zones.known)).due

    # --- parts -----------------------------------------------------------------------------------

    def _policies(self) -> SimPolicies:
        return SimPolicies(self.settings.doubts, self.settings.holds, self.settings.quiet, self.settings.caps)

    def _route(self, provider: ProviderPlan) -> Route:
        claims = SimClaims(
            self.store,
            self.clock,
            provider.name,
            self.life.name,
            self.settings.lease_seconds,
            self.queue,
            self.hands,
        )
        return Route(
            provider=_adapter(provider),
            transport=self._transport(provider),
            templates=SimTemplates(self.settings.template_version, self.faults),
            claims=claims,
            store=self.store,
            clock=self.clock,
            dice=self.chance,
            worker=self.life.name,
            lease_seconds=self.settings.lease_seconds,
            limits=self.settings.limits,
            tally=Counter(),
            quiet=QuietHours(self._policies(), dict.fromkeys(ACCOUNTS, ACCOUNT_ZONE)),
            caps=self._policies().cap,
        )

    def _desk(self) -> Desk:
        providers = {provider.name: _adapter(provider) for provider in self.plan.providers}
        return Desk(
            store=self.store,
            providers=providers,
            lookers={provider.name: self._transport(provider) for provider in self.plan.providers},
            limits=dict.fromkeys(providers, self.settings.limits),
            policies=self._policies(),
            clock=self.clock,
            dice=self.chance,
            actor=self.life.name,
            lease_seconds=self.settings.lease_seconds,
        )

    def _transport(self, provider: ProviderPlan) -> SimTransport:
        return SimTransport(
            self.network,
            self.life,
            self.clock,
            provider.name,
            provider.timeout_seconds,
            self.settings.capacity,
            self.settings.per_host,
        )


def _adapter(provider: ProviderPlan) -> SimProvider:
    return SimProvider(provider.name, str(provider.channel), provider.promise, provider.timeout_seconds, provider.rate)


def clock_of(scheduler: Scheduler, chance: Chance) -> WorkerClock:
    """A clock like no other worker's."""
    pace = 1 + chance.between(-PACE_DIFFERENCE, PACE_DIFFERENCE)
    return WorkerClock(scheduler.time, chance.spread(*CLOCK_OFFSET_SECONDS), pace)
