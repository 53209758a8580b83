"""A restore: the file as it was some time ago is put back, and an operator does what has to be done.

Everything is stopped first, and for longer than a request may be under way. Then the guard is opened, what
people have asked for since the last sign of life on record is asked for again, and the guard is closed.
Meanwhile workers run: behind an open guard they find out, and send nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from duly.core.model import Guard
from duly.errors import InputError
from duly.ports import Store
from duly.sim.asking import until_answered
from duly.sim.chance import Chance
from duly.sim.clocks import Time
from duly.sim.people import People
from duly.sim.truth import OPERATOR
from duly.sim.turns import Turn

__all__ = ["Restorer"]

STOPPED_SECONDS: Final = (1.0, 600.0)
GUARDED_SECONDS: Final = (1.0, 1800.0)


@dataclass(slots=True)
class Restorer:
    """One backup, and its return. `stop`, `put_back` and `work_again` are the world's."""

    store: Store
    time: Time
    chance: Chance
    people: People
    longest_timeout_seconds: float
    back_up: Callable[[], None]
    stop: Callable[[], None]
    put_back: Callable[[], None]
    work_again: Callable[[], None]

    async def restore(self, from_seconds: float, back_seconds: float) -> None:
        """Back up at one moment, put back at a later one."""
        await Turn("backup", Time().after(from_seconds))
        self.back_up()
        backed_up_us = self.time.us
        await Turn("restore", Time().after(back_seconds))
        self.stop()
        await Turn("copying", self.time.after(self.longest_timeout_seconds + self.chance.spread(*STOPPED_SECONDS)))
        self.put_back()
        await self._guard(backed_up_us)

    async def _guard(self, backed_up_us: int) -> None:
        guards: list[Guard] = []

        since = self._since(backed_up_us)

        async def open_guard() -> None:
            guards.append(await self._open(since))

        await until_answered(self.time, self.chance, open_guard)
        since_us = Time.us_of(guards[-1].since)
        self.work_again()
        for entry in self.people.book.since(min(since_us, backed_up_us)):  # and what is asked for meanwhile, once more
            await until_answered(self.time, self.chance, entry.wish)
        await Turn("looking", self.time.after(self.chance.spread(*GUARDED_SECONDS)))
        await until_answered(self.time, self.chance, self._close)

    async def _open(self, since: datetime | None) -> Guard:
        try:
            return await self.store.open_guard(OPERATOR, "restored from a backup", since)
        except InputError:  # the last sign of life is older still
            return await self.store.open_guard(OPERATOR, "restored from a backup")

    def _since(self, backed_up_us: int) -> datetime | None:
        """Mostly the last sign of life on record; sometimes further back, to be sure."""
        if self.chance.happens(0.7):
            return None
        return Time.moment(backed_up_us) - timedelta(seconds=self.chance.spread(3600.0, 86400.0))

    async def _close(self) -> None:
        try:
            await self.store.close_guard(OPERATOR, "all was submitted again")
        except InputError:
            return  # the answer to an earlier try was lost
