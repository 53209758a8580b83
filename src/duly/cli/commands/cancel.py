"""`duly cancel ID`: whoever commits first wins; what is already being sent is said, not hidden."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from duly.cli.surface import WHY_CHARACTERS_MAX, AccountOption, Identity, Surface, WhyOption, command, operator

if TYPE_CHECKING:
    from duly.ports import Cancelled
    from duly.runtime.config import Config

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def cancel(
        surface: Surface, identity: Identity, account: AccountOption = None, why: WhyOption = "cancelled"
    ) -> None:
        """Cancel a reminder with its open deliveries, or one delivery."""
        done = asyncio.run(_cancel(surface.config(), identity, account, why))
        surface.result(done._asdict(), _text(done))


async def _cancel(config: Config, identity: str, account: str | None, why: str) -> Cancelled:
    from duly.core.text import one_line
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        kind, found = await store.views().find(identity, account)
        return await store.cancel(
            operator(),
            one_line(why, WHY_CHARACTERS_MAX) or "cancelled",
            reminder=found if kind == "reminder" else None,
            delivery=found if kind == "delivery" else None,
        )


def _text(done: Cancelled) -> str:
    words = [
        (done.cancelled, "will not be sent"),
        (done.sending, "already sending: the ledger will show what came of it"),
        (done.in_doubt, "in doubt: may have been accepted, will not be sent again"),
        (done.final, "final before"),
    ]
    parts = [f"{count} {text}" for count, text in words if count]
    return f"cancelled; deliveries: {'; '.join(parts)}" if parts else "cancelled; it had no deliveries yet"
