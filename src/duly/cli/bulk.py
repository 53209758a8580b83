"""What the imports and exports of plain lists share: a file in, with its progress and its rejects; pages out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from duly.cli.surface import Surface

if TYPE_CHECKING:
    from duly.intake.tables import Table
    from duly.ports import Store
    from duly.runtime.bulk import Answer
    from duly.runtime.config import Config

__all__ = [
    "FORMATS",
    "PAGE_ROWS",
    "AccountName",
    "File",
    "Format",
    "Strict",
    "import_file",
    "pages",
    "source_of",
    "tell",
]

FORMATS: Final = ("jsonl", "csv")
PAGE_ROWS: Final = 1_000

File = Annotated[str, typer.Argument(metavar="FILE", help="JSONL or CSV; - reads standard input.")]
Format = Annotated[str | None, typer.Option("--format", metavar="jsonl|csv", help="Instead of the name's ending.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 if any row was rejected.")]
AccountName = Annotated[str, typer.Option("--account", help="The account. It is made if it is new.")]

T = TypeVar("T")
Accept = Callable[[Mapping[str, Any]], T]
Write = Callable[[Sequence[T]], Awaitable[Sequence["Answer"]]]


async def import_file(
    surface: Surface,
    config: Config,
    file: str,
    table: Table,
    prepare: Callable[[Store], Awaitable[tuple[Accept[T], Write[T]]]],
    file_format: str | None = None,
) -> tuple[Counter[str], str]:
    """Import a list; returns the counts, and where rejected rows are. `prepare` gives what checks and what writes."""
    from duly.errors import InputError
    from duly.intake import RejectedFile, open_rows
    from duly.runtime.bootstrap import open_store
    from duly.runtime.bulk import import_list
    from duly.runtime.telemetry import configure

    if file_format not in (None, *FORMATS):
        raise InputError(f"--format: {file_format!r} is not one of {', '.join(FORMATS)}")
    configure()
    with open_rows(file, file_format, table) as rows:
        async with open_store(config) as store:
            accept, write = await prepare(store)
            with RejectedFile(file) as rejects, surface.progress("importing", rows.total_bytes) as advance:
                seen = 0

                def progress() -> None:
                    nonlocal seen
                    advance(rows.bytes_read - seen)
                    seen = rows.bytes_read

                counts = await import_list(iter(rows), accept, _patient(write), rejects, progress)
    return counts, rejects.path


def _patient(write: Write[T]) -> Write[T]:
    """Repeat a batch until the database has taken it: both imports may be repeated."""
    from duly.runtime.clock import SystemClock, SystemDice
    from duly.runtime.outage import Outage
    from duly.runtime.telemetry import Telemetry

    outage = Outage(SystemClock(), SystemDice(), Telemetry("import"))

    async def until_done(rows: Sequence[T]) -> Sequence[Answer]:
        return await outage.until_done(lambda: write(rows))

    return until_done


def tell(surface: Surface, document: Mapping[str, Any], where: str, *, strict: bool) -> None:
    """Print the counts of an import; what was rejected is a warning too, and with `strict` a failure."""
    rows, *rest = document.items()
    counts = ", ".join(f"{count} {word}".replace("_", " ") for word, count in rest)
    rejected = document["rejected"]
    surface.result(document, f"{rows[1]} rows: {counts}" + (f"; see {where}" if rejected else ""))
    if rejected and strict:
        raise typer.Exit(1)
    if rejected:
        surface.note(f"warning: {rejected} of {rows[1]} rows were rejected; --strict makes that a failure")


def source_of(file: str) -> str:
    """Where imported rows come from, for the record."""
    from duly.core.text import one_line

    name = "standard input" if file == "-" else PurePath(file).name
    return one_line(f"import {name}", 200)


async def pages(
    ask: Callable[[Any], Awaitable[list[dict[str, Any]]]], last: Callable[[dict[str, Any]], Any]
) -> AsyncIterator[list[dict[str, Any]]]:
    """Page after page until there is none: memory is flat. `ask` takes where the page before ended, at first None."""
    after = None
    while page := await ask(after):
        yield page
        after = last(page[-1])
