"""One SMTP connection: a transaction step by step, and the evidence of where it stopped.

A message belongs to the server from the moment it may have read the final dot (RFC 5321, 4.2.5 and 6.1; RFC 1047
tells of the duplicates). So each step names its phase before it writes, and whatever ends the attempt is judged
by that phase: before `dot` nothing was taken, in `dot` something may have been, and a reply is an answer in any
phase. aiosmtplib does the lines and replies; its convenience calls, which resend, retry or hide the step, are
not used. Nothing here repeats a transaction.

A reply that comes before it was asked for would be taken for the next one, in the worst case a "250" for a dot
that the server never answered. So a connection that holds unread text between two steps is cut.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast

import aiosmtplib

from duly.ports import Answer, Mail, Sent
from duly.transports.smtp_failures import kind_of, words_of
from duly.transports.smtp_relay import Relay

__all__ = ["SmtpConnection", "transparent"]

#: The first digit of a reply (RFC 5321, 4.2.1).
DONE: Final = 2
GO_ON: Final = 3
NOT_NOW: Final = 4
NEVER: Final = 5

MESSAGES_PER_CONNECTION_MAX: Final = 100
PROBE_AFTER_SECONDS: Final = 1.0  # idle for longer: ask whether the server is still there
BETWEEN_TIMEOUT_SECONDS: Final = 5.0  # for RSET, NOOP and QUIT
REPLY_BYTES_MAX: Final = 2_048
DETAIL_CHARACTERS_MAX: Final = 200

ADDRESS: Final = re.compile(r"[^\x00-\x20\x7f<>]{1,254}")
ENVELOPE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")  # needs no xtext encoding (RFC 3461, 4)
FULL_HOST_NAME: Final = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
BARE_LINE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")


class _Parameters(NamedTuple):
    """What follows the addresses in MAIL and RCPT."""

    mail: list[bytes]
    rcpt: list[bytes]


class _Stopped(Exception):
    """The attempt ends here with an answer. `unusable`: so does the connection."""

    def __init__(self, answer: Answer, *, unusable: bool = False) -> None:
        self.answer = answer
        self.unusable = unusable


class SmtpConnection:
    """A connection to the relay, opened when it is needed and kept for the next message."""

    def __init__(self, relay: Relay, reading: Callable[[], float]) -> None:
        self._relay = relay
        self._reading = reading
        self._client: aiosmtplib.SMTP | None = None
        self._phase = "connect"
        self._half_done = False  # a transaction was begun and refused: RSET before the next
        self._messages = 0
        self._used_at = 0.0

    async def attempt(self, mail: Mail, start_before: float) -> Answer:
        """Make one attempt at one transaction. Never raises, except CancelledError: then call `cut`."""
        self._phase = "connect"
        try:
            async with asyncio.timeout(self._relay.timeout_seconds):
                return await self._transact(mail, start_before)
        except _Stopped as stop:
            if stop.unusable:
                self.abort()
            return stop.answer
        except Exception as error:  # noqa: BLE001 - whatever it is, the attempt must end as evidence
            answer = self._evidence(error)
            self.abort()
            return answer
        finally:
            self._used_at = self._reading()

    def cut(self) -> Answer:
        """End an attempt that is under way: the connection is cut, the answer says what may have left."""
        self.abort()
        return self._failed("reset", "cut when the transport was closed")

    async def quit(self) -> None:
        """Leave politely, or at least leave."""
        await self._ask_or_abort(b"QUIT", expected=221)
        self.abort()

    def abort(self) -> None:
        """Drop the connection at once. What was written and has not left will not leave."""
        client, self._client = self._client, None
        self._half_done = False
        if client is None:
            return
        transport = cast("asyncio.WriteTransport | None", client.transport)  # uvloop's are no subclass
        client.close()
        if transport is not None:
            transport.abort()  # close() alone would still flush

    # --- the transaction -------------------------------------------------------------------------

    async def _transact(self, mail: Mail, start_before: float) -> Answer:
        await self._be_ready()
        self._phase = "mail"
        content = transparent(mail.message)
        parameters = self._parameters(mail)
        self._in_time(start_before)
        self._messages += 1
        await self._step("mail", b"MAIL", b"FROM:<" + mail.sender.encode() + b">", *parameters.mail)
        self._half_done = True
        await self._step("rcpt", b"RCPT", b"TO:<" + mail.recipient.encode() + b">", *parameters.rcpt)
        await self._step("data", b"DATA", expected=GO_ON)
        self._in_time(start_before)
        return await self._send_content(content)

    def _parameters(self, mail: Mail) -> _Parameters:
        """What this message needs of the server and may ask of it. Stops the attempt where it cannot have it."""
        if not (ADDRESS.fullmatch(mail.sender) and ADDRESS.fullmatch(mail.recipient)):
            raise _Stopped(self._failed("protocol", "an address cannot be written into an SMTP command"))
        offered = self._smtp().esmtp_extensions
        parameters = _Parameters([], [])
        if "size" in offered:  # RFC 1870
            parameters.mail.append(b"SIZE=%d" % len(mail.message))
        if not mail.message.isascii():  # RFC 6152
            self._demand("8bitmime", offered)
            parameters.mail.append(b"BODY=8BITMIME")
        if _needs_smtputf8(mail):  # RFC 6531
            self._demand("smtputf8", offered)
            parameters.mail.append(b"SMTPUTF8")
        if "dsn" in offered and ENVELOPE_ID.fullmatch(mail.envelope_id):  # RFC 3461
            parameters.mail.extend((b"RET=HDRS", b"ENVID=" + mail.envelope_id.encode()))
            parameters.rcpt.append(b"NOTIFY=FAILURE,DELAY")
        return parameters

    def _demand(self, extension: str, offered: dict[str, str]) -> None:
        if extension not in offered:
            raise _Stopped(self._failed("protocol", f"{extension} is not offered by the mail server"))

    def _in_time(self, start_before: float) -> None:
        """Stop if it is too late to start. After DATA only a cut connection keeps the message from being taken."""
        if self._reading() > start_before:
            raise _Stopped(self._failed("too_late", "not started in time"), unusable=self._phase == "data")

    async def _step(self, phase: str, *words: bytes, expected: int = DONE) -> None:
        """One command and its reply; anything but the expected class of reply is the attempt's answer."""
        self._phase = phase
        self._nothing_unread()
        reply = await self._smtp().execute_command(*words)
        if reply.code // 100 == expected:
            return
        raise _Stopped(self._reply(reply.code, reply.message), unusable=reply.code // 100 not in (NOT_NOW, NEVER))

    async def _send_content(self, content: bytes) -> Answer:
        """Write the content with its dot in one piece, and wait for the reply."""
        protocol = self._smtp().protocol
        self._nothing_unread()
        if protocol is None or not protocol.is_connected:
            raise aiosmtplib.SMTPServerDisconnected("closed before the content")
        self._phase = "dot"
        self._half_done = False
        protocol.write(content)
        reply = await protocol.read_response()
        answer = self._reply(reply.code, reply.message)
        if answer.status in (None, 421):
            self.abort()
        return answer

    def _nothing_unread(self) -> None:
        protocol = self._smtp().protocol
        if protocol is not None and protocol._buffer:  # noqa: SLF001 - it has no public name
            raise aiosmtplib.SMTPException("a reply came before it was asked for")

    # --- the connection --------------------------------------------------------------------------

    def _smtp(self) -> aiosmtplib.SMTP:
        if self._client is None:
            raise aiosmtplib.SMTPServerDisconnected("not connected")
        return self._client

    async def _be_ready(self) -> None:
        if await self._still_there():
            return
        self.abort()
        async with asyncio.timeout(self._relay.connect_timeout_seconds):
            await self._open()

    async def _still_there(self) -> bool:
        """Whether the kept connection can be used for another transaction.

        One that has served enough is left. After a refusal the transaction is reset. One that stood idle is asked.
        """
        if self._client is None or not self._client.is_connected:
            return False
        if self._messages >= MESSAGES_PER_CONNECTION_MAX:
            await self.quit()
        elif self._half_done:
            await self._ask_or_abort(b"RSET")
        elif self._reading() - self._used_at > PROBE_AFTER_SECONDS:
            await self._ask_or_abort(b"NOOP")
        self._half_done = False
        return self._client is not None

    async def _ask_or_abort(self, command: bytes, expected: int = 250) -> None:
        """A command outside of transactions. A connection that does not answer it as it should is dropped."""
        if self._client is None:
            return
        try:
            async with asyncio.timeout(BETWEEN_TIMEOUT_SECONDS):
                self._nothing_unread()
                reply = await self._client.execute_command(command)
        except (aiosmtplib.SMTPException, OSError):
            self.abort()
            return
        if reply.code != expected:
            self.abort()

    async def _open(self) -> None:
        """Connect, greet, secure, authenticate."""
        relay = self._relay
        implicit = relay.security == "tls"
        client = self._client = aiosmtplib.SMTP(
            hostname=relay.host,
            port=relay.port,
            local_hostname="localhost",  # only so that it asks no name server; the greeting says our name
            timeout=None,  # one timer for each attempt, not one for each command
            use_tls=implicit,
            start_tls=False,
            tls_context=relay.verifying if implicit else None,
        )
        self._messages = 0
        await client.connect()
        await self._greet(client)
        await self._secure(client)
        await self._authenticate(client)

    async def _greet(self, client: aiosmtplib.SMTP) -> None:
        """EHLO, or HELO where that is not known (RFC 5321, 3.2)."""
        self._phase = "helo"
        name = _own_name(client)
        try:
            await client.ehlo(hostname=name)
        except aiosmtplib.SMTPHeloError as refusal:
            if refusal.code // 100 != NEVER or not client.is_connected:
                raise
            await client.helo(hostname=name)

    async def _secure(self, client: aiosmtplib.SMTP) -> None:
        """STARTTLS where it is demanded or offered. A demand that is not met ends the attempt."""
        self._phase = "tls"
        if self._relay.security == "tls":
            return
        if not client.supports_extension("starttls"):
            if self._relay.security == "starttls":
                raise _Stopped(self._failed("tls", "STARTTLS is demanded and not offered"), unusable=True)
            return
        at_home = self._relay.security == "none" and _peer_is_loopback(client)
        await client.starttls(tls_context=self._relay.unverifying if at_home else self._relay.verifying)
        await self._greet(client)

    async def _authenticate(self, client: aiosmtplib.SMTP) -> None:
        """Once, by the first method that both know: a second try may count as an attack, and hides the answer."""
        self._phase = "auth"
        if self._relay.username is None:
            return
        if client.get_transport_info("sslcontext") is None and not _peer_is_loopback(client):
            why = "credentials are not sent without TLS; use smtp+starttls:// or smtps://"
            raise _Stopped(self._failed("protocol", why), unusable=True)
        method = _authentication(client)
        if method is None:
            raise _Stopped(self._failed("protocol", "no known AUTH method is offered"), unusable=True)
        await method(self._relay.username, self._relay.password or "")

    # --- evidence --------------------------------------------------------------------------------

    def _reply(self, code: int, text: str) -> Answer:
        """A reply that refuses or, after the dot, accepts. Other codes are no answer to what was asked."""
        if code // 100 in (NOT_NOW, NEVER) or (code // 100 == DONE and self._phase == "dot"):
            body = text.encode("utf-8", "surrogateescape")[:REPLY_BYTES_MAX]
            return Answer(status=code, body=body, sent=self._sent(), phase=self._phase)
        return self._failed("protocol", f"{self._phase} was answered {code}")

    def _evidence(self, error: BaseException) -> Answer:
        kind, cause = kind_of(error)
        if kind == "reply" and isinstance(error, aiosmtplib.SMTPResponseException):
            return self._reply(error.code, error.message)
        if kind == "tls":
            self._phase = "tls" if self._phase == "connect" else self._phase
        return self._failed(kind, words_of(cause))

    def _failed(self, kind: str, detail: str) -> Answer:
        return Answer(error=kind, sent=self._sent(), detail=detail[:DETAIL_CHARACTERS_MAX], phase=self._phase)

    def _sent(self) -> Sent:
        return Sent.SOME if self._phase == "dot" else Sent.NOTHING


def transparent(message: bytes) -> bytes:
    """The message as it is written after DATA: CRLF line ends, leading dots doubled, closed by the final dot.

    RFC 5321, 2.3.8 (a bare CR or LF is not a line end) and 4.5.2 (transparency).
    """
    ends = message.count(b"\r\n")
    all_whole = message.count(b"\n") == ends == message.count(b"\r")  # as always; the search is slow
    lines = message if all_whole else BARE_LINE_END.sub(b"\r\n", message)
    if not lines.endswith(b"\r\n"):
        lines += b"\r\n"
    if lines.startswith(b"."):
        lines = b"." + lines
    return lines.replace(b"\r\n.", b"\r\n..") + b".\r\n"


def _needs_smtputf8(mail: Mail) -> bool:
    """Whether an address or a header is not ASCII. A body that is not needs 8BITMIME only."""
    if not (mail.sender.isascii() and mail.recipient.isascii()):
        return True
    return not mail.message.isascii() and not mail.message.partition(b"\r\n\r\n")[0].isascii()


def _own_name(client: aiosmtplib.SMTP) -> str:
    """Our name in EHLO: the host's if it is a full one, else the address literal (RFC 5321, 4.1.4). Asks no DNS."""
    name = socket.gethostname()
    if FULL_HOST_NAME.fullmatch(name):
        return name
    address = client.get_transport_info("sockname")[0].partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _peer_is_loopback(client: aiosmtplib.SMTP) -> bool:
    return ipaddress.ip_address(client.get_transport_info("peername")[0].partition("%")[0]).is_loopback


def _authentication(client: aiosmtplib.SMTP) -> Callable[[str, str], Awaitable[object]] | None:
    methods = {"plain": client.auth_plain, "login": client.auth_login, "cram-md5": client.auth_crammd5}
    return next((method for name, method in methods.items() if name in client.server_auth_methods), None)
