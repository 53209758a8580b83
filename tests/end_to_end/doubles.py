"""The receiving side, beside the test: `duly.testing`'s doubles on an event loop of their own thread.

A test starts the real program and waits for it, so the doubles must go on answering meanwhile. Their counters are
plain attributes and are read from the test's thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, TypeVar

from duly.testing.http1 import Answer, Manner, Message, reply
from duly.testing.receiver import Receiver

__all__ = ["LATER_SECONDS", "LaterReceiver", "OddReceiver", "TimedReceiver", "beside"]

D = TypeVar("D", bound=AbstractAsyncContextManager[Any])
T = TypeVar("T")
CALL_SECONDS_MAX: Final = 60.0
LATER_SECONDS: Final = 40


@contextmanager
def beside(double: D) -> Iterator[D]:
    """Run a double in a thread while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(CALL_SECONDS_MAX)

    try:
        call(_enter(double))
        yield double
        call(_leave(double))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _enter(double: AbstractAsyncContextManager[Any]) -> None:
    await double.__aenter__()


async def _leave(double: AbstractAsyncContextManager[Any]) -> None:
    await double.__aexit__(None, None, None)
    await asyncio.sleep(0)  # let the sockets close


class TimedReceiver(Receiver):
    """A receiver that notes when each request came."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def answer(self, message: Message) -> Answer:
        """Note the time, and answer as always."""
        self.times.append(time.monotonic())
        return super().answer(message)

    def most_within(self, seconds: float) -> int:
        """The most requests that any span of so many seconds saw."""
        return max(sum(start <= one < start + seconds for one in self.times) for start in self.times)


class LaterReceiver(Receiver):
    """A receiver whose `busy` URLs ask for a long wait; the others answer as always."""

    def answer(self, message: Message) -> Answer:
        """Refuse for now, or answer as always."""
        if message.target.startswith(b"/busy/"):
            self.requests += 1
            return Answer(Manner.AT_ONCE, reply("429 Too Many Requests", b"", f"Retry-After: {LATER_SECONDS}"))
        return super().answer(message)


class OddReceiver(Receiver):
    """A receiver whose `odd` URLs give answers that nobody should give; the others answer as always."""

    ANSWERS: Final[Mapping[str, bytes]] = {
        "nul": reply("400 Bad Request", b"no\0\x01\x1b[31m\xed\xa0\x80\xff thanks"),
        "endless": reply("200 OK", b"thank you " * 400_000),
        "control": reply("200 OK", b"", "X-Request-Id: \x01\x7f\xff" + "9" * 5_000),
    }

    def answer(self, message: Message) -> Answer:
        """Say something odd, or answer as always."""
        mood, _, name = message.target.decode().removeprefix("/").partition("/")
        return Answer(Manner.AT_ONCE, self.ANSWERS[name]) if mood == "odd" else super().answer(message)
