"""The figures as one table, and each broken promise with its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["show"]

Figures = Mapping[str, Any]
VIOLATIONS_TOLD_MAX: Final = 10
HISTORY_LINES_MAX: Final = 40


def show(figures: Figures) -> None:
    """Print what happened, and what must not have."""
    console = Console(width=None if Console().is_terminal else 110, highlight=False)
    console.print(_table(figures))
    for line in _violations(figures["violations"]):
        console.print(escape(line), soft_wrap=True)


def _table(figures: Figures) -> Table:
    kinds = figures["receivers"]
    title = f"soak on {figures['database']}, seed {figures['seed']}, {figures['seconds']} s"
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("", *kinds, "in all"):
        table.add_column(heading, justify="right" if heading else "left")
    for word in next(iter(kinds.values())):
        counts = [one[word] for one in kinds.values()]
        table.add_row(word.replace("_", " "), *(f"{count:,}" for count in (*counts, sum(counts))))
    table.add_section()
    for word, count in sorted(figures["counts"].items()):
        table.add_row(word, *("" for _ in kinds), f"{count:,}")
    table.add_section()
    table.add_row("violations", *("" for _ in kinds), f"{len(figures['violations']):,}", style="bold")
    return table


def _violations(found: list[Figures]) -> Iterator[str]:
    for one in islice(found, VIOLATIONS_TOLD_MAX):
        yield f"\n{one['rule']}: {one['id']}: {one['told']}"
        yield from (f"    {line}" for line in one["history"][:HISTORY_LINES_MAX])
    if len(found) > VIOLATIONS_TOLD_MAX:
        yield f"\nand {len(found) - VIOLATIONS_TOLD_MAX} more; --json has all of them"
