"""`duly send-test FILE --to ADDRESS`: one real, marked message through the configured provider, on no record."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.commands.preview import ChannelOption, OneReminder
from duly.cli.submitted import FromLedger, read_submission
from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register"]

ToOption = Annotated[str, typer.Option("--to", metavar="ADDRESS", help="Where to: an address of your own.")]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "send-test")
    def send_test(
        surface: Surface,
        file: OneReminder,
        to: ToOption,
        channel: ChannelOption = None,
        from_ledger: FromLedger = False,
    ) -> None:
        """Send one marked message to an address of your own, outside the ledger. Exit 1 unless it is accepted."""
        from duly.core.model import Outcome
        from duly.runtime.telemetry import configure
        from duly.runtime.trying import send_test as sent

        configure()
        config = surface.config()
        submitted = read_submission(file, config if from_ledger else None)
        document = asyncio.run(sent(config, submitted, to, channel))
        surface.result(document, _text(document))
        surface.note("nothing was written to the ledger, and nothing will be sent again")
        if document["outcome"] != Outcome.ACCEPTED:
            raise typer.Exit(1)


def _text(document: Mapping[str, Any]) -> str:
    return output.fields(document)
