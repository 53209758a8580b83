"""How attempts end: every step and every ending, told by phase and by what was taken."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

import aiosmtplib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.ports import HttpRequest, Request, Sent
from duly.testing.mail_sink import CUT, SILENCE, MailSink
from duly.transports.smtp import SmtpTransport
from duly.transports.smtp_connection import REPLY_BYTES_MAX, transparent
from duly.transports.smtp_failures import FAILURES, kind_of
from tests.transports.mailing import (
    LATER,
    count,
    gather,
    mail,
    on_each_loop,  # noqa: F401 - used by being here
    run,
    send,
    transport,
)


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
        async with MailSink(slow_seconds=0.05) as sink, transport(sink, timeout_seconds=2.0) as sender:
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


async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """A server that answers up to DATA, then reads nothing for a while, and in the end all there is."""
    for reply in (b"220 x", b"250 x", b"250 x", b"250 x", b"354 x"):
        writer.write(reply + b"\r\n")
        await reader.readline()
    await asyncio.sleep(1.2)
    content = b""
    with suppress(ConnectionError):
        while more := await reader.read(1_000_000):
            content += more
    writer.close()
    return content


def test_what_has_not_left_does_not_leave_later() -> None:
    """After the timeout a content that is still in our buffer stays there, and so does its dot."""

    async def test() -> None:
        got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.set_result(await read_late(reader, writer))

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            big = mail(message=b"x" * 70 + b"\r\n" + (b"y" * 70 + b"\r\n") * 200_000)
            sender = SmtpTransport(
                reading=time.monotonic, host=host, port=port, security="none", timeout_seconds=1.0, capacity=1
            )
            (answer,) = await send(sender, big)
            assert (answer.error, answer.sent, answer.phase) == ("timeout", Sent.SOME, "dot")
            assert not (await got).endswith(b"\r\n.\r\n")
            await sender.close()

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
