"""`duly zones refresh`: after an update of the zone data, moments that were told by the old ones are told anew."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import typer

from duly.cli import output
from duly.cli.surface import Surface, command, operator
from duly.cli.words import counted

if TYPE_CHECKING:
    from duly.flows.rezone import Rezoned
    from duly.runtime.config import Config

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Zone data, and what is told by them.", no_args_is_help=True)
    group.callback()(_group)
    command(group)(refresh)
    app.add_typer(group, name="zones")


def _group() -> None:
    """A group of one command stays a group."""


def refresh(surface: Surface) -> None:
    """Tell the next moment of every reminder anew that other zone data than this machine's have told."""
    from duly.intake import zones

    began, version = time.monotonic(), zones.version()
    done = asyncio.run(_refresh(surface.config(), version))
    document = {
        "looked": done.looked,
        "moved": done.moved,
        "same": done.same,
        "stale": done.stale,
        "unknown": done.unknown,
        "seconds": round(time.monotonic() - began, 3),
        "version": version,
    }
    surface.result(document, _text(document, done))


async def _refresh(config: Config, version: str) -> Rezoned:
    from duly.flows.rezone import Change, rezone
    from duly.intake import zones
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        return await rezone(store, zones.known, Change(version, operator()))


def _text(document: dict[str, Any], done: Rezoned) -> str:
    looked = counted(done.looked, "reminder", "reminders")
    lines = [f"zone data {document['version']}: {looked} told by others; {done.moved} moved, {done.same} as before"]
    if done.stale:
        lines.append(f"{done.stale} changed meanwhile, or in doubt of a restore: left as they are")
    if done.unknown:
        lines.append(f"{done.unknown} cannot be told: this machine does not know their zone, or not their schedule")
    if done.told:
        rows = [
            (one.account, one.key, one.label, output.second(one.before), output.second(one.after)) for one in done.told
        ]
        lines.append("\n" + output.columns(("account", "reminder", "label", "from", "to"), rows))
    if done.moved > len(done.told):
        lines.append(f"... and {done.moved - len(done.told)} more (`duly show` tells each)")
    return "\n".join(lines)
