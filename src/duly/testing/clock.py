"""Time and chance that a test decides: nothing here waits, and nothing is random.

A `SimulatedClock` stands still until somebody sleeps on it or lets time pass. It is a worker's clock
(`reading`) and the database's (`microseconds`, for a store that takes its time from outside) at once, so
both move together. It knows nothing of asyncio: a sleep returns at once, and that much later.
"""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["START", "SimulatedClock", "SimulatedDice"]

START: Final = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
#: A worker's clock and the database's have nothing in common but their pace.
FIRST_READING_SECONDS: Final = 1_000.0


class SimulatedClock:
    """ports.Clock whose time passes only by `sleep` and `advance`. `slept` keeps every sleep, in seconds."""

    def __init__(self, start: datetime = START) -> None:
        self.slept: list[float] = []
        self._start_us = (start - EPOCH) // MICROSECOND
        self._passed_us = 0

    def reading(self) -> float:
        """Seconds on the worker's clock."""
        return FIRST_READING_SECONDS + self._passed_us / 1e6

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass, at once."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass: at least so many seconds, in whole microseconds. Raises ValueError if it would step back."""
        if seconds < 0:
            raise ValueError("a clock never steps back")
        self._passed_us += math.ceil(seconds * 1e6)

    def now(self) -> datetime:
        """The database's time."""
        return EPOCH + timedelta(microseconds=self.microseconds())

    def microseconds(self) -> int:
        """The database's time, in microseconds since 1970-01-01T00:00:00Z."""
        return self._start_us + self._passed_us


class SimulatedDice:
    """ports.Dice that rolls the given numbers in turn, over and over; always 0.5 if none are given."""

    def __init__(self, *rolls: float) -> None:
        if not all(0.0 <= roll < 1.0 for roll in rolls):
            raise ValueError("a roll is in [0, 1)")
        self._rolls = itertools.cycle(rolls or (0.5,))

    def roll(self) -> float:
        """The next number."""
        return next(self._rolls)
