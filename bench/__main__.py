"""`python -m bench`: measure, print a table, and with --json write the figures to a file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.delivering import measure_work
from bench.discovery import measure_backlog, measure_schedules, measure_tick
from bench.grounds import GROUNDS, Ground, open_ground
from bench.importing import measure_import
from bench.installation import Installation, open_installation
from bench.options import listed
from bench.programs import Failed
from bench.readings import machine
from bench.report import show
from duly.errors import DulyError

PARTS: Final = ("work", "tick", "schedules", "memory", "import")
WORK_ROWS: Final = 18_400
BACKLOG_ROWS: Final = 200_000
IMPORT_ROWS: Final = 50_000
SCHEDULES_ROWS: Final = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for. Returns 1, with one line on stderr, if a figure could not be had."""
    chosen = _parser().parse_args(arguments)
    started = time.monotonic()
    try:
        databases = {name: _measure_on(name, chosen) for name in chosen.database}
    except (Failed, DulyError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    figures = {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": " ".join(["python -m bench", *(sys.argv[1:] if arguments is None else arguments)]),
        "machine": machine(),
        "seconds": round(time.monotonic() - started),
        "databases": databases,
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    show(figures)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=listed(PARTS), default=PARTS, metavar=",".join(PARTS))
    parser.add_argument("--database", type=listed(GROUNDS), default=GROUNDS, metavar=",".join(GROUNDS))
    parser.add_argument("--rounds", type=int, default=3, help="of work, for each loop (default: 3)")
    parser.add_argument("--rows", type=int, help="instead of each part's own number")
    parser.add_argument("--slots", type=int, help="of the one receiver, instead of Duly's default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser


def _measure_on(database: str, chosen: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with open_ground(database) as ground, open_installation(chosen.slots) as installation:
        for part in (part for part in PARTS if part in chosen.only):
            print(f"measuring {part} on {database}", file=sys.stderr)
            figures[part] = _measure(part, ground, installation, chosen, figures)
    return figures


def _measure(
    part: str, ground: Ground, installation: Installation, chosen: argparse.Namespace, measured: dict[str, Any]
) -> Any:
    if part == "work":
        return measure_work(ground, installation, chosen.rounds, chosen.rows or WORK_ROWS)
    if part == "tick":
        small = measure_tick(ground, installation, WORK_ROWS)
        return [small, measure_backlog(ground, installation, chosen.rows or BACKLOG_ROWS)]
    if part == "schedules":
        return measure_schedules(ground, installation, chosen.rows or SCHEDULES_ROWS)
    if part == "memory":
        ticked = measured.get("tick")
        return ticked[-1] if ticked else measure_backlog(ground, installation, chosen.rows or BACKLOG_ROWS)
    return measure_import(ground, installation, chosen.rows or IMPORT_ROWS)


if __name__ == "__main__":
    sys.exit(main())
