"""The doctor: how long each of its statements takes in a ledger of a million deliveries.

    python -m bench.doctor [--rows 1000000] [--database postgres,sqlite] [--pending]

The ledger is made by the database itself (doctor_*.sql): most deliveries are sent, some ended otherwise, and
three in a hundred are open. With `--pending` all of them wait to be sent. Nothing in it is broken; a run whose
doctor finds something has no figures. `doctor` is the whole command, start-up included.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.grounds import GROUNDS, Ledger, open_ground
from bench.installation import open_installation
from bench.programs import Failed
from duly.errors import DulyError
from duly.stores.loader import load, statements
from duly.stores.sqlite.connect import Database

FOLDER: Final = Path(__file__).parent
PROVIDERS: Final = ("mail", "hooks")
STEPS: Final = (
    *("seed", "seed_pending", "people", "people_index", "accounts", "recipients", "contacts", "reminders"),
    *("deliveries", "work", "attempts", "results", "events"),
)
CHECKS: Final = ("invariant_", "finding_")
BUILD_CACHE: Final = "pragma cache_size = -524288"  # KiB of pages, while the ledger is made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure. Returns 1, with one line on stderr, if a figure could not be had."""
    parser = argparse.ArgumentParser(prog="python -m bench.doctor", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--database", default=",".join(GROUNDS), help="postgres, sqlite or both (the default)")
    parser.add_argument("--pending", action="store_true", help="let every delivery be ready")
    chosen = parser.parse_args(arguments)
    try:
        for name in chosen.database.split(","):
            _report(name, chosen.rows, _measure(name, chosen.rows, pending=chosen.pending))
    except (Failed, DulyError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _report(database: str, rows: int, seconds: Mapping[str, float]) -> None:
    print(f"{database}, {rows:,} deliveries")
    for name, taken in seconds.items():
        print(f"  {name:<40}{taken:>8.2f} s")
    checks = sum(taken for name, taken in seconds.items() if name.startswith(CHECKS))
    print(f"  {'all statements':<40}{checks:>8.2f} s", flush=True)


def _measure(database: str, rows: int, *, pending: bool) -> dict[str, float]:
    with open_ground(database) as ground, open_installation(None) as installation, ground.empty() as ledger:
        installation.use_mail_too()
        installation.migrate(ledger)
        build, look = (_postgres, _look_postgres) if database == "postgres" else (_sqlite, _look_sqlite)
        began = time.monotonic()
        build(ledger, rows, [step for step in STEPS if pending or step != "seed_pending"])
        seconds = {"(making the ledger)": time.monotonic() - began, **look(ledger)}
        ran = installation.duly(ledger, "doctor")
        return {**seconds, "doctor": ran.wall_seconds}


def _steps(database: str) -> dict[str, str]:
    return dict(statements((FOLDER / f"doctor_{database}.sql").read_text("utf-8")))


def _refuse_findings(name: str, found: Any) -> None:
    if found:
        raise Failed(f"{name} finds {found} rows in a ledger that should be sound")


# --- PostgreSQL ----------------------------------------------------------------------------------


def _postgres(ledger: Ledger, rows: int, steps: Sequence[str]) -> None:
    made = _steps("postgres")
    with psycopg.connect(ledger.url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for step in steps:
            connection.execute(made[step].encode(), [rows] if "$1" in made[step] else None)
        connection.execute(b"vacuum analyze")


def _look_postgres(ledger: Ledger) -> dict[str, float]:
    seconds = {}
    with psycopg.connect(ledger.url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for name, statement in _checks("postgres").items():
            began = time.monotonic()
            found = connection.execute(statement.encode(), [list(PROVIDERS)] if "$1" in statement else None).fetchone()
            seconds[name] = time.monotonic() - began
            _refuse_findings(name, found and found[0])
    return seconds


# --- SQLite --------------------------------------------------------------------------------------


def _sqlite(ledger: Ledger, rows: int, steps: Sequence[str]) -> None:
    made = {**load("sqlite"), "build_cache": BUILD_CACHE, **_steps("sqlite")}
    database = Database(ledger.url.removeprefix("sqlite:///"), made)
    try:
        database.rows("build_cache")
        for step in steps:
            with database.writing():
                database.change(step, rows=rows)
    finally:
        database.close()


def _look_sqlite(ledger: Ledger) -> dict[str, float]:
    seconds = {}
    database = Database(ledger.url.removeprefix("sqlite:///"), load("sqlite"))
    try:
        for name in _checks("sqlite"):
            began = time.monotonic()
            with database.reading():
                found = database.value(name, providers='["mail", "hooks"]')
            seconds[name] = time.monotonic() - began
            _refuse_findings(name, found)
    finally:
        database.close()
    return seconds


def _checks(dialect: str) -> dict[str, str]:
    return {name: text for name, text in sorted(load(dialect).items()) if name.startswith(CHECKS)}


if __name__ == "__main__":
    sys.exit(main())
