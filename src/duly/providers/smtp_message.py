"""The bytes of a mail, assembled by hand: RFC 5322 headers, RFC 2047 words, RFC 2045/2046 parts.

The standard library's EmailMessage is right, and costs a millisecond a message. This writes only the few forms that
a reminder needs, and the tests read every one of them back with the standard library. The same letter gives the same
bytes: the boundary comes from the key, and no clock, dice or host name goes in.

Nothing from outside reaches a header unchanged. Control characters, lone surrogates and runs of blanks become one
blank, so there is no line end left to inject; what is not plain ASCII, or looks like an encoded word, is encoded.
A name loses the characters that turn the direction of writing as well (Bidi_Control of UAX 9): left open, they would
show the address behind the name in another order. Addresses and links are checked before they come here.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from email.utils import format_datetime
from typing import Final, NamedTuple

__all__ = ["Letter", "compose", "display_name", "headers_of", "mailbox", "plain"]

HEADER_LINE_CHARACTERS_MAX: Final = 78  # RFC 5322, 2.1.1
ENCODED_LINE_CHARACTERS_MAX: Final = 76  # RFC 2047, 2
ENCODED_WORD_CHARACTERS_MAX: Final = 75
PHRASE_CHARACTERS_MAX: Final = 60  # longer names are encoded, which can be folded anywhere
WORD_CHARACTERS_MAX: Final = 900  # a line may have 998
BODY_LINE_BYTES_MAX: Final = 998  # RFC 5322, 2.1.1

LATE_HEADER: Final = "Duly-Late: true\r\n"

_BLANKS: Final = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_TURNS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_ATOMS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]*")
_WORD_START: Final = "=?utf-8?b?"
_WORD_END: Final = "?="
_WORDS: Final = re.compile(r"=\?utf-8\?b\?([A-Za-z0-9+/=]*)\?=(?: (?==\?))?")


class Letter(NamedTuple):
    """What goes into one mail. `sender` is a finished mailbox, `recipient` an address, `domain` the sender's.

    `unsubscribe` is an https URL in plain ASCII without blanks, or None.
    """

    key: str
    sender: str
    domain: str
    recipient_name: str
    recipient: str
    subject: str
    text: str
    html: str | None
    date: datetime
    unsubscribe: str | None = None
    late: bool = False  # sent after its deadline, which the receiver may want to sort by


def compose(letter: Letter) -> bytes:
    """The message with CRLF line ends. It is ASCII, unless the recipient's address is not (RFC 6532)."""
    boundary = f"=_duly_{letter.key}"
    if letter.html is None:
        return _headers(letter) + _part("plain", letter.text, boundary)
    edge = b"--" + boundary.encode()
    head = f'Content-Type: multipart/alternative;\r\n boundary="{boundary}"\r\n\r\n'.encode()
    parts = (_part("plain", letter.text, boundary), _part("html", letter.html, boundary))
    body = b"".join(edge + b"\r\n" + part + b"\r\n" for part in parts)
    return _headers(letter) + head + body + edge + b"--\r\n"


def plain(text: str) -> str:
    """The text as one line: no control characters, no lone surrogates, single blanks."""
    return _BLANKS.sub(" ", text).strip(" ")


def display_name(name: str) -> str:
    """A name as one line that is written in one direction."""
    return plain(_TURNS.sub("", name))


def mailbox(header: str, name: str, address: str) -> str:
    """A name and an address as the value of a header (RFC 5322, 3.4). The name may be empty."""
    phrase = _phrase(header, display_name(name))
    if not phrase:
        return address
    line = len(header) + len(": ") + len(phrase.rpartition("\n")[2])
    fits = line + len(address) + len(" <>") <= HEADER_LINE_CHARACTERS_MAX
    return f"{phrase} <{address}>" if fits else f"{phrase}\r\n <{address}>"


def headers_of(message: bytes) -> dict[str, str]:
    """The headers of a composed message in their order, unfolded and decoded, for a person to read."""
    head = message.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ")
    pairs = (line.partition(": ") for line in head.split("\r\n"))
    return {name: _WORDS.sub(_decoded, value) for name, _, value in pairs}


def _decoded(word: re.Match[str]) -> str:
    return base64.b64decode(word[1]).decode()


# --- headers -------------------------------------------------------------------------------------


def _headers(letter: Letter) -> bytes:
    return (
        f"From: {letter.sender}\r\n"
        f"To: {mailbox('To', letter.recipient_name, letter.recipient)}\r\n"
        f"Subject: {_unstructured('Subject', plain(letter.subject))}\r\n"
        f"Date: {format_datetime(letter.date)}\r\n"
        f"Message-ID: <{letter.key}@{letter.domain}>\r\n"
        f"X-Duly-Delivery: {letter.key}\r\n"
        f"{_unsubscribe(letter.unsubscribe)}"
        f"{LATE_HEADER if letter.late else ''}"
        "Auto-Submitted: auto-generated\r\n"  # RFC 3834, 5: no vacation replies, please
        "MIME-Version: 1.0\r\n"
    ).encode()


def _unsubscribe(link: str | None) -> str:
    """The two headers of RFC 8058, 3.1, or nothing. The link is on one line, which not every reader would join."""
    if link is None:
        return ""
    return f"List-Unsubscribe: <{link}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"


def _unstructured(header: str, text: str) -> str:
    """A text of words: as it is, folded, or encoded."""
    if _must_be_encoded(text):
        return _encoded(header, text)
    if len(header) + len(": ") + len(text) <= HEADER_LINE_CHARACTERS_MAX:
        return text
    return _folded(header, text)


def _phrase(header: str, name: str) -> str:
    """A display name: atoms, a quoted string, or encoded words."""
    if len(name) > PHRASE_CHARACTERS_MAX or _must_be_encoded(name):
        return _encoded(header, name)
    if _ATOMS.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _must_be_encoded(text: str) -> bool:
    """Not ASCII, or it would be read as encoded, or it has a word that no line can hold."""
    if not text.isascii() or "=?" in text:
        return True
    return len(text) > WORD_CHARACTERS_MAX and max(map(len, text.split(" "))) > WORD_CHARACTERS_MAX


def _folded(header: str, text: str) -> str:
    """Lines that end before a blank, as long as they may be."""
    lines: list[str] = []
    line = f"{header}:"
    for word in text.split(" "):
        if len(line) + len(word) >= HEADER_LINE_CHARACTERS_MAX and line != f"{header}:":
            lines.append(line)
            line = ""
        line += f" {word}"
    return "\r\n".join([*lines, line]).removeprefix(f"{header}: ")


def _encoded(header: str, text: str) -> str:
    """Encoded words of UTF-8 in base64, each of whole characters (RFC 2047, 5)."""
    data = text.encode()
    words: list[str] = []
    room = ENCODED_LINE_CHARACTERS_MAX - len(header) - len(": ")
    start = 0
    while start < len(data):
        end = _whole_characters(data, start + (room - len(_WORD_START + _WORD_END)) // 4 * 3)
        words.append(_WORD_START + base64.b64encode(data[start:end]).decode() + _WORD_END)
        start, room = end, ENCODED_WORD_CHARACTERS_MAX
    return "\r\n ".join(words)


def _whole_characters(data: bytes, end: int) -> int:
    """The last place not after `end` where a character of UTF-8 begins."""
    while end < len(data) and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - 10xxxxxx continues a character
        end -= 1
    return end


# --- parts ---------------------------------------------------------------------------------------


def _part(subtype: str, text: str, boundary: str) -> bytes:
    """One text with its own headers. No encoding but 7bit can hold the boundary: both others spell "=" otherwise."""
    encoding, body = _transfer(_lines(text), boundary.encode())
    head = f"Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode() + body


def _lines(text: str) -> bytes:
    """The text with LF line ends, also at its end, without NUL and lone surrogates."""
    ended = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return (ended if ended.endswith("\n") else ended + "\n").encode("utf-8", "replace")


def _transfer(data: bytes, boundary: bytes) -> tuple[str, bytes]:
    """The plainest transfer encoding that carries the data unharmed (RFC 2045, 6), with CRLF line ends."""
    if data.isascii() and boundary not in data and max(map(len, data.split(b"\n"))) <= BODY_LINE_BYTES_MAX:
        return "7bit", data.replace(b"\n", b"\r\n")
    quoted = binascii.b2a_qp(data)
    if len(quoted) * 3 <= len(data) * 4:
        return "quoted-printable", quoted.replace(b"\n", b"\r\n")
    return "base64", base64.encodebytes(data.replace(b"\n", b"\r\n")).replace(b"\n", b"\r\n")
