"""`duly simulate`: the promise, tried by seeded worlds that break everything around it. Needs no configuration."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from duly.cli import output
from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from duly.sim.report import Report
    from duly.sim.run import Ended

__all__ = ["Play", "answer", "play_seeds", "register"]

SEEDS_MAX: Final = 10_000_000
FIRST_OF_SEEDS_MAX: Final = 2**53


class Play(Protocol):
    """Plays the worlds of some seeds; their lines go to `traced`, if that is a list."""

    def __call__(self, surface: Surface, seeds: range, traced: list[str] | None, /, *, shrinks: bool) -> Report:
        """Up to the first that fails."""
        ...


def play_seeds(surface: Surface, seeds: range, traced: list[str] | None, *, shrinks: bool) -> Report:
    """See Play. There is a progress bar on stderr."""
    from duly.sim.report import simulate

    with surface.progress("worlds", len(seeds)) as advance:

        def played(ended: Ended) -> None:
            advance(1)
            if traced is not None:
                traced.extend(ended.history.trace())

        return simulate(seeds, played, shrinks=shrinks)


def register(app: typer.Typer, play: Play = play_seeds) -> None:
    """Add the command."""

    @command(app)
    def simulate(
        surface: Surface,
        seeds: Annotated[int, typer.Option(min=1, max=SEEDS_MAX, help="How many worlds to play.")] = 200,
        first: Annotated[int, typer.Option(min=0, max=FIRST_OF_SEEDS_MAX, help="The first seed.")] = 1,
        trace: Annotated[bool, typer.Option("--trace", help="Print all that happens, call by call.")] = False,
        shrink: Annotated[
            bool, typer.Option("--shrink/--no-shrink", help="Look for the smallest world that fails as the seed does.")
        ] = True,
    ) -> None:
        """Play seeded worlds full of faults against the real ledger. Exit 1 with the first seed that fails."""
        traced: list[str] | None = [] if trace else None
        started = time.monotonic()
        report = play(surface, range(first, first + seeds), traced, shrinks=shrink)
        answer(surface, report, time.monotonic() - started, traced)


def answer(surface: Surface, report: Report, seconds: float, traced: list[str] | None) -> None:
    """Print what was played, and what failed. Raises typer.Exit with 1 if anything did."""
    document = {**report.document(), "seconds": round(seconds, 3)}
    if traced is not None:
        document["trace"] = traced
    surface.result(document, "\n".join([*(traced or ()), _summary(document)]))
    if report.failed is not None:
        for line in report.told():
            surface.note(line)
        surface.note(f"play it again: duly simulate --first {report.failed.plan.seed} --seeds 1 --trace")
        raise typer.Exit(1)


def _summary(document: dict[str, Any]) -> str:
    faults = [(kind, count) for kind, count in document["faults"].items() if count]
    head = "{seeds} seeds, {violations} violations, {steps} steps, {seconds} s".format(**document)
    rows = [*faults, *document["transitions"].items(), *document["events"].items()]
    return f"{head}\n\n{output.columns(('what happened', 'times'), rows)}"
