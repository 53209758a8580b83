"""`duly doctor`: the installation looked over, from the configuration to the ledger's invariants.

A broken invariant is damage or a bug. A finding is neither, and still wants somebody: it says what to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import typer

from duly.cli import output
from duly.cli.surface import Surface, command
from duly.cli.words import failing_text

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = ["register"]

#: finding of the ledger -> what to do about it.
ADVICE = {
    "guard_open": "nothing is sent until `duly restore close`; `duly restore plan` tells what is covered",
    "hold_past_its_alarm": "look at `duly holds list`, and decide with `duly holds decide`",
    "lease_not_taken_back": "no worker runs that would take them back: start `duly work`",
    "provider_not_configured": "they wait until their deadline; configure their provider again, or cancel them",
}
BROKEN = "damage or a bug: stop the workers, keep a copy of the database, and report it"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def doctor(surface: Surface) -> None:
        """Check configuration, schema and the ledger's invariants. Exit 1 if something is wrong."""
        checks, failing = asyncio.run(_checks(surface.config()))
        wrong = [check for check in checks if check["found"]]
        surface.result({"ok": not wrong, "checks": checks, "failing": failing}, _text(checks, failing))
        if wrong:
            raise typer.Exit(1)


async def _checks(config: Config) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The checks, and what waits after attempts that failed, which is no fault of the installation.

    Bootstrap itself checks secrets, templates, providers, schema and namespace: it raises if one is wrong.
    """
    from duly.runtime.bootstrap import open_plant
    from duly.stores import migrate

    problems = await migrate.verify(config.database.reveal())
    async with open_plant(config, freeze_garbage=False) as plant:
        views = plant.store.views()
        invariants = await views.invariants()
        findings = await views.findings(list(plant.providers))
        failing = (await views.status())["failing"]
    checks = [
        _check("configuration, secrets and templates", 0),
        *(_check(f"schema: {problem}", 1, "run `duly migrate verify`") for problem in problems),
        *([] if problems else [_check("schema", 0)]),
        *(_check(f"ledger: {_words(name)}", found, BROKEN) for name, found in invariants),
        *(_check(f"work: {_words(name)}", found, ADVICE[name]) for name, found in findings),
    ]
    return checks, failing


def _check(check: str, found: int, advice: str | None = None) -> dict[str, Any]:
    return {"check": check, "found": found, "advice": advice if found else None}


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(checks: list[dict[str, Any]], failing: list[dict[str, Any]]) -> str:
    """What is wrong stands last, with what to do: there it is read."""
    rows = [("wrong" if check["found"] else "ok", check["check"], check["found"] or "") for check in checks]
    wrong = [f"{check['check']}: {check['advice']}" for check in checks if check["found"]]
    parts = [output.columns(("", "check", "rows"), rows)]
    parts += [failing_text(failing)] if failing else []
    return "\n\n".join([*parts, *(["\n".join(wrong)] if wrong else [])])
