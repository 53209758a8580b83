"""Handing mail over by SMTP: a bounded pool of connections behind the Transport port.

Each connection is served by one coroutine that lives as long as the connection does. `start` gives a request to
the connection that was used last (so that the others can age and leave), opens another one while there are fewer
than `capacity`, or lets the request wait for the next that is free. There is no coroutine and no future per
message. What a transaction is, and what proves that it was or was not taken, is in `smtp_connection`.

Idle connections leave after 20 seconds, before servers drop them: a connection that dies under a new transaction
costs an attempt, although never a duplicate. An attempt's time counts from when a connection takes it up, with
connecting inside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from duly.ports import Answer, Completion, Mail, Request, Sent
from duly.transports.slots import Slots
from duly.transports.smtp_connection import SmtpConnection
from duly.transports.smtp_relay import Relay, Security

__all__ = ["Security", "SmtpTransport"]

IDLE_SECONDS: Final = 20.0
CONNECT_TIMEOUT_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 0.003


class SmtpTransport:
    """Sends ports.Mail to one relay. At most `capacity` messages are under way at once, each on its own connection.

    `reading` is the clock of `Request.start_before`. `security` is what the operator demands: `starttls`, `tls` (from
    the first byte), or `none`: then STARTTLS is used where it is offered. Certificates are verified, except by `none`
    on a loopback address. Credentials never travel without TLS, except to a loopback address.
    `timeout_seconds` bounds an attempt as a whole, `connect_timeout_seconds` (by default 10, never more than the whole)
    the way from DNS to AUTH within it. Private networks are allowed: the operator chose the relay.

    Raises ValueError for a bound that is not positive.
    """

    def __init__(  # noqa: PLR0913 - the parts of a URL, by name
        self,
        *,
        reading: Callable[[], float],
        host: str,
        port: int,
        security: Security,
        username: str | None = None,
        password: str | None = None,
        timeout_seconds: float = 30.0,
        connect_timeout_seconds: float | None = None,
        capacity: int = 20,
    ) -> None:
        connecting = CONNECT_TIMEOUT_SECONDS if connect_timeout_seconds is None else connect_timeout_seconds
        if min(timeout_seconds, connecting) <= 0:
            raise ValueError("timeouts must be positive")
        connecting = min(connecting, timeout_seconds)
        self._relay = Relay(host, port, security, username, password, timeout_seconds, connecting)
        self._reading = reading
        self._slots = Slots(capacity, per_host=capacity)
        self._room = asyncio.Event()
        self._waiting: deque[Request] = deque()  # taken over, and not yet with a connection
        self._idle: list[asyncio.Future[Request | None]] = []  # connections that wait, the one used last at the end
        self._serving: dict[SmtpConnection, asyncio.Task[None]] = {}
        self._done: deque[Completion] = deque()
        self._news = asyncio.Event()
        self._under_way = 0
        self._closed = False

    # --- slots -----------------------------------------------------------------------------------

    def room(self) -> int:
        """How many slots are free in all."""
        return self._slots.room()

    async def wait_for_room(self, max_wait: float) -> int:
        """Wait until a slot is free, or for `max_wait` seconds; returns how many are."""
        if not self._slots.room():
            self._room.clear()
            await _wait(self._room, max_wait)
        return self._slots.room()

    def reserve(self, destinations: Sequence[str]) -> list[bool]:
        """Take a slot for each destination that has one free. All mail goes to the same relay."""
        return self._slots.reserve([self._relay.host] * len(destinations))

    def release(self, destinations: Sequence[str]) -> None:
        """Free the slots again."""
        self._slots.release([self._relay.host] * len(destinations))
        self._room.set()

    # --- requests --------------------------------------------------------------------------------

    async def start(self, batch: Sequence[Request]) -> None:
        """Take the requests over. Returns at once; each will appear in `completed`."""
        self._waiting.extend(batch)
        self._under_way += len(batch)
        if self._closed:
            self._give_up_waiting()
            return
        self._hand_out()
        for _ in range(min(len(self._waiting), self._slots.capacity - len(self._serving))):
            connection = SmtpConnection(self._relay, self._reading)
            self._serving[connection] = asyncio.create_task(self._serve(connection))

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """Answers, as soon as there are some: waits `max_wait` for the first, then gathers for 3 milliseconds."""
        if not self._done:
            self._news.clear()
            await _wait(self._news, max_wait)
        if 0 < len(self._done) < limit and self._under_way:
            await asyncio.sleep(LINGER_SECONDS)
        return [self._done.popleft() for _ in range(min(limit, len(self._done)))]

    async def close(self) -> None:
        """Close connections. Requests under way are cut, and complete as SOME unless nothing had left."""
        self._closed = True
        serving = tuple(self._serving.values())
        for one in serving:
            one.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        self._give_up_waiting()

    # --- connections -----------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Give waiting requests to idle connections."""
        while self._waiting and self._idle:
            seat = self._idle.pop()
            if not seat.done():
                seat.set_result(self._waiting.popleft())

    async def _serve(self, connection: SmtpConnection) -> None:
        """One connection's life: it takes requests until there were none for a while."""
        try:
            while True:
                request = await self._next()
                if request is not None:
                    await self._make(connection, request)
                    continue
                await connection.quit()
                if not self._waiting:  # some may have come while it said good-bye
                    return
        finally:
            connection.abort()
            del self._serving[connection]

    async def _next(self) -> Request | None:
        """The next request, or None if none came for as long as a connection may stand idle."""
        if self._waiting:
            return self._waiting.popleft()
        loop = asyncio.get_running_loop()
        seat: asyncio.Future[Request | None] = loop.create_future()
        self._idle.append(seat)
        patience = loop.call_later(IDLE_SECONDS, _leave_empty, seat)
        try:
            return await seat
        except asyncio.CancelledError:
            self._take_back(seat)
            raise
        finally:
            patience.cancel()
            if seat in self._idle:
                self._idle.remove(seat)

    def _take_back(self, seat: asyncio.Future[Request | None]) -> None:
        """A request that was handed to a connection which is being closed goes back to those that wait."""
        request = None if seat.cancelled() or not seat.done() else seat.result()
        if request is not None:
            self._waiting.appendleft(request)

    async def _make(self, connection: SmtpConnection, request: Request) -> None:
        """One attempt, which always becomes one completion."""
        if not isinstance(request.content, Mail):
            self._post(request, _nothing_left("protocol", "not a mail"))
            return
        try:
            answer = await connection.attempt(request.content, request.start_before)
        except asyncio.CancelledError:
            self._post(request, connection.cut())
            raise
        self._post(request, answer)

    def _give_up_waiting(self) -> None:
        while self._waiting:
            self._post(self._waiting.popleft(), _nothing_left("connect", "the transport is closed"))

    def _post(self, request: Request, answer: Answer) -> None:
        self._under_way -= 1
        self._done.append(Completion(request.token, answer, self._reading()))
        self._news.set()


def _nothing_left(error: str, detail: str) -> Answer:
    return Answer(error=error, sent=Sent.NOTHING, detail=detail, phase="connect")


def _leave_empty(seat: asyncio.Future[Request | None]) -> None:
    if not seat.done():
        seat.set_result(None)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, or until the time is over."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
