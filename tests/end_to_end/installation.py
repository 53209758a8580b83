"""An installation as an operator has it: a folder, a `duly.toml`, a database, and the real program.

Every run is a program of its own. Whatever it prints is looked through before a test sees it: no traceback, no
loop that failed, and none of the private words that these tests put into addresses, bodies and secrets. So the
promise that outputs and logs keep secrets is tested by every test.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pytest

from duly.core import keys
from duly.ports import Filters
from duly.runtime.bootstrap import open_views
from duly.runtime.config import parse
from duly.stores import migrate
from duly.testing.builders import NAMESPACE
from tests.stores.ledgers import create_sqlite

__all__ = [
    "ACCOUNT",
    "AT_ONCE",
    "DIALECTS",
    "SECRET",
    "Installation",
    "Program",
    "Run",
    "Shown",
    "attempts",
    "reminder",
    "require_discretion",
    "settle_in",
    "settle_on",
    "tell_on_both",
    "wait_until",
]

T = TypeVar("T")

DIALECTS: Final = ("sqlite", "postgres")
ACCOUNT: Final = "harbour-lofts"
SECRET: Final = "whsec_cHJ2dC1zZWNyZXQtcHJ2dC1zZWNyZXQtcHJ2dC1zZWNyZXQ="
RUN_SECONDS_MAX: Final = 180.0
WAIT_SECONDS_MAX: Final = 90.0
AT_ONCE: Final = 4
#: Where no mail server listens.
NO_MAIL: Final = "smtp://127.0.0.1:9"

#: What stands in addresses, bodies and secrets here, and must never be printed.
PRIVATE: Final = ("prvt", SECRET.removeprefix("whsec_"), "not-a-secret")
#: What no run may ever print.
NEVER: Final = ("Traceback", "loop_failed", "DULY_DEBUG", *PRIVATE)

TOML: Final = """\
database = "{database}"
lease_seconds = 6

[providers.hooks]
kind = "webhook"
secret = "env:HOOK_SECRET"
timeout_seconds = 2
deduplicates = true
allow_private_networks = true

[providers.mail]
kind = "smtp"
url = "{mail}"
from = "Harbour Lofts <reminders@example.com>"
timeout_seconds = 2

[templates.visit]
subject = "Visit of unit {{{{ data.unit }}}}"
text = "Hello {{{{ recipient.name }}}}, we come to unit {{{{ data.unit }}}}."
"""

#: A delivery as `duly show --json` tells it.
Shown = dict[str, Any]


class Run(NamedTuple):
    """What one run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines on stderr."""
        return self.err.splitlines()

    @property
    def complaints(self) -> list[str]:
        """The lines on stderr that are no warnings."""
        return [line for line in self.lines if "warning: " not in line]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of this event."""
        return [line for line in map(_parsed, self.lines) if line.get("event") == name]


def _parsed(line: str) -> dict[str, Any]:
    return dict(json.loads(line)) if line.startswith("{") else {}


class Program:
    """A run that goes on: it can be signalled, killed, and waited for."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str], outputs: Path) -> None:
        self._outputs = (outputs.with_suffix(".out"), outputs.with_suffix(".err"))
        with self._outputs[0].open("wb") as out, self._outputs[1].open("wb") as err:
            self._running = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=environ)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._running.poll() is None

    @property
    def children(self) -> list[int]:
        """The programs that it has started and that still run."""
        found = Path(f"/proc/{self._running.pid}/task/{self._running.pid}/children")
        return [int(pid) for pid in found.read_text().split()] if self.is_running and found.exists() else []

    @property
    def said(self) -> str:
        """What it has written to stderr so far."""
        return self._outputs[1].read_text(encoding="utf-8")

    def ask(self, number: signal.Signals) -> None:
        """Send a signal, and go on."""
        self._running.send_signal(number)

    def end(self, number: signal.Signals | None = None, seconds: float = WAIT_SECONDS_MAX) -> Run:
        """Send a signal (None: leave it alone), and wait until it has ended."""
        if number is not None:
            self.ask(number)
        code = self._running.wait(seconds)
        out, err = (path.read_text(encoding="utf-8") for path in self._outputs)
        return _looked_through(Run(code, out, err))

    def kill(self) -> None:
        """End it, and what it has started, as a power cut would. Harmless if it has ended."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        self._running.kill()
        self._running.wait()


class Installation:
    """A folder with a configuration and a migrated database. `settings` are variables for every run."""

    def __init__(self, folder: Path, database: str, mail: str = NO_MAIL) -> None:
        self.folder = folder
        self.database = database
        self.settings: dict[str, str] = {"HOOK_SECRET": SECRET}
        self.text = TOML.format(database=database, mail=mail)
        self.file = folder / "duly.toml"
        self.file.write_text(self.text, encoding="utf-8")
        self._started = 0

    # --- runs ------------------------------------------------------------------------------------

    def run(self, *arguments: str, stdin: str | None = None, code: int = 0) -> Run:
        """Run the program to its end, and require this exit code."""
        done = subprocess.run(
            self.command(arguments), cwd=self.folder, env=self.environ(), input=stdin or "",
            capture_output=True, encoding="utf-8", timeout=RUN_SECONDS_MAX, check=False,
        )  # fmt: skip
        run = _looked_through(Run(done.returncode, done.stdout, done.stderr))
        assert run.code == code, f"{arguments} left with {run.code}, not {code}: {run.err or run.out}"
        return run

    def told(self, *arguments: str, **how: Any) -> Any:
        """Run the program with `--json`; the document that it prints."""
        return self.run(*arguments, "--json", **how).document

    def told_at_once(self, *commands: Sequence[str]) -> list[Any]:
        """Run read-only commands side by side, each with `--json`; the documents in the same order."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda arguments: self.told(*arguments), commands))

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Program]:
        """Start the program and leave it running; killed at the end if it still runs."""
        self._started += 1
        outputs = self.folder / f"run-{self._started}"
        program = Program(self.command(arguments), self.folder, self.environ(), outputs)
        try:
            yield program
        finally:
            program.kill()

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The program with these arguments, for `subprocess`."""
        return [sys.executable, "-m", "duly", *arguments]

    def environ(self) -> dict[str, str]:
        """The environment of every run."""
        return {**os.environ, **self.settings}

    # --- what goes in ----------------------------------------------------------------------------

    def take(self, rows: Iterable[Mapping[str, Any]]) -> Any:
        """Import rows; what `duly import` tells."""
        return self.told("import", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))

    # --- behind the program's back ---------------------------------------------------------------

    def change(self, sql: str) -> None:
        """Run a statement that both databases understand."""
        if path := self._file():
            with closing(sqlite3.connect(path, isolation_level=None, timeout=15)) as database:
                database.execute(sql)
            return
        import psycopg  # noqa: PLC0415 - only where it is installed

        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(sql.encode())

    def _file(self) -> Path | None:
        return self.folder / "duly.db" if self.database.startswith("sqlite") else None

    # --- what came of it -------------------------------------------------------------------------

    def states(self) -> dict[str, int]:
        """How many deliveries are in each state, by `duly status`."""
        return {state: one["count"] for state, one in self.told("status")["states"].items()}

    def ledger(self) -> dict[str, Shown]:
        """Every delivery by its reminder's key, as `duly show` tells it, read at once."""
        return asyncio.run(self._ledger())

    async def _ledger(self) -> dict[str, Shown]:
        async with open_views(parse(self.text, self.file, self.settings)) as views:
            rows = await views.deliveries(Filters(limit=1_000_000))
            shown = [await views.show_delivery(keys.parse(row["id"]) or b"") for row in rows]
            broken = [(name, count) for name, count in await views.invariants() if count]
        assert broken == [], f"invariants of the ledger are broken: {broken}"
        return {one["reminder"]: one for one in shown}


def _looked_through(run: Run) -> Run:
    require_discretion(run.out)
    require_discretion(run.err)
    return run


def require_discretion(text: str) -> None:
    """Fail if the text holds what no run may print."""
    for word in NEVER:
        assert word not in text, f"{word!r} was printed: {text[-2000:]}"


@contextmanager
def settle_in(dialect: str, folder: Path, mail: str = NO_MAIL) -> Iterator[Installation]:
    """An installation on an empty, migrated database of this dialect."""
    if dialect == "sqlite":
        create_sqlite(folder / "duly.db")
        yield Installation(folder, "sqlite:///duly.db", mail)
        return
    pytest.importorskip("psycopg", reason="PostgreSQL is not tested: its driver is not installed")
    from tests.stores.postgres_server import postgres_or_skip  # noqa: PLC0415 - needs the driver

    with postgres_or_skip() as url:
        yield settle_on(url, folder, mail)


def settle_on(url: str, folder: Path, mail: str = NO_MAIL) -> Installation:
    """An installation on this empty PostgreSQL database, migrated here."""
    asyncio.run(migrate.apply(url, NAMESPACE, by="tests"))
    return Installation(folder, url, mail)


def tell_on_both(tell: Callable[[str, Path], T], folder: Path) -> dict[str, Future[T]]:
    """Tell a story on each database, side by side; a story that was skipped or failed says so when it is asked for."""
    with ThreadPoolExecutor(len(DIALECTS)) as pool:
        return {dialect: pool.submit(tell, dialect, _made(folder / dialect)) for dialect in DIALECTS}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


# --- reminders -----------------------------------------------------------------------------------


def reminder(
    key: str, *, webhook: str | None = None, email: str | None = None, due_in: float = -1.0, **more: Any
) -> dict[str, Any]:
    """One reminder as an application writes it, due in so many seconds from now."""
    due = datetime.now(UTC) + timedelta(seconds=due_in)
    to = {"id": f"of-{key}", "name": "Prvt-Ana prvt", "webhook": webhook, "email": email}
    return {
        "idempotency_key": key,
        "account": ACCOUNT,
        "to": {name: value for name, value in to.items() if value},
        "template": "visit",
        "data": {"unit": "prvt-4B"},
        "notify_at": due.isoformat(timespec="milliseconds"),
        **more,
    }


def attempts(shown: Shown) -> list[tuple[str | None, str | None]]:
    """What became of each attempt: outcome and class."""
    return [(attempt["outcome"], attempt["class"]) for attempt in shown["attempts"]]


def wait_until(holds: Callable[[], object], what: str, seconds: float = WAIT_SECONDS_MAX) -> None:
    """Wait until something holds; fail if it does not in time."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, f"after {seconds:g} s still not: {what}"
        time.sleep(0.02)
