"""`duly accounts`: what is paused sends nothing, and waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import LimitOption, Surface, WhyOption, command, operator, stated
from duly.cli.words import paused_line

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = ["register"]

Name = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    accounts = typer.Typer(help="Accounts, and pauses of them.", no_args_is_help=True)
    command(accounts, "list")(list_accounts)
    command(accounts, "pause")(pause_account)
    command(accounts, "resume")(resume_account)
    app.add_typer(accounts, name="accounts")


def list_accounts(surface: Surface, limit: LimitOption = 1_000) -> None:
    """List the accounts by name."""
    rows = asyncio.run(_accounts(surface.config(), limit))
    text = output.table(("account", "paused", "created_at"), rows) if rows else "there is no account yet"
    surface.result({"accounts": rows}, text)


def pause_account(surface: Surface, name: Name, why: WhyOption) -> None:
    """Send nothing for an account until it is resumed."""
    done = asyncio.run(_pause_account(surface.config(), name, stated(why), paused=True))
    surface.result(done, paused_line(done))


def resume_account(surface: Surface, name: Name, why: WhyOption) -> None:
    """Let an account send again; what waits for that is looked at at once."""
    done = asyncio.run(_pause_account(surface.config(), name, stated(why), paused=False))
    surface.result(done, paused_line(done))


async def _accounts(config: Config, limit: int) -> list[dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        return await views.accounts(limit)


async def _pause_account(config: Config, name: str, why: str, *, paused: bool) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        changed = await store.pause_account(operator(), why, name, paused=paused)
    return {"name": name, "paused": paused, "changed": changed}
