"""From a claimed row to a signed request, for the one template that the benchmark uses."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

__all__ = ["SUBJECT", "TEMPLATE", "TEXT", "Message", "Row", "Signer", "freeze"]

TEMPLATE: Final = "inspection"
SUBJECT: Final = "Inspection on {{ data.day }}"
TEXT: Final = "Hello {{ recipient.name }}, we visit unit {{ data.unit }} at {{ data.time }}."


class Row(NamedTuple):
    """A claimed delivery, in the order of the ledgers' `claim`."""

    id: bytes
    fence: int
    account_revision: int
    reminder_revision: int
    recipient_revision: int
    contact_revision: int
    reminder_id: bytes
    recipient_id: bytes
    contact_id: bytes
    account: str
    key: str
    occurrence: str
    due_at: datetime
    address: str
    ref: str
    name: str
    data: dict[str, Any]


class Message(NamedTuple):
    """A row with its frozen bytes, and the number of its attempt once that has begun."""

    row: Row
    shown: str
    body: bytes
    hash: bytes
    number: int = 0


def freeze(row: Row) -> Message:
    """The body, byte for byte the one that `duly work` sends."""
    shown = base64.b32encode(row.id).decode().rstrip("=").lower()
    due_at = row.due_at.isoformat()[:19] + "Z"
    data = row.data
    body = orjson.dumps(
        {
            "type": "reminder.due",
            "timestamp": due_at,
            "data": {
                "delivery": shown,
                "reminder": row.key,
                "account": row.account,
                "occurrence": row.occurrence,
                "due_at": due_at,
                "late": False,
                "recipient": {"id": row.ref},
                "template": TEMPLATE,
                "subject": f"Inspection on {data['day']}",
                "text": f"Hello {row.name}, we visit unit {data['unit']} at {data['time']}.",
                "data": data,
            },
        }
    )
    return Message(row, shown, body, hashlib.sha256(body).digest())


class Signer:
    """The headers of an attempt: Standard Webhooks' three, and the key once more."""

    def __init__(self, secret: str) -> None:
        self._key = base64.b64decode(secret.removeprefix("whsec_"))

    def headers(self, message: Message, seconds: int) -> list[str]:
        """Header lines. `seconds` is the attempt's time, since 1970."""
        signed = b"%b.%d.%b" % (message.shown.encode(), seconds, message.body)
        signature = binascii.b2a_base64(hmac.digest(self._key, signed, "sha256"), newline=False).decode()
        return [
            "content-type: application/json",
            f"webhook-id: {message.shown}",
            f"webhook-timestamp: {seconds}",
            f"webhook-signature: v1,{signature}",
            f"idempotency-key: {message.shown}",
            "Expect:",
        ]
