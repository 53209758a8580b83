"""`duly reminders`: one reminder that stands still for a while, and goes on without a flood."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import typer

from duly.cli import output
from duly.cli.surface import AccountOption, Identity, Surface, WhyOption, command, operator, stated
from duly.cli.words import reminder_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.runtime.config import Config

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Pauses of single reminders.", no_args_is_help=True)
    command(group)(pause)
    command(group)(resume)
    app.add_typer(group, name="reminders")


def pause(surface: Surface, identity: Identity, why: WhyOption, account: AccountOption = None) -> None:
    """Let a reminder stand still: nothing new comes of it, and what is open waits."""
    done = asyncio.run(_pause(surface.config(), identity, account, stated(why)))
    surface.result(done, "it is paused" + ("" if done["changed"] else ", as before"))


def resume(surface: Surface, identity: Identity, why: WhyOption, account: AccountOption = None) -> None:
    """Let a paused reminder go on. What repeats goes on with its next occurrence; what fires once keeps its time."""
    done = asyncio.run(_resume(surface.config(), identity, account, stated(why)))
    surface.result(done, _text(done))


async def _pause(config: Config, identity: str, account: str | None, why: str) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        reminder = await reminder_named(store.views(), identity, account)
        changed = await store.pause_reminder(operator(), why, reminder)
        shown = await store.views().show_reminder(reminder)
    if not changed:
        _require(shown, "paused")
    return {"id": shown["id"], "status": shown["status"], "changed": changed}


async def _resume(config: Config, identity: str, account: str | None, why: str) -> dict[str, Any]:
    from duly.flows.resume import resume_reminder
    from duly.intake import zones
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        reminder = await reminder_named(store.views(), identity, account)
        paused = (await store.views().show_reminder(reminder))["status"] == "paused"
        if paused:
            await resume_reminder(store, zones.known, zones.version(), operator(), why, reminder)
        shown = await store.views().show_reminder(reminder)
    if not paused:
        _require(shown, "active")
    told = ("id", "status", "next_due_at", "next_local", "zone", "next_label")
    return {**{word: shown[word] for word in told}, "changed": paused}


def _require(shown: Mapping[str, Any], status: str) -> None:
    """Raises InputError for a reminder that has come to its end."""
    from duly.errors import InputError

    if shown["status"] != status:
        raise InputError(f"it is {shown['status']}: nothing of it is still to come, so there is nothing to change")


def _text(done: Mapping[str, Any]) -> str:
    if done["status"] == "done":
        return "nothing of it is still to come: it is done"
    local = f"{done['next_local']} in {output.plain(done['zone'])} ({done['next_due_at']})"
    when = local if done["next_local"] else done["next_due_at"]
    return f"it is active{'' if done['changed'] else ', as before'}; {done['next_label']} is due at {when}"
