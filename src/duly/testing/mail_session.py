"""One connection of the mail sink: lines in, replies out, without a coroutine, so that it is fast.

Replies leave in the order of the commands, however many of them arrive at once (RFC 2920). The rules it holds a
client to are listed in `mail_sink`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, cast

from duly.testing.mail_moods import CUT, Mood

if TYPE_CHECKING:
    from duly.testing.mail_sink import MailSink

__all__ = ["Session"]

MESSAGE_BYTES_MAX: Final = 10_485_760
LINE_BYTES_MAX: Final = 4_096
RECIPIENTS_MAX: Final = 100  # RFC 5321, 4.5.3.1.8
MESSAGES_KEPT_MAX: Final = 1_000_000

#: parameter of MAIL or RCPT -> the extension that must be offered for it
PARAMETERS: Final = {
    "SIZE": "SIZE",
    "BODY": "8BITMIME",
    "SMTPUTF8": "SMTPUTF8",
    "RET": "DSN",
    "ENVID": "DSN",
    "NOTIFY": "DSN",
    "ORCPT": "DSN",
}

_PATH: Final = re.compile(r"(?:FROM|TO):\s?<([^<>\s]*)>((?: \S+)*)\s*", re.IGNORECASE)


class Session(asyncio.Protocol):
    """One connection to the sink. While `_paused`, what arrives waits."""

    def __init__(self, sink: MailSink) -> None:
        self._sink = sink
        self._buffer = bytearray()
        self._searched = 0  # how far the content was searched for its end
        self._in_content = False
        self._wants_credentials = False
        self._paused = False
        self._greeted = False
        self._secure = False
        self._known = sink.credentials is None
        self._upgrade: asyncio.Task[None] | None = None
        self._reset()

    # --- the connection --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        self._transport = cast("asyncio.Transport", transport)
        self._sink.enter(self)
        self._say(self._sink.replies.get("connect", "220 sink.example ESMTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, whoever ended it."""
        del exc
        self._sink.leave(self)

    def data_received(self, data: bytes) -> None:
        """Take what came, line by line."""
        self._buffer += data
        self._go_on()

    def cut(self) -> None:
        """Drop the connection without a word."""
        self._transport.abort()

    def _go_on(self) -> None:
        while not self._paused and (self._take_content() if self._in_content else self._take_line()):
            pass

    def _say(self, reply: str) -> None:
        if reply == CUT:
            self.cut()
        elif reply:
            self._transport.write(reply.encode() + b"\r\n")
            if reply.startswith("421"):
                self._transport.close()

    def _reset(self) -> None:
        self._sender: str | None = None
        self._recipients: list[str] = []
        self._wide = False
        self._mood: Mood | None = None  # of data or the dot

    # --- lines -----------------------------------------------------------------------------------

    def _take_line(self) -> bool:
        end = self._buffer.find(b"\n")
        if end < 0 or end > LINE_BYTES_MAX:
            if len(self._buffer) > LINE_BYTES_MAX:
                self._buffer.clear()
                self._say("421 4.5.2 line too long")
            return False
        line = self._buffer[:end].decode("utf-8", "replace").rstrip("\r")
        del self._buffer[: end + 1]
        if self._wants_credentials:
            self._check_credentials(line)
        else:
            self._obey(line)
        return bool(self._buffer)

    def _obey(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        verb = verb.upper()
        self._sink.commands.append("AUTH ***" if verb == "AUTH" else line)
        override = self._sink.replies.get(verb)
        command = self._COMMANDS.get(verb)
        if override is not None:
            self._say(override)
        elif command is None:
            self._say("500 5.5.2 unknown command")
        else:
            command(self, rest)

    def _ehlo(self, _: str) -> None:
        self._greeted = True
        self._reset()
        offered = [f"SIZE {MESSAGE_BYTES_MAX}", *self._sink.extensions]
        if self._sink.tls is not None and not self._secure:
            offered.append("STARTTLS")
        elif self._sink.credentials is not None:  # after TLS only, where there is TLS
            offered.append("AUTH PLAIN")
        lines = ["sink.example", *offered]
        self._say("\r\n".join([f"250-{line}" for line in lines[:-1]] + [f"250 {lines[-1]}"]))

    def _helo(self, _: str) -> None:
        self._greeted = True
        self._reset()
        self._say("250 sink.example")

    def _mail(self, rest: str) -> None:
        match = _PATH.fullmatch(rest)
        if not self._greeted or self._sender is not None:
            self._say("503 5.5.1 out of order")
        elif not self._known:
            self._say("530 5.7.0 authentication required")
        elif match is None:
            self._say("501 5.5.4 write MAIL FROM:<address>")
        elif self._parameters_known(match[2]):
            self._sender = match[1]
            self._wide = "SMTPUTF8" in match[2].upper().split()
            self._say("250 2.1.0 Ok")

    def _rcpt(self, rest: str) -> None:
        match = _PATH.fullmatch(rest)
        if self._sender is None:
            self._say("503 5.5.1 out of order")
        elif match is None or "@" not in match[1]:
            self._say("501 5.1.3 write RCPT TO:<address>")
        elif not self._wide and not match[1].isascii():
            self._say("553 5.6.7 this address needs SMTPUTF8")
        elif len(self._recipients) >= RECIPIENTS_MAX:
            self._say("452 4.5.3 too many recipients")
        elif self._parameters_known(match[2]):
            self._recipient(match[1])

    def _recipient(self, address: str) -> None:
        mood = self._sink.mood_of(address)
        if mood is not None and mood.at == "rcpt":
            if not mood.once or self._sink.first_time(address):
                self._say(mood.reply)
                return
        elif mood is not None:
            self._mood = mood
        self._recipients.append(address)
        self._say("250 2.1.5 Ok")

    def _parameters_known(self, text: str) -> bool:
        for word in text.split():
            extension = PARAMETERS.get(word.partition("=")[0].upper())
            if extension != "SIZE" and extension not in self._sink.extensions:
                self._say("555 5.5.4 unknown parameter")
                return False
        return True

    def _data(self, _: str) -> None:
        if not self._recipients:
            self._say("503 5.5.1 out of order")
        elif self._mood is not None and self._mood.at == "data":
            self._say(self._mood.reply)
        else:
            self._in_content = True
            self._buffer[:0] = b"\r\n"  # so that the first line is like the others
            self._searched = 0
            self._say("354 end with a dot on a line of its own")

    def _rset(self, _: str) -> None:
        self._reset()
        self._say("250 2.0.0 Ok")

    def _noop(self, _: str) -> None:
        self._say("250 2.0.0 Ok")

    def _quit(self, _: str) -> None:
        self._say("221 2.0.0 Bye")
        self._transport.close()

    # --- content ---------------------------------------------------------------------------------

    def _take_content(self) -> bool:
        end = self._buffer.find(b"\r\n.\r\n", self._searched)
        if end < 0:
            self._searched = max(0, len(self._buffer) - 4)
            if len(self._buffer) > MESSAGE_BYTES_MAX:
                self._buffer.clear()
                self._say("421 4.3.4 message too big")
            return False
        lines = bytes(self._buffer[: end + 2])
        del self._buffer[: end + 5]
        self._in_content = False
        self._finish(lines.replace(b"\r\n.", b"\r\n")[2:])  # RFC 5321, 4.5.2
        return bool(self._buffer)

    def _finish(self, content: bytes) -> None:
        """The final dot was read: the message is ours now, or it is refused."""
        mood, recipients = self._mood, self._recipients
        self._reset()
        if self._sink.accepted >= MESSAGES_KEPT_MAX:
            self._say("452 4.3.1 the sink is full")
            return
        if (override := self._sink.replies.get("dot")) is not None:
            mood = Mood("dot", override)
        if mood is None:
            self._say(f"250 2.0.0 Ok: queued as {self._sink.keep(recipients, content)}")
            return
        if mood.accepts:
            self._sink.keep(recipients, content)
        if mood.slow:
            self._paused = True
            asyncio.get_running_loop().call_later(self._sink.slow_seconds, self._answer_late, mood.reply)
        else:
            self._say(mood.reply)

    def _answer_late(self, reply: str) -> None:
        self._paused = False
        if not self._transport.is_closing():
            self._say(reply)
            self._go_on()

    # --- STARTTLS and AUTH -----------------------------------------------------------------------

    def _starttls(self, _: str) -> None:
        if self._sink.tls is None or self._secure:
            self._say("503 5.5.1 STARTTLS is not offered")
            return
        self._say("220 2.0.0 go on")
        self._buffer.clear()  # what was sent in the clear must not be obeyed afterwards (RFC 3207, 4.2)
        self._paused = True
        self._transport.pause_reading()
        self._upgrade = asyncio.get_running_loop().create_task(self._shake_hands(self._sink.tls))

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(self._transport, self, context, server_side=True)
        except (OSError, ssl.SSLError):
            self._transport.abort()
            self._sink.leave(self)
            return
        if secure is not None:
            self._transport = secure
        self._secure, self._greeted, self._paused = True, False, False
        self._reset()
        self._go_on()

    def _auth(self, rest: str) -> None:
        mechanism, _, initial = rest.partition(" ")
        if self._sink.credentials is None or (self._sink.tls is not None and not self._secure):
            self._say("503 5.5.1 AUTH is not offered")
        elif mechanism.upper() != "PLAIN":
            self._say("504 5.5.4 PLAIN only")
        elif initial:
            self._check_credentials(initial)
        else:
            self._wants_credentials = True
            self._say("334 ")

    def _check_credentials(self, encoded: str) -> None:
        self._wants_credentials = False
        try:
            words = base64.b64decode(encoded, validate=True).decode().split("\0")
        except (binascii.Error, UnicodeDecodeError):
            self._say("501 5.5.2 not base64")
            return
        self._known = tuple(words[1:]) == self._sink.credentials
        self._say("235 2.7.0 welcome" if self._known else "535 5.7.8 wrong name or password")

    _COMMANDS: ClassVar[dict[str, Callable[[Session, str], None]]] = {
        "EHLO": _ehlo,
        "HELO": _helo,
        "MAIL": _mail,
        "RCPT": _rcpt,
        "DATA": _data,
        "RSET": _rset,
        "NOOP": _noop,
        "QUIT": _quit,
        "STARTTLS": _starttls,
        "AUTH": _auth,
    }
