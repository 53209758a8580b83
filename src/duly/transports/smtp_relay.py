"""The mail server that the operator chose: where it is, what it must prove, and how long it may take."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

__all__ = ["Relay", "Security"]

#: What the operator demands: nothing (STARTTLS is used where it is offered), STARTTLS, or TLS from the first byte.
Security = Literal["none", "starttls", "tls"]


@dataclass(frozen=True)
class Relay:
    """Where mail is handed over, and how long that may take."""

    host: str
    port: int
    security: Security
    username: str | None
    password: str | None = field(repr=False)
    timeout_seconds: float
    connect_timeout_seconds: float

    @cached_property
    def verifying(self) -> ssl.SSLContext:
        """TLS with verified certificates. The environment's SSL_CERT_FILE adds a private authority."""
        return ssl.create_default_context()

    @cached_property
    def unverifying(self) -> ssl.SSLContext:
        """TLS for a relay on this machine, whose certificate nobody signs and where nobody stands between."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
