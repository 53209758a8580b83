"""The worker: the loops around the flows, and how they come to an end.

For each provider one loop sends, one settles and one renews the leases of slow requests; beside them
heartbeat, upkeep, reconcile, the turns of suspects and, in `duly up`, tick run at their own pace. Every
loop survives a database that goes away. A stop drains: no more claims, what is claimed and not begun is
given back, what is under way is finished and recorded, and only then do the renewals end and the worker
leaves.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from duly.core.keys import endpoint_id, show
from duly.core.limits import Limits
from duly.core.model import Claimed
from duly.errors import StoreError, StoreUnavailable
from duly.flows.claim import Cursors, claim, claim_alone
from duly.flows.deliver import send_some, settle_some
from duly.flows.reconcile import Desk, reconcile
from duly.flows.renew import RENEW_SECONDS_MAX, renew_some
from duly.flows.route import Lease, Route, anytime, give_back
from duly.flows.tick import tick
from duly.flows.upkeep import UPKEEP_BATCH_ROWS, forget, keep_up
from duly.intake import zones
from duly.ports import Batch, Clock, Dice, Policies, Provider, Quiet, Store, Templates, Transport
from duly.runtime.ahead import ClaimAhead
from duly.runtime.alone import Turns
from duly.runtime.outage import Outage, patient
from duly.runtime.telemetry import Telemetry
from duly.runtime.watching import Outages, watched

__all__ = ["TALLY_WORDS", "Plant", "Worker"]

TALLY_WORDS: Final = (
    "claimed",
    "sent",
    "retried",
    "uncertain",
    "held",
    "unconfirmed",
    "expired",
    "suppressed",
    "cancelled",
    "rejected",
    "dead",
    "duplicates_suppressed",
    "folded",
    "in_summaries",
)
#: What upkeep moves deliveries to, as far as it is counted.
UPKEEP_WORDS: Final = ("uncertain", "expired", "dead", "sent", "unconfirmed")
#: Of those that wait for hours and caps that have become others, woken in one transaction.
LOOK_AGAIN_ROWS: Final = 10_000
LOOK_SECONDS: Final = 0.2
FORGET_SECONDS: Final = 600.0
HEARTBEAT_SECONDS: Final = 5.0
IDLE_LOOK_SECONDS: Final = 0.05
TICK_SECONDS: Final = 1.0
WAIT_FOR_WORK_SECONDS: Final = 0.25
FAILED_LOOP_PAUSE_SECONDS: Final = 1.0
DRAIN_MARGIN_SECONDS: Final = 5.0


async def knows_enough(rows: Iterable[Claimed]) -> None:
    """Nothing has to be fetched for any row."""


@dataclass(frozen=True, slots=True)
class Plant:
    """What bootstrap has built: the adapters that a worker runs on."""

    store: Store
    namespace: str
    providers: Mapping[str, Provider]
    transports: Mapping[str, Transport]
    lookers: Mapping[str, Transport]  # of providers that can be asked what they have accepted
    limits: Mapping[str, Limits]
    templates: Templates
    policies: Policies
    clock: Clock
    dice: Dice
    lease_seconds: float
    quiet: Quiet = anytime
    endpoint_names: Mapping[bytes, str] = field(default_factory=dict)  # of those that have one, by their ids
    chosen: str = ""  # stands for the hours and caps that accounts have chosen
    learn: Callable[[Iterable[Claimed]], Awaitable[None]] = knows_enough  # what rendering claimed rows needs


class Worker:
    """One process's share of the work."""

    def __init__(self, plant: Plant, name: str, *, ticks: bool = False) -> None:
        self.name = name
        self.tally: Counter[str] = Counter()
        self.ticked: Counter[str] = Counter()
        self._plant, self._ticks = plant, ticks
        self._due_remain = ticks  # until a tick has found nothing more
        self._telemetry = Telemetry(name)
        self._outage = Outage(plant.clock, plant.dice, self._telemetry)
        self._store = patient(plant.store, self._outage)
        self._routes = [self._route(provider) for provider in plant.providers.values()]
        self._stopping = asyncio.Event()
        self._turns = Turns(plant.clock, self._holds_nothing, self._stopping.is_set)
        self._seen: datetime | None = None  # the database's time at the last heartbeat
        self._guarded = False
        self._desk = Desk(
            self._store,
            plant.providers,
            plant.lookers,
            plant.limits,
            plant.policies,
            plant.clock,
            plant.dice,
            name,
            plant.lease_seconds,
        )

    def stop(self) -> None:
        """Ask for a drain. Returns at once."""
        if not self._stopping.is_set():
            self._telemetry.draining()
            self._stopping.set()

    async def run(self, *, idle_after: float | None = None) -> dict[str, int]:
        """Work until stopped or, with `idle_after`, until no step is due within so many seconds."""
        self._telemetry.started([route.provider.name for route in self._routes])
        await self._outage.until_done(self._show_life)  # before anything else: it may find another database
        await self._outage.until_done(lambda: self._plant.store.probe_circuits(list(self._plant.providers)))
        await self._look_again()
        ending, others = self._ending(), self._others(idle_after)
        await self._stopping.wait()
        await self._drain(ending)
        await _cancel(others)
        self._telemetry.stopped(self.counts())
        return self.counts()

    async def _look_again(self) -> None:
        """What waits for hours and caps is bound by those of now, if they are others than before."""
        woken = LOOK_AGAIN_ROWS
        while woken == LOOK_AGAIN_ROWS and not self._stopping.is_set():
            woken = await self._outage.until_done(
                lambda: self._plant.store.look_again(self._plant.chosen, LOOK_AGAIN_ROWS)
            )

    def counts(self) -> dict[str, int]:
        """The tally, in the words of `duly work --json`."""
        return {word: self.tally[word] for word in TALLY_WORDS}

    # --- the loops -------------------------------------------------------------------------------

    def _ending(self) -> list[asyncio.Task[None]]:
        """Loops that end by themselves at a stop: what they have claimed, they see through."""
        senders = [
            self._loop(f"send {route.provider.name}", partial(send_some, route, WAIT_FOR_WORK_SECONDS))
            for route in self._routes
        ]
        return [
            *senders,
            self._loop("upkeep", self._keep_up, pause=LOOK_SECONDS),
            self._loop("reconcile", self._reconcile, pause=LOOK_SECONDS),
            self._loop("suspects", self._take_turn_alone),
            self._loop("forget", partial(forget, self._store), pause=FORGET_SECONDS),
        ]

    def _others(self, idle_after: float | None) -> list[asyncio.Task[None]]:
        """Loops that are cut when all is recorded, whatever they are doing."""
        loops = [
            self._loop(f"{name} {route.provider.name}", partial(step, route), outlives_stop=True)
            for route in self._routes
            for name, step in (("settle", self._settle), ("renew", self._renew))
        ]
        loops.append(self._loop("heartbeat", self._beat, outlives_stop=True))
        if self._ticks:
            loops.append(self._loop("tick", self._tick, pause=TICK_SECONDS))
        if idle_after is not None:
            loops.append(self._loop("idle", partial(self._stop_when_idle, idle_after)))
        return loops

    def _loop(
        self,
        name: str,
        step: Callable[[], Awaitable[int]],
        *,
        pause: float = 0.0,
        outlives_stop: bool = False,
    ) -> asyncio.Task[None]:
        """Repeat a step. `pause` follows a step that found less than a full batch."""

        async def repeat() -> None:
            while outlives_stop or not self._stopping.is_set():
                try:
                    found = await step()
                    if pause:  # sending and settling may have had nothing to ask the database
                        self._outage.over()
                except (StoreUnavailable, StoreError) as error:
                    await self._outage.wait(error)
                except Exception as error:  # noqa: BLE001 - a loop must outlive its bugs, and tell them
                    self._telemetry.loop_failed(name, error)
                    await self._plant.clock.sleep(FAILED_LOOP_PAUSE_SECONDS)
                else:
                    if pause and found < UPKEEP_BATCH_ROWS:
                        await self._pause(pause)

        return asyncio.ensure_future(repeat())

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not through a stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _settle(self, route: Route) -> int:
        before = self.tally["double_acceptance"]
        settled = await settle_some(route, WAIT_FOR_WORK_SECONDS)
        if doubled := self.tally["double_acceptance"] - before:
            self._telemetry.double_acceptance(doubled)
        return settled

    async def _renew(self, route: Route) -> int:
        await self._plant.clock.sleep(min(RENEW_SECONDS_MAX, route.lease_seconds / 8))
        return await renew_some(route)

    async def _show_life(self) -> None:
        """Write a heartbeat; a guard that opens or closes is told once."""
        beat = await self._store.heartbeat(self.name, self._seen)
        self._seen = beat.now
        if beat.guard is not None and not self._guarded:
            self._telemetry.guard_open(beat.guard.since, beat.guard.why)
        if beat.guard is None and self._guarded:
            self._telemetry.guard_closed()
        self._guarded = beat.guard is not None

    async def _beat(self) -> int:
        await self._plant.clock.sleep(HEARTBEAT_SECONDS)
        await self._show_life()
        return 0

    async def _keep_up(self) -> int:
        moved = await keep_up(self._store, self.name)
        self.tally.update({word: moved[word] for word in UPKEEP_WORDS}, in_summaries=moved["sent"])
        if moved["dead"]:
            self._telemetry.killed_workers(moved["dead"])
        return max(moved.values())

    async def _reconcile(self) -> int:
        moved = await reconcile(self._desk)
        self.tally.update({word: count for word, count in moved.items() if word in TALLY_WORDS})
        if moved["hold_alarm"]:
            self._telemetry.holds_overdue(moved["hold_alarm"])
        if moved["unanswered"]:
            self._telemetry.look_ups_unanswered(moved["unanswered"])
        return sum(moved.values())

    async def _take_turn_alone(self) -> int:
        pause = await self._turns.run(lambda: self._plant.store.suspects(list(self._plant.providers)))
        await self._pause(pause)
        return 0

    def _holds_nothing(self) -> bool:
        return all(route.idle for route in self._routes) and not any(
            isinstance(route.claims, ClaimAhead) and route.claims.holds for route in self._routes
        )

    async def _tick(self) -> int:
        channels = {provider.channel: name for name, provider in self._plant.providers.items()}
        ticked = await tick(self._store, self._plant.namespace, channels, zones.known)
        self.ticked.update(due=ticked.due, created=ticked.created, already=ticked.already)
        self._due_remain = ticked.remaining
        return UPKEEP_BATCH_ROWS if ticked.remaining else 0

    # --- the end ---------------------------------------------------------------------------------

    async def _stop_when_idle(self, patience: float) -> int:
        """Stop if nothing is under way and no row's next step is due within `patience` seconds.

        Seen twice in a row: a batch that was just claimed ahead is in nobody's hands for a moment.
        """
        for _ in range(2):
            await self._plant.clock.sleep(IDLE_LOOK_SECONDS)
            if not await self._is_idle(patience):
                return 0
        self._stopping.set()
        return 0

    async def _is_idle(self, patience: float) -> bool:
        if self._due_remain or any(not route.idle for route in self._routes):
            return False
        store, providers = self._plant.store, list(self._plant.providers)
        if self._ticks and await self._outage.until_done(lambda: store.due_remain(patience), wrote=False):
            return False
        step = await self._outage.until_done(lambda: store.next_step(providers), wrote=False)
        return step is None or step > patience

    async def _drain(self, ending: Sequence[asyncio.Task[None]]) -> None:
        """Give back what has not begun; wait for the rest as long as it may take, then cut it.

        A database that stays away, or does not answer, ends the wait too: rows go back when their lease ends, and what
        was sent and could not be recorded is in doubt.
        """
        longest = max(route.provider.timeout_seconds for route in self._routes) + DRAIN_MARGIN_SECONDS
        self._outage.give_up_after(longest)
        _, stuck = await asyncio.wait(ending, timeout=longest)
        await _cancel(list(stuck))
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(DRAIN_MARGIN_SECONDS):
                for route in self._routes:
                    await self._give_back_all(route)
        await self._wait_for_flights(longest)
        for transport in (*(route.transport for route in self._routes), *self._plant.lookers.values()):
            await transport.close()
        await self._wait_for_flights(DRAIN_MARGIN_SECONDS)
        if unrecorded := sum(len(route.flights) for route in self._routes):
            self._telemetry.unrecorded(unrecorded)

    async def _give_back_all(self, route: Route) -> None:
        claims = route.claims
        batch = await claims.close() if isinstance(claims, ClaimAhead) else None
        ahead = [Lease(row, batch.asked_at, batch.now) for row in batch.rows] if batch else []
        await give_back(route, [*route.held_back, *ahead])
        route.held_back.clear()

    async def _wait_for_flights(self, seconds: float) -> None:
        ends = self._plant.clock.reading() + seconds
        while any(route.flights for route in self._routes) and self._plant.clock.reading() < ends:
            await self._plant.clock.sleep(0.02)

    # --- parts -----------------------------------------------------------------------------------

    def _route(self, provider: Provider) -> Route:
        plant = self._plant
        return Route(
            provider=provider,
            transport=watched(plant.transports[provider.name], self._outages(provider.name)),
            templates=plant.templates,
            claims=ClaimAhead(partial(self._claim, provider.name, Cursors())),
            store=self._store,
            clock=plant.clock,
            dice=plant.dice,
            worker=self.name,
            lease_seconds=plant.lease_seconds,
            limits=plant.limits[provider.name],
            tally=self.tally,
            quiet=plant.quiet,
            caps=plant.policies.cap,
        )

    def _outages(self, provider: str) -> Outages:
        tell = self._telemetry
        return Outages(
            lambda url, attempts, why: tell.provider_failing(provider, self._endpoint(url), attempts, why),
            lambda url, attempts, seconds: tell.provider_answers(provider, self._endpoint(url), attempts, seconds),
        )

    def _endpoint(self, url: str | None) -> str | None:
        """As it is told: by its configured name, else by its id, never by its address."""
        if url is None:
            return None
        key = endpoint_id(self._plant.namespace, url)
        return self._plant.endpoint_names.get(key) or show(key)

    async def _claim(self, provider: str, cursors: Cursors, limit: int) -> Batch | None:
        """The next batch. An outage is waited for here: whoever takes what is claimed ahead would hear of it late."""
        plant = self._plant
        try:
            if self._turns.closed:
                batch = await self._claim_alone(provider)
            else:
                batch = await claim(plant.store, plant.clock, cursors, provider, limit, self.name, plant.lease_seconds)
        except StoreUnavailable as error:
            await self._outage.wait(error)
            return None
        if batch is not None:
            await plant.learn(batch.rows)
        return batch

    async def _claim_alone(self, provider: str) -> Batch | None:
        if not self._turns.take(provider):
            return None
        plant = self._plant
        return await claim_alone(plant.store, plant.clock, provider, self.name, plant.lease_seconds)


async def _cancel(loops: Sequence[asyncio.Task[None]]) -> None:
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
