"""A receiver made of bare sockets: it counts what really arrives, and answers in every wrong way there is."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Self

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Received(NamedTuple):
    """One whole request. `connection` counts connections from 0, `number` the requests on this one."""

    connection: int
    number: int
    head: bytes
    body: bytes


Script = Callable[[socket.socket, Received], None]


def answering(raw: bytes) -> Script:
    """Answer every request with these bytes."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)

    return script


def reset(peer: socket.socket) -> None:
    """Close so that the other side gets a RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


class RawServer:
    """Listens on loopback, a thread per connection. The script answers, or closes its socket, or does nothing."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.script = script
        self.received: list[Received] = []
        self.connections = 0
        self.open_now = 0
        self.open_at_most = 0
        self._tls = tls
        self._peers: list[socket.socket] = []
        self._counting = threading.Lock()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=256)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            peer.close()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def bodies(self) -> Counter[bytes]:
        """How often each body arrived whole."""
        return Counter(one.body for one in self.received)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._peers.append(peer)
                number, self.connections = self.connections, self.connections + 1
                threading.Thread(target=self._converse, args=(peer, number), daemon=True).start()

    def _converse(self, peer: socket.socket, connection: int) -> None:
        self._count(1)
        with contextlib.suppress(OSError, ValueError):
            if self._tls:
                peer = self._tls.wrap_socket(peer, server_side=True)
                self._peers.append(peer)
            self._answer_all(peer, connection)
        self._count(-1)
        peer.close()

    def _answer_all(self, peer: socket.socket, connection: int) -> None:
        rest, number = b"", 0
        while True:
            head, body, rest = _read_request(peer, rest)
            received = Received(connection, number, head, body)
            self.received.append(received)
            self.script(peer, received)
            number += 1

    def _count(self, step: int) -> None:
        with self._counting:
            self.open_now += step
            self.open_at_most = max(self.open_at_most, self.open_now)


def _read_request(peer: socket.socket, seen: bytes) -> tuple[bytes, bytes, bytes]:
    """The head and the body of one request, and what has come of the next one. Raises ValueError at the end."""
    while b"\r\n\r\n" not in seen:
        seen += _more(peer)
    head, _, rest = seen.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    wanted = int(length[1]) if length else 0
    while len(rest) < wanted:
        rest += _more(peer)
    return head, rest[:wanted], rest[wanted:]


def _more(peer: socket.socket) -> bytes:
    part = peer.recv(65536)
    if not part:
        raise ValueError("the connection has ended")
    return part
