"""The part of HTTP/1.1 that a receiving double needs: cut requests out of a stream, and answer them.

Reading and writing are pure functions over bytes (RFC 9112). Requests have a Content-Length; a chunked
body is answered 411. What cannot be read is `Malformed`, which carries the answer after which the
connection ends. A `Connection` asks its site about each request and answers in the order in which they
came; it may also answer late, never, or with a reset.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, cast

__all__ = ["Answer", "Connection", "Malformed", "Manner", "Message", "Site", "read_message", "reply"]

HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 2 * 1024 * 1024
BUFFER_BYTES_MAX: Final = 4 * 1024 * 1024
LENGTH_DIGITS_MAX: Final = 10
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
NO_LINGER: Final = struct.pack("ii", 1, 0)


class Malformed(Exception):
    """Not a request that this server reads. `reply` says so to the sender."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.reply = reply(status, b"", "Connection: close")


class Message(NamedTuple):
    """A whole request. `end` is where the next one begins; after the `last` one the sender hangs up."""

    method: bytes
    target: bytes
    id: bytes  # of the `webhook-id` header, empty if there is none
    fields: bytes  # header lines, each after a CRLF
    body: bytes
    end: int
    last: bool

    def headers(self) -> dict[str, str]:
        """The headers, names in lower case; of a repeated one the last."""
        lines = self.fields.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}


def reply(status: str, body: bytes, *fields: str) -> bytes:
    """An answer with these header lines."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def read_message(buffer: bytes, start: int) -> Message | None:
    """The request that begins at `start`, or None if it is not complete. Raises Malformed."""
    head_end = _head_end(buffer, start)
    if head_end < 0:
        return None
    head = buffer[start:head_end]
    lowered = head.lower()
    body_at = head_end + 4
    end = body_at + _length(lowered)
    if len(buffer) < end:
        return None
    line, _, _ = head.partition(b"\r\n")
    method, target, version = _request_line(line)
    last = version == b"HTTP/1.0" or _value(lowered, lowered, b"connection") == b"close"
    message_id = _value(head, lowered, b"webhook-id")
    return Message(method, target, message_id, head[len(line) :], buffer[body_at:end], end, last)


def awaits_continue(buffer: bytes) -> bool:
    """Whether an incomplete request waits for a word before it sends its body."""
    head, mark, _ = buffer.partition(b"\r\n\r\n")
    lowered = head.lower()
    return bool(mark) and _value(lowered, lowered, b"expect") == b"100-continue"


def _head_end(buffer: bytes, start: int) -> int:
    found = buffer.find(b"\r\n\r\n", start)
    if (found if found >= 0 else len(buffer)) - start > HEAD_BYTES_MAX:
        raise Malformed("431 Request Header Fields Too Large")
    return found


def _length(lowered: bytes) -> int:
    if b"\r\ntransfer-encoding:" in lowered:
        raise Malformed("411 Length Required")
    digits = _value(lowered, lowered, b"content-length") or b"0"
    if not digits.isdigit() or len(digits) > LENGTH_DIGITS_MAX:
        raise Malformed("400 Bad Request")
    length = int(digits)
    if length > BODY_BYTES_MAX:
        raise Malformed("413 Content Too Large")
    return length


def _request_line(line: bytes) -> list[bytes]:
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):  # noqa: PLR2004  method, target, version
        raise Malformed("400 Bad Request")
    return parts


def _value(head: bytes, lowered: bytes, name: bytes) -> bytes:
    """A header's value as `head` writes it, found in lower case; empty if it is not there."""
    mark = b"\r\n" + name + b":"
    at = lowered.find(mark)
    if at < 0:
        return b""
    end = lowered.find(b"\r\n", at + 2)
    return head[at + len(mark) : end if end >= 0 else None].strip()


# --- answering ----------------------------------------------------------------------------------


class Manner(Enum):
    """How an answer is given."""

    AT_ONCE = auto()
    AFTER_A_WHILE = auto()
    NEVER = auto()  # the connection stays open
    CUT = auto()  # the connection is reset


class Answer(NamedTuple):
    """What one request gets. `accepts`: the site keeps the message, whatever the sender learns."""

    manner: Manner
    data: bytes = b""
    accepts: bool = False


class Site(Protocol):
    """What stands behind the connections."""

    slow_seconds: float

    def answer(self, message: Message) -> Answer:
        """Take one request in, and decide what it gets."""
        ...

    def opened(self, connection: Connection) -> None:
        """A connection begins."""
        ...

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""
        ...


class Connection(asyncio.Protocol):
    """One connection. While an answer is owed (slow or silent), later requests on it wait their turn."""

    __slots__ = ("_buffer", "_closes", "_continued", "_owing", "_replies", "_site", "_timer", "_transport")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._replies: list[bytes] = []
        self._owing = False
        self._closes = False
        self._continued = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, so that a test can see whether it was used again."""
        self._transport = cast("asyncio.Transport", transport)
        self._site.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget what was owed."""
        del error
        if self._timer is not None:
            self._timer.cancel()
        self._site.closed(self)

    def data_received(self, data: bytes) -> None:
        """Answer what is complete."""
        self._buffer = self._buffer + data if self._buffer else data
        if not self._owing:
            self._answer_what_came()
        elif len(self._buffer) > BUFFER_BYTES_MAX:
            self.cut()

    def cut(self) -> None:
        """End the connection without a word."""
        self._owing = True
        if self._transport is not None:
            self._transport.abort()

    def _reset(self) -> None:
        """End it with a reset: closing a socket that may not linger sends one instead of a polite end."""
        if self._transport is not None:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.cut()

    def _answer_what_came(self) -> None:
        """Answer complete requests in order and in one write, up to the first whose answer has to wait."""
        start = 0
        while not self._owing and (message := self._next(start)) is not None:
            start = message.end
            self._give(self._site.answer(message), last=message.last)
        self._buffer = self._buffer[start:]
        self._flush()

    def _next(self, start: int) -> Message | None:
        if start == len(self._buffer):
            return None
        try:
            message = read_message(self._buffer, start)
        except Malformed as error:
            self._say(error.reply, last=True)
            return None
        self._continued = message is None and (self._continued or self._said_continue(start))
        return message

    def _said_continue(self, start: int) -> bool:
        """Ask for the body if the sender waits to be asked (RFC 9110, 10.1.1)."""
        awaits = awaits_continue(self._buffer[start:])
        if awaits:
            self._replies.append(CONTINUE)
        return awaits

    def _give(self, answer: Answer, *, last: bool) -> None:
        match answer.manner:
            case Manner.AT_ONCE:
                self._say(answer.data, last=last)
            case Manner.AFTER_A_WHILE:
                self._say_later(answer.data, last=last)
            case Manner.NEVER:
                self._owing = True
            case Manner.CUT:
                self._flush()
                self._reset()

    def _say(self, data: bytes, *, last: bool) -> None:
        self._replies.append(data)
        self._owing = self._closes = last

    def _say_later(self, data: bytes, *, last: bool) -> None:
        self._owing = True
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._site.slow_seconds, self._say_now, data, last)

    def _say_now(self, data: bytes, last: bool) -> None:  # noqa: FBT001  called by the loop
        self._say(data, last=last)
        self._answer_what_came()

    def _flush(self) -> None:
        if self._transport is None or not self._replies:
            return
        self._transport.write(b"".join(self._replies))
        self._replies.clear()
        if self._closes:
            self._transport.close()
