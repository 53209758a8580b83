"""`duly migrate`: look at, apply and verify the schema's migrations."""

from __future__ import annotations

import typer

from duly.cli.output import columns
from duly.cli.surface import Surface, command, operator
from duly.errors import SchemaError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="The database's schema: plan, apply and verify migrations.", no_args_is_help=True)
    for step in (plan, apply, verify):
        command(group)(step)
    app.add_typer(group, name="migrate")


def plan(surface: Surface) -> None:
    """Print the migrations that are pending. Changes nothing."""
    import asyncio

    from duly.stores import migrate

    steps = asyncio.run(migrate.plan(surface.config().database.reveal()))
    rows = [(f"{step.number:04}", step.name) for step in steps]
    document = {"pending": [{"number": step.number, "name": step.name} for step in steps]}
    surface.result(document, columns(("PENDING", "NAME"), rows) if rows else "nothing is pending")


def apply(surface: Surface) -> None:
    """Apply the migrations that are pending. Safe to run again."""
    import asyncio

    from duly.stores import migrate

    config = surface.config()
    steps = asyncio.run(migrate.apply(config.database.reveal(), config.namespace, by=operator()))
    document = {"applied": [{"number": step.number, "name": step.name} for step in steps]}
    rows = [(f"{step.number:04}", step.name) for step in steps]
    surface.result(document, columns(("APPLIED", "NAME"), rows) if rows else "nothing was pending")


def verify(surface: Surface) -> None:
    """Compare the schema with the one that this version needs. Exits 1 if they differ."""
    import asyncio

    from duly.stores import migrate

    problems = asyncio.run(migrate.verify(surface.config().database.reveal()))
    surface.result({"problems": problems}, "\n".join(problems) or "the schema is as it should be")
    if problems:
        raise SchemaError(f"the schema is not as it should be ({len(problems)} problems)")
