"""A database that goes away is waited for, with back-off and one log line per change.

Two users share one `Outage`: loops that start over after a pause (claim, tick, upkeep hold nothing in
their hands), and `PatientStore`, which repeats the calls whose argument must not be lost: outcomes,
decisions, and rows given back. Those calls are repeatable by contract, so a commit whose reply was
lost is harmless.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, cast

from duly.core.model import Begun, Decision, Settlement, Signal, Start
from duly.errors import DulyError, StoreUnavailable
from duly.ports import Clock, Dice, Settled, Store
from duly.runtime.telemetry import Telemetry

__all__ = ["Outage", "patient"]

T = TypeVar("T")
PAUSE_FIRST_SECONDS: Final = 0.1
PAUSE_MAX_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 0.3  # without a failure: the database is back


class Outage:
    """Knows whether the database is away, and how long to wait before it is asked again.

    A pause is half as long to as long as the database has been away so far, however many loops ask. It is back when
    nothing has failed for a moment: a full disk still answers those who only read. After `give_up_after`, which a
    drain sets, nothing is repeated any more: what is not recorded then is in doubt, which the ledger is made for.
    """

    def __init__(self, clock: Clock, dice: Dice, telemetry: Telemetry) -> None:
        self._clock, self._dice, self._telemetry = clock, dice, telemetry
        self._since: float | None = None
        self._last = 0.0
        self._ends_at: float | None = None

    def give_up_after(self, seconds: float) -> None:
        """Repeat no call for longer than that from now."""
        self._ends_at = self._clock.reading() + seconds

    async def wait(self, error: DulyError) -> None:
        """Note that the database did not answer, and pause."""
        reading = self._last = self._clock.reading()
        if self._since is None:
            self._since = reading
            self._telemetry.database_away(str(error))
        longest = min(max(reading - self._since, PAUSE_FIRST_SECONDS), PAUSE_MAX_SECONDS)
        await self._clock.sleep(longest * (0.5 + self._dice.roll() / 2))

    def over(self, *, wrote: bool = False) -> None:
        """Note that the database answered; `wrote`: what had to be recorded is recorded."""
        if self._since is not None and (wrote or self._clock.reading() - self._last >= QUIET_SECONDS):
            self._telemetry.database_back(self._clock.reading() - self._since)
            self._since = None

    async def until_done(self, call: Callable[[], Awaitable[T]], *, wrote: bool = True) -> T:
        """Repeat a repeatable call until the database has answered it; `wrote` is False for one that only reads."""
        while True:
            try:
                result = await call()
            except StoreUnavailable as error:
                if self._ends_at is not None and self._clock.reading() >= self._ends_at:
                    raise
                await self.wait(error)
            else:
                self.over(wrote=wrote)
                return result


class PatientStore:
    """A Store whose outcomes, decisions and returns are repeated until they are durable."""

    def __init__(self, store: Store, outage: Outage) -> None:
        self._store, self._outage = store, outage

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def begin(self, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
        """See Store.begin. It may not be repeated: the pause comes here, and the caller gives the rows back."""
        try:
            return await self._store.begin(provider, worker, rows)
        except StoreUnavailable as error:
            await self._outage.wait(error)
            raise

    async def settle(self, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
        """See Store.settle."""
        return await self._outage.until_done(lambda: self._store.settle(provider, rows, signals))

    async def decide(self, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
        """See Store.decide."""
        return await self._outage.until_done(lambda: self._store.decide(actor, decisions))

    async def abandon(self, worker: str, rows: Sequence[tuple[bytes, int]]) -> None:
        """See Store.abandon."""
        await self._outage.until_done(lambda: self._store.abandon(worker, rows))


def patient(store: Store, outage: Outage) -> Store:
    """The same store, patient where patience is owed."""
    return cast("Store", PatientStore(store, outage))
