"""`duly config`: the effective values, masked, and where each came from."""

from __future__ import annotations

import typer

from duly.cli.output import columns
from duly.cli.surface import Surface, command

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "config")(show)


def show(surface: Surface) -> None:
    """Print the effective configuration, secrets masked, and where each value came from."""
    config = surface.config()
    from duly.runtime.config import view

    surface.result({"config": view.document(config)}, columns(("KEY", "VALUE", "FROM"), list(view.lines(config))))
