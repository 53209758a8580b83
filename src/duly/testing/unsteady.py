"""A store that goes away, refuses, or loses replies: for tests of whoever has to live with that.

It stands before any real store. While `away`, no call happens. A reply that is lost is the harder case:
the call has happened, and its caller cannot know. `before` and `after` let something else happen at
exactly the moment of a call, as if another program had been faster.
"""

from __future__ import annotations

import inspect
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from duly.errors import DulyError, StoreUnavailable
from duly.ports import Store

__all__ = ["Call", "UnsteadyStore"]

Action = Callable[[], object]


class Call(NamedTuple):
    """A method that was called, and with what."""

    method: str
    arguments: tuple[Any, ...]


class UnsteadyStore:
    """ports.Store over another one. `calls` are the calls that were made of it, in order."""

    def __init__(self, store: Store) -> None:
        self.away = False
        self.calls: list[Call] = []
        self._store = store
        self._before: defaultdict[str, deque[Action]] = defaultdict(deque)
        self._after: defaultdict[str, deque[Action]] = defaultdict(deque)

    def called(self, method: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of a method, in order."""
        return [call.arguments for call in self.calls if call.method == method]

    def before(self, method: str, action: Action) -> None:
        """Do something just before the next call of a method, awaited if need be. An error of it is the call's."""
        self._before[method].append(action)

    def after(self, method: str, action: Action) -> None:
        """Do something just after the next call of a method has happened, before its caller hears of it."""
        self._after[method].append(action)

    def refuse(self, method: str, *errors: Exception) -> None:
        """The next calls of a method do not happen, and raise these."""
        for error in errors:
            self.before(method, partial(_fail, error))

    def lose(self, method: str) -> None:
        """The next call of a method happens, and its reply is lost."""
        self.after(method, partial(_fail, _unavailable(method)))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return partial(self._call, name, method) if inspect.iscoroutinefunction(method) else method

    async def _call(self, name: str, method: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        self.calls.append(Call(name, arguments))
        if self.away:
            raise _unavailable(name)
        await _next(self._before[name])
        reply = await method(*arguments, **named)
        await _next(self._after[name])
        return reply


async def _next(actions: deque[Action]) -> None:
    if actions and inspect.isawaitable(done := actions.popleft()()):
        await done


def _fail(error: Exception) -> None:
    raise error


def _unavailable(method: str) -> DulyError:
    return StoreUnavailable(f"the database did not answer ({method})")
