"""`duly demo`: the whole path, on a throw-away database, against a receiver and a mail sink of its own.

One of the reminders meets the case that this program is made for: its receiver accepts it and never
answers. The worker times out, calls the outcome unknown, and asks again with the same bytes under the
same key; the receiver knows the key and does nothing twice. The demo ends with the record of that one.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from duly.cli import output
from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.runtime.config import Config
    from duly.runtime.worker import Worker
    from duly.testing.mail_sink import MailSink
    from duly.testing.receiver import Receiver

__all__ = ["register"]

REMINDERS: Final = 1_000
ACCOUNT: Final = "harbour-lofts"
LOST_KEY: Final = "inspection-lost"
SECRET: Final = "whsec_ZHVseS1kZW1vLXNlY3JldC1vZi0zMi1ieXRlcy4uLi4="
LOOK_SECONDS: Final = 0.1
BATCH_ROWS: Final = 500

TOML: Final = """\
database = "sqlite:///duly.db"
lease_seconds = 10

[providers.hooks]
kind = "webhook"
secret = "{secret}"
timeout_seconds = 1
deduplicates = true             # the demo's receiver keeps this promise
allow_private_networks = true   # and it is on this machine

[providers.mail]
kind = "smtp"
url = "{mail}"
from = "Harbour Lofts <reminders@example.com>"
timeout_seconds = 5

[templates.inspection]
subject = "Inspection of unit {{{{ data.unit }}}}"
text = "Hello {{{{ recipient.name }}}}, we visit unit {{{{ data.unit }}}} on Tuesday at 10:00."
"""

Reminders = Annotated[int, typer.Option("--reminders", min=2, max=1_000_000, help="How many.")]
Keep = Annotated[Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep duly.toml and the database there.")]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def demo(surface: Surface, reminders: Reminders = REMINDERS, keep: Keep = None) -> None:
        """Send 1,000 reminders to a receiver and a mail sink inside this process, and show what happened."""
        with tempfile.TemporaryDirectory(prefix="duly-demo-") as temporary:
            folder = _folder(keep, Path(temporary))
            told = asyncio.run(_demo(surface, folder, reminders))
        surface.result(told, _text(told, keep))


def _folder(keep: Path | None, temporary: Path) -> Path:
    from duly.errors import InputError

    if keep is None:
        return temporary
    try:
        keep.mkdir(parents=True, exist_ok=True)
        used = any(keep.iterdir())
    except OSError as error:
        raise InputError(f"--keep: {keep} cannot be used: {error.strerror}") from None
    if used:
        raise InputError(f"--keep: {keep} is not empty; name a new folder")
    return keep


# --- the path ------------------------------------------------------------------------------------


async def _demo(surface: Surface, folder: Path, count: int) -> dict[str, Any]:
    from duly.runtime.telemetry import configure
    from duly.testing.mail_sink import MailSink
    from duly.testing.receiver import Receiver

    configure()
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Receiver(secrets=[SECRET], recording=False))
        sink = await stack.enter_async_context(MailSink())
        config = _configure(folder, sink)
        imported = await _import(config, receiver, count)
        ticked = await _tick(config)
        worked = await _work(surface, config, count)
        return {
            "imported": imported,
            "tick": ticked,
            "work": worked,
            "receiver": {
                "requests": receiver.requests,
                "accepted": len(receiver.accepted),
                "duplicates_dropped": receiver.duplicates_dropped,
            },
            "mails": sum(len(messages) for messages in sink.messages.values()),
            "reconciled": await _shown(config),
        }


def _configure(folder: Path, sink: MailSink) -> Config:
    from duly.runtime.config import parse

    text = TOML.format(secret=SECRET, mail=sink.url)
    file = folder / "duly.toml"
    file.write_text(text, encoding="utf-8")
    return parse(text, file, {})


async def _import(config: Config, receiver: Receiver, count: int) -> dict[str, int]:
    from duly.core.model import Scheduled
    from duly.intake import Intake
    from duly.runtime.bootstrap import channels, open_store, templates
    from duly.runtime.versions import keep
    from duly.stores import migrate

    await migrate.apply(config.database.reveal(), config.namespace, "demo")
    async with open_store(config) as store:
        compiled = templates(config)
        await keep(store, compiled)
        intake = Intake(await store.namespace(), compiled, channels(config), lambda _: None)
        answers: list[Scheduled] = []
        batch = []
        for row in _reminders(receiver, count):
            batch.append(intake.accept(row))
            if len(batch) == BATCH_ROWS:
                answers += await store.schedule(batch)
                batch = []
        answers += await store.schedule(batch)
    return {"created": answers.count(Scheduled.CREATED)}


def _reminders(receiver: Receiver, count: int) -> Iterator[Mapping[str, Any]]:
    """Half by webhook, half by mail, and the first to a receiver that accepts and does not answer."""
    due = datetime.now(UTC).isoformat(timespec="seconds")
    for number in range(count):
        key = LOST_KEY if number == 0 else f"inspection-{number}"
        if number % 2 == 0:
            address = {"webhook": receiver.url("lost" if number == 0 else "ok", key)}
        else:
            address = {"email": f"tenant-{number}@example.com"}
        yield {
            "idempotency_key": key,
            "account": ACCOUNT,
            "to": {"id": f"tenant-{number}", "name": "Ana", **address},
            "template": "inspection",
            "data": {"unit": f"{number % 40}B"},
            "notify_at": due,
            "deadline": "PT8H",
        }


async def _tick(config: Config) -> dict[str, Any]:
    from duly.flows.tick import tick
    from duly.intake import zones
    from duly.runtime.bootstrap import channels, open_store

    async with open_store(config) as store:
        done = await tick(store, await store.namespace(), channels(config), zones.known)
    return done._asdict()


async def _work(surface: Surface, config: Config, count: int) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_plant, worker_name
    from duly.runtime.worker import Worker

    async with open_plant(config, freeze_garbage=False) as plant:
        worker = Worker(plant, worker_name())
        with surface.progress("sending", count) as advance:
            watching = asyncio.ensure_future(_watch(worker, advance))
            try:
                return await worker.run(idle_after=60.0)
            finally:
                watching.cancel()


async def _watch(worker: Worker, advance: Any) -> None:
    seen = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        advance(worker.tally["sent"] - seen)
        seen = worker.tally["sent"]


async def _shown(config: Config) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        _, reminder = await views.find(LOST_KEY, ACCOUNT)
        shown = await views.show_reminder(reminder)
        _, delivery = await views.find(shown["deliveries"][0]["id"], None)
        return await views.show_delivery(delivery)


# --- text ----------------------------------------------------------------------------------------


def _text(told: Mapping[str, Any], keep: Path | None) -> str:
    from duly.core.explain import explain_delivery
    from duly.intake import zones

    receiver, work, lost = told["receiver"], told["work"], told["reconciled"]
    attempts = [(a["number"], a["outcome"], a["class"], a["http_status"], a["started_at"]) for a in lost["attempts"]]
    lines = [
        f"{told['imported']['created']} reminders were imported; the tick made {told['tick']['created']} deliveries.",
        f"The worker sent {work['sent']}; the receiver accepted {receiver['accepted']} webhooks.",
        f"The mail sink took {told['mails']} mails.",
        f"One webhook was accepted and its answer never came: the receiver was asked {receiver['requests']} times,",
        f"and dropped {receiver['duplicates_dropped']} repeat of a key that it knew.",
        "",
        f"duly show {lost['id']}",
        output.columns(("attempt", "outcome", "class", "http_status", "started_at"), attempts),
        "",
        f"duly explain {lost['id']}",
        output.plain(explain_delivery(lost, zones.known)),
        "",
        _what_next(keep),
    ]
    return "\n".join(lines)


def _what_next(keep: Path | None) -> str:
    if keep is None:
        return "The database was thrown away. Keep it with --keep FOLDER, or start your own with `duly init`."
    return f"Look around: cd {keep}; duly list; duly status; duly show {LOST_KEY} --account {ACCOUNT}"
