"""The clock and the dice of a real process. The only place that reads either.

The reading comes from CLOCK_BOOTTIME where there is one: it never steps back, and it runs on while the
machine is suspended, so a worker that was asleep does not trust a lease that has long ended.
"""

from __future__ import annotations

import asyncio
import random
import time

__all__ = ["SystemClock", "SystemDice"]

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """ports.Clock on the machine's boot-time clock and asyncio's sleep."""

    def reading(self) -> float:
        """Seconds since the machine started, suspend included."""
        return time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


class SystemDice:
    """ports.Dice on the standard generator: jitter needs no secrets."""

    def roll(self) -> float:
        """A number in [0, 1)."""
        return random.random()
