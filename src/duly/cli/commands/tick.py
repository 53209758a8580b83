"""`duly tick`: one bounded discovery run. Cron's part; any number may run at once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import typer

from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def tick(surface: Surface) -> None:
        """Turn due reminders into deliveries: one bounded run."""
        done = asyncio.run(_tick(surface.config()))
        more = "; more is due, run it again" if done["remaining"] else ""
        text = "{due} due, {created} created, {already} already there, {seconds} s".format(**done)
        surface.result(done, text + more)


async def _tick(config: Config) -> dict[str, Any]:
    from duly.flows.tick import tick
    from duly.intake import zones
    from duly.runtime.bootstrap import channels, open_store

    started = time.monotonic()
    async with open_store(config) as store:
        done = await tick(store, await store.namespace(), channels(config), zones.known)
    return {**done._asdict(), "seconds": round(time.monotonic() - started, 3)}
