"""What an exception under an SMTP connection is evidence of.

The table names every exception of aiosmtplib; a test walks the library's tree and fails when one is missing. Those
of the layers below (names, TLS, sockets) are found by their base class. What is in neither is a broken protocol.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

import aiosmtplib

__all__ = ["FAILURES", "kind_of", "words_of"]

#: Every exception of aiosmtplib, and what it is evidence of. "reply": the server answered, with a code.
FAILURES: Final[dict[type[BaseException], str]] = {
    aiosmtplib.SMTPException: "protocol",
    aiosmtplib.SMTPNotSupported: "protocol",
    aiosmtplib.SMTPRecipientsRefused: "protocol",
    aiosmtplib.SMTPServerDisconnected: "reset",
    aiosmtplib.SMTPTimeoutError: "timeout",
    aiosmtplib.SMTPConnectTimeoutError: "timeout",
    aiosmtplib.SMTPReadTimeoutError: "timeout",
    aiosmtplib.SMTPConnectError: "connect",
    aiosmtplib.SMTPResponseException: "reply",
    aiosmtplib.SMTPConnectResponseError: "reply",
    aiosmtplib.SMTPHeloError: "reply",
    aiosmtplib.SMTPDataError: "reply",
    aiosmtplib.SMTPAuthenticationError: "reply",
    aiosmtplib.SMTPSenderRefused: "reply",
    aiosmtplib.SMTPRecipientRefused: "reply",
    # and what the layers below it raise
    socket.gaierror: "dns",
    ssl.SSLError: "tls",
    TimeoutError: "timeout",
    OSError: "reset",
}


def kind_of(error: BaseException) -> tuple[str, BaseException]:
    """What an exception is evidence of, and the exception that says it best."""
    cause = error.__cause__
    if type(error) is aiosmtplib.SMTPConnectError and isinstance(cause, OSError):
        kind = _listed(cause)
        return (kind if kind in ("dns", "tls", "timeout") else "connect"), cause
    return _listed(error), error


def _listed(error: BaseException) -> str:
    return next((FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES), "protocol")


def words_of(error: BaseException) -> str:
    """The words of an exception about the connection. Others may quote an address: their name must do."""
    if isinstance(error, OSError):
        return " ".join(str(error).split()) or type(error).__name__
    return str(error) if type(error) is aiosmtplib.SMTPException else type(error).__name__
