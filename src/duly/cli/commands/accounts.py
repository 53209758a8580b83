"""`duly accounts` and `duly templates`: what is paused sends nothing, and waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import LimitOption, Surface, WhyOption, command, operator, stated

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = ["register"]

Name = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    """Add both groups."""
    accounts = typer.Typer(help="Accounts, and pauses of them.", no_args_is_help=True)
    command(accounts, "list")(list_accounts)
    command(accounts, "pause")(pause_account)
    command(accounts, "resume")(resume_account)
    app.add_typer(accounts, name="accounts")
    templates = typer.Typer(help="Pauses of templates.", no_args_is_help=True)
    command(templates, "list")(list_templates)
    command(templates, "pause")(pause_template)
    command(templates, "resume")(resume_template)
    app.add_typer(templates, name="templates")


def list_accounts(surface: Surface, limit: LimitOption = 1_000) -> None:
    """List the accounts by name."""
    rows = asyncio.run(_accounts(surface.config(), limit))
    text = output.table(("account", "paused", "created_at"), rows) if rows else "there is no account yet"
    surface.result({"accounts": rows}, text)


def pause_account(surface: Surface, name: Name, why: WhyOption) -> None:
    """Send nothing for an account until it is resumed."""
    _told(surface, asyncio.run(_pause_account(surface.config(), name, stated(why), paused=True)))


def resume_account(surface: Surface, name: Name, why: WhyOption) -> None:
    """Let an account send again; what waits for that is looked at at once."""
    _told(surface, asyncio.run(_pause_account(surface.config(), name, stated(why), paused=False)))


def list_templates(surface: Surface, limit: LimitOption = 1_000) -> None:
    """List the templates that are paused."""
    rows = asyncio.run(_templates(surface.config(), limit))
    text = output.table(("template", "since", "actor", "reason"), rows) if rows else "no template is paused"
    surface.result({"templates": rows}, text)


def pause_template(surface: Surface, name: Name, why: WhyOption) -> None:
    """Send nothing that is made from a template until it is resumed."""
    _told(surface, asyncio.run(_pause_template(surface.config(), name, stated(why), paused=True)))


def resume_template(surface: Surface, name: Name, why: WhyOption) -> None:
    """Let a template be sent again."""
    _told(surface, asyncio.run(_pause_template(surface.config(), name, stated(why), paused=False)))


def _told(surface: Surface, done: dict[str, Any]) -> None:
    state = "paused" if done["paused"] else "not paused"
    surface.result(done, f"{output.plain(done['name'])} is {state}" + ("" if done["changed"] else ", as before"))


async def _accounts(config: Config, limit: int) -> list[dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        return await views.accounts(limit)


async def _templates(config: Config, limit: int) -> list[dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        return await views.paused_templates(limit)


async def _pause_account(config: Config, name: str, why: str, *, paused: bool) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        changed = await store.pause_account(operator(), why, name, paused=paused)
    return {"name": name, "paused": paused, "changed": changed}


async def _pause_template(config: Config, name: str, why: str, *, paused: bool) -> dict[str, Any]:
    from duly.errors import NotFound
    from duly.intake.rejection import did_you_mean
    from duly.runtime.bootstrap import open_store

    if paused and name not in config.templates:
        raise NotFound(f"no template is called {output.plain(name)[:60]!r}{did_you_mean(name, config.templates)}")
    async with open_store(config) as store:
        changed = await store.pause_template(operator(), why, name, paused=paused)
    return {"name": name, "paused": paused, "changed": changed}
