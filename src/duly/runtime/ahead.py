"""Claims, one batch ahead: while one batch is admitted, begun and sent, the next is already claimed.

The claim that runs ahead is a plain asyncio task around the claim flow, on the store's own connection
for claims. What it has fetched stays leased and not begun until it is taken; at the end it is given
back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from duly.ports import Batch

__all__ = ["ClaimAhead"]

EMPTY_PAUSE_SECONDS: Final = 0.05


class ClaimAhead:
    """ports.Claims over `claim(limit)`, which returns None where nothing is ready."""

    def __init__(self, claim: Callable[[int], Awaitable[Batch | None]]) -> None:
        self._claim = claim
        self._next: asyncio.Task[Batch | None] | None = None
        self._closed = False

    async def take(self, limit: int, max_wait: float) -> Batch | None:
        """The batch that was claimed ahead; starts the next claim. Its errors are raised here."""
        if self._closed:
            return None
        if self._next is None:
            self._next = asyncio.ensure_future(self._claim(limit))
        done, _ = await asyncio.wait({self._next}, timeout=max_wait)
        if not done:
            return None
        finished, self._next = self._next, None
        batch = finished.result()
        if batch is None:
            await asyncio.sleep(min(max_wait, EMPTY_PAUSE_SECONDS))
        else:
            self._next = asyncio.ensure_future(self._claim(limit))
        return batch

    @property
    def holds(self) -> bool:
        """Whether rows are claimed, or being claimed, that nobody has taken yet."""
        return self._next is not None and not (self._next.done() and _brought_nothing(self._next))

    async def close(self) -> Batch | None:
        """Claim no more; returns what was claimed ahead and is to be given back."""
        self._closed = True
        if self._next is None:
            return None
        results = await asyncio.gather(self._next, return_exceptions=True)
        self._next = None
        return next((result for result in results if isinstance(result, Batch)), None)


def _brought_nothing(claim: asyncio.Task[Batch | None]) -> bool:
    return claim.cancelled() or claim.exception() is not None or claim.result() is None
