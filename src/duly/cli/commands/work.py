"""`duly work` and `duly up`: the worker, alone or with tick, in one process or several.

Ctrl-C or SIGTERM drains: no more claims, sends under way are finished, outcomes are committed. A second
one leaves at once; what had begun is then reconciled after its lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli.surface import Surface, command
from duly.cli.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register"]

PROCESSES_MAX = 64

UntilIdle = Annotated[bool, typer.Option("--until-idle", help="Leave when no row's next step is near.")]
Patience = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="With --until-idle: how near a next step must be to wait for it."),
]
Processes = Annotated[int, typer.Option(min=1, max=PROCESSES_MAX, help="How many worker processes.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app)
    def work(
        surface: Surface, until_idle: UntilIdle = False, patience: Patience = 60.0, processes: Processes = 1
    ) -> None:
        """Claim ready deliveries, send them, and record what came of it."""
        _run(surface, patience if until_idle else None, processes, ticks=False)

    @command(app)
    def up(surface: Surface, until_idle: UntilIdle = False, patience: Patience = 60.0) -> None:
        """Tick and work in one process."""
        _run(surface, patience if until_idle else None, 1, ticks=True)


def _run(surface: Surface, idle_after: float | None, processes: int, *, ticks: bool) -> None:
    from duly.runtime.running import run_worker, run_workers

    config = surface.config()
    if processes > 1:
        done = run_workers(processes, surface.config_path, idle_after)
    else:
        done = run_worker(config, idle_after=idle_after, ticks=ticks)
    surface.result(done, _text(done))


def _text(done: Mapping[str, Any]) -> str:
    """How many messages were accepted, and what became of the deliveries: many may go as one summary."""
    counts = [f"{count} {word.replace('_', ' ')}" for word, count in done.items() if count and word != "seconds"]
    if not counts:
        return f"nothing to do, {done['seconds']} s"
    messages = done["sent"] - done["in_summaries"]
    accepted = f"{counted(messages, 'message', 'messages')} accepted" if messages else "no message accepted"
    return f"{accepted}; {', '.join(counts)}, {done['seconds']} s"
