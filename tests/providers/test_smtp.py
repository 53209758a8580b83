"""The SMTP provider: the bytes of a mail, read back by the standard library, and its envelope."""

from __future__ import annotations

from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import compat32, default
from email.utils import getaddresses
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Attempt, Channel, Claimed, Content, Revisions
from duly.errors import ConfigError, Unrenderable
from duly.ports import Mail, Provider
from duly.providers.smtp import MESSAGE_BYTES_MAX, SmtpProvider
from duly.providers.smtp_message import display_name, plain
from tests.core.values import claimed

NOW = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
KEY = bytes(range(16))
SHOWN = keys.show(KEY)
HEADERS = ["From", "To", "Subject", "Date", "Message-ID", "X-Duly-Delivery", "Auto-Submitted", "MIME-Version"]

PROVIDER = SmtpProvider("mail", "Harbour Lofts <reminders@example.com>")

anything = st.text(st.characters(exclude_categories=()), max_size=200)
header_like = st.text(st.sampled_from("aB1 \t\r\n=?_.,:;<>()[]@\"\\'-é日🙂\u2028\ud800\x00\x7f"), max_size=120)
texts = st.one_of(
    anything,
    header_like,
    st.text(st.sampled_from("a .=-\r\né"), max_size=400),
    st.builds(lambda word, times: word * times, st.text(min_size=1, max_size=5), st.integers(0, 400)),
)
names = st.one_of(st.none(), anything, header_like, st.builds(lambda c, n: c * n, st.characters(), st.integers(0, 300)))


def a_row(**changes: Any) -> Claimed:
    """A claimed e-mail delivery."""
    ours = {"id": KEY, "channel": Channel.EMAIL, "address": "ana@example.com", "revisions": Revisions(1, 2, 3, 4)}
    return claimed(**(ours | changes))


def freeze(subject: str = "Hello", text: str = "Hi.", html: str | None = None, **changes: Any) -> bytes:
    """The frozen bytes of one mail."""
    return PROVIDER.freeze(a_row(**changes), Content(subject, text, html, "v1"), NOW).body


def read(message: bytes) -> EmailMessage:
    """The mail as the standard library reads it."""
    parsed = BytesParser(policy=default).parsebytes(message)
    assert isinstance(parsed, EmailMessage)
    return parsed


def recipient_of(message: bytes) -> tuple[str, str]:
    """Name and address of the one mailbox in To.

    Read the old way: Python 3.11's new way puts blanks between encoded words, against RFC 2047, 6.2.
    """
    raw = "".join(str(BytesParser(policy=compat32).parsebytes(message)["To"]).splitlines())
    ((phrase, address),) = getaddresses([raw])
    return str(make_header(decode_header(phrase))), address


def content_of(mail: EmailMessage, subtype: str) -> str:
    """A part's text with LF line ends."""
    part = mail.get_body((subtype,))
    assert part is not None
    assert not part.defects
    return str(part.get_content()).replace("\r\n", "\n")


def as_delivered(text: str) -> str:
    """What of a text must arrive: everything but NUL and lone surrogates, with LF line ends."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    ended = lines if lines.endswith("\n") else lines + "\n"
    return ended.encode("utf-8", "replace").decode()


# --- the message ---------------------------------------------------------------------------------


@given(subject=texts, text=texts, html=st.one_of(st.none(), texts), name=names)
@example("Re: =?utf-8?q?forged?=", "x", None, '"a" <b@c>, \\')
@example("a\r\nBcc: eve@example.com", "a\r\n.\r\nb", None, "a\r\nBcc: eve@example.com")
@example("word " * 60, "--=_duly_" + SHOWN + "--\n", "<p>--=_duly_" + SHOWN + "</p>", "x" * 300)
@example("x" * 2000, "x" * 2000, None, "é" * 100)
def test_a_mail_reads_back(subject: str, text: str, html: str | None, name: str | None) -> None:
    """Whatever the texts hold, the standard library reads the same ones back, without a defect."""
    message = freeze(subject, text, html, recipient_name=name)
    mail = read(message)
    assert not mail.defects
    assert mail["Subject"] == plain(subject)
    assert recipient_of(message) == (display_name(name or ""), "ana@example.com")
    assert content_of(mail, "plain") == as_delivered(text)
    assert html is None or content_of(mail, "html") == as_delivered(html)


@given(subject=texts, text=texts, html=st.one_of(st.none(), texts), name=names)
def test_a_mail_keeps_to_the_form(subject: str, text: str, html: str | None, name: str | None) -> None:
    """A mail is ASCII in CRLF lines of lawful length, and has the headers that we wrote and no others."""
    message = freeze(subject, text, html, recipient_name=name)
    assert message.isascii()
    assert b"\0" not in message
    assert message.replace(b"\r\n", b"").translate(None, b"\r\n") == message.replace(b"\r\n", b"")
    assert message.endswith(b"\r\n")
    assert max(map(len, message.split(b"\r\n"))) <= 998
    mail = read(message)
    transfer = [] if mail.is_multipart() else ["Content-Transfer-Encoding"]
    assert mail.keys() == [*HEADERS, "Content-Type", *transfer]


@given(subject=header_like, name=header_like)
def test_header_lines_are_folded(subject: str, name: str) -> None:
    """No line of the headers is longer than 78 characters, unless one word is."""
    head = freeze(subject, recipient_name=name).partition(b"\r\n\r\n")[0]
    assert all(len(line) <= 78 or b" " not in line.strip() for line in head.split(b"\r\n"))


@given(subject=texts, text=texts, html=texts, name=names)
def test_the_same_input_gives_the_same_bytes(subject: str, text: str, html: str, name: str | None) -> None:
    """A lost row, rendered again, is the same mail."""
    again = SmtpProvider("other", PROVIDER.sender)
    row, content = a_row(recipient_name=name), Content(subject, text, html, "v1")
    assert PROVIDER.freeze(row, content, NOW) == again.freeze(row, content, NOW)


def test_the_headers_name_the_delivery() -> None:
    """The key stands in the Message-ID and in a header of its own, and the other headers say who, whom and when."""
    mail = read(freeze("Inspection on Tuesday", html="<p>Hi.</p>"))
    assert mail["Message-ID"] == f"<{SHOWN}@example.com>"
    assert mail["X-Duly-Delivery"] == SHOWN
    assert mail["From"] == "Harbour Lofts <reminders@example.com>"
    assert mail["To"] == "Ana <ana@example.com>"
    assert mail["Date"].datetime == NOW
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "multipart/alternative"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plain words\n", "7bit"),
        ("caffè, più tardi, per favore: ore dieci\n", "quoted-printable"),
        ("点検のお知らせ\n", "base64"),
        ("x" * 999, "quoted-printable"),
        ("x" * 998, "7bit"),
    ],
)
def test_the_plainest_encoding_is_used(text: str, encoding: str) -> None:
    """Text that can travel as it is does, other text in the shorter encoding."""
    assert read(freeze(text=text))["Content-Transfer-Encoding"] == encoding


def test_frozen_says_what_it_was_made_from() -> None:
    """The destination is the row's address, and template, revisions and hash are on record."""
    frozen = PROVIDER.freeze(a_row(), Content("s", "t", None, "v7"), NOW)
    assert (frozen.destination, frozen.template, frozen.template_version) == ("ana@example.com", "note", "v7")
    assert (frozen.reminder_revision, frozen.recipient_revision, frozen.contact_revision) == (2, 3, 4)
    assert frozen.hash == keys.payload_hash(frozen.body)


def test_a_mail_that_is_too_big_cannot_be_rendered() -> None:
    """Over the limit, the row is refused with the size, before anything is sent."""
    with pytest.raises(Unrenderable, match=f"{MESSAGE_BYTES_MAX} are allowed"):
        freeze(text="line\n" * 220_000)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ana",
        "@example.com",
        "ana@",
        "a b@example.com",
        "ana@example.com\r\nRCPT TO:<eve@example.com>",
        "ana@exa\0mple.com",
        "<ana@example.com>",
        "ana@example.com>,<eve@example.com",
        '"a"@example.com',
        "ana@[127.0.0.1]",
        "a@b@example.com",
        "ana\ud800@example.com",
        "ana@exa\u2028mple.com",
        "a" * 250 + "@example.com",
        "ana@-bücher-.example",
    ],
)
def test_an_address_that_means_more_cannot_be_rendered(address: str) -> None:
    """An address that could end a header or a command is refused, and not repeated in the reason."""
    with pytest.raises(Unrenderable) as refusal:
        freeze(address=address)
    assert len(address) < 5 or address not in str(refusal.value)


def test_an_international_domain_travels_in_ascii() -> None:
    """A domain needs no SMTPUTF8 (RFC 5890), so envelope and header carry its ASCII form."""
    frozen = PROVIDER.freeze(a_row(address="ana@bücher.example"), Content("s", "t", None, "1"), NOW)
    mail = PROVIDER.request(frozen, Attempt(SHOWN, 1, NOW))
    assert frozen.destination == "ana@bücher.example"
    assert mail.recipient == "ana@xn--bcher-kva.example"
    assert mail.message.isascii()
    assert recipient_of(mail.message) == ("Ana", "ana@xn--bcher-kva.example")


def test_an_international_mailbox_stays_as_it_is() -> None:
    """A local part has no ASCII form: the header carries it in UTF-8 (RFC 6532), the name still encoded."""
    message = freeze(address="josé@example.com", recipient_name="José")
    assert "To: =?utf-8?b?Sm9zw6k=?= <josé@example.com>\r\n".encode() in message


def test_the_request_is_the_frozen_mail_in_its_envelope() -> None:
    """The envelope has the bare addresses and the key, and the bytes are untouched."""
    frozen = PROVIDER.freeze(a_row(), Content("s", "t", None, "1"), NOW)
    expected = Mail("reminders@example.com", "ana@example.com", frozen.body, SHOWN)
    assert PROVIDER.request(frozen, Attempt(SHOWN, 3, NOW)) == expected


def test_smtp_promises_nothing() -> None:
    """No key, no look-up, no echo, no search: doubt goes to the account's policy."""
    promise = PROVIDER.capabilities("ana@example.com")
    assert promise.channel == "email"
    assert promise.keyed_for is None
    assert not any((promise.lookup_by_key, promise.echoes_key, promise.searchable, promise.receipts))


def test_it_is_a_provider() -> None:
    """What the flows read of a provider is there, and the relay has one rate for all addresses."""
    provider: Provider = SmtpProvider("mail", "a@example.com", 12.0, 5.0)
    assert (provider.name, provider.kind, provider.channel) == ("mail", "smtp", "email")
    assert (provider.timeout_seconds, provider.rate("x@example.com")) == (12.0, 5.0)


# --- the sender ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sender", "name", "address"),
    [
        ("reminders@example.com", "", "reminders@example.com"),
        ("<reminders@example.com>", "", "reminders@example.com"),
        ("Harbour Lofts <reminders@example.com>", "Harbour Lofts", "reminders@example.com"),
        ('"Lofts, Harbour" <reminders@example.com>', "Lofts, Harbour", "reminders@example.com"),
        ("Lofts, Harbour <reminders@example.com>", "Lofts, Harbour", "reminders@example.com"),
        ("Häfen <reminders@bücher.example>", "Häfen", "reminders@xn--bcher-kva.example"),
    ],
)
def test_a_sender_is_read(sender: str, name: str, address: str) -> None:
    """A sender is an address, with or without a name."""
    provider = SmtpProvider("mail", sender)
    frozen = provider.freeze(a_row(), Content("s", "t", None, "1"), NOW)
    (mailbox,) = read(frozen.body)["From"].addresses
    assert (mailbox.display_name, mailbox.addr_spec) == (name, address)
    assert provider.request(frozen, Attempt(SHOWN, 1, NOW)).sender == address


@pytest.mark.parametrize(
    "sender",
    [
        "",
        "Harbour Lofts",
        "Harbour Lofts <>",
        "<a@b> <c>",
        "josé@example.com",
        "a@b, c@d",
        "Harbour\r\nBcc: eve@example.com <a@b.example>",
        "Harbour\0 <a@b.example>",
        "Harbour <a@b.example>\r\nBcc: x@y",
    ],
)
def test_a_wrong_sender_is_a_wrong_configuration(sender: str) -> None:
    """What is not one mailbox is refused at start-up, by the name of its key."""
    with pytest.raises(ConfigError, match=r"^providers\.mail\.from: not a sender; write "):
        SmtpProvider("mail", sender)
