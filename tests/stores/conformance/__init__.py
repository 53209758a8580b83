"""The conformance suite of `ports.Store` and `ports.Views`: what every ledger must do, whatever its database.

A case is an async function with one sentence that says what must hold. It gets a `Scene`: an empty
ledger, and words for what a worker does with it. Around every case two things are watched: no call may
move a delivery where the table of transitions does not allow it, and at the end every invariant that the
ledger can check must hold.

    @case
    async def a_repeat_is_already_there(scene: Scene) -> None:
        "The same key and body again is `already`."

The modules register their cases when they are imported; `tests/stores/test_conformance.py` runs them on
every dialect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.stores.conformance.scene import Scene

__all__ = ["CASES", "Case", "case"]

Case = Callable[[Scene], Awaitable[None]]

#: Every case by its name.
CASES: Final[dict[str, Case]] = {}


def case(function: Case) -> Case:
    """Register a case. Two of one name would hide each other."""
    name = function.__name__
    assert name not in CASES, f"two cases are called {name}"
    assert function.__doc__, f"{name}: say in one sentence what must hold"
    CASES[name] = function
    return function
