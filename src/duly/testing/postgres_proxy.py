"""A PostgreSQL that can be cut off, at exactly the moment that hurts: a proxy before a real server.

    async with PostgresProxy.before(url) as proxy:
        ...connect to proxy.url(url)...
        proxy.lose_commit(statement, happens=True)

It reads the client's half of the protocol just far enough to see which statements a transaction holds
(https://www.postgresql.org/docs/current/protocol-message-formats.html: a type byte, a length, the rest). So a test
can lose a commit by what it commits: the server never hears of it, or it commits and its reply is lost. To whoever
asked, the two look the same: the connection is gone. A statement may also be held up, and the whole server may be
cut off, come back, or be another one (`server_port`).

What is set here may be set from another thread than the proxy's own. Encryption is refused, as by a server that has
none.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

__all__ = ["PostgresProxy"]

ASKS_FOR_ENCRYPTION: Final = {80877103, 80877104}  # SSLRequest, GSSENCRequest
DEFAULT_PORT: Final = 5432
NO_ENCRYPTION: Final = b"N"
PARSE, COMMAND_COMPLETE = b"P", b"C"
COMMITTED: Final = b"COMMIT\0"


class _Loss(NamedTuple):
    """A commit that is to be lost: that of the next transaction which holds this statement."""

    statement: bytes
    happens: bool


class _Hold(NamedTuple):
    """A statement that is to be held up before the server hears of it."""

    statement: bytes
    seconds: float


class PostgresProxy:
    """The proxy. `lost` are the statements whose commits were lost, in order; `held` those that were held up."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        self.lost: list[str] = []
        self.held: list[str] = []
        self.losses: list[_Loss] = []
        self.holds: list[_Hold] = []
        self.is_cut = False
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def before(cls, url: str) -> Self:
        """A proxy before the server on loopback that this URL names."""
        return cls(urlsplit(url).port or DEFAULT_PORT)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            self._cut_all()
            await self._server.wait_closed()

    def url(self, url: str) -> str:
        """The same database by way of this proxy."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}"))

    def lose_commit(self, statement: str, *, happens: bool) -> None:
        """Lose the commit of the next transaction that holds this statement: after it happened, or before."""
        self.losses.append(_Loss(statement.encode(), happens))

    def hold_up(self, statement: str, seconds: float) -> None:
        """Let the server hear of the next such statement only after so many seconds."""
        self.holds.append(_Hold(statement.encode(), seconds))

    def cut(self) -> None:
        """End every connection, and let nobody through until `mend`."""
        self.is_cut = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cut_all)

    def mend(self) -> None:
        """Let connections through again."""
        self.is_cut = False

    def _cut_all(self) -> None:
        for link in list(self._links):
            link.end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            if not self.is_cut:
                await link.run()
        finally:
            link.end()
            self._links.discard(link)


class _Link:
    """One client's connection, and its own to the server."""

    def __init__(self, proxy: PostgresProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._client, self._to_client = proxy, reader, writer
        self._to_server: asyncio.StreamWriter | None = None
        self._losses: list[_Loss] = []  # whose statements the transaction under way holds
        self._swallows: _Loss | None = None  # the commit is on its way, and its reply is to be lost

    async def run(self) -> None:
        """Carry both ways until one side ends."""
        with suppress(OSError, EOFError):
            startup = await self._startup()
            server, self._to_server = await asyncio.open_connection("127.0.0.1", self._proxy.server_port)
            self._to_server.write(startup)
            ways = [asyncio.ensure_future(way) for way in (self._forth(), self._back(server))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            self.end()
            await asyncio.gather(*ways, return_exceptions=True)

    def end(self) -> None:
        """Cut both connections."""
        for writer in (self._to_client, self._to_server):
            if writer is not None:
                writer.transport.abort()

    async def _startup(self) -> bytes:
        """The first packet, which has no type byte."""
        while True:
            length = await self._client.readexactly(4)
            packet = length + await self._client.readexactly(int.from_bytes(length) - 4)
            if int.from_bytes(packet[4:8]) not in ASKS_FOR_ENCRYPTION:
                return packet
            self._to_client.write(NO_ENCRYPTION)

    # --- what the client says --------------------------------------------------------------------

    async def _forth(self) -> None:
        while True:
            kind, packet = await _packet(self._client)
            if kind == PARSE and not await self._passes(packet[5:]):
                return
            assert self._to_server is not None  # noqa: S101 - it is open before anybody speaks
            self._to_server.write(packet)
            await self._to_server.drain()

    async def _passes(self, parsed: bytes) -> bool:
        """Look at a statement; False if the link must end here."""
        statement = parsed.split(b"\0", 2)[1]
        await self._hold_up(statement)
        if statement.startswith(b"begin"):
            self._losses = []
        self._losses += [loss for loss in self._proxy.losses if loss.statement == statement]
        lost = next((loss for loss in self._losses if loss in self._proxy.losses), None)
        if statement != b"commit" or lost is None:
            return True
        self._proxy.losses.remove(lost)
        self._swallows = lost
        if not lost.happens:
            self._note_lost(lost)
        return lost.happens

    async def _hold_up(self, statement: bytes) -> None:
        hold = next((hold for hold in self._proxy.holds if hold.statement == statement), None)
        if hold is not None:
            self._proxy.holds.remove(hold)
            self._proxy.held.append(hold.statement.decode())
            await asyncio.sleep(hold.seconds)

    def _note_lost(self, lost: _Loss) -> None:
        self._proxy.lost.append(lost.statement.decode())

    # --- what the server says --------------------------------------------------------------------

    async def _back(self, server: asyncio.StreamReader) -> None:
        """Carry answers as they come."""
        while True:
            kind, packet = await _packet(server)
            if self._swallows is not None and kind == COMMAND_COMPLETE and packet[5:] == COMMITTED:
                self._note_lost(self._swallows)
                return
            self._to_client.write(packet)
            await self._to_client.drain()


async def _packet(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The type and the whole of the next message."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:]) - 4)
