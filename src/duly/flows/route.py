"""A route: what the deliveries of one provider need, and what is under way on it.

The two loops of `deliver` share it. A row passes through `held_back` (leased), `seated` (a slot is taken,
nothing was sent), `flights` (sent, the slot still taken) and, once its answer has come, `landed`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from duly.core.caps import Cap, uncapped
from duly.core.limits import LEASE_MARGIN_SECONDS, Limits
from duly.core.model import Claimed
from duly.core.quiet_hours import ANY_TIME, Look
from duly.ports import Claims, Clock, Completion, Dice, Provider, Quiet, Store, Templates, Transport

__all__ = ["BATCH_ROWS_MAX", "Flight", "Lease", "Route", "anytime", "give_back", "parts"]

T = TypeVar("T")
BATCH_ROWS_MAX: Final = 500


class Lease(NamedTuple):
    """A claimed row with the two clocks of its claim: ours before it was asked for, and the database's."""

    row: Claimed
    asked_at: float
    claimed_at: datetime

    def database_time(self, reading: float) -> datetime:
        """The database's time at a reading of our clock, or a little later: the claim's own duration."""
        return self.claimed_at + timedelta(seconds=reading - self.asked_at)

    def reading_at(self, moment: datetime) -> float:
        """The reading at a moment of the database's time, or a little earlier."""
        return self.asked_at + (moment - self.claimed_at).total_seconds()


def anytime(row: Claimed, now: datetime) -> Look:  # noqa: ARG001 - the port's signature
    """Nobody keeps quiet hours."""
    return ANY_TIME


class Flight(NamedTuple):
    """A request under way. `began_at` and `renewed_at` (at first: claimed) are readings of our clock."""

    lease: Lease
    number: int
    destination: str
    began_at: float
    renewed_at: float


@dataclass(slots=True)
class Route:
    """What the loops of one provider share."""

    provider: Provider
    transport: Transport
    templates: Templates
    claims: Claims
    store: Store
    clock: Clock
    dice: Dice
    worker: str
    lease_seconds: float
    limits: Limits
    tally: Counter[str]
    quiet: Quiet = anytime
    caps: Callable[[str, str], Cap | None] = uncapped  # of an account and a purpose: as Policies.cap
    held_back: deque[Lease] = field(default_factory=deque)
    seated: dict[bytes, Lease] = field(default_factory=dict)
    flights: dict[int, Flight] = field(default_factory=dict)
    landed: list[Completion] = field(default_factory=list)
    last_token: int = 0
    crowded: bool = False  # slots are free, but not for the hosts of the rows that are held back
    freed: bool = False  # a slot was freed since a seat was last looked for

    @property
    def idle(self) -> bool:
        """Whether nothing is under way here."""
        return not self.held_back and not self.seated and not self.flights

    def trust_seconds(self) -> float:
        """For how long after asking for a claim a request may still start."""
        return self.lease_seconds - self.provider.timeout_seconds - LEASE_MARGIN_SECONDS


async def give_back(route: Route, leases: Iterable[Lease]) -> None:
    """Return leased rows of which nothing was sent."""
    for part in parts([(lease.row.id, lease.row.fence) for lease in leases]):
        await route.store.abandon(route.worker, part)


def parts(rows: Sequence[T], most: int = BATCH_ROWS_MAX) -> Iterator[Sequence[T]]:
    """As many rows as one call of the store takes, or fewer."""
    return (rows[start : start + most] for start in range(0, len(rows), most))
