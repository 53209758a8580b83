"""Webhooks: a signed POST to a URL that the recipient gave.

The body is frozen once and names the due time, so its bytes are the same on every attempt; timestamp
and signature belong to the attempt. Every URL is an endpoint of its own: its rate, its promise to drop
repeats and its secret may differ from the provider's, and a secret of its own is the only one that
signs there.

What an answer proves stands in two tables. A status that speaks of the endpoint (moved, not found, not
allowed, unpaid) is the operator's to mend: it refuses, and opens the endpoint's circuit, so that a
mistyped path costs no delivery. A status that speaks of this message rejects it. A server's error says
neither: the message may have been taken, unless the server says when to come back. A receiver that can be
asked afterwards declares it, see `webhook_lookup`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from duly.core import keys, retry_after
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
from duly.errors import ConfigError, Unrenderable
from duly.ports import Answer, HttpRequest, Sent
from duly.providers.standard_webhooks import SigningKey, sign
from duly.providers.webhook_lookup import DELIVERY, REQUEST_ID_CHARACTERS_MAX, proved, question

__all__ = [
    "BY_HUNDRED",
    "BY_STATUS",
    "NOTHING_LEFT",
    "SOME_LEFT",
    "WITH_RETRY_AFTER",
    "Endpoint",
    "Verdict",
    "WebhookProvider",
]

T = TypeVar("T")

BODY_BYTES_MAX: Final = 256 * 1024
EXCERPT_CHARACTERS_MAX: Final = 300
UTF8_BYTES_PER_CHARACTER_MAX: Final = 4
#: How a body says that it comes after its deadline; then these headers say so too.
LATE_MARK: Final = b'"late":true'
LATE_HEADERS: Final = (("duly-late", "true"),)
#: What may stand in a request line: no space, no control character, nothing beyond ASCII.
PLAIN_URL: Final = re.compile(r"https?://[!-~]+", re.IGNORECASE)


class Verdict(NamedTuple):
    """What an answer proves."""

    outcome: Outcome
    failure: FailureClass | None = None


_ACCEPTED: Final = Verdict(Outcome.ACCEPTED)
_AUTH: Final = Verdict(Outcome.REFUSED, FailureClass.AUTH)
_CONFIG: Final = Verdict(Outcome.REFUSED, FailureClass.CONFIG)
_TEMPORARY: Final = Verdict(Outcome.REFUSED, FailureClass.TEMPORARY)
_BUSY: Final = Verdict(Outcome.REFUSED, FailureClass.RATE_LIMITED)
_CLOSED_FOR_NOW: Final = Verdict(Outcome.REFUSED, FailureClass.PROVIDER_DOWN)
_GONE: Final = Verdict(Outcome.REJECTED, FailureClass.CONSENT_REVOKED)
_BAD_CONTENT: Final = Verdict(Outcome.REJECTED, FailureClass.CONTENT_REJECTED)
_BAD_ADDRESS: Final = Verdict(Outcome.REJECTED, FailureClass.INVALID_DESTINATION)
_BROKEN: Final = Verdict(Outcome.UNKNOWN, FailureClass.PROVIDER_DOWN)
_CUT: Final = Verdict(Outcome.UNKNOWN, FailureClass.CONNECTION)
_SILENT: Final = Verdict(Outcome.UNKNOWN, FailureClass.TIMEOUT)

#: Statuses that say more than their hundred does (RFC 9110, section 15; RFC 6585; RFC 8470 for 425).
BY_STATUS: Final[Mapping[int, Verdict]] = MappingProxyType(
    {
        401: _AUTH,
        402: _CONFIG,  # the receiver's host has shut the endpoint
        403: _AUTH,
        404: _CONFIG,
        405: _CONFIG,  # POST is not allowed there: a wrong path
        407: _CONFIG,  # a proxy on the way
        408: _TEMPORARY,  # the server did not get the whole request
        410: _GONE,  # Standard Webhooks: the endpoint wants no more
        421: _CONFIG,  # a server that does not serve this host
        425: _TEMPORARY,
        426: _CONFIG,
        429: _BUSY,
    }
)
BY_HUNDRED: Final[Mapping[int, Verdict]] = MappingProxyType({2: _ACCEPTED, 3: _CONFIG, 4: _BAD_CONTENT, 5: _BROKEN})
#: A server that says when to come back has not taken the message.
WITH_RETRY_AFTER: Final[Mapping[int, Verdict]] = MappingProxyType({503: _CLOSED_FOR_NOW})
HEEDS_RETRY_AFTER: Final = frozenset({408, 425, 429, 503})

_NO_CONNECTION: Final = Verdict(Outcome.NOT_SENT, FailureClass.CONNECTION)
#: No byte left, and what the transport calls the error. An error not named here is a failed connection.
NOTHING_LEFT: Final[Mapping[str, Verdict]] = MappingProxyType(
    {
        "dns": _NO_CONNECTION,
        "connect": _NO_CONNECTION,
        "tls": _NO_CONNECTION,
        "reset": _NO_CONNECTION,
        "protocol": _NO_CONNECTION,
        "timeout": Verdict(Outcome.NOT_SENT, FailureClass.TIMEOUT),
        "too_late": Verdict(Outcome.NOT_SENT, FailureClass.TOO_LATE),
        "refused_address": _BAD_ADDRESS,
    }
)
#: Some of it left, and no answer came. An error not named here is a connection that broke.
SOME_LEFT: Final[Mapping[str, Verdict]] = MappingProxyType({"timeout": _SILENT, "reset": _CUT, "protocol": _CUT})
_PRIVATE_ADDRESS: Final = (
    "the host is an address inside a private network; set allow_private_networks = true if it is meant"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What differs for one receiver. None: as the provider says."""

    name: str
    secrets: Sequence[SigningKey] | None = None
    rate_per_second: float | None = None
    deduplicates: bool | None = None
    key_window: timedelta | None = None
    lookup_url: str | None = None  # empty: it cannot be asked, whatever the provider says
    settling: timedelta | None = None


class _Terms(NamedTuple):
    """What holds for one destination."""

    secrets: Sequence[SigningKey]
    rate: float | None
    lookup_url: str  # empty: it cannot be asked
    capabilities: Capabilities


@dataclass(slots=True)
class WebhookProvider:
    """A configured webhook provider. `endpoints` go by their URL, written as the address is.

    `deduplicates` is the receivers' promise to drop a repeated `webhook-id` for `key_window`. `lookup_url` is their
    promise to say there what they have accepted, `settling` after it was sent; it holds `{delivery}` once.
    Raises ConfigError if nothing would sign, or if a look-up would not say what it asks for.
    """

    name: str
    secrets: Sequence[SigningKey]
    timeout_seconds: float = 10.0
    rate_per_second: float | None = None
    deduplicates: bool = False
    key_window: timedelta = timedelta(days=1)
    lookup_url: str = ""
    settling: timedelta = timedelta(seconds=60)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    idempotency_key_quoted: bool = False  # as the IETF draft writes it; most receivers expect it bare
    kind: str = field(default="webhook", init=False)
    channel: str = field(default="webhook", init=False)
    _default: _Terms = field(init=False, repr=False)
    _terms: dict[str, _Terms] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._default = self._terms_of(Endpoint(self.name), f"providers.{self.name}")
        self._terms = {url: self._terms_of(one, f"endpoints.{one.name}") for url, one in self.endpoints.items()}

    def capabilities(self, destination: str) -> Capabilities:
        """What the receiver at this URL promises."""
        return self._terms_at(destination).capabilities

    def rate(self, destination: str) -> float | None:
        """The endpoint's allowance per second; None: no limit."""
        return self._terms_at(destination).rate

    def freeze(self, row: Claimed, content: Content, now: datetime) -> Frozen:  # noqa: ARG002  the port's signature
        """The JSON body, the same for the same row and content whatever the time.

        Raises Unrenderable if the address is no URL that a request line may hold, if the data is no JSON,
        or if the body is too large.
        """
        _check_address(row.address)
        body = _body(row, content)
        return Frozen.of(row, content, body)

    def request(self, frozen: Frozen, attempt: Attempt) -> HttpRequest:
        """The frozen body under the delivery's key, signed for this attempt by the endpoint's secrets."""
        secrets = self._terms_at(frozen.destination).secrets
        timestamp = int(attempt.now.timestamp())
        headers = (
            ("content-type", "application/json"),
            ("webhook-id", attempt.key),
            ("webhook-timestamp", str(timestamp)),
            ("webhook-signature", sign(secrets, attempt.key, timestamp, frozen.body)),
            ("idempotency-key", f'"{attempt.key}"' if self.idempotency_key_quoted else attempt.key),
            *(LATE_HEADERS if _is_late(frozen.body) else ()),
        )
        return HttpRequest(frozen.destination, headers, frozen.body)

    def classify(self, answer: Answer, now: datetime) -> Result:
        """What the answer proves: first how much had left, then the status. Never raises."""
        if answer.sent is Sent.NOTHING:
            return _failed(answer, NOTHING_LEFT.get(answer.error or "", _NO_CONNECTION))
        if answer.status is None:
            return _failed(answer, SOME_LEFT.get(answer.error or "", _CUT))
        return _answered(answer, answer.status, now)

    def look(self, row: Doubtful, by: LookKind, now: datetime) -> HttpRequest:
        """The GET that asks the receiver for a delivery by our key.

        Raises LookupError if the receiver cannot be asked so: a bug of the caller.
        """
        terms = self._terms_at(row.frozen.destination if row.frozen else row.address)
        if by is not LookKind.KEY or not terms.lookup_url:
            raise LookupError(f"{self.name}: this receiver cannot be asked by {by}")
        return question(terms.lookup_url, keys.show(row.id), terms.secrets, now)

    def seen(self, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:  # noqa: ARG002  the port's
        """What the answer to `look` proves. Never raises."""
        return proved(answer, now)

    def _terms_at(self, destination: str) -> _Terms:
        return self._terms.get(destination, self._default)

    def _terms_of(self, one: Endpoint, section: str) -> _Terms:
        """One destination's terms: its own where it has some, else the provider's."""
        secrets = _own(one.secrets, self.secrets)
        lookup_url = _own(one.lookup_url, self.lookup_url)
        if not secrets:
            raise ConfigError(f"{section}.secret: there is none, so nothing would sign; set a whsec_... secret")
        if lookup_url and lookup_url.count(DELIVERY) != 1:
            raise ConfigError(f"{section}.lookup_url: {DELIVERY} must stand in it once, where the delivery's id goes")
        window = _own(one.key_window, self.key_window) if _own(one.deduplicates, self.deduplicates) else None
        settling = _own(one.settling, self.settling) if lookup_url else None
        rate = _own(one.rate_per_second, self.rate_per_second)
        return _Terms(tuple(secrets), rate, lookup_url, _capabilities(window, settling))


def _own(own: T | None, default: T) -> T:
    """What an endpoint says, else what its provider does."""
    return default if own is None else own


def _capabilities(keyed_for: timedelta | None, settling: timedelta | None) -> Capabilities:
    """A receiver's request id names a request, not the message: two of them prove no second message."""
    return Capabilities(
        Channel.WEBHOOK,
        keyed_for=keyed_for,
        key_scope=("endpoint",),
        lookup_by_key=settling is not None,
        settling=settling,
        names_message=False,
    )


# --- freeze --------------------------------------------------------------------------------------


def _check_address(address: str) -> None:
    if PLAIN_URL.fullmatch(address) is None:
        raise Unrenderable("the webhook address is not a plain http or https URL; correct the recipient's address")


def _body(row: Claimed, content: Content) -> bytes:
    try:
        body = orjson.dumps(_document(row, content))
    except orjson.JSONEncodeError as error:
        raise Unrenderable(f"the webhook's body cannot be JSON ({error}); correct the reminder's data") from None
    if len(body) > BODY_BYTES_MAX:
        raise Unrenderable(f"the webhook's body has {len(body)} bytes, {BODY_BYTES_MAX} are allowed; shorten the data")
    return body


def _is_late(body: bytes) -> bool:
    """Whether these bytes say so. Headers follow the frozen bytes, so that every attempt has the same."""
    return LATE_MARK in body and bool(orjson.loads(body)["data"]["late"])  # the mark may also be somebody's data


def _document(row: Claimed, content: Content) -> dict[str, Any]:
    due_at = row.due_at.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"
    return {
        "type": "reminder.due",
        "timestamp": due_at,
        "data": {
            "delivery": keys.show(row.id),
            "reminder": row.reminder_key,
            "account": row.account,
            "occurrence": row.occurrence,
            "due_at": due_at,
            "late": row.late is not None,
            "recipient": {"id": row.recipient_ref},
            "template": row.template,
            "subject": content.subject,
            "text": content.text,
            "data": row.data,
        },
    }


# --- classify ------------------------------------------------------------------------------------


def _failed(answer: Answer, verdict: Verdict) -> Result:
    """No answer. A refused address is an end, not a failure: it would be refused again."""
    detail = _PRIVATE_ADDRESS if verdict is _BAD_ADDRESS else _detail(answer)
    return Result(*verdict, detail=detail)


def _answered(answer: Answer, status: int, now: datetime) -> Result:
    verdict = BY_STATUS.get(status) or BY_HUNDRED.get(status // 100, _CUT)
    request_id = _request_id(answer.headers)
    if verdict is _ACCEPTED:
        return Result(Outcome.ACCEPTED, http_status=status, request_id=request_id)
    wait = retry_after.parse(answer.headers.get("retry-after", ""), now) if status in HEEDS_RETRY_AFTER else None
    if wait is not None:
        verdict = WITH_RETRY_AFTER.get(status, verdict)
    detail = _detail(answer) if answer.error else None
    return Result(*verdict, status, request_id, wait, _excerpt(answer.body), detail)


def _request_id(headers: Mapping[str, str]) -> str | None:
    given = headers.get("x-request-id") or headers.get("request-id")
    return _plain(given, REQUEST_ID_CHARACTERS_MAX) if given else None


def _detail(answer: Answer) -> str | None:
    return _plain(f"{answer.error or 'no answer'}: {answer.detail}".rstrip(": "), EXCERPT_CHARACTERS_MAX)


def _excerpt(body: bytes) -> str | None:
    start = body[: EXCERPT_CHARACTERS_MAX * UTF8_BYTES_PER_CHARACTER_MAX]
    return _plain(start.decode("utf-8", "replace"), EXCERPT_CHARACTERS_MAX)


def _plain(text: str, characters_max: int) -> str | None:
    """The text without what cannot be printed (NUL, lone surrogates, controls), cut; None if nothing is left."""
    start = text[:characters_max]
    if not start.isprintable():
        start = "".join(one if one.isprintable() else " " for one in start)
    return start.strip() or None
