"""The mail sink against the standard library's client, and against clients that break the rules."""

from __future__ import annotations

import asyncio
import base64
import smtplib
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import trustme

from duly.testing.mail_sink import CUT, MOODS, MailSink, Mood

MESSAGE = "Subject: hello\r\n\r\n.Hello.\r\n..\r\n"


def against(sink: MailSink, client: Callable[[MailSink], None]) -> None:
    """Run a blocking client against the sink."""

    async def both() -> None:
        async with sink:
            await asyncio.wait_for(asyncio.to_thread(client, sink), 60)

    asyncio.run(both())


def connect(sink: MailSink) -> smtplib.SMTP:
    """The standard library's client, connected."""
    return smtplib.SMTP(sink.host, sink.port, local_hostname="client.example", timeout=30)


def mail_to(sink: MailSink, *recipients: str) -> tuple[int, str]:
    """Send one mail; the code and words of the reply that decided."""
    with connect(sink) as client:
        code: int
        words: bytes | str
        try:
            refused = client.sendmail("a@example.com", recipients, MESSAGE)
        except smtplib.SMTPRecipientsRefused as refusal:
            code, words = next(iter(refusal.recipients.values()))
        except smtplib.SMTPResponseException as refusal:
            code, words = refusal.smtp_code, refusal.smtp_error
        else:
            code, words = next(iter(refused.values()), (250, b""))
        return code, words.decode() if isinstance(words, bytes) else words


def talk(sink: MailSink, *sent: bytes) -> list[str]:
    """Say each of these as it is, one after the other, and QUIT; all replies but the one to QUIT."""
    said = b""
    with socket.create_connection((sink.host, sink.port), timeout=30) as plug, suppress(ConnectionError):
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for words in (*sent, b"QUIT\r\n"):
            plug.sendall(words)
            time.sleep(0.02)  # so that they come apart
        while more := plug.recv(65_536):
            said += more
    return [line for line in said.decode().splitlines() if not line.startswith("221")]


def test_it_keeps_what_it_is_given() -> None:
    """A mail is kept for each recipient as it was before transparency, and counted."""

    def client(sink: MailSink) -> None:
        assert mail_to(sink, "ana@example.com", "bob@example.com") == (250, "")
        assert sink.url == f"smtp://127.0.0.1:{sink.port}"

    sink = MailSink()
    against(sink, client)
    assert sink.messages == {"ana@example.com": [MESSAGE.encode()], "bob@example.com": [MESSAGE.encode()]}
    assert (sink.connections, sink.accepted, sink.open_connections) == (1, 1, 0)


@pytest.mark.parametrize(
    ("recipient", "code", "words"),
    [("gone@x.example", 550, "5.1.1"), ("full@x.example", 552, "5.2.2"), ("spam@x.example", 554, "5.7.1")],
)
def test_a_mood_refuses(recipient: str, code: int, words: str) -> None:
    """The local part decides the refusal, and nothing is kept."""
    sink = MailSink()

    def client(sink: MailSink) -> None:
        said = mail_to(sink, recipient)
        assert said[0] == code
        assert said[1].startswith(words)

    against(sink, client)
    assert sink.accepted == 0


def test_busy_is_over_after_the_first_time() -> None:
    """The second mail to the same recipient is accepted."""

    def client(sink: MailSink) -> None:
        assert [mail_to(sink, "busy@x.example")[0] for _ in range(2)] == [451, 250]
        assert mail_to(sink, "busy-too@x.example")[0] == 451

    against(MailSink(), client)


def test_closes421_closes_at_data() -> None:
    """DATA is answered 421, and the connection ends."""

    def client(sink: MailSink) -> None:
        said = talk(sink, b"EHLO x\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<closes421@x.example>\r\nDATA\r\nNOOP\r\n")
        assert said[-1].startswith("421 4.3.2")

    against(MailSink(), client)


@pytest.mark.parametrize("recipient", ["dropped@x.example", "silent@x.example"])
def test_a_mood_takes_the_mail_and_does_not_say_so(recipient: str) -> None:
    """The mail is kept, and no reply to the dot comes."""
    sink = MailSink()

    def client(sink: MailSink) -> None:
        envelope = f"EHLO x\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<{recipient}>\r\nDATA\r\n"
        assert talk(sink, envelope.encode(), b"Subject: x\r\n\r\nx\r\n.\r\n")[-1].startswith("354")

    against(sink, client)
    assert sink.messages == {recipient: [b"Subject: x\r\n\r\nx\r\n"]}


def test_slow_answers_late_and_in_order() -> None:
    """The reply to the dot takes its time, and what was sent behind it is answered after it."""

    def client(sink: MailSink) -> None:
        said = talk(
            sink,
            b"EHLO x\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<slow@x.example>\r\nDATA\r\n",
            b"x\r\n.\r\nNOOP\r\nVRFY a\r\n",
        )
        assert [line[:3] for line in said[-3:]] == ["250", "250", "500"]

    against(MailSink(slow_seconds=0.1), client)


def test_replies_may_be_overridden() -> None:
    """A test decides what is said to a command, and when the connection is cut."""

    def client(sink: MailSink) -> None:
        assert talk(sink, b"EHLO x\r\nNOOP\r\n")[-1] == "450 not now"
        sink.replies["NOOP"] = CUT
        assert talk(sink, b"NOOP\r\n")[-1].startswith("220")

    against(MailSink(replies={"NOOP": "450 not now"}), client)


def test_moods_may_be_brought() -> None:
    """The moods are data."""

    def client(sink: MailSink) -> None:
        assert mail_to(sink, "grey@x.example") == (450, "4.7.1 later")
        assert mail_to(sink, "gone@x.example")[0] == 250

    against(MailSink(moods={"grey": Mood("rcpt", "450 4.7.1 later")}), client)
    assert "grey" not in MOODS


@pytest.mark.parametrize(
    ("commands", "reply"),
    [
        (b"MAIL FROM:<a@x.example>\r\n", "503"),
        (b"EHLO x\r\nRCPT TO:<a@x.example>\r\n", "503"),
        (b"EHLO x\r\nDATA\r\n", "503"),
        (b"EHLO x\r\nMAIL FROM:<a@x.example>\r\nDATA\r\n", "503"),
        (b"EHLO x\r\nMAIL FROM:<a@x.example>\r\nMAIL FROM:<a@x.example>\r\n", "503"),
        (b"EHLO x\r\nMAIL FROM: a@x.example\r\n", "501"),
        (b"EHLO x\r\nMAIL FROM:<a@x.example> NONSENSE=1\r\n", "555"),
        (b"EHLO x\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<nobody>\r\n", "501"),
        ("EHLO x\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<josé@x.example>\r\n".encode(), "553"),
        (b"EHLO x\r\nSTARTTLS\r\n", "503"),
        (b"EHLO x\r\nAUTH PLAIN AAAA\r\n", "503"),
        (b"WHAT\r\n", "500"),
        (b"\xff\xfe\0\r\n", "500"),
        (b"x" * 5000, "421"),
    ],
)
def test_a_client_that_breaks_a_rule_is_told(commands: bytes, reply: str) -> None:
    """Commands out of order, of unknown form or with parameters that were not offered are refused."""

    def client(sink: MailSink) -> None:
        assert talk(sink, commands)[-1].startswith(reply)

    against(MailSink(), client)


def test_parameters_need_their_extension() -> None:
    """A sink that offers no DSN takes no ENVID."""

    def client(sink: MailSink) -> None:
        assert talk(sink, b"EHLO x\r\nMAIL FROM:<a@x.example> ENVID=1\r\n")[-1].startswith("555")

    against(MailSink(extensions=()), client)


def test_the_dot_is_found_however_the_bytes_come() -> None:
    """Content in pieces, its end torn apart, ends once, and pipelined commands behind it are answered."""
    sink = MailSink()

    def client(sink: MailSink) -> None:
        envelope = b"EHLO x\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\n"
        said = talk(sink, envelope, b"a\r\n..\r\n", b"b\r\n.", b"\r", b"\nNOOP\r\n")
        assert [line[:3] for line in said[-3:]] == ["354", "250", "250"]
        said = talk(sink, envelope, b".\r\n")
        assert said[-1].startswith("250")

    against(sink, client)
    assert sink.messages == {"b@x.example": [b"a\r\n.\r\nb\r\n", b""]}


def test_starttls_and_auth() -> None:
    """AUTH is offered after STARTTLS only, mail is taken after AUTH only, and the password is not recorded."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    def client(sink: MailSink) -> None:
        with connect(sink) as smtp:
            smtp.ehlo()
            assert not smtp.has_extn("auth")
            smtp.starttls(context=trusting)
            smtp.ehlo()
            assert not smtp.has_extn("starttls")
            assert smtp.mail("a@x.example")[0] == 530
            with pytest.raises(smtplib.SMTPAuthenticationError):
                smtp.login("duly", "wrong")
            smtp.login("duly", "s3cret")
            smtp.sendmail("a@x.example", ["b@x.example"], MESSAGE)

    sink = MailSink(tls=context, credentials=("duly", "s3cret"))
    against(sink, client)
    secret = base64.b64encode(b"\0duly\0s3cret").decode()
    assert sink.accepted == 1
    assert not any(secret in command for command in sink.commands)


def test_auth_may_be_given_in_a_second_line() -> None:
    """Without an initial response the sink asks for it (RFC 4954, 4)."""

    def client(sink: MailSink) -> None:
        said = talk(sink, b"EHLO x\r\nAUTH PLAIN\r\n", base64.b64encode(b"\0a\0b") + b"\r\n", b"AUTH PLAIN ?\r\n")
        assert [line[:3] for line in said[-3:]] == ["334", "235", "501"]

    against(MailSink(credentials=("a", "b")), client)
