"""The figures as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["show"]

Figures = Mapping[str, Any]


def show(figures: Figures) -> None:
    """Print what was measured, part by part."""
    console = Console(width=None if Console().is_terminal else 110)
    machine = figures["machine"]
    console.print(
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}; {figures['at']}; {figures['seconds']} s in all",
        highlight=False,
    )
    for table in _tables(figures["databases"]):
        console.print(table)


def _tables(databases: Mapping[str, Figures]) -> Iterator[Table]:
    for part, build in (
        ("work", _work),
        ("tick", _tick),
        ("schedules", _schedules),
        ("memory", _memory),
        ("import", _import),
    ):
        measured = {name: parts[part] for name, parts in databases.items() if part in parts}
        if measured:
            yield build(measured)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _work(measured: Mapping[str, Figures]) -> Table:
    first = next(iter(measured.values()))
    table = _table(
        f"work: {first['rows']:,} due webhooks, each posted once and durable; {first['slots']} slots",
        *("", "per second", "min-max", "in its window", "worker us", "database us", "stub us", "others"),
    )
    for name, one in measured.items():
        for who in ("ideal", "duly"):
            table.add_row(f"{name}: {who}", *_work_cells(one[who]))
        table.add_row(f"{name}: ratio", f"{one['ratio']:.2f}", "", f"{one['ratio_in_window']:.2f}")
    return table


def _work_cells(one: Figures) -> list[str]:
    rate, used = one["per_second"], one["cpu_us"]
    return [
        f"{rate['median']:,}",
        f"{rate['min']:,}-{rate['max']:,}",
        f"{one['per_second_in_window']['median']:,}",
        *(str(used[who]) for who in ("worker", "database", "stub")),
        f"{one['others_cores']:.1f}",
    ]


def _tick(measured: Mapping[str, Any]) -> Table:
    table = _table("tick: due reminders become deliveries", "", "rows", "seconds", "rows per second")
    for name, sizes in measured.items():
        for one in sizes:
            table.add_row(name, f"{one['rows']:,}", f"{one['seconds']:.2f}", f"{one['rows_per_second']:,}")
    return table


def _schedules(measured: Mapping[str, Figures]) -> Table:
    table = _table(
        "schedules: a tick over reminders that repeat in many ways, of which a tenth is due",
        *("", "reminders", "due", "seconds", "rows per second", "MiB"),
    )
    for name, one in measured.items():
        counted = (f"{one['reminders']:,}", f"{one['rows']:,}")
        table.add_row(name, *counted, f"{one['seconds']:.2f}", f"{one['rows_per_second']:,}", str(one["peak_mib"]))
    return table


def _memory(measured: Mapping[str, Figures]) -> Table:
    table = _table("memory: largest resident size, MiB", "", "pending rows", "duly tick", "duly work")
    for name, one in measured.items():
        table.add_row(name, f"{one['rows']:,}", str(one["peak_mib"]), str(one["work"]["peak_mib"]))
    return table


def _import(measured: Mapping[str, Figures]) -> Table:
    table = _table("import: JSONL, half e-mail, half webhook", "", "rows", "seconds", "rows per second", "MiB")
    for name, one in measured.items():
        cells = (f"{one['rows']:,}", f"{one['seconds']:.2f}", f"{one['rows_per_second']:,}", str(one["peak_mib"]))
        table.add_row(name, *cells)
    return table
