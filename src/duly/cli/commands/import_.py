"""`duly import FILE`: a stream of reminders, JSONL or CSV, into the ledger. Safe to run again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import Surface, command
from duly.cli.words import counted, left_out_text

if TYPE_CHECKING:
    from duly.runtime.config import Config
    from duly.runtime.importing import Imported

__all__ = ["register"]

FORMATS = ("jsonl", "csv")

File = Annotated[str, typer.Argument(metavar="FILE", help="JSONL or CSV; - reads standard input.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 if any row was rejected.")]
Format = Annotated[str | None, typer.Option("--format", metavar="jsonl|csv", help="Instead of the name's ending.")]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "import")
    def import_(surface: Surface, file: File, strict: Strict = False, file_format: Format = None) -> None:
        """Take reminders from a file. Bad rows go to FILE.rejected.jsonl, with the reason."""
        from duly.errors import InputError

        if file_format not in (None, *FORMATS):
            raise InputError(f"--format: {file_format!r} is not one of {', '.join(FORMATS)}")
        report, where = asyncio.run(_import(surface, surface.config(), file, file_format))
        document = {
            "rows": report.rows,
            "created": report.created,
            "already": report.already,
            "rejected": report.rejected,
            "revised": report.revised,
            "left_out": report.left_out,
            "left_out_rows": [row._asdict() for row in report.left_out_rows],
        }
        surface.result(document, _text(document, where))
        if report.likely_misspelt:
            surface.note(_misspelt(report))
        if strict and report.rejected:
            raise typer.Exit(1)


async def _import(surface: Surface, config: Config, file: str, file_format: str | None) -> tuple[Imported, str]:
    from duly.intake import Intake, RejectedFile, open_rows
    from duly.runtime.bootstrap import account_zones, channels, open_store, purposes, templates
    from duly.runtime.clock import SystemClock, SystemDice
    from duly.runtime.importing import import_rows
    from duly.runtime.outage import Outage
    from duly.runtime.telemetry import Telemetry, configure
    from duly.runtime.versions import keep

    configure()
    compiled = templates(config)
    outage = Outage(SystemClock(), SystemDice(), Telemetry("import"))
    with open_rows(file, file_format) as rows:
        async with open_store(config) as store:
            await outage.until_done(lambda: keep(store, compiled))
            intake = Intake(
                await store.namespace(), compiled, channels(config), account_zones(config).get, purposes(config)
            )
            with RejectedFile(file) as rejects, surface.progress("importing", rows.total_bytes) as advance:
                seen = 0

                def progress(_: Imported) -> None:
                    nonlocal seen
                    advance(rows.bytes_read - seen)
                    seen = rows.bytes_read

                report = await import_rows(store, outage, intake, iter(rows), rejects, progress, datetime.now(UTC))
    return report, rejects.path


def _text(document: dict[str, Any], where: str) -> str:
    text = "{rows} rows: {created} created, {already} already there, {rejected} rejected".format(**document)
    text += f", {document['revised']} revised" if document["revised"] else ""
    text += f"; see {where}" if document["rejected"] else ""
    return "\n".join([text, *_left_out(document)])


def _left_out(document: dict[str, Any]) -> list[str]:
    """A line for each row whose reminder was sent in part before."""
    rows = document["left_out_rows"]
    lines = [
        f"line {row['line']}, {output.plain(row['idempotency_key'])}: {left_out_text(row['labels'])}; `duly reschedule`"
        " with --again asks for it"
        for row in rows
    ]
    more = document["left_out"] - len(rows)
    return [*lines, f"... and {more} more rows like these"] if more else lines


def _misspelt(report: Imported) -> str:
    """The rows whose purpose is near a known one, which has its own caps, quiet hours and opt-outs."""
    first = ", ".join(f'line {one.line} has "{output.plain(one.purpose)}"' for one in report.first_misspelt)
    rows = counted(report.likely_misspelt, "row was taken whose purpose is", "rows were taken whose purposes are")
    known = sorted({one.near for one in report.first_misspelt})
    return f"warning: {rows} near a known one ({', '.join(map(output.plain, known))}): {first}"
