"""Asking a webhook receiver for a delivery: a GET, and what its answer proves.

A receiver that keeps what it accepted may say so, and name a URL with the place of the delivery's id in it. It
answers 200 for a delivery that it has accepted and 404 for one that it has not; whatever else it answers proves
nothing. A 404 is no proof yet either: the request may be on its way still, so the ladder waits for the receiver's
settling time before a miss counts, and asks twice.

The question is signed like a message, over an empty body, so that the receiver knows who asks. Its `webhook-id`
is its own, and never that of the message or of an earlier question: a receiver that drops what it has seen before
would take one for the other, answer 200, and prove what is not so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

import orjson

from duly.core import retry_after
from duly.core.model import Look
from duly.core.text import one_line
from duly.ports import Answer, HttpRequest, Sent
from duly.providers.standard_webhooks import SigningKey, sign

__all__ = ["BY_STATUS", "DELIVERY", "HEEDS_RETRY_AFTER", "REQUEST_ID_CHARACTERS_MAX", "proved", "question"]

#: Where the delivery's id stands in a look-up's URL.
DELIVERY: Final = "{delivery}"
QUESTION: Final = "lookup"
#: Whether the receiver has it. A status that is not named here proves nothing.
BY_STATUS: Final[Mapping[int, bool]] = MappingProxyType({200: True, 404: False})
HEEDS_RETRY_AFTER: Final = frozenset({429, 503})
REQUEST_ID_CHARACTERS_MAX: Final = 128
BODY_BYTES_MAX: Final = 64 * 1024


def question(url: str, key: str, secrets: Sequence[SigningKey], now: datetime) -> HttpRequest:
    """The GET that asks for the delivery of that key; `url` holds its place."""
    timestamp = int(now.timestamp())
    question_id = f"{QUESTION}_{key}_{timestamp}"
    headers = (
        ("accept", "application/json"),
        ("webhook-id", question_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", sign(secrets, question_id, timestamp, b"")),
    )
    return HttpRequest(url.replace(DELIVERY, key), headers, b"", "GET")


def proved(answer: Answer, now: datetime) -> Look:
    """Found, not there, or nothing, and then when to ask again if the receiver says so. Never raises."""
    if answer.sent is Sent.NOTHING or answer.status is None:
        return Look(None)
    found = BY_STATUS.get(answer.status)
    if found is None:
        return Look(None, retry_after=_wish(answer, now))
    return Look(found, _request_id(answer.body) if found else None)


def _wish(answer: Answer, now: datetime) -> float | None:
    if answer.status not in HEEDS_RETRY_AFTER:
        return None
    return retry_after.parse(answer.headers.get("retry-after", ""), now)


def _request_id(body: bytes) -> str | None:
    """The receiver's own name for the delivery, if its answer is a JSON object with the text `id`."""
    if len(body) > BODY_BYTES_MAX:
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    given = document.get("id") if isinstance(document, dict) else None
    return (one_line(given, REQUEST_ID_CHARACTERS_MAX) or None) if isinstance(given, str) else None
