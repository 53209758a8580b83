"""Identity: every id is derived, none is random.

A lost row that is created again is then the same row, under the same idempotency key, and a provider
that saw the first sees a repeat. An id is SHA-256 over length-prefixed parts, cut to 128 bits, stored
as 16 bytes and shown as base32 (RFC 4648, lower case, no padding): 26 characters that every
provider's idempotency header takes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

__all__ = [
    "NO_ENDPOINT",
    "contact_id",
    "delivery_id",
    "derive",
    "endpoint_id",
    "parse",
    "payload_hash",
    "recipient_id",
    "reminder_id",
    "show",
]

ID_BYTES: Final = 16
SHOWN_CHARACTERS: Final = 26
#: The endpoint of a provider that has only one (SMTP).
NO_ENDPOINT: Final = bytes(ID_BYTES)

ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
#: Two characters at a time: showing an id is done twice for every delivery.
PAIRS: Final = tuple(first + second for first in ALPHABET for second in ALPHABET)
SHIFTS: Final = tuple(range(120, -1, -10))


def derive(*parts: str) -> bytes:
    """Hash the parts, each prefixed by its length in bytes, so that ("a", "bc") is not ("ab", "c")."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8")
        digest.update(len(raw).to_bytes(4, "big"))
        digest.update(raw)
    return digest.digest()[:ID_BYTES]


def reminder_id(namespace: str, account: str, key: str) -> bytes:
    """The id of a reminder, from the caller's idempotency key."""
    return derive(namespace, account, key)


def delivery_id(namespace: str, account: str, key: str, occurrence: str, channel: str) -> bytes:
    """The id of one occurrence on one channel. It is the idempotency key at the provider."""
    return derive(namespace, account, key, occurrence, channel)


def recipient_id(namespace: str, account: str, ref: str) -> bytes:
    """The id of a recipient, from the caller's own name for it."""
    return derive(namespace, "recipient", account, ref)


def contact_id(namespace: str, account: str, channel: str, address: str) -> bytes:
    """The id of a normalised address of one account.

    A mailbox is the same however its name's case is written: RFC 5321, 2.4 lets a server tell them apart, and none that
    people use does. So what one of them was told, an opt-out above all, holds for the other.
    """
    return derive(namespace, "contact", account, channel, address.lower() if channel == "email" else address, "")


def endpoint_id(namespace: str, url: str) -> bytes:
    """The id of a webhook endpoint: it has its own budget, circuit and secret."""
    return derive(namespace, "endpoint", url)


def payload_hash(body: bytes) -> bytes:
    """SHA-256 of the frozen bytes, 32 bytes."""
    return hashlib.sha256(body).digest()


def show(identity: bytes) -> str:
    """The 26 characters that people and providers see."""
    number = int.from_bytes(identity, "big") << 2  # 128 bits are 26 characters of 5, and 2 bits to spare
    return "".join([PAIRS[number >> shift & 1023] for shift in SHIFTS])


def parse(shown: str) -> bytes | None:
    """The 16 bytes behind a shown id, or None if the text is not one."""
    if len(shown) != SHOWN_CHARACTERS or not shown.isascii():
        return None
    try:
        return base64.b32decode(shown.upper() + "======")
    except binascii.Error:
        return None
