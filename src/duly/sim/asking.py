"""Asking: whoever wants something asks until the database has answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from duly.errors import InputError, NotFound, StoreUnavailable
from duly.sim.chance import Chance
from duly.sim.clocks import Time
from duly.sim.turns import Turn

__all__ = ["APPLICATION", "Ask", "if_there", "until_answered"]

APPLICATION: Final = "application"
RETRY_SECONDS: Final = (0.1, 5.0)
RETRY_DOUBLINGS_MAX: Final = 8

Ask = Callable[[], Awaitable[object]]


async def until_answered(time: Time, chance: Chance, wish: Ask) -> None:
    """Repeat a wish until the database has answered."""
    tries = 0
    while True:
        try:
            await wish()
        except StoreUnavailable:
            tries += 1
            await Turn("retry", time.after(chance.spread(*RETRY_SECONDS) * 2.0 ** min(tries, RETRY_DOUBLINGS_MAX)))
        else:
            return


async def if_there(wish: Awaitable[object]) -> object:
    """What is not there, or not any more, is no trouble of ours."""
    try:
        return await wish
    except (NotFound, InputError) as error:
        return error
