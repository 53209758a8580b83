"""`python -m soak`: keep Duly under fire, print a table, and exit 1 if a promise was not kept."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from duly.errors import DulyError
from soak.databases import DATABASES
from soak.driver import Plan, soak
from soak.programs import Failed
from soak.report import show

__all__ = ["main"]

MINUTES: Final = 3.0
SECONDS_BETWEEN_KILLS: Final = 6.0
SECONDS_BETWEEN_RESTARTS: Final = 45.0
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak. Returns 0 if every promise was kept, 1 if one was not or the soak could not go on."""
    chosen = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        figures = soak(_plan(chosen))
    except (Failed, DulyError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("soak: interrupted; everything that was started is stopped", file=sys.stderr)
        return INTERRUPTED
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    show(figures)
    return 1 if figures["violations"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for how long things go wrong (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn (default: 1)")
    parser.add_argument("--kills", type=int, help="of workers and ticks (default: one in 6 s)")
    parser.add_argument("--restarts", type=int, help="of the database (default: one in 45 s; none on SQLite)")
    parser.add_argument("--freezes", type=int, default=0, help="of workers, for up to 12 s each (default: none)")
    parser.add_argument("--per-second", type=float, default=12.0, help="new reminders (default: 12)")
    parser.add_argument("--database", choices=DATABASES, default="postgres")
    parser.add_argument(
        "--keep", type=_empty_folder, metavar="FOLDER", help="leave journal, logs and SQLite file there"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and violations there")
    return parser


def _empty_folder(text: str) -> Path:
    folder = Path(text).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise argparse.ArgumentTypeError(f"{text} is not empty")
    return folder


def _plan(chosen: argparse.Namespace) -> Plan:
    seconds = chosen.minutes * 60
    kills = round(seconds / SECONDS_BETWEEN_KILLS) if chosen.kills is None else chosen.kills
    restarts = round(seconds / SECONDS_BETWEEN_RESTARTS) if chosen.restarts is None else chosen.restarts
    return Plan(
        chosen.database,
        seconds,
        chosen.seed,
        kills,
        restarts,
        chosen.per_second,
        freezes=chosen.freezes,
        keep=chosen.keep,
    )


if __name__ == "__main__":
    sys.exit(main())
