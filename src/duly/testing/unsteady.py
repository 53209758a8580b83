"""A store that goes away, refuses, or loses replies: for tests of whoever has to live with that.

It stands before any real store. While `away`, no call happens. A reply that is lost is the harder case:
the call has happened, and its caller cannot know.
"""

from __future__ import annotations

import inspect
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from duly.errors import DulyError, StoreUnavailable
from duly.ports import Store

__all__ = ["UnsteadyStore"]


class UnsteadyStore:
    """ports.Store over another one. `calls` names the methods that were called, in order."""

    def __init__(self, store: Store) -> None:
        self.away = False
        self.calls: list[str] = []
        self._store = store
        self._refusals: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self._losses: defaultdict[str, int] = defaultdict(int)

    def refuse(self, method: str, *errors: Exception) -> None:
        """The next calls of a method do not happen, and raise these."""
        self._refusals[method].extend(errors)

    def lose(self, method: str, times: int = 1) -> None:
        """The next calls of a method happen, and their replies are lost."""
        self._losses[method] += times

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return partial(self._call, name, method) if inspect.iscoroutinefunction(method) else method

    async def _call(self, name: str, method: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        self.calls.append(name)
        self._go_wrong_before(name)
        reply = await method(*arguments, **named)
        self._go_wrong_after(name)
        return reply

    def _go_wrong_before(self, name: str) -> None:
        if self.away:
            raise _unavailable(name)
        if self._refusals[name]:
            raise self._refusals[name].popleft()

    def _go_wrong_after(self, name: str) -> None:
        if self._losses[name]:
            self._losses[name] -= 1
            raise _unavailable(name)


def _unavailable(name: str) -> DulyError:
    return StoreUnavailable(f"the database did not answer ({name})")
