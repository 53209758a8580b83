"""Time in a world: the database's, which the scheduler moves, and the workers' own, which differ from it.

A worker's clock started at another moment and runs a little fast or slow. Minutes or days of difference must
not matter, because only differences of readings count. The pace may differ by half a thousandth, which is
more than quartz ever does; the margin that a lease leaves (2 s of 60) covers it many times.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from duly.sim.turns import NEVER_US, Turn

__all__ = ["PACE_DIFFERENCE", "SECOND_US", "Time", "WorkerClock"]

SECOND_US: Final = 1_000_000
START: Final = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
START_US: Final = (START - EPOCH) // timedelta(microseconds=1)
PACE_DIFFERENCE: Final = 0.0005


class Time:
    """The database's time in microseconds since 1970-01-01T00:00:00Z."""

    def __init__(self) -> None:
        self.us = START_US

    def microseconds(self) -> int:
        """What `db_now()` says."""
        return self.us

    def now(self) -> datetime:
        """The same as a datetime."""
        return self.moment(self.us)

    def after(self, seconds: float) -> int:
        """The time so many seconds from now; never, if that is infinite."""
        if seconds == math.inf:
            return NEVER_US
        return self.us + round(seconds * SECOND_US)

    @staticmethod
    def moment(us: int) -> datetime:
        """Microseconds as a datetime."""
        return EPOCH + timedelta(microseconds=us)

    @staticmethod
    def us_of(moment: datetime) -> int:
        """A datetime as microseconds."""
        return (moment - EPOCH) // timedelta(microseconds=1)


class WorkerClock:
    """ports.Clock of one worker. It started at `offset` seconds and runs at `pace`."""

    def __init__(self, time: Time, offset: float, pace: float) -> None:
        self._time, self._offset, self._pace = time, offset, pace

    def reading(self) -> float:
        """See Clock.reading."""
        return self.reading_at(self._time.us)

    def reading_at(self, us: int) -> float:
        """What it showed, or will show, at a moment of the database's time."""
        return self._offset + (us - START_US) / SECOND_US * self._pace

    def us_at(self, reading: float) -> int:
        """The moment of the database's time at which it shows that; never, if it is infinite."""
        if reading == math.inf:
            return NEVER_US
        return START_US + round((reading - self._offset) / self._pace * SECOND_US)

    async def sleep(self, seconds: float) -> None:
        """See Clock.sleep."""
        await Turn("clock.sleep", self._time.after(seconds / self._pace))
