"""What stands in a mail's headers is what was given, whoever chose it, and nothing besides."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.header import decode_header, make_header
from email.parser import BytesParser
from email.policy import default
from email.utils import getaddresses
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Attempt, Channel, Content
from duly.core.unsubscribe import Links, read_token
from duly.errors import Unrenderable
from duly.ports import Mail
from duly.providers.smtp import SmtpProvider
from duly.providers.smtp_message import display_name, plain
from tests.core.values import claimed

NOW: Final = datetime(2026, 12, 1, 14, tzinfo=UTC)
SECRET: Final = b"a secret of thirty-two bytes ...."
LINKS: Final = Links("https://r.example.com/u", SECRET, frozenset({"marketing"}), "a-namespace")
PROVIDER: Final = SmtpProvider("mail", "Harbour Lofts <reminders@example.com>", links=LINKS)
HEADERS: Final = [
    "From", "To", "Subject", "Date", "Message-ID", "X-Duly-Delivery", "List-Unsubscribe", "List-Unsubscribe-Post",
    "Auto-Submitted", "MIME-Version", "Content-Type",
]  # fmt: skip

#: Strings that are known to break things: header injection, forged words and phrases, turned text, blanks that are
#: none, markup, formats. After the kinds of https://github.com/minimaxir/big-list-of-naughty-strings.
NAUGHTY: Final = [
    "",
    " ",
    "\r\nBcc: eve@example.com",
    "a\nSubject: forged\n\nbody",
    "a\r\n\r\n<html>",
    "a\x0bBcc: x\x0c\x1c\x1d\x1e\x85\u2028\u2029b",
    "%0d%0aBcc: eve@example.com",
    "=?utf-8?q?=0D=0ABcc:_eve@example.com?=",
    "=?utf-8?b?aGk=?= =?utf-8?b?aGk=?=",
    "=?",
    "?=",
    '"',
    '\\"',
    "\\",
    '" <eve@example.com>, "',
    "eve@example.com",
    "<eve@example.com>",
    "a, b; c: d",
    "(comment) name",
    "undisclosed-recipients:;",
    "\u202egnp.exe",
    "\u2066abc\u2069",
    "\u200f\u05d3\u05e0\u05d9",
    "\ufeffname",
    "a\u200bb",
    "\u0000",
    "\ud800",
    "\U000e0041",
    "\ufdfa" * 300,
    "Z\u0351\u036b\u0343" * 60,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 60,
    "word " * 400,
    "x" * 100_000,
    "e\u0301" * 100,
    "\u00df\u0130\u0131",
    "{{ 7*7 }}%s%n$(id)`id`",
]

naughty = st.sampled_from(NAUGHTY) | st.text(st.characters(exclude_categories=()), max_size=300)
words = st.lists(naughty, max_size=3).map("".join)
atoms = st.text(st.sampled_from("abzAZ09!#$%&'*+-/=?^_`{|}~"), min_size=1, max_size=12)
locals_ = st.lists(atoms | st.sampled_from(["jos\u00e9", "\u7528\u6237"]), min_size=1, max_size=3).map(".".join)
domains = st.sampled_from(
    ["example.com", "b\u00fccher.example", "xn--bcher-kva.example", "\u4f8b\u3048.jp", "a" * 60 + ".x.co"]
)


def sent(subject: str = "Hi", text: str = "t", html: str | None = "<p>h</p>", **row: Any) -> Mail:
    """The mail of a row that may be unsubscribed from."""
    values = {"channel": Channel.EMAIL, "address": "ana@example.com", "purpose": "marketing"}
    frozen = PROVIDER.freeze(claimed(**{**values, **row}), Content(subject, text, html, "v1"), NOW)
    mail = PROVIDER.request(frozen, Attempt("key", 1, NOW))
    assert isinstance(mail, Mail)
    return mail


def header(message: bytes, name: str) -> str:
    """The one header of this name as it was written, unfolded: RFC 5322, 2.2.3, read by hand."""
    head = message.partition(b"\r\n\r\n")[0].decode()
    (value,) = re.findall(rf"^{name}: (.*(?:\r\n .*)*)$", head.replace("\r\n ", " "), re.MULTILINE)
    return str(value).rstrip("\r")


def decoded(text: str) -> str:
    """Encoded words as they are meant."""
    return str(make_header(decode_header(text)))


def domain_on_the_wire(domain: str) -> str:
    """IDNA, by Python's own codec."""
    return domain.encode("idna").decode()


# --- the properties ------------------------------------------------------------------------------


@given(words, words, words, words)
@example("\r\nBcc: eve@example.com", "\r\n.\r\n", "\r\n\r\n", '" <eve@example.com>\r\nBcc: eve@example.com')
def test_nothing_is_added_and_nothing_lost(subject: str, text: str, html: str, name: str) -> None:
    """Subject, name and address read back as they were given, no header is added, and no line is too long."""
    message = sent(subject, text, html, recipient_name=name).message
    read = BytesParser(policy=default).parsebytes(message)
    assert read.keys() == HEADERS
    assert read["Subject"] == plain(subject)
    ((phrase, address),) = getaddresses([header(message, "To")])
    assert (decoded(phrase), address) == (display_name(name), "ana@example.com")
    assert [part.get_content_type() for part in read.iter_parts()] == ["text/plain", "text/html"]
    assert max(map(len, message.split(b"\r\n"))) <= 998
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)|\0", message)


@given(words, words, words)
def test_the_same_row_gives_the_same_bytes(subject: str, text: str, name: str) -> None:
    """A row that is rendered again is the same mail, its link to unsubscribe included."""
    assert sent(subject, text, recipient_name=name) == sent(subject, text, recipient_name=name)


@given(locals_, domains, words)
def test_any_address_is_written_as_it_is(local: str, domain: str, name: str) -> None:
    """The envelope and the header have the same address: its domain in ASCII, its local part as it is."""
    try:
        mail = sent(address=f"{local}@{domain}", recipient_name=name)
    except Unrenderable as reason:
        assert len(f"{local}@{domain}".encode()) > 254, reason  # noqa: PT017 - what is refused must be too long
        return
    ((phrase, address),) = getaddresses([header(mail.message, "To")])
    assert mail.recipient == address == f"{local}@{domain_on_the_wire(domain)}"
    assert decoded(phrase) == display_name(name)
    assert mail.message.isascii() == local.isascii()


@given(words | st.text(st.sampled_from('a@."\\ <>,;:()[]\r\n\0'), max_size=80))
def test_any_text_as_an_address_is_refused_or_safe(address: str) -> None:
    """What gets through as an address is one line with one @, and stands in To as the only one."""
    try:
        mail = sent(address=address)
    except Unrenderable as reason:
        assert len(address) < 5 or address not in str(reason)  # noqa: PT017 - a refusal does not repeat it
        return
    assert re.fullmatch(r"[^\s<>,;:\"\\()\[\]@]+@[^\s<>,;:\"\\()\[\]@]+", mail.recipient)
    assert header(mail.message, "To") == f"Ana <{mail.recipient}>"


@pytest.mark.parametrize(
    "address", ['"ana"@example.com', '"a b"@example.com', '"a\\"b"@example.com', '"a@b"@example.com']
)
def test_a_quoted_local_part_is_refused(address: str) -> None:
    """A quoted local part may hold anything, and programs on the way read it differently: it is not written."""
    with pytest.raises(Unrenderable, match="cannot be written into a mail; correct the recipient's address"):
        sent(address=address)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
def test_a_name_cannot_turn_the_address_round(turn: str) -> None:
    """Characters that change the direction of writing are taken out of a name, and the letters stay."""
    message = sent(recipient_name=f"A{turn}n{turn}a").message
    assert header(message, "To") == "Ana <ana@example.com>"


def test_a_name_of_another_script_stays() -> None:
    """A name that is written from the right keeps every letter."""
    ((phrase, _),) = getaddresses([header(sent(recipient_name="\u05d3\u05e0\u05d9\u05d0\u05dc").message, "To")])
    assert decoded(phrase) == "\u05d3\u05e0\u05d9\u05d0\u05dc"


# --- unsubscribing -------------------------------------------------------------------------------


def test_mail_of_its_purposes_can_be_unsubscribed_from() -> None:
    """The two headers of RFC 8058 name the contact's own link."""
    message = sent().message
    link = header(message, "List-Unsubscribe")
    assert link.startswith("<https://r.example.com/u/")
    contact = keys.contact_id("a-namespace", "harbour", "email", "ana@example.com")
    assert read_token([SECRET], link.rpartition("/")[2].rstrip(">")) == (contact, "marketing")
    assert header(message, "List-Unsubscribe-Post") == "List-Unsubscribe=One-Click"
    assert f"\r\nList-Unsubscribe: {link}\r\n".encode() in message


def test_late_mail_says_so() -> None:
    """What is sent after its deadline carries one header more, and what is on time does not."""
    late = sent(late=timedelta(hours=2)).message
    assert header(late, "Duly-Late") == "true"
    assert b"Duly-Late" not in sent().message
    assert late.replace(b"Duly-Late: true\r\n", b"") == sent().message


def test_other_mail_says_nothing_of_it() -> None:
    """Another purpose, or an installation without links, has neither header."""
    assert b"List-Unsubscribe" not in sent(purpose="service").message
    row = claimed(channel=Channel.EMAIL, address="ana@example.com", purpose="marketing")
    without = SmtpProvider("mail", "a@example.com").freeze(row, Content("s", "t", None, "v1"), NOW)
    assert b"List-Unsubscribe" not in without.body
