"""Standard Webhooks: how a message is signed, and how a receiver checks it.

The signed text is `id.timestamp.body`; the signature is its HMAC-SHA256 in base64, marked `v1`. The
header is a list, parted by spaces: while a secret is being changed both sign, and one match is enough.
The timestamp is the attempt's, so every attempt has its own signature over the same body.
Rule: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

A secret is `whsec_` and base64 of 24 to 64 random bytes. It never appears in an error or a `repr`.
The asymmetric kind (`v1a`, keys that begin `whsk_`) is not supported; verifying skips such entries.
"""

from __future__ import annotations

import binascii
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from duly.errors import ConfigError

__all__ = ["SigningKey", "parse_secret", "sign", "verify"]

PREFIX: Final = "whsec_"
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
#: "Some allowable tolerance" in the specification; its libraries take five minutes, either way.
TOLERANCE_SECONDS: Final = 300.0
SIGNATURES_MAX: Final = 16
TIMESTAMP_DIGITS_MAX: Final = 12

_MAKE_ONE: Final = 'make one with: echo "whsec_$(openssl rand -base64 32)"'


class SigningKey:
    """A signing key that does not show itself."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "SigningKey(...)"

    def signature(self, signed: bytes) -> bytes:
        """The entry for the signature header: `v1,` and base64 of the HMAC."""
        return b"v1," + binascii.b2a_base64(hmac.digest(self._key, signed, "sha256"), newline=False)


def parse_secret(text: str, field: str) -> SigningKey:
    """Read `whsec_...`, padded or not. Raises ConfigError, which names `field` and never the secret."""
    text = text.strip()
    if not text.startswith(PREFIX):
        raise ConfigError(f"{field}: a signing secret begins with {PREFIX}; {_MAKE_ONE}")
    key = _decode(text.removeprefix(PREFIX))
    if key is None:
        raise ConfigError(f"{field}: what follows {PREFIX} is not base64; copy the secret again, or {_MAKE_ONE}")
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        size = f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
        raise ConfigError(f"{field}: a signing secret holds {size}, this one {len(key)}; {_MAKE_ONE}")
    return SigningKey(key)


def sign(secrets: Sequence[SigningKey], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one entry per secret. `timestamp` is in seconds since 1970."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return b" ".join([secret.signature(signed) for secret in secrets]).decode()


def verify(
    secrets: Sequence[SigningKey],
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> bool:
    """Whether one of the secrets signed this message, at a time near `now` (seconds since 1970).

    `headers` have lower-case names. Any text in them is judged, none raises.
    """
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or "." in message_id or not _is_near(timestamp, now, tolerance_seconds):
        return False
    signed = b".".join((_raw(message_id), _raw(timestamp), body))
    given = _raw(headers.get("webhook-signature", "")).split(b" ")[:SIGNATURES_MAX]
    # No early end: how long it takes says nothing about which entry was right.
    matches = [hmac.compare_digest(secret.signature(signed), entry) for secret in secrets for entry in given]
    return any(matches)


def _decode(text: str) -> bytes | None:
    bare = text.rstrip("=")
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4), strict_mode=True)
    except ValueError:
        return None


def _is_near(timestamp: str, now: float, tolerance_seconds: float) -> bool:
    digits = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= TIMESTAMP_DIGITS_MAX
    return digits and abs(int(timestamp) - now) <= tolerance_seconds


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "replace")
