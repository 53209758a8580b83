"""Driving coroutines without an event loop, which proves what they wait for.

A flow awaits only ports. Over doubles that answer at once, and a store that runs at once (`at_once`), a
flow therefore never has to wait for anybody, and `drive` takes it from its first line to its result in
one go. A flow that slept on asyncio, or waited for a socket, would be caught.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["Waited", "at_once", "drive"]

T = TypeVar("T")


class Waited(AssertionError):
    """A coroutine waited for something that is no double."""


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. Raises Waited if it does not come at once, else whatever the coroutine raises."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise Waited(f"it waits for {waits_for!r}, and everything that a flow awaits answers at once")


async def at_once(call: Callable[[], T]) -> T:
    """Run a store's synchronous core here and now: the `run` of `SqliteStore.open`."""
    return call()
