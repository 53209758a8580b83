"""`duly simulate`: the promise, tried by seeded worlds that break everything around it. Needs no configuration."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from duly.sim.run import Ended

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def simulate(
        surface: Surface,
        seeds: Annotated[int, typer.Option(min=1, help="How many worlds to play.")] = 200,
        first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
        trace: Annotated[bool, typer.Option("--trace", help="Print all that happens, call by call.")] = False,
    ) -> None:
        """Play seeded worlds full of faults against the real ledger. Exit 1 with the first seed that fails."""
        traced: list[str] = []
        started = time.monotonic()
        document, story = _play(surface, range(first, first + seeds), traced if trace else None)
        seconds = round(time.monotonic() - started, 3)
        document = {**document, "seconds": seconds, **({"trace": traced} if trace else {})}
        surface.result(document, "\n".join([*traced, _summary(document)]))
        if document["violations"]:
            for line in story:
                surface.note(line)
            surface.note(f"play it again: duly simulate --first {document['failing_seed']} --seeds 1 --trace")
            raise typer.Exit(1)


def _play(surface: Surface, seeds: range, traced: list[str] | None) -> tuple[dict[str, Any], list[str]]:
    from duly.sim.report import simulate

    with surface.progress("worlds", len(seeds)) as advance:

        def played(ended: Ended) -> None:
            advance(1)
            if traced is not None:
                traced.extend(ended.history.trace())

        report = simulate(seeds, played)
    return report.document(), report.told()


def _summary(document: dict[str, Any]) -> str:
    faults = [(kind, count) for kind, count in document["faults"].items() if count]
    head = "{seeds} seeds, {violations} violations, {steps} steps, {seconds} s".format(**document)
    rows = [*faults, *document["transitions"].items()]
    return f"{head}\n\n{output.columns(('what happened', 'times'), rows)}"
