"""What the tests of the SMTP transport share: mails, a transport towards a sink, and time that can be skipped."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duly.core import keys
from duly.core.model import Attempt, Channel, Content
from duly.ports import Answer, Completion, Mail, Request
from duly.providers.smtp import SmtpProvider
from duly.testing.mail_sink import MailSink
from duly.transports.smtp import SmtpTransport
from tests.core.values import NOW, claimed

MESSAGE = b"Subject: hello\r\n\r\nHello.\r\n"
LATER = float("inf")


LOOPS = {"asyncio": asyncio.SelectorEventLoop}
if importlib.util.find_spec("uvloop"):
    LOOPS["uvloop"] = importlib.import_module("uvloop").new_event_loop
_chosen = ["asyncio"]


@pytest.fixture(params=LOOPS, autouse=True)
def on_each_loop(request: pytest.FixtureRequest) -> None:
    """Every test that imports this runs on each loop that a worker may run on: their transports differ."""
    _chosen[0] = request.param


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run one asynchronous test, for a minute at most."""
    with asyncio.Runner(loop_factory=LOOPS[_chosen[0]]) as runner:
        runner.run(asyncio.wait_for(test, 60))


def mail(recipient: str = "ana@example.com", message: bytes = MESSAGE) -> Mail:
    """A mail to someone."""
    return Mail("reminders@example.com", recipient, message, "aaaqeayeaudaocajbifqydiob4")


@asynccontextmanager
async def transport(sink: MailSink, **options: Any) -> AsyncIterator[SmtpTransport]:
    """A transport towards the sink."""
    parts: dict[str, Any] = {
        "reading": time.monotonic,
        "host": sink.host,
        "port": sink.port,
        "security": "none",
        "timeout_seconds": 30.0,
    }
    opened = SmtpTransport(**(parts | options))
    try:
        yield opened
    finally:
        await opened.close()


async def send(sender: SmtpTransport, *mails: Mail, start_before: float = LATER) -> list[Answer]:
    """Send them all at once; the answers in the order of the mails."""
    assert all(sender.reserve([one.recipient for one in mails]))
    await sender.start([Request(number, one, start_before) for number, one in enumerate(mails)])
    done = await gather(sender, len(mails))
    sender.release([one.recipient for one in mails])
    return [completion.answer for completion in sorted(done)]


async def gather(sender: SmtpTransport, count: int) -> list[Completion]:
    """Wait for so many completions."""
    done: list[Completion] = []
    while len(done) < count:
        done += await sender.completed(100, 5.0)
    return done


async def until(true: Callable[[], bool]) -> None:
    """Wait for something that the other side does."""
    while not true():  # noqa: ASYNC110 - the sink tells nobody
        await asyncio.sleep(0)


def count(sink: MailSink, verb: str) -> int:
    """How often the sink was told this."""
    return sum(command.startswith(verb) for command in sink.commands)


PROVIDER = SmtpProvider("mail", "Harbour Lofts <reminders@example.com>")


def prepared(number: int, local: str = "ana") -> Mail:
    """A mail as the provider makes it."""
    row = claimed(id=number.to_bytes(16, "big"), channel=Channel.EMAIL, address=f"{local}-{number}@example.com")
    frozen = PROVIDER.freeze(row, Content(f"Nº {number}", ".\nHello.\n", "<p>Hello.</p>", "1"), NOW)
    return PROVIDER.request(frozen, Attempt(keys.show(row.id), 1, NOW))


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    skipped = 0.0

    def time(self) -> float:
        """The loop's time, some of it skipped."""
        return super().time() + self.skipped


def run_skipping(test: Coroutine[Any, Any, None]) -> None:
    """Run one asynchronous test that skips time."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(asyncio.wait_for(test, 100))


async def skip(seconds: float) -> None:
    """Put the loop's clock forward and let it notice."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skipped += seconds
    await asyncio.sleep(0.05)
