"""A mail server that keeps what it is given, and misbehaves on request: for tests and demonstrations.

It is written from the RFCs (5321 SMTP, 2034 enhanced codes, 3207 STARTTLS, 4954 AUTH PLAIN; parameters of 1870, 3461,
6152 and 6531) and shares no code with the side that sends, so that each can show the other's mistakes: a command out
of order, a parameter of an extension that is not offered, or an address that needs SMTPUTF8 and lacks it is refused.

What it does to a recipient is decided by how the local part begins:

    gone*       550 5.1.1 at RCPT                   busy*       451 4.3.2 at RCPT, the first time
    full*       552 5.2.2 at RCPT                   closes421*  421 4.3.2 at DATA, and closes
    spam*       554 5.7.1 after the final dot       slow*       accepts, and answers after `slow_seconds`
    dropped*    accepts, then cuts the connection   silent*     accepts, and never says so
                without a reply

Everybody else's mail is accepted. The moods are data (`MOODS`), so a test may bring its own.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from email import policy
from email.parser import BytesParser
from types import TracebackType
from typing import Final, Self

from duly.testing.mail_moods import CUT, MOODS, SILENCE, Mood
from duly.testing.mail_session import Session

__all__ = ["CUT", "EXTENSIONS", "MOODS", "SILENCE", "MailSink", "Mood", "PrintingSink"]

COMMANDS_KEPT_MAX: Final = 10_000

EXTENSIONS: Final = ("PIPELINING", "8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES")


class MailSink:
    """An SMTP server on loopback, as an asynchronous context manager.

    `tls` offers STARTTLS (with `implicit_tls`: speaks TLS from the first byte), `credentials` demands AUTH PLAIN with
    this name and password. `replies` overrides what is said to a command (by its verb, or `connect` for the greeting
    and `dot` for the content) whatever the recipient; after a reply of 421 the connection is closed (RFC 5321, 3.8).

    `messages` holds what was accepted, by recipient; `commands` the last 10,000 commands, credentials masked;
    `connections` counts those that were opened, `accepted` the messages.
    """

    def __init__(  # noqa: PLR0913 - a double with many faces, each by name
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        slow_seconds: float = 1.0,
        tls: ssl.SSLContext | None = None,
        implicit_tls: bool = False,
        credentials: tuple[str, str] | None = None,
        extensions: Sequence[str] = EXTENSIONS,
        moods: Mapping[str, Mood] = MOODS,
        replies: Mapping[str, str] | None = None,
    ) -> None:
        self.messages: dict[str, list[bytes]] = {}
        self.commands: deque[str] = deque(maxlen=COMMANDS_KEPT_MAX)
        self.connections = 0
        self.accepted = 0
        self.slow_seconds = slow_seconds
        self.tls = None if implicit_tls else tls
        self.credentials = credentials
        self.extensions = tuple(extensions)
        self.moods = dict(moods)
        self.replies = dict(replies or {})
        self._implicit = tls if implicit_tls else None
        self._address = (host, port)
        self._server: asyncio.Server | None = None
        self._sessions: set[Session] = set()
        self._seen: set[str] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        host, port = self._address
        self._server = await loop.create_server(lambda: Session(self), host, port, ssl=self._implicit, backlog=1_000)
        self._address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None:
            return
        self._server.close()
        self.cut_connections()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # let the sockets close

    @property
    def host(self) -> str:
        """The address that it listens on."""
        return self._address[0]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._address[1]

    @property
    def url(self) -> str:
        """What to write into the configuration, without credentials."""
        return f"{'smtps' if self._implicit else 'smtp'}://{self.host}:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._sessions)

    def cut_connections(self) -> None:
        """Close every open connection without a word, as a server does with idle ones."""
        for session in tuple(self._sessions):
            session.cut()

    # --- what the sessions ask -------------------------------------------------------------------

    def mood_of(self, address: str) -> Mood | None:
        """How this recipient's mail fares, if not like everybody's."""
        return next((mood for start, mood in self.moods.items() if address.startswith(start)), None)

    def first_time(self, address: str) -> bool:
        """Whether the recipient was not asked about before."""
        known = address in self._seen
        self._seen.add(address)
        return not known

    def keep(self, recipients: Sequence[str], content: bytes) -> str:
        """Take the message and name it."""
        for recipient in recipients:
            self.messages.setdefault(recipient, []).append(content)
        self.accepted += 1
        return f"{self.accepted:08X}"

    def enter(self, session: Session) -> None:
        """A connection was opened."""
        self.connections += 1
        self._sessions.add(session)

    def leave(self, session: Session) -> None:
        """A connection was closed."""
        self._sessions.discard(session)


class PrintingSink(MailSink):
    """A sink that prints what it takes, for a person who watches, and keeps nothing."""

    def keep(self, recipients: Sequence[str], content: bytes) -> str:
        """Print the message and name it."""
        message = BytesParser(policy=policy.default).parsebytes(content)
        body = message.get_body(("plain", "html"))
        text = body.get_content().strip() if body is not None else "(no text)"
        print(f"to {', '.join(recipients)}\nsubject {message['subject']}\n{text}\n", flush=True)  # noqa: T201
        self.accepted += 1
        return f"{self.accepted:08X}"


async def _serve(port: int) -> None:
    async with PrintingSink(port=port):
        await asyncio.Event().wait()


def main() -> None:
    """Serve on a port of this machine until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m duly.testing.mail_sink", description="A mail server that prints.")
    parser.add_argument("--port", type=int, default=2525, help="the port; 2525 if it is not given")
    try:
        asyncio.run(_serve(parser.parse_args().port))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"the port cannot be used: {error.strerror}")


if __name__ == "__main__":
    main()
