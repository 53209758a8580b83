"""`duly preview FILE`: what a reminder would say, without a database and without sending anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.submitted import FromLedger, read_submission
from duly.cli.surface import Surface, command
from duly.cli.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ChannelOption", "OneReminder", "register"]

OneReminder = Annotated[str, typer.Argument(metavar="FILE", help="One reminder as JSON; - is standard input.")]
ChannelOption = Annotated[
    str | None, typer.Option("--channel", help="email, sms or webhook; the reminder's first one if it is not given.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def preview(
        surface: Surface, file: OneReminder, channel: ChannelOption = None, from_ledger: FromLedger = False
    ) -> None:
        """Show what a reminder would say, and what it costs as SMS. Needs no database, and sends nothing."""
        from duly.runtime.trying import preview as previewed

        config = surface.config()
        document = previewed(config, read_submission(file, config if from_ledger else None), channel)
        surface.result(document, "\n".join(map(output.plain, _lines(document))))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield "{channel}, template {template}, version {template_version}".format(**document)
    yield ""
    headers = document["headers"] or {"Subject": document["subject"]}
    yield from (f"{name}: {value}" for name, value in headers.items())
    yield ""
    yield from document["text"].splitlines()
    if document["html"] is not None:
        yield from ("", "as HTML:", *document["html"].splitlines())
    yield ""
    yield _cost(**document["sms"])


def _cost(encoding: str, segments: int, units: int) -> str:
    return f"as SMS: {counted(segments, 'segment', 'segments')} of {encoding}, {counted(units, 'unit', 'units')}"
