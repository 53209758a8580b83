"""The SMTP transport against a sink that misbehaves on request: the phase of every end, and one transaction each."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
import trustme
from aiosmtpd.handlers import Sink as KeepingNothing
from aiosmtpd.smtp import SMTP, Envelope, Session
from hypothesis import given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Attempt, Channel, Content, Outcome
from duly.ports import Answer, Completion, HttpRequest, Mail, Request, Sent
from duly.providers.smtp import SmtpProvider
from duly.testing.mail_sink import CUT, SILENCE, MailSink
from duly.transports.smtp import IDLE_SECONDS, SmtpTransport
from duly.transports.smtp_connection import (
    BETWEEN_TIMEOUT_SECONDS,
    MESSAGES_PER_CONNECTION_MAX,
    REPLY_BYTES_MAX,
    transparent,
)
from duly.transports.smtp_failures import FAILURES, kind_of
from tests.core.values import NOW, claimed

MESSAGE = b"Subject: hello\r\n\r\nHello.\r\n"
LATER = float("inf")


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run one asynchronous test, for ten seconds at most."""
    asyncio.run(asyncio.wait_for(test, 10))


def mail(recipient: str = "ana@example.com", message: bytes = MESSAGE) -> Mail:
    """A mail to someone."""
    return Mail("reminders@example.com", recipient, message, "aaaqeayeaudaocajbifqydiob4")


@asynccontextmanager
async def transport(sink: MailSink, **options: Any) -> AsyncIterator[SmtpTransport]:
    """A transport towards the sink."""
    parts = {
        "reading": time.monotonic,
        "host": sink.host,
        "port": sink.port,
        "security": "none",
        "timeout_seconds": 5.0,
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


# --- what an end is evidence of ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipient", "status", "error", "sent", "phase", "kept"),
    [
        ("ana@example.com", 250, None, Sent.SOME, "dot", 1),
        ("gone@example.com", 550, None, Sent.NOTHING, "rcpt", 0),
        ("full@example.com", 552, None, Sent.NOTHING, "rcpt", 0),
        ("busy@example.com", 451, None, Sent.NOTHING, "rcpt", 0),
        ("closes421@example.com", 421, None, Sent.NOTHING, "data", 0),
        ("spam@example.com", 554, None, Sent.SOME, "dot", 0),
        ("slow@example.com", 250, None, Sent.SOME, "dot", 1),
        ("dropped@example.com", None, "reset", Sent.SOME, "dot", 1),
        ("silent@example.com", None, "timeout", Sent.SOME, "dot", 1),
    ],
)
def test_each_mood_ends_in_its_phase(
    recipient: str, status: int | None, error: str | None, sent: Sent, phase: str, kept: int
) -> None:
    """The answer tells the step that ended the attempt, and the sink was asked once."""

    async def test() -> None:
        async with MailSink(slow_seconds=0.05) as sink, transport(sink, timeout_seconds=0.5) as sender:
            (answer,) = await send(sender, mail(recipient))
            assert (answer.status, answer.error, answer.sent, answer.phase) == (status, error, sent, phase)
            assert len(sink.messages.get(recipient, [])) == kept
            assert count(sink, "MAIL") == 1

    run(test())


@pytest.mark.parametrize(
    ("step", "phase", "when_cut"),
    [
        ("connect", "connect", "connect"),
        ("EHLO", "helo", "reset"),
        ("MAIL", "mail", "reset"),
        ("RCPT", "rcpt", "reset"),
        ("DATA", "data", "reset"),
        ("dot", "dot", "reset"),
    ],
)
@pytest.mark.parametrize("ending", [CUT, SILENCE, "garbage", "199 what?", "450 not now", "550 never"])
def test_each_step_can_end_in_each_way(step: str, phase: str, when_cut: str, ending: str) -> None:
    """Cut, silent, unreadable or refused: the phase and what was taken are told the same way in every step."""
    replies = {step: ending, "HELO": ending} if step == "EHLO" else {step: ending}

    async def test() -> None:
        async with MailSink(replies=replies) as sink, transport(sink, timeout_seconds=0.2) as sender:
            (answer,) = await send(sender, mail())
        expected = {CUT: when_cut, SILENCE: "timeout", "garbage": "protocol", "199 what?": "protocol"}.get(ending)
        assert answer.error == expected
        assert answer.status == (int(ending[:3]) if expected is None else None)
        assert answer.phase == phase
        assert answer.sent is (Sent.SOME if phase == "dot" else Sent.NOTHING)
        assert sink.accepted == 0

    run(test())


def test_a_refused_connection_took_nothing() -> None:
    """Nobody listens: the error says so, and nothing left."""

    async def test() -> None:
        async with MailSink() as sink:
            pass
        async with transport(sink) as sender:
            (answer,) = await send(sender, mail())
        assert (answer.error, answer.sent, answer.phase) == ("connect", Sent.NOTHING, "connect")
        assert f"[Errno {errno.ECONNREFUSED}]" in answer.detail

    run(test())


def test_connecting_has_a_bound_of_its_own() -> None:
    """A server that accepts and never greets costs the connect timeout, not the whole."""

    async def test() -> None:
        bounds = {"timeout_seconds": 9.0, "connect_timeout_seconds": 0.1}
        async with MailSink(replies={"connect": SILENCE}) as sink, transport(sink, **bounds) as sender:
            (answer,) = await send(sender, mail())
        assert (answer.error, answer.sent, answer.phase) == ("timeout", Sent.NOTHING, "connect")

    run(test())


def _tree(root: type[BaseException]) -> Iterator[type[BaseException]]:
    yield root
    for branch in root.__subclasses__():
        yield from _tree(branch)


def test_every_exception_of_the_library_is_mapped() -> None:
    """The library has no exception that the table does not name."""
    library = {kind for kind in _tree(aiosmtplib.SMTPException) if kind.__module__.startswith("aiosmtplib")}
    assert len(library) > 10
    assert library <= FAILURES.keys()


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (socket.gaierror(-2, "Name or service not known"), "dns"),
        (ssl.SSLCertVerificationError("no"), "tls"),
        (TimeoutError("no"), "timeout"),
        (ConnectionRefusedError("no"), "connect"),
        (OSError("no route"), "connect"),
    ],
)
def test_a_failed_connect_says_which_layer_failed(cause: OSError, kind: str) -> None:
    """The library's connect error is read by its cause."""
    error = aiosmtplib.SMTPConnectError("cannot connect")
    error.__cause__ = cause
    assert kind_of(error) == (kind, cause)


@pytest.mark.parametrize("error", [KeyError("x"), UnicodeEncodeError("ascii", "é", 0, 1, "x"), RuntimeError("x")])
def test_an_error_that_nobody_foresaw_is_a_broken_protocol(error: Exception) -> None:
    """Whatever is raised becomes evidence."""
    assert kind_of(error)[0] == "protocol"


def test_a_long_reply_is_cut() -> None:
    """The recorded reply is bounded, and its first line stays."""

    async def test() -> None:
        long = "550-5.1.1 no\r\n" + "".join(f"550-{'x' * 400}\r\n" for _ in range(20)) + "550 5.1.1 end"
        async with MailSink(replies={"RCPT": long}) as sink, transport(sink) as sender:
            (answer,) = await send(sender, mail())
        assert answer.status == 550
        assert answer.body.startswith(b"5.1.1 no\nxxx")
        assert len(answer.body) == REPLY_BYTES_MAX

    run(test())


def test_a_reply_that_came_too_early_is_not_believed() -> None:
    """A "250" behind the "354" is no reply to a dot that was never written: the content does not leave."""

    async def test() -> None:
        replies = {"DATA": "354 go on\r\n250 2.0.0 Ok: queued as FORGED"}
        async with MailSink(replies=replies) as sink, transport(sink) as sender:
            (answer,) = await send(sender, mail())
        assert (answer.status, answer.error, answer.sent, answer.phase) == (None, "protocol", Sent.NOTHING, "data")

    run(test())


# --- one attempt, one transaction ----------------------------------------------------------------


def test_connections_are_reused() -> None:
    """Mails one after the other share a connection; mails at once have one each, up to the capacity."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=3) as sender:
            for _ in range(5):
                await send(sender, mail())
            assert sink.connections == 1
            await send(sender, mail(), mail(), mail())
            assert sink.connections == 3
            assert sink.accepted == 8

    run(test())


def test_a_connection_retires_after_so_many_messages() -> None:
    """A connection says good-bye when it has served enough, and the next mail opens another."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            for _ in range(MESSAGES_PER_CONNECTION_MAX):
                await send(sender, mail())
            assert sink.connections == 1
            await send(sender, mail())
            assert (sink.connections, count(sink, "QUIT")) == (2, 1)

    run(test())


def test_a_refused_recipient_does_not_cost_the_connection() -> None:
    """After a refused RCPT the transaction is reset, and the next mail goes over the same connection."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            answers = [*await send(sender, mail("gone@example.com")), *await send(sender, mail())]
            assert [answer.status for answer in answers] == [550, 250]
            assert (sink.connections, count(sink, "RSET")) == (1, 1)

    run(test())


def test_an_idle_connection_that_was_closed_is_noticed() -> None:
    """The server closed it in between: the next mail opens another and is accepted."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            sink.cut_connections()
            await asyncio.sleep(0.05)
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections, count(sink, "MAIL")) == (250, 2, 2)

    run(test())


def test_a_connection_that_stood_idle_is_asked_first() -> None:
    """After a second's idleness a NOOP finds out whether the server still answers; if not, another is opened."""

    async def test() -> None:
        clock = [0.0]
        async with MailSink() as sink, transport(sink, reading=lambda: clock[0]) as sender:
            await send(sender, mail())
            clock[0] = 2.0
            sink.replies["NOOP"] = "421 4.4.2 idle for too long"
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections, count(sink, "NOOP")) == (250, 2, 1)

    run(test())


def test_a_connection_that_dies_under_mail_is_not_tried_again() -> None:
    """A reused connection that breaks at MAIL took nothing; repeating is the ledger's business."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            sink.replies["MAIL"] = CUT
            (answer,) = await send(sender, mail())
            assert (answer.error, answer.sent, answer.phase) == ("reset", Sent.NOTHING, "mail")
            assert (sink.connections, count(sink, "MAIL")) == (1, 2)

    run(test())


def test_the_server_may_leave_at_any_time() -> None:
    """421 in a transaction is a refusal, and the next mail uses a new connection."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            sink.replies["dot"] = "421 4.3.2 closing"
            (first,) = await send(sender, mail())
            del sink.replies["dot"]
            (second,) = await send(sender, mail())
            assert [(first.status, first.phase), second.status] == [(421, "dot"), 250]
            assert sink.connections == 2

    run(test())


def test_a_transport_that_nobody_closed_holds_nothing_up() -> None:
    """A loop that ends with an idle connection ends at once."""

    async def test() -> None:
        async with MailSink() as sink:
            sender = SmtpTransport(reading=time.monotonic, host=sink.host, port=sink.port, security="none")
            await send(sender, mail())

    started = time.monotonic()
    run(test())
    assert time.monotonic() - started < 2


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


def test_a_connection_that_answered_nonsense_is_not_used_again() -> None:
    """A reply to the dot that is none leaves nobody sure of what comes next."""

    async def test() -> None:
        async with MailSink(replies={"dot": "354 more"}) as sink, transport(sink) as sender:
            (first,) = await send(sender, mail())
            sink.replies.clear()
            (second,) = await send(sender, mail())
            assert (first.error, first.sent, second.status, sink.connections) == ("protocol", Sent.SOME, 250, 2)

    run(test())


def test_idle_connections_leave_before_the_server_drops_them() -> None:
    """A connection that had nothing to do for 20 seconds says good-bye, and the next mail opens another."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            await skip(IDLE_SECONDS - 1)
            assert sink.open_connections == 1
            await skip(1)
            assert (sink.open_connections, count(sink, "QUIT")) == (0, 1)
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections) == (250, 2)

    run_skipping(test())


def test_connections_that_are_not_needed_age() -> None:
    """The connection used last is used next, so that the others can leave."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail(), mail())
            await skip(IDLE_SECONDS - 1)
            for _ in range(2):
                await send(sender, mail())
            await skip(1)
            assert (sink.connections, sink.open_connections) == (2, 1)

    run_skipping(test())


def test_a_mail_for_a_connection_that_is_leaving_is_not_forgotten() -> None:
    """At full capacity, a mail that comes while the only connection says good-bye waits for it and is sent."""

    async def test() -> None:
        async with MailSink(replies={"QUIT": SILENCE}) as sink, transport(sink, capacity=1) as sender:
            await send(sender, mail())
            await skip(IDLE_SECONDS)
            await until(lambda: count(sink, "QUIT") == 1)
            await sender.start([Request(5, mail(), LATER)])
            await skip(BETWEEN_TIMEOUT_SECONDS)
            (done,) = await gather(sender, 1)
            assert (done.token, done.answer.status, sink.connections) == (5, 250, 2)

    run_skipping(test())


# --- in time -------------------------------------------------------------------------------------


def test_what_is_too_late_does_not_start() -> None:
    """Past its moment no transaction begins, and the connection stays for the next."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            (late,) = await send(sender, mail(), start_before=time.monotonic() - 1)
            assert (late.error, late.sent, late.phase, count(sink, "MAIL")) == ("too_late", Sent.NOTHING, "mail", 0)
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections) == (250, 1)

    run(test())


def test_what_became_too_late_before_the_content_is_cut() -> None:
    """The moment passes while the server thinks about DATA: the content does not leave, and nothing was taken."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, reading=lambda: float(count(sink, "DATA"))) as sender:
            (late,) = await send(sender, mail(), start_before=0.5)
            assert (late.error, late.sent, late.phase) == ("too_late", Sent.NOTHING, "data")
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.accepted, sink.connections) == (250, 1, 2)

    run(test())


def test_the_end_is_read_from_the_given_clock() -> None:
    """A completion carries the reading at which its answer was complete."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, reading=lambda: 42.0) as sender:
            await sender.start([Request(7, mail(), LATER)])
            (done,) = await gather(sender, 1)
            assert (done.token, done.finished) == (7, 42.0)

    run(test())


# --- the content ---------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([b".", b"..", b"\r", b"\n", b"\r\n", b"a", b" ", b"\xc3\xa9"])).map(b"".join))
def test_a_message_survives_transparency(message: bytes) -> None:
    """What a server makes of it (RFC 5321, 4.5.2) is the message with CRLF line ends, and the end is found once."""
    written = transparent(message)
    assert (b"\r\n" + written).endswith(b"\r\n.\r\n")
    assert (b"\r\n" + written).count(b"\r\n.\r\n") == 1
    received = b"".join(line.removeprefix(b".") for line in written[:-3].splitlines(keepends=True))
    lines = message.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n") + b"\n"
    assert received == lines.replace(b"\n", b"\r\n")


def test_dots_and_bare_line_ends_arrive() -> None:
    """Leading dots arrive as they were, and a bare LF does not end a message early or split it in two."""
    message = b"Subject: x\n\n.\n..\r\n.a\nMAIL FROM:<eve@example.com>\r\n.\rend"

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            (answer,) = await send(sender, mail(message=message))
        assert answer.status == 250
        expected = b"Subject: x\r\n\r\n.\r\n..\r\n.a\r\nMAIL FROM:<eve@example.com>\r\n.\r\nend\r\n"
        assert sink.messages == {"ana@example.com": [expected]}

    run(test())


def test_extensions_are_used_as_the_message_needs() -> None:
    """SIZE and DSN wherever they are offered, 8BITMIME and SMTPUTF8 only where something is not ASCII."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            await send(sender, mail(message=b"Subject: x\r\n\r\n\xc3\xa9\r\n"))
            await send(sender, mail("josé@example.com"))
            await send(sender, mail(message="Subject: é\r\n\r\nx\r\n".encode()))
        told = [command.split()[2:] for command in sink.commands if command.startswith("MAIL")]
        dsn = ["RET=HDRS", "ENVID=aaaqeayeaudaocajbifqydiob4"]
        assert told == [
            ["SIZE=26", *dsn],
            ["SIZE=18", "BODY=8BITMIME", *dsn],
            ["SIZE=26", "SMTPUTF8", *dsn],
            ["SIZE=18", "BODY=8BITMIME", "SMTPUTF8", *dsn],
        ]
        assert sink.commands.count("RCPT TO:<ana@example.com> NOTIFY=FAILURE,DELAY") == 3

    run(test())


def test_extensions_that_are_not_offered_are_not_used() -> None:
    """A plain server hears plain commands; what it cannot take is not sent, and the answer says which extension."""

    async def test() -> None:
        async with MailSink(extensions=()) as sink, transport(sink) as sender:
            (plain,) = await send(sender, mail())
            (wide,) = await send(sender, mail("josé@example.com"))
            (eight,) = await send(sender, mail(message=b"Subject: x\r\n\r\n\xc3\xa9\r\n"))
        assert plain.status == 250
        assert "RCPT TO:<ana@example.com>" in sink.commands
        assert [(one.error, one.sent, one.detail.split()[0]) for one in (wide, eight)] == [
            ("protocol", Sent.NOTHING, "smtputf8"),
            ("protocol", Sent.NOTHING, "8bitmime"),
        ]
        assert count(sink, "MAIL") == 1

    run(test())


@pytest.mark.parametrize(
    "recipient", ["", "a b@example.com", "a@example.com>\r\nRCPT TO:<eve@example.com", "a\0@x", "<a@x>", "\ud800@x"]
)
def test_no_address_becomes_a_command(recipient: str) -> None:
    """An address that could end its command is not written at all."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            (answer,) = await send(sender, mail(recipient))
        assert (answer.error, answer.sent) == ("protocol", Sent.NOTHING)
        assert not any("eve" in command for command in sink.commands)
        assert sink.accepted == 0

    run(test())


def test_what_is_not_a_mail_is_not_sent() -> None:
    """A request of another kind ends as evidence, too."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await sender.start([Request(1, HttpRequest("https://example.com", (), b""), LATER)])
            (done,) = await gather(sender, 1)
        assert (done.answer.error, done.answer.sent, sink.connections) == ("protocol", Sent.NOTHING, 0)

    run(test())


def test_a_server_without_ehlo_is_greeted_the_old_way() -> None:
    """Where EHLO is unknown, HELO will do (RFC 5321, 3.2)."""

    async def test() -> None:
        async with MailSink(replies={"EHLO": "502 5.5.1 what?"}) as sink, transport(sink) as sender:
            (answer,) = await send(sender, mail())
        assert (answer.status, count(sink, "HELO")) == (250, 1)

    run(test())


# --- TLS and AUTH --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of this run."""
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment trusts the authority, as an operator with a private one would say it."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


def server_tls(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    """TLS of a server of that name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def attempt_over_tls(sink: MailSink, **options: Any) -> Answer:
    """One mail over a new connection."""
    answers: list[Answer] = []

    async def test() -> None:
        async with sink, transport(sink, **options) as sender:
            answers.extend(await send(sender, mail()))

    run(test())
    return answers[0]


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(("security", "implicit"), [("none", False), ("starttls", False), ("tls", True)])
def test_mail_travels_over_tls(authority: trustme.CA, security: str, *, implicit: bool) -> None:
    """STARTTLS where it is offered or demanded, TLS from the first byte where that is: greeted again, and accepted."""
    sink = MailSink(tls=server_tls(authority), implicit_tls=implicit)
    assert attempt_over_tls(sink, security=security).status == 250
    assert count(sink, "EHLO") == (1 if implicit else 2)
    assert count(sink, "STARTTLS") == (0 if implicit else 1)


@pytest.mark.parametrize(("security", "implicit"), [("starttls", False), ("tls", True)])
def test_an_unknown_certificate_is_refused(authority: trustme.CA, security: str, *, implicit: bool) -> None:
    """Nobody vouches for the certificate: no mail, and the answer says so."""
    answer = attempt_over_tls(MailSink(tls=server_tls(authority), implicit_tls=implicit), security=security)
    assert (answer.error, answer.sent, answer.phase) == ("tls", Sent.NOTHING, "tls")
    assert "certificate verify failed" in answer.detail


@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_host_is_refused(authority: trustme.CA) -> None:
    """A valid certificate must also be this server's."""
    answer = attempt_over_tls(MailSink(tls=server_tls(authority, "other.example.com")), security="starttls")
    assert (answer.error, answer.sent, answer.phase) == ("tls", Sent.NOTHING, "tls")


def test_a_relay_on_this_machine_needs_no_authority(authority: trustme.CA) -> None:
    """Where nothing is demanded and the relay is on loopback, its self-made certificate will do."""
    sink = MailSink(tls=server_tls(authority))
    assert attempt_over_tls(sink).status == 250
    assert count(sink, "STARTTLS") == 1


def test_a_demand_for_tls_is_not_given_up() -> None:
    """STARTTLS is demanded and not offered: no mail."""
    answer = attempt_over_tls(MailSink(), security="starttls")
    assert (answer.error, answer.sent, answer.phase) == ("tls", Sent.NOTHING, "tls")


def test_tls_towards_a_plain_server_fails() -> None:
    """The server does not speak TLS: no mail, and no endless wait."""
    answer = attempt_over_tls(MailSink(), security="tls", timeout_seconds=1.0)
    assert (answer.error, answer.sent) == ("tls", Sent.NOTHING)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("secure", [True, False])
def test_credentials_are_given(authority: trustme.CA, *, secure: bool) -> None:
    """After TLS, or without it on this machine, the relay learns who we are, and takes the mail."""
    sink = MailSink(tls=server_tls(authority) if secure else None, credentials=("duly", "s3cret"))
    security = "starttls" if secure else "none"
    assert attempt_over_tls(sink, security=security, username="duly", password="s3cret").status == 250
    assert "AUTH ***" in sink.commands


def test_wrong_credentials_are_an_answer() -> None:
    """The relay's refusal is told with its code and its phase, after one try."""
    sink = MailSink(credentials=("duly", "s3cret"))
    answer = attempt_over_tls(sink, username="duly", password="wrong")
    assert (answer.status, answer.phase, answer.sent) == (535, "auth", Sent.NOTHING)
    assert count(sink, "AUTH") == 1


def test_credentials_for_a_relay_that_asks_for_none() -> None:
    """AUTH is not offered: nothing was taken, and the phase says what is wrong."""
    answer = attempt_over_tls(MailSink(), username="duly", password="s3cret")
    assert (answer.error, answer.phase, answer.sent) == ("protocol", "auth", Sent.NOTHING)


def test_a_connection_that_failed_to_authenticate_is_not_used() -> None:
    """The second mail is refused like the first, instead of slipping through unauthenticated."""

    async def test() -> None:
        sink = MailSink()
        async with sink, transport(sink, username="duly", password="s3cret") as sender:
            answers = [*await send(sender, mail()), *await send(sender, mail())]
        assert [answer.phase for answer in answers] == ["auth", "auth"]
        assert count(sink, "MAIL") == 0

    run(test())


# --- slots and the end ---------------------------------------------------------------------------


def test_slots_are_the_capacity() -> None:
    """A slot is taken by reserve and free again by release, whatever the destination."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=2) as sender:
            assert sender.room() == 2
            assert sender.reserve(["a@x.example", "b@y.example", "c@z.example"]) == [True, True, False]
            assert await sender.wait_for_room(0.01) == 0
            asyncio.get_running_loop().call_later(0.02, sender.release, ["a@x.example"])
            assert await sender.wait_for_room(5.0) == 1

    run(test())


@pytest.mark.parametrize("options", [{"timeout_seconds": 0.0}, {"connect_timeout_seconds": 0.0}, {"capacity": 0}])
def test_a_bound_must_be_positive(options: dict[str, Any]) -> None:
    """A transport that could never send is not made."""
    with pytest.raises(ValueError, match=r"positive|at least 1"):
        SmtpTransport(reading=time.monotonic, host="localhost", port=25, security="none", **options)


def test_nothing_under_way_is_no_answer() -> None:
    """Waiting for answers that cannot come ends when the time is over, with none."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            assert await sender.completed(10, 0.01) == []

    run(test())


def test_the_limit_holds() -> None:
    """No more answers are given at once than were asked for; the others wait."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=5) as sender:
            await sender.start([Request(number, mail(), LATER) for number in range(5)])
            await until(lambda: sink.accepted == 5)
            await asyncio.sleep(0.05)
            assert [len(await sender.completed(2, 1.0)) for _ in range(3)] == [2, 2, 1]

    run(test())


def test_closing_tells_the_truth() -> None:
    """What waits for the dot's reply may have been taken; what waits to connect, or for a connection, was not."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=2) as sender:
            await sender.start([Request(0, mail("silent@example.com"), LATER)])
            await until(lambda: sink.accepted == 1)
            sink.replies["connect"] = SILENCE
            await sender.start([Request(1, mail(), LATER), Request(2, mail(), LATER)])
            await until(lambda: sink.connections == 2)
            await asyncio.gather(sender.close(), sender.close())
            done = {one.token: one.answer for one in await gather(sender, 3)}
            assert [done[token].sent for token in range(3)] == [Sent.SOME, Sent.NOTHING, Sent.NOTHING]
            assert [done[token].error for token in range(3)] == ["reset", "reset", "connect"]
            await sender.close()
            assert await sender.completed(10, 0.01) == []

    run(test())


def test_nothing_starts_after_closing() -> None:
    """A closed transport answers that nothing left, and opens no connection."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await sender.close()
            await sender.start([Request(1, mail(), LATER)])
            (done,) = await gather(sender, 1)
            assert (done.answer.sent, done.answer.error, sink.connections) == (Sent.NOTHING, "connect", 0)

    run(test())


def test_a_request_given_to_an_idle_connection_survives_closing() -> None:
    """Handed over and closed in the same breath: it completes all the same, and nothing left."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            await sender.start([Request(9, mail(), LATER)])
            await sender.close()
            (done,) = await gather(sender, 1)
            assert (done.token, done.answer.sent, sink.accepted) == (9, Sent.NOTHING, 1)

    run(test())


# --- the whole -----------------------------------------------------------------------------------

PROVIDER = SmtpProvider("mail", "Harbour Lofts <reminders@example.com>")


def prepared(number: int, local: str = "ana") -> Mail:
    """A mail as the provider makes it."""
    row = claimed(id=number.to_bytes(16, "big"), channel=Channel.EMAIL, address=f"{local}-{number}@example.com")
    frozen = PROVIDER.freeze(row, Content(f"Nº {number}", ".\nHello.\n", "<p>Hello.</p>", "1"), NOW)
    return PROVIDER.request(frozen, Attempt(keys.show(row.id), 1, NOW))


def test_many_mails_arrive_once_each() -> None:
    """Hundreds at once over few connections: every recipient has the own mail once, and every answer accepts."""

    async def test() -> None:
        mails = [prepared(number) for number in range(300)]
        async with MailSink() as sink, transport(sink, capacity=8) as sender:
            await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
            done = await gather(sender, 300)
        results = [PROVIDER.classify(one.answer, NOW) for one in done]
        assert {result.outcome for result in results} == {Outcome.ACCEPTED}
        assert len({result.request_id for result in results}) == 300
        assert sink.messages == {one.recipient: [one.message] for one in mails}
        assert sink.connections <= 8 + 300 // MESSAGES_PER_CONNECTION_MAX

    run(test())


def test_moods_at_once_do_not_mix() -> None:
    """Every answer belongs to its own mail, however the neighbours fare on the same connections."""
    expected = {"ana": 250, "gone": 550, "spam": 554, "full": 552, "closes421": 421, "dropped": None}

    async def test() -> None:
        locals_ = [local for _ in range(20) for local in expected]
        async with MailSink() as sink, transport(sink, capacity=4) as sender:
            mails = [prepared(number, local) for number, local in enumerate(locals_)]
            await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
            done = await gather(sender, len(mails))
        assert [one.answer.status for one in sorted(done)] == [expected[local] for local in locals_]
        assert sum(map(len, sink.messages.values())) == 40

    run(test())


@pytest.mark.parametrize("ending", ["server", "close"])
@pytest.mark.parametrize("accepted", [1, 10, 25, 60])
def test_a_cut_amid_traffic_tells_the_truth(accepted: int, ending: str) -> None:
    """Whoever cuts and whenever: every mail has one answer, none arrives twice, and "nothing" means not there."""

    async def test() -> None:
        mails = [prepared(number) for number in range(100)]
        async with MailSink() as sink, transport(sink, capacity=8) as sender:
            await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
            await until(lambda: sink.accepted >= accepted)
            if ending == "close":
                await sender.close()
            else:
                sink.cut_connections()
            done = {one.token: one.answer for one in await gather(sender, 100)}
        assert sorted(done) == list(range(100))
        assert all(len(kept) == 1 for kept in sink.messages.values())
        denied = {mails[token].recipient for token, answer in done.items() if answer.sent is Sent.NOTHING}
        said = {mails[token].recipient for token, answer in done.items() if answer.status == 250}
        assert any(answer.status is None for answer in done.values())
        assert denied.isdisjoint(sink.messages)
        assert said <= sink.messages.keys()

    run(test())


class Keeping(KeepingNothing):
    """A handler of aiosmtpd that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[Envelope] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: ARG002, N802
        """Keep the envelope with its content."""
        self.kept.append(envelope)
        return "250 2.0.0 Ok: queued as AIOSMTPD"


def test_an_independent_server_understands_us() -> None:
    """aiosmtpd, which knows nothing of us, gets the same bytes, and its answer is understood."""

    async def test() -> None:
        keeper = Keeping()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(keeper, enable_SMTPUTF8=True, loop=loop), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        sender = SmtpTransport(reading=time.monotonic, host=host, port=port, security="none", capacity=4)
        mails = [*map(prepared, range(20)), mail("josé@example.com", "Subject: é\r\n\r\n.\r\né\r\n".encode())]
        await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
        done = await gather(sender, len(mails))
        await sender.close()
        server.close()
        await asyncio.sleep(0.05)
        assert {PROVIDER.classify(one.answer, NOW).request_id for one in done} == {"AIOSMTPD"}
        assert {(kept.rcpt_tos[0], kept.content) for kept in keeper.kept} == {
            (one.recipient, one.message) for one in mails
        }
        parsed = BytesParser(policy=default).parsebytes(mails[3].message)
        assert parsed["Subject"] == "Nº 3"

    run(test())
