"""A turn: what a coroutine yields at every port call, and what it gets back.

The coroutine says what it is about to do and what it waits for. The scheduler decides when it goes on, and
with which fate.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import Final

__all__ = ["NEVER_US", "Fate", "Turn"]

#: Later than everything.
NEVER_US: Final = 1 << 62


class Fate(Enum):
    """What becomes of the call that a turn announces."""

    GOES = auto()
    UNANSWERED = auto()  # the database does not answer, and the call does not happen
    REPLY_LOST = auto()  # the call happens, and its caller does not hear of it
    REPLY_SLOW = auto()  # the call happens, and its caller hears of it much later
    DIES_AFTER = auto()  # the call happens, and its worker is gone


class Turn:
    """Awaitable. Runnable from `wake_us` on, or as soon as `ready` says so.

    `duty` is set on a rest between two rounds of a loop: it ends when the ledger has something for that duty,
    and not before `rest_us`. A turn is `fragile` if it announces a call of the store, which may go unanswered.
    """

    __slots__ = ("call", "duty", "fragile", "ready", "rest_us", "wake_us")

    def __init__(
        self,
        call: str,
        wake_us: int = 0,
        ready: Callable[[], bool] | None = None,
        *,
        fragile: bool = False,
        duty: str | None = None,
    ) -> None:
        self.call = call
        self.wake_us = wake_us
        self.rest_us = wake_us
        self.ready = ready
        self.fragile = fragile
        self.duty = duty

    def __await__(self) -> Generator[Turn, Fate, Fate]:
        fate = yield self
        return fate
