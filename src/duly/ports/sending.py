"""Requests, answers, and the two who know them: a transport sends them, a provider knows what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from duly.core.model import (
    Attempt,
    Capabilities,
    Claimed,
    Content,
    Doubtful,
    Frozen,
    Look,
    LookKind,
    Result,
)
from duly.ports.entries import Batch

__all__ = [
    "Answer",
    "Claims",
    "Completion",
    "HttpRequest",
    "Mail",
    "Provider",
    "Request",
    "Sent",
    "Templates",
    "Transport",
]


class Sent(StrEnum):
    """How much of a request may have left: the evidence that parts not_sent from unknown."""

    NOTHING = "nothing"
    SOME = "some"


class HttpRequest(NamedTuple):
    """One POST, or one GET without a body: a look-up. Header values hold no CR or LF."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    method: str = "POST"


class Mail(NamedTuple):
    """One message for one recipient. `message` is RFC 5322 bytes with CRLF line ends."""

    sender: str
    recipient: str
    message: bytes
    envelope_id: str


@dataclass(slots=True)
class Request:
    """A request in a transport's hands. `start_before` is a clock reading after which it must not start."""

    token: int  # the caller's own number for it
    content: HttpRequest | Mail
    start_before: float


class Answer(NamedTuple):
    """What came back, or what went wrong: raw evidence, not yet an outcome.

    `status` is the HTTP status or the SMTP reply code, None if no answer came. With an `error` and
    `sent` NOTHING, no byte of the request (for SMTP: not the final dot) was taken.
    """

    status: int | None = None
    headers: Mapping[str, str] = MappingProxyType({})  # names in lower case
    body: bytes = b""
    error: str | None = None  # dns | connect | tls | timeout | reset | refused_address | too_late | protocol
    sent: Sent = Sent.SOME
    detail: str = ""
    phase: str = ""  # SMTP: connect, helo, auth, mail, rcpt, data, dot


class Completion(NamedTuple):
    """A finished request, and the clock's reading when its answer was complete."""

    token: int
    answer: Answer
    finished: float


class Transport(Protocol):
    """Sends. Exactly one request leaves per attempt: nothing in here may repeat it.

    A slot is taken by `reserve` and stays occupied until `release`, which the caller does when the
    outcome is durable. So what has begun is never more than what can be sent at once.
    """

    def room(self) -> int:
        """How many slots are free in all."""
        ...

    async def wait_for_room(self, max_wait: float) -> int:
        """Wait until a slot is free, or for `max_wait` seconds; returns how many are."""
        ...

    def reserve(self, destinations: Sequence[str]) -> list[bool]:
        """Take a slot for each destination that has one free (in all, and for its host)."""
        ...

    def release(self, destinations: Sequence[str]) -> None:
        """Free the slots again."""
        ...

    async def start(self, batch: Sequence[Request]) -> None:
        """Take the requests over. Returns at once; each will appear in `completed`."""
        ...

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """Answers, as soon as there are some: waits `max_wait` for the first, then gathers for a few milliseconds."""
        ...

    async def close(self) -> None:
        """Close connections. Requests under way are cut, and complete as SOME unless nothing had left."""
        ...


class Provider(Protocol):
    """One configured provider: pure functions around its declared capabilities. No I/O."""

    name: str
    kind: str
    channel: str
    timeout_seconds: float

    def capabilities(self, destination: str) -> Capabilities:
        """What the receiver behind this destination promises."""
        ...

    def rate(self, destination: str) -> float | None:
        """The allowance per second of the destination's endpoint; None: no limit."""
        ...

    def freeze(self, row: Claimed, content: Content, now: datetime) -> Frozen:
        """The bytes to send. Raises Unrenderable if this row can never be sent."""
        ...

    def request(self, frozen: Frozen, attempt: Attempt) -> HttpRequest | Mail:
        """The frozen bytes with what belongs to the attempt: timestamp, signature, credentials."""
        ...

    def classify(self, answer: Answer, now: datetime) -> Result:
        """The outcome that the answer proves. `now` is for Retry-After dates."""
        ...

    def look(self, row: Doubtful, by: LookKind, now: datetime) -> HttpRequest:
        """The GET that asks for a delivery in one of the ways that its capabilities declare, signed at `now`.

        Raises LookupError for a way that they do not declare: a bug of the caller.
        """
        ...

    def seen(self, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:
        """What the answer to `look` proves; a search matches the row's own bytes. Never raises."""
        ...


class Templates(Protocol):
    """Compiled templates."""

    def render(self, row: Claimed) -> Content:
        """Render the row's template, in the version that the row is pinned to; without one, in the current one.

        Raises Unrenderable, with the reason that views show; VersionUnknown if that version is not at hand.
        """
        ...


class Claims(Protocol):
    """Claimed rows, one batch ahead of the sender."""

    async def take(self, limit: int, max_wait: float) -> Batch | None:
        """The next batch, or None if nothing came within `max_wait` seconds."""
        ...
