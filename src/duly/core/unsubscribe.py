"""One-click unsubscription: links that anybody may follow, and only we can make (RFC 8058).

A token names a contact (an address of one account) and a purpose, and proves by an HMAC-SHA256 that it is
ours: whoever holds the mail may opt that address out, and nobody can make a token for another. It holds no
address. It never expires, because a mail may be read years later and the wish still counts. Its first byte is
its version; a token is read by any of several secrets, so that they can be rotated: the first makes new ones,
and one may go when no mail that it signed can matter any more.

    token = base64url(version, length of contact, contact, purpose, HMAC-SHA256 over what precedes)

What is wrong with a token is not said, so that nobody learns from it.
Sources: https://www.rfc-editor.org/rfc/rfc8058 (the two headers), https://www.rfc-editor.org/rfc/rfc2104 (HMAC).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from duly.core import keys
from duly.core.model import Claimed

__all__ = ["SECRET_BYTES_MIN", "TOKEN_CHARACTERS_MAX", "Links", "read_token", "token"]

SECRET_BYTES_MIN: Final = 16  # RFC 2104, 3 strongly discourages less than the hash has; this is half of it
TOKEN_CHARACTERS_MAX: Final = 512

VERSION: Final = 1
HEAD_BYTES: Final = 2  # version, length of contact
MAC_BYTES: Final = 32
#: What is signed cannot be mistaken for anything else that the same secret may sign.
_DOMAIN: Final = b"duly unsubscribe\0"


@dataclass(frozen=True, slots=True)
class Links:
    """What makes an installation's links. `url` is https and has no query, `secret` the newest one.

    Only rows of these `purposes` get one: what a person has to be told cannot be unsubscribed from.
    """

    url: str
    secret: bytes = field(repr=False)
    purposes: frozenset[str]
    namespace: str

    def of(self, row: Claimed) -> str | None:
        """The link of a row's contact and purpose, the same on every attempt; None if its purpose has none."""
        if row.purpose not in self.purposes:
            return None
        contact = keys.contact_id(self.namespace, row.account, row.channel, row.address)
        return f"{self.url}/{token(self.secret, contact, row.purpose)}"


def token(secret: bytes, contact: bytes, purpose: str) -> str:
    """The token of a contact's id and a purpose, of `[A-Za-z0-9_-]`. Raises ValueError if it would be too long."""
    signed = bytes((VERSION, len(contact))) + contact + purpose.encode()
    shown = _shown(signed + _mac(secret, signed))
    if len(shown) > TOKEN_CHARACTERS_MAX:
        raise ValueError("the purpose is too long for a token")
    return shown


def read_token(secrets: Sequence[bytes], token: str) -> tuple[bytes, str]:
    """Contact and purpose of a token that one of the secrets made. Raises ValueError for anything else."""
    try:
        signed, mac = _opened(token)
    except ValueError:
        raise ValueError("not a token of ours") from None
    proofs = [hmac.compare_digest(mac, _mac(secret, signed)) for secret in secrets]  # all, so that time tells nothing
    if True not in proofs:
        raise ValueError("not a token of ours")
    end = HEAD_BYTES + signed[1]
    return signed[HEAD_BYTES:end], signed[end:].decode()


def _opened(token: str) -> tuple[bytes, bytes]:
    """What was signed, and the proof. A token has one spelling. Raises ValueError."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise ValueError
    raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    if _shown(raw) != token or len(raw) < HEAD_BYTES + MAC_BYTES or raw[0] != VERSION:
        raise ValueError
    return raw[:-MAC_BYTES], raw[-MAC_BYTES:]


def _shown(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _mac(secret: bytes, signed: bytes) -> bytes:
    return hmac.digest(secret, _DOMAIN + signed, "sha256")
