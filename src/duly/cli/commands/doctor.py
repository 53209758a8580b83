"""`duly doctor`: the installation looked over, from the configuration to the ledger's invariants."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import typer

from duly.cli import output
from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def doctor(surface: Surface) -> None:
        """Check configuration, schema and the ledger's invariants. Exit 1 if something is wrong."""
        checks = asyncio.run(_checks(surface.config()))
        wrong = [check for check in checks if check["found"]]
        rows = [("wrong" if check["found"] else "ok", check["check"], check["found"] or "") for check in checks]
        surface.result({"ok": not wrong, "checks": checks}, output.columns(("", "check", "rows"), rows))
        if wrong:
            raise typer.Exit(1)


async def _checks(config: Config) -> list[dict[str, Any]]:
    """Bootstrap itself checks secrets, templates, providers, schema and namespace: it raises if one is wrong."""
    from duly.runtime.bootstrap import open_plant
    from duly.stores import migrate

    problems = await migrate.verify(config.database.reveal())
    async with open_plant(config, freeze_garbage=False) as plant:
        invariants = await plant.store.views().invariants()
    return [
        {"check": "configuration, secrets and templates", "found": 0},
        *({"check": f"schema: {problem}", "found": 1} for problem in problems),
        *([] if problems else [{"check": "schema", "found": 0}]),
        *({"check": f"ledger: {check.replace('_', ' ')}", "found": found} for check, found in invariants),
    ]
