"""`duly serve` as a program of its own, and visitors over the loopback."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Final, NamedTuple

from duly.core.model import Channel
from duly.core.unsubscribe import token
from duly.testing.builders import contact
from tests.end_to_end.installation import ACCOUNT, Installation, Program, wait_until

__all__ = ["Answer", "Server", "link_of", "offer_links", "serving"]

SECRET: Final = "prvt-secret-of-links-of-some-length"
LINKS: Final = """
[unsubscribe]
url = "https://r.example.com/mail/u"
secret = "env:UNSUBSCRIBE_SECRET"
"""
ANSWER_SECONDS_MAX: Final = 60.0
PIECE_BYTES: Final = 65_536


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: str


class Server(NamedTuple):
    """A server that listens."""

    program: Program
    port: int

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """One request on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers, answer.read().decode())
        finally:
            connection.close()

    def send(self, data: bytes) -> bytes:
        """Send these bytes, and take what comes until the server closes; nothing where it closed at once."""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                return b"".join(iter(lambda: connection.recv(PIECE_BYTES), b""))
            except ConnectionError:
                return b""

    def connect(self) -> socket.socket:
        """A connection on which nothing was said yet."""
        return socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS_MAX)


def offer_links(duly: Installation) -> None:
    """Let the installation have links to unsubscribe."""
    duly.text += LINKS
    duly.file.write_text(duly.text, encoding="utf-8")
    duly.settings["UNSUBSCRIBE_SECRET"] = SECRET


def link_of(address: str) -> str:
    """The path of the link by which a mailbox is opted out of marketing."""
    return f"/mail/u/{token(SECRET.encode(), contact(ACCOUNT, Channel.EMAIL, address).id, 'marketing')}"


@contextmanager
def serving(duly: Installation) -> Iterator[Server]:
    """Start `duly serve` on a free port, and wait until it listens."""
    with duly.running("serve", "--port", "0", "--json") as program:
        wait_until(lambda: "listening on " in program.said, "it listens")
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", program.said)
        assert found, program.said
        yield Server(program, int(found[1]))
