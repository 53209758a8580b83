"""SMTP: a mail for one recipient, handed to the operator's relay.

SMTP promises nothing: no key, no look-up, no search. What is known of an attempt is the phase in which it ended and
the reply, if there was one. Before the final dot nothing was taken, and a retry is safe; between the dot and its
reply the server may own the message, and nobody can be asked. The Message-ID is derived from the delivery's key, so
that a mailbox that sees the message twice has a chance to notice.

The mail is assembled in `smtp_message`; what a reply proves stands in `smtp_replies`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from email_validator import EmailNotValidError, validate_email

from duly.core import keys
from duly.core.model import (
    Attempt,
    Capabilities,
    Channel,
    Claimed,
    Content,
    Doubtful,
    FailureClass,
    Frozen,
    Look,
    LookKind,
    Outcome,
    Result,
)
from duly.core.unsubscribe import Links
from duly.errors import ConfigError, Unrenderable
from duly.ports import Answer, HttpRequest, Mail, Sent
from duly.providers.smtp_message import Letter, compose, display_name, mailbox, plain
from duly.providers.smtp_replies import Verdict, queue_id, verdict_of

__all__ = ["SmtpProvider"]

MESSAGE_BYTES_MAX: Final = 1_048_576
ADDRESS_BYTES_MAX: Final = 254  # RFC 5321, 4.5.3.1.3, without the angle brackets
EXCERPT_CHARACTERS_MAX: Final = 300

#: No blank, no control character, none of the characters that mean something around an address (RFC 5322, 3.2.3).
_SAFE: Final = '[^\\s\x00-\x20\x7f-\x9f\ud800-\udfff()<>\\[\\]:;,@\\\\"]+'
ADDRESS: Final = re.compile(f"{_SAFE}@{_SAFE}")
#: An address inside other words, to be masked. Bounded, so that no reply takes long.
_MENTION: Final = re.compile(r"<?[^\s<>()]{1,256}@[^\s<>()\",;:]{1,256}>?")

_CONNECTION: Final = Verdict(Outcome.NOT_SENT, FailureClass.CONNECTION)
#: No final dot was written: nothing was taken.
NOTHING_TAKEN: Final[Mapping[str, Verdict]] = MappingProxyType(
    {
        "dns": _CONNECTION,
        "connect": _CONNECTION,
        "tls": _CONNECTION,
        "reset": _CONNECTION,
        "timeout": Verdict(Outcome.NOT_SENT, FailureClass.TIMEOUT),
        "too_late": Verdict(Outcome.NOT_SENT, FailureClass.TOO_LATE),
        "protocol": Verdict(Outcome.NOT_SENT, FailureClass.PROVIDER_DOWN),
    }
)
_CANNOT_BE_ADDRESSED: Final = Verdict(Outcome.REJECTED, FailureClass.INVALID_DESTINATION)
_CANNOT_LOG_IN: Final = Verdict(Outcome.REFUSED, FailureClass.AUTH)
_SILENT: Final = Verdict(Outcome.UNKNOWN, FailureClass.TIMEOUT)
_CUT: Final = Verdict(Outcome.UNKNOWN, FailureClass.CONNECTION)


@dataclass(slots=True)
class SmtpProvider:
    """A configured relay. `sender` is written as in a mail: `Harbour Lofts <reminders@example.com>`.

    With `links`, mail of their purposes can be unsubscribed from by one click (RFC 8058).
    Raises ConfigError if the sender is not one mailbox with an ASCII local part.
    """

    name: str
    sender: str
    timeout_seconds: float = 30.0
    rate_per_second: float | None = None
    links: Links | None = None
    kind: str = field(default="smtp", init=False)
    channel: str = field(default="email", init=False)
    _from: str = field(init=False, repr=False)
    _address: str = field(init=False, repr=False)
    _domain: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name, address = _parse_sender(self.sender, f"providers.{self.name}.from")
        self._from = mailbox("From", name, address)
        self._address = address
        self._domain = address.partition("@")[2]

    def capabilities(self, destination: str) -> Capabilities:  # noqa: ARG002 - the same for every address
        """A channel, and no promise."""
        return Capabilities(Channel.EMAIL)

    def rate(self, destination: str) -> float | None:  # noqa: ARG002 - the relay is the endpoint
        """The relay's allowance per second; None: no limit."""
        return self.rate_per_second

    def freeze(self, row: Claimed, content: Content, now: datetime) -> Frozen:
        """The whole message. The same row, content and time give the same bytes.

        Raises Unrenderable if the address cannot be written into a mail, or if the mail would be too big.
        """
        body = compose(self._letter(row, content, now))
        if len(body) > MESSAGE_BYTES_MAX:
            raise Unrenderable(f"the mail has {len(body)} bytes, {MESSAGE_BYTES_MAX} are allowed; shorten the template")
        return Frozen.of(row, content, body)

    def request(self, frozen: Frozen, attempt: Attempt) -> Mail:
        """The frozen message in its envelope. The envelope's id is the delivery's key."""
        return Mail(self._address, _wire_address(frozen.destination), frozen.body, attempt.key)

    def classify(self, answer: Answer, now: datetime) -> Result:  # noqa: ARG002 - SMTP names no time to come back
        """What the answer proves: a reply if there was one, else the phase. Never raises."""
        if answer.status is not None:
            return _answered(answer, answer.status)
        return Result(*_unanswered(answer), detail=_detail(answer))

    def look(self, row: Doubtful, by: LookKind, now: datetime) -> HttpRequest:  # noqa: ARG002 - the port's signature
        """Nobody can be asked. Raises LookupError: a bug of the caller."""
        raise LookupError(f"{self.name}: a relay cannot be asked by {by}")

    def seen(self, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:  # noqa: ARG002 - as above
        """Nothing was asked, so nothing is proved."""
        return Look(None)

    def _letter(self, row: Claimed, content: Content, now: datetime) -> Letter:
        return Letter(
            keys.show(row.id),
            self._from,
            self._domain,
            row.recipient_name or "",
            _wire_address(row.address),
            content.subject,
            content.text,
            content.html,
            now,
            self.links.of(row) if self.links else None,
            row.late is not None,
        )


# --- addresses -----------------------------------------------------------------------------------


def _parse_sender(sender: str, key: str) -> tuple[str, str]:
    """Name and address of the sender. The address is ASCII, so that a relay without SMTPUTF8 takes it."""
    name, address = _split(sender)
    try:
        address = _wire_address(address)
    except Unrenderable:
        address = ""
    if not address or not address.isascii() or display_name(name) != name:
        raise ConfigError(f'{key}: not a sender; write "Harbour Lofts <reminders@example.com>", the address in ASCII')
    return name, address


def _split(sender: str) -> tuple[str, str]:
    """A mailbox's name, without its quotes, and its address."""
    text = sender.strip(" ")
    if not text.endswith(">"):
        return "", text
    name, _, address = text[:-1].rpartition("<")
    name = name.strip(" ")
    if name.startswith('"') and name.endswith('"') and name != '"':
        name = name[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return name, address


def _wire_address(address: str) -> str:
    """The address as it is written on the wire: the domain in ASCII (RFC 5890), the local part as it is."""
    if ADDRESS.fullmatch(address) is None or len(address.encode()) > ADDRESS_BYTES_MAX:
        raise Unrenderable("the e-mail address cannot be written into a mail; correct the recipient's address")
    local, _, domain = address.partition("@")
    return address if domain.isascii() else f"{local}@{_ascii_domain(domain)}"


def _ascii_domain(domain: str) -> str:
    try:
        return validate_email(f"postmaster@{domain}", check_deliverability=False).ascii_domain
    except EmailNotValidError:
        raise Unrenderable("the e-mail address has a domain that cannot exist; correct it") from None


# --- classify ------------------------------------------------------------------------------------


def _answered(answer: Answer, status: int) -> Result:
    text = answer.body.decode("utf-8", "replace")
    verdict = verdict_of(answer.phase, status, text)
    if verdict is None:
        verdict = _CUT if answer.sent is Sent.SOME else NOTHING_TAKEN["protocol"]
    if verdict.outcome is Outcome.ACCEPTED:
        name = queue_id(text)
        return Result(*verdict, http_status=status, request_id=name, excerpt=None if name else _excerpt(text))
    return Result(*verdict, http_status=status, excerpt=_excerpt(text), detail=_detail(answer))


def _unanswered(answer: Answer) -> Verdict:
    """Silence. What the server cannot do for this address, or for anybody, is known before anything is taken."""
    if answer.sent is Sent.SOME:
        return _SILENT if answer.error == "timeout" else _CUT
    if answer.error == "protocol" and "smtputf8" in answer.detail:
        return _CANNOT_BE_ADDRESSED
    if answer.error == "protocol" and answer.phase == "auth":
        return _CANNOT_LOG_IN
    return NOTHING_TAKEN.get(answer.error or "", NOTHING_TAKEN["protocol"])


def _detail(answer: Answer) -> str | None:
    """Our words: the phase, what went wrong there, and how it said so."""
    words = [answer.phase and f"at {answer.phase}", answer.error, answer.detail]
    return _excerpt(": ".join(word for word in words if word))


def _excerpt(text: str) -> str | None:
    """The words on one line, addresses masked, cut; None if nothing is left."""
    words = plain(text[: EXCERPT_CHARACTERS_MAX * 8])
    masked = _MENTION.sub("<address>", words) if "@" in words else words
    return masked[:EXCERPT_CHARACTERS_MAX].strip() or None
