"""The doctor: how long each of its statements takes in a ledger of a million deliveries.

    python -m bench.doctor [--rows 1000000] [--database postgres,sqlite] [--pending]

The ledger is made by the database itself (doctor_*.sql): most deliveries are sent, some ended otherwise, and
three in a hundred are open. With `--pending` all of them wait to be sent. Nothing in it is broken; a run whose
doctor finds something has no figures. `doctor` is the whole command, start-up included. CPU time, ours and the
server's, stands beside the time by the clock, which other programs of the machine make longer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from bench.grounds import GROUNDS, Ground, Ledger, open_ground
from bench.installation import open_installation
from bench.options import listed
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
SERVER_REST_SECONDS: Final = 2.0  # until the server's process that made the ledger is gone, and its CPU time with it
BUILD_CACHE: Final = "pragma cache_size = -524288"  # KiB of pages, while the ledger is made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure. Returns 1, with one line on stderr, if a figure could not be had."""
    parser = argparse.ArgumentParser(prog="python -m bench.doctor", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--database", type=listed(GROUNDS), default=GROUNDS, metavar=",".join(GROUNDS))
    parser.add_argument("--pending", action="store_true", help="let every delivery be ready")
    chosen = parser.parse_args(arguments)
    try:
        for name in chosen.database:
            _report(name, chosen.rows, _measure(name, chosen.rows, pending=chosen.pending))
    except (Failed, DulyError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


class Spent(NamedTuple):
    """Seconds by the clock, and of CPU."""

    clock: float
    cpu: float


class Meter:
    """What each step has spent, ours and the server's together."""

    def __init__(self, ground: Ground) -> None:
        self.spent: dict[str, Spent] = {}
        self._ground = ground

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Count what happens inside."""
        clock, cpu = time.monotonic(), self._cpu()
        yield
        self.spent[name] = Spent(time.monotonic() - clock, self._cpu() - cpu)

    def _cpu(self) -> float:
        return time.process_time() + self._ground.cpu_seconds()


def _report(database: str, rows: int, spent: Mapping[str, Spent]) -> None:
    print(f"{database}, {rows:,} deliveries{'seconds':>24}{'CPU':>8}")
    checks = [one for name, one in spent.items() if name.startswith(CHECKS)]
    total = Spent(sum(one.clock for one in checks), sum(one.cpu for one in checks))
    for name, one in {**spent, "all statements": total}.items():
        print(f"  {name:<40}{one.clock:>8.2f}{one.cpu:>8.2f}", flush=True)


def _measure(database: str, rows: int, *, pending: bool) -> dict[str, Spent]:
    with open_ground(database) as ground, open_installation(None) as installation, ground.empty() as ledger:
        meter = Meter(ground)
        installation.use_mail_too()
        installation.migrate(ledger)
        build, look = (_postgres, _look_postgres) if database == "postgres" else (_sqlite, _look_sqlite)
        with meter.measure("(making the ledger)"):
            build(ledger, rows, [step for step in STEPS if pending or step != "seed_pending"])
        time.sleep(SERVER_REST_SECONDS)
        look(ledger, meter)
        server = ground.cpu_seconds()
        ran = installation.duly(ledger, "doctor")
        doctor = Spent(ran.wall_seconds, ran.cpu_seconds + ground.cpu_seconds() - server)
        return {**meter.spent, "doctor": doctor}


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


def _look_postgres(ledger: Ledger, meter: Meter) -> None:
    with psycopg.connect(ledger.url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for name, statement in _checks("postgres").items():
            values = [list(PROVIDERS)] if "$1" in statement else None
            with meter.measure(name):
                found = connection.execute(statement.encode(), values).fetchone()
            _refuse_findings(name, found and found[0])


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


def _look_sqlite(ledger: Ledger, meter: Meter) -> None:
    database = Database(ledger.url.removeprefix("sqlite:///"), load("sqlite"))
    try:
        for name in _checks("sqlite"):
            with meter.measure(name), database.reading():
                found = database.value(name, providers=json.dumps(PROVIDERS))
            _refuse_findings(name, found)
    finally:
        database.close()


def _checks(dialect: str) -> dict[str, str]:
    return {name: text for name, text in sorted(load(dialect).items()) if name.startswith(CHECKS)}


if __name__ == "__main__":
    sys.exit(main())
