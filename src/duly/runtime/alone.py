"""A turn alone: a row that three workers died over is claimed by a process that holds nothing else.

While a turn lasts nothing is claimed. What is under way is finished first; then each provider with such
rows gets one of them, and is waited for. If the process dies now, it is known what killed it. A turn ends
after a few rows or seconds, and is followed by a pause as long as itself, so suspects never take more
than half of a worker's time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from duly.core.limits import MOST_SUSPECT
from duly.ports import Clock

__all__ = ["Turns"]

LOOK_SECONDS: Final = 0.01
TURN_SECONDS: Final = 5.0
BETWEEN_TURNS_SECONDS: Final = 1.0


class Turns:
    """Says who may claim. `idle()` tells whether the process holds nothing; `stopping()` whether it should leave."""

    def __init__(self, clock: Clock, idle: Callable[[], bool], stopping: Callable[[], bool]) -> None:
        self._clock, self._idle, self._stopping = clock, idle, stopping
        self._closed = False
        self._next: str | None = None

    @property
    def closed(self) -> bool:
        """Whether only `take` lets somebody claim."""
        return self._closed

    def take(self, provider: str) -> bool:
        """Whether this provider may claim one row alone. Answers yes once per row."""
        if self._next != provider:
            return False
        self._next = None
        return True

    async def run(self, suspects: Callable[[], Awaitable[Sequence[tuple[str, int]]]]) -> float:
        """A turn, if any row has to be claimed alone; returns how long to wait before the next look, in seconds."""
        started = self._clock.reading()
        waiting = await _alone(suspects)
        if not waiting:
            return BETWEEN_TURNS_SECONDS
        self._closed = True
        try:
            await self._until_idle()
            while waiting and not self._stopping() and self._clock.reading() < started + TURN_SECONDS:
                await self._one_each(waiting)
                waiting = await _alone(suspects)
        finally:
            self._closed, self._next = False, None
        return max(BETWEEN_TURNS_SECONDS, self._clock.reading() - started)

    async def _one_each(self, providers: Sequence[str]) -> None:
        for provider in providers:
            self._next = provider
            await self._until_idle()

    async def _until_idle(self) -> None:
        """Seen twice: a batch that was just claimed is in nobody's hands for a moment."""
        seen = 0
        while seen < 2 and not self._stopping():  # noqa: PLR2004 - see above
            await self._clock.sleep(LOOK_SECONDS)
            seen = seen + 1 if self._next is None and self._idle() else 0


async def _alone(suspects: Callable[[], Awaitable[Sequence[tuple[str, int]]]]) -> list[str]:
    return [provider for provider, suspicion in await suspects() if suspicion == MOST_SUSPECT]
