"""An installation to measure: a configuration in a folder, and reminders that are due."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from bench.grounds import Ledger
from bench.ideal.message import SUBJECT, TEMPLATE, TEXT
from bench.programs import DULY, Failed, Ran, run
from duly.core.model import Scheduled
from duly.flows.tick import tick
from duly.intake import Intake, zones
from duly.runtime.bootstrap import channels, open_store, templates
from duly.runtime.config import Config, parse

__all__ = ["SECRET", "Installation", "mixed_reminders", "open_installation", "reminders"]

SECRET: Final = "whsec_YmVuY2htYXJrLXNlY3JldC1vZi0zMi1ieXRlcy4u"
ACCOUNTS: Final = 40
PATHS: Final = 8
BATCH_ROWS: Final = 500

SLOTS: Final = "# concurrency as it is"
WEBHOOKS: Final = f"""\
namespace = "bench"

[providers.hooks]
kind = "webhook"
channel = "webhook"
secret = "env:BENCH_SECRET"
allow_private_networks = true
{SLOTS}

[templates.{TEMPLATE}]
subject = {json.dumps(SUBJECT)}
text = {json.dumps(TEXT)}
"""
AND_MAIL: Final = """
[providers.mail]
kind = "smtp"
channel = "email"
url = "smtp://127.0.0.1:2525"
from = "Harbour Lofts <reminders@example.com>"
"""


class Installation:
    """A folder with a configuration. Which database it uses is said each time.

    `slots` is how many deliveries of the one receiver a worker may have in its hands, from begin until the
    outcome is durable; None: as many as Duly allows by default.
    """

    def __init__(self, folder: Path, slots: int | None) -> None:
        self.folder = folder
        self._lines = SLOTS if slots is None else f"concurrency = {slots}\nconcurrency_per_host = {slots}"
        self._file = folder / "duly.toml"
        self._write(WEBHOOKS)

    @property
    def slots(self) -> int:
        """How many there are."""
        hooks = self._config(Ledger("sqlite:///nowhere.db")).providers["hooks"]
        return min(hooks.concurrency, getattr(hooks, "concurrency_per_host", hooks.concurrency))

    def use_mail_too(self) -> None:
        """Configure an e-mail provider beside the webhooks."""
        self._write(WEBHOOKS + AND_MAIL)

    def duly(self, ledger: Ledger, *command: str, terminate_after: float | None = None) -> Ran:
        """Run a command on a ledger, as a process of its own."""
        whole = [*DULY, *command, "--json", "--config", str(self._file)]
        return run(whole, _environment(ledger), terminate_after=terminate_after)

    def migrate(self, ledger: Ledger) -> None:
        """Make the tables."""
        self.duly(ledger, "migrate", "apply")

    def fill(self, ledger: Ledger, rows: Iterator[Mapping[str, Any]], now: datetime | None = None) -> None:
        """Schedule reminders, in this process. What repeats begins `now`. Raises Failed unless every one is new."""
        asyncio.run(_fill(self._config(ledger), rows, now))

    def tick(self, ledger: Ledger) -> None:
        """Turn everything that is due into deliveries, in this process."""
        asyncio.run(_tick(self._config(ledger)))

    def _config(self, ledger: Ledger) -> Config:
        return parse(self._file.read_text("utf-8"), self._file, _environment(ledger))

    def _write(self, text: str) -> None:
        self._file.write_text(text.replace(SLOTS, self._lines), "utf-8")


@contextmanager
def open_installation(slots: int | None) -> Iterator[Installation]:
    """A fresh installation, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder:
        yield Installation(Path(folder), slots)


def reminders(number: int, port: int, *, mail_too: bool = False) -> Iterator[dict[str, Any]]:
    """So many reminders that are due, for the stub at `port`; with `mail_too` every second one by e-mail."""
    notify_at = (datetime.now(UTC) - timedelta(minutes=1)).isoformat(timespec="seconds")
    for place in range(number):
        by_mail = mail_too and place % 2
        address = (
            {"email": f"ana-{place}@example.com"}
            if by_mail
            else {"webhook": f"http://127.0.0.1:{port}/ok/{place % PATHS}"}
        )
        yield {
            "idempotency_key": f"inspection-{place}",
            "account": f"account-{place % ACCOUNTS}",
            "to": {"id": f"tenant-{place}", "name": "Ana", "zone": "America/New_York", "locale": "en", **address},
            "channels": list(address),
            "template": TEMPLATE,
            "data": {"unit": f"{place}B", "day": "Tuesday", "time": "10:00"},
            "notify_at": notify_at,
        }


#: In how many zones the recipients of mixed reminders live, and what their reminders are like, by turns.
ZONES: Final = ("America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo")
MIX: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"repeat": "FREQ=DAILY"},
    {"repeat": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU"},
    {},
    {"repeat": "{minute} {hour} * * *"},
    {"repeat": "FREQ=MONTHLY"},
    {},
    {"before": ["PT1H", "PT10M"]},
)


def mixed_reminders(number: int, due: int, now: datetime) -> Iterator[dict[str, Any]]:
    """So many reminders, some once and some that go on, of which every `number / due`th has one occurrence due."""
    each = number // due
    for place, row in enumerate(reminders(number, 9)):
        kind, zone = MIX[place // each % len(MIX)], ZoneInfo(ZONES[place % len(ZONES)])
        moment = now - timedelta(minutes=1) if place % each == 0 else now + timedelta(days=1, minutes=place % 1_440)
        own = {name: value for name, value in row.items() if name != "notify_at"}
        yield {**own, "zone": zone.key, **_when(kind, moment, zone)}


def _when(kind: Mapping[str, Any], moment: datetime, zone: ZoneInfo) -> dict[str, Any]:
    """The fields that say when, for a first occurrence at that moment."""
    if "before" in kind:
        return {"starts_at": f"{(moment + timedelta(hours=1)).astimezone(zone):%Y-%m-%dT%H:%M}", **kind}
    local = moment.astimezone(zone)
    rule = {name: text.format(minute=local.minute, hour=local.hour) for name, text in kind.items()}
    return {"notify_at": f"{local:%Y-%m-%dT%H:%M}", **rule}


def _environment(ledger: Ledger) -> dict[str, str]:
    return {"DULY_DATABASE": ledger.url, "BENCH_SECRET": SECRET}


async def _fill(config: Config, rows: Iterator[Mapping[str, Any]], now: datetime | None) -> None:
    async with open_store(config) as store:
        intake = Intake(await store.namespace(), templates(config), channels(config), lambda _: None)
        while batch := [intake.accept(row, now) for row in islice(rows, BATCH_ROWS)]:
            if set(await store.schedule(batch)) != {Scheduled.CREATED}:
                raise Failed("a reminder of the benchmark was not written")


async def _tick(config: Config) -> None:
    async with open_store(config) as store:
        while (await tick(store, await store.namespace(), channels(config), zones.known)).remaining:
            pass
