"""A provider for every promise: what the adapter of a simulated receiver makes of requests and answers.

It is honest and plain: an answer proves exactly what the receiver means by it. Every request carries its
attempt's number, so that what left can be compared with the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from duly.core import keys
from duly.core.model import (
    Attempt,
    Capabilities,
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
from duly.ports import Answer, HttpRequest, Sent

__all__ = ["SimProvider"]

_BY_STATUS: Final[Mapping[int, tuple[Outcome, FailureClass | None]]] = MappingProxyType(
    {
        200: (Outcome.ACCEPTED, None),
        401: (Outcome.REFUSED, FailureClass.AUTH),
        404: (Outcome.REFUSED, FailureClass.CONFIG),
        409: (Outcome.REJECTED, FailureClass.CONTENT_REJECTED),
        410: (Outcome.REJECTED, FailureClass.INVALID_DESTINATION),
        429: (Outcome.REFUSED, FailureClass.RATE_LIMITED),
        503: (Outcome.REFUSED, FailureClass.PROVIDER_DOWN),
    }
)
_NOTHING_LEFT: Final = MappingProxyType({"too_late": FailureClass.TOO_LATE})
_SOME_LEFT: Final = MappingProxyType({"timeout": FailureClass.TIMEOUT, "reset": FailureClass.CONNECTION})
_FOUND: Final[Mapping[int | None, bool]] = MappingProxyType({200: True, 404: False})


@dataclass(slots=True)
class SimProvider:
    """ports.Provider in front of one receiver."""

    name: str
    channel: str
    promise: Capabilities
    timeout_seconds: float
    allowance: float | None = None  # per second
    kind: str = field(default="simulated", init=False)

    def capabilities(self, destination: str) -> Capabilities:  # noqa: ARG002 - the port's signature
        """See Provider.capabilities."""
        return self.promise

    def rate(self, destination: str) -> float | None:  # noqa: ARG002 - the port's signature
        """See Provider.rate."""
        return self.allowance

    def freeze(self, row: Claimed, content: Content, now: datetime) -> Frozen:  # noqa: ARG002 - the port's signature
        """See Provider.freeze."""
        return Frozen.of(row, content, json.dumps([keys.show(row.id), content.text]).encode())

    def request(self, frozen: Frozen, attempt: Attempt) -> HttpRequest:
        """See Provider.request."""
        headers = (
            ("idempotency-key", attempt.key),
            ("attempt", str(attempt.number)),
            ("destination", frozen.destination),
        )
        return HttpRequest(self._url("messages"), headers, frozen.body)

    def classify(self, answer: Answer, now: datetime) -> Result:  # noqa: ARG002 - Retry-After is in seconds here
        """See Provider.classify."""
        if answer.sent is Sent.NOTHING:
            return Result(Outcome.NOT_SENT, _NOTHING_LEFT.get(answer.error or "", FailureClass.CONNECTION))
        if answer.status is None:
            return Result(Outcome.UNKNOWN, _SOME_LEFT.get(answer.error or "", FailureClass.CONNECTION))
        outcome, failure = _BY_STATUS.get(answer.status, (Outcome.UNKNOWN, FailureClass.PROVIDER_DOWN))
        wait = answer.headers.get("retry-after")
        request_id = answer.headers.get("x-request-id")
        return Result(outcome, failure, answer.status, request_id, None if wait is None else float(wait))

    def look(self, row: Doubtful, by: LookKind, now: datetime) -> HttpRequest:  # noqa: ARG002 - nothing is signed
        """See Provider.look."""
        destination = row.frozen.destination if row.frozen else row.address
        headers = (("by", str(by)), ("value", _asked_for(row, by)), ("destination", destination))
        return HttpRequest(self._url("looks"), headers, b"", "GET")

    def seen(self, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:  # noqa: ARG002 - the port's
        """See Provider.seen."""
        found = _FOUND.get(answer.status)
        return Look(found, answer.headers.get("x-request-id") if found else None)

    def _url(self, place: str) -> str:
        return f"sim://{self.name}/{place}"


def _asked_for(row: Doubtful, by: LookKind) -> str:
    """Raises LookupError where the row has nothing to be asked for by."""
    match by:
        case LookKind.KEY:
            return keys.show(row.id)
        case LookKind.REQUEST_ID if row.request_id is not None:
            return row.request_id
        case LookKind.SEARCH if row.frozen is not None:
            return row.frozen.hash.hex()
    raise LookupError(f"nothing to ask for by {by}")
