"""A bell on an event loop: whoever waits for it wakes when it rings, or when the time is up."""

from __future__ import annotations

import asyncio

__all__ = ["Bell"]


class Bell:
    """Cheaper than `wait_for(event.wait())`: no task is made, and ringing twice costs nothing."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Wake everybody who waits now."""
        for waiter in self._waiting:
            _wake(waiter)

    async def wait(self, seconds: float) -> None:
        """Return when the bell rings, or after `seconds`."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(max(0.0, seconds), _wake, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.discard(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
