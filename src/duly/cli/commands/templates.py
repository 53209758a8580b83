"""`duly templates`: pauses of templates, and by which versions reminders were promised."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import AccountOption, LimitOption, Surface, WhyOption, command, operator, stated
from duly.cli.words import counted, paused_line, require_account

if TYPE_CHECKING:
    from duly.ports import Upgraded
    from duly.runtime.config import Config

__all__ = ["register"]

Name = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    templates = typer.Typer(help="Versions of templates, and pauses of them.", no_args_is_help=True)
    command(templates, "list")(list_templates)
    command(templates, "pause")(pause_template)
    command(templates, "resume")(resume_template)
    command(templates, "upgrade")(upgrade_template)
    app.add_typer(templates, name="templates")


def list_templates(surface: Surface, limit: LimitOption = 1_000) -> None:
    """List the templates: their current version, and how many reminders are pinned to which."""
    rows = asyncio.run(_templates(surface.config(), limit))
    shown = [{**row, "pinned": _counts(row["pinned"])} for row in rows]
    text = output.table(("template", "version", "paused", "pinned"), shown) if rows else "there is no template"
    surface.result({"templates": rows}, text)


def pause_template(surface: Surface, name: Name, why: WhyOption) -> None:
    """Send nothing that is made from a template until it is resumed."""
    done = asyncio.run(_pause(surface.config(), name, stated(why), paused=True))
    surface.result(done, paused_line(done))


def resume_template(surface: Surface, name: Name, why: WhyOption) -> None:
    """Let a template be sent again."""
    done = asyncio.run(_pause(surface.config(), name, stated(why), paused=False))
    surface.result(done, paused_line(done))


def upgrade_template(surface: Surface, name: Name, why: WhyOption, account: AccountOption = None) -> None:
    """Move reminders that have not fired yet to the current version of their template."""
    version, done = asyncio.run(_upgrade(surface.config(), name, account, stated(why)))
    text = f"{counted(done.moved, 'reminder', 'reminders')} moved to version {version} of {output.plain(name)}"
    if done.under_way:
        text += f"; {done.under_way} left as they were, because a delivery of theirs is open: run it again later"
    surface.result({"name": name, "version": version, "moved": done.moved, "under_way": done.under_way}, text)


def _counts(pinned: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one['version'] or 'to none'}: {one['reminders']}" for one in pinned)


async def _templates(config: Config, limit: int) -> list[dict[str, Any]]:
    """Every template that is configured, paused, or that a reminder is pinned to, by name."""
    from duly.runtime.bootstrap import open_views, templates

    compiled = templates(config)
    async with open_views(config) as views:
        paused = {one["template"]: one for one in await views.paused_templates(limit)}
        pinned = await views.pinned_templates()
    names = sorted({*config.templates, *paused, *(one["template"] for one in pinned)})[:limit]
    return [
        {
            "template": name,
            "version": compiled.version(name) if name in compiled else None,
            "paused": name in paused,
            **{word: paused[name][word] if name in paused else None for word in ("since", "actor", "reason")},
            "pinned": [
                {"version": one["version"], "reminders": one["reminders"]} for one in pinned if one["template"] == name
            ],
        }
        for name in names
    ]


async def _pause(config: Config, name: str, why: str, *, paused: bool) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_store

    if paused:
        _require(config, name)
    async with open_store(config) as store:
        changed = await store.pause_template(operator(), why, name, paused=paused)
    return {"name": name, "paused": paused, "changed": changed}


async def _upgrade(config: Config, name: str, account: str | None, why: str) -> tuple[str, Upgraded]:
    from duly.flows.upgrade import upgrade
    from duly.runtime.bootstrap import open_store, templates
    from duly.runtime.versions import keep

    _require(config, name)
    compiled = templates(config)
    version = compiled.version(name)
    async with open_store(config) as store:
        await require_account(store.views(), config, account)
        await keep(store, compiled)
        return version, await upgrade(store, name, version, account=account, why=why, actor=operator())


def _require(config: Config, name: str) -> None:
    from duly.core.folding import TEMPLATE
    from duly.errors import NotFound
    from duly.intake.rejection import nearest_or_all

    known = {*config.templates, TEMPLATE}  # that one has everybody, whether it is configured or not
    if name not in known:
        raise NotFound(f"no template is called {output.plain(name)[:60]!r}{nearest_or_all(name, known)}")
