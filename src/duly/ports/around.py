"""Time, chance, zones, and what accounts have chosen."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Protocol

from duly.core.caps import Cap
from duly.core.model import Claimed, HoldPolicy, OnDoubt
from duly.core.quiet_hours import Look, Window

__all__ = ["Clock", "Dice", "Policies", "Quiet", "Zones"]


class Clock(Protocol):
    """A worker's own clock. It never decides what is due: the database's does."""

    def reading(self) -> float:
        """Seconds on a clock that never steps back and runs through suspend; only differences count."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class Dice(Protocol):
    """Chance, for jitter."""

    def roll(self) -> float:
        """A number in [0, 1)."""
        ...


class Zones(Protocol):
    """Time zones by their names."""

    def __call__(self, name: str) -> tzinfo | None:
        """The zone of that name; None if this machine does not know it."""
        ...


class Quiet(Protocol):
    """The quiet hours of whoever a delivery is for."""

    def __call__(self, row: Claimed, now: datetime) -> Look:
        """Whether it is quiet there now, and when that changes."""
        ...


class Policies(Protocol):
    """What accounts have chosen."""

    def on_doubt(self, account: str) -> OnDoubt:
        """The account's policy for the last rung."""
        ...

    def hold(self, account: str) -> HoldPolicy:
        """How long the account's holds last, and what follows."""
        ...

    def quiet(self, account: str, purpose: str) -> tuple[Window, ...]:
        """The account's quiet hours for reminders of this purpose; none if they may go at any time."""
        ...

    def cap(self, account: str, purpose: str) -> Cap | None:
        """How many reminders of this purpose one recipient may get on one channel; None: any number."""
        ...
