"""libcurl's multi interface on the event loop: every turn moves all requests that can move.

All of libcurl's sockets are watched through one descriptor (see `readiness`), which the event loop watches
like any other. News there means one turn: one call of `perform` for all requests in the air, one reading of
what has ended, one hand-over. So the cost of the loop is paid per batch. Everything happens on the loop's own
thread, and no callback of libcurl ever waits for the interpreter lock.

Three things bring a turn without news: libcurl's own timer; a short beat while a name is being resolved (on
libcurl's threads) or a body is longer than one reading of it; and a slow beat, in case an edge was missed.

A turn costs about 0.3 us for each request in the air, whether it moves or not. In a crowd turns are therefore
one millisecond apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pycurl

from duly.transports.http_connections import Connections
from duly.transports.http_exchange import BROKEN, Exchange

__all__ = ["Ended", "Turns"]

BEAT_SECONDS: Final = 0.25
RESTLESS_SECONDS: Final = 0.005
CROWD: Final = 256  # requests in the air
CROWD_SECONDS: Final = 0.001
CLOSE_SECONDS_MAX: Final = 1.0
MESSAGES_MAX: Final = 1024


class Ended(NamedTuple):
    """A request that is no longer in the air, and libcurl's result code (0 is success)."""

    exchange: Exchange
    code: int


class Turns:
    """The requests in the air. `ended` is called once per turn with those that landed, and must not raise."""

    def __init__(self, ended: Callable[[Sequence[Ended]], None], connections_max: int, per_host_max: int) -> None:
        self._ended = ended
        self._limits = {
            pycurl.M_MAX_TOTAL_CONNECTIONS: connections_max,
            pycurl.M_MAXCONNECTS: connections_max,
            pycurl.M_MAX_HOST_CONNECTIONS: per_host_max,
            pycurl.M_PIPELINING: pycurl.PIPE_NOTHING,
        }
        self._flying: dict[pycurl.Curl, Exchange] = {}
        self.restless: set[Exchange] = set()  # these can move without news of a socket
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._apart: asyncio.TimerHandle | None = None
        self.connections = Connections()
        self._multi = self._new_multi()
        self._loop.add_reader(self.connections.fileno(), self._on_news)

    def __len__(self) -> int:
        return len(self._flying)

    def add(self, exchange: Exchange) -> None:
        """Put a loaded exchange in the air; the next turn starts it. Raises pycurl.error if libcurl will not."""
        self._multi.add_handle(exchange.curl)
        self._flying[exchange.curl] = exchange
        self.restless.add(exchange)

    def turn(self) -> None:
        """Move everything that can move, and hand over what has ended."""
        landed: list[Ended] = []
        try:
            self._perform(landed)
        except Exception:  # noqa: BLE001 - whatever it is, no request may be lost by it
            landed += self._break_off()
        self._set_timer()
        if landed:
            self._ended(landed)

    async def close(self, code: int) -> None:
        """Cut what is in the air (it ends with `code`) and close all connections. Call it once."""
        self._loop.remove_reader(self.connections.fileno())
        for timer in (self._timer, self._apart):
            if timer is not None:
                timer.cancel()
        self._ended(self._cut(code))
        await _close_aside(self._multi)
        self.connections.close()

    def _new_multi(self) -> pycurl.CurlMulti:
        multi = pycurl.CurlMulti()
        for option, value in self._limits.items():
            multi.setopt(option, value)
        return multi

    def _perform(self, landed: list[Ended]) -> None:
        self._multi.perform()
        queued = 1
        while queued:
            queued, good, bad = self._multi.info_read(MESSAGES_MAX)
            for curl in good:
                self._land(curl, 0, landed)
            for curl, code, _words in bad:
                self._land(curl, code, landed)

    def _land(self, curl: pycurl.Curl, code: int, landed: list[Ended]) -> None:
        exchange = self._flying.pop(curl)
        landed.append(Ended(exchange, code))
        self.restless.discard(exchange)
        self._multi.remove_handle(curl)

    def _break_off(self) -> list[Ended]:
        """The machinery failed: everything in the air ends, and libcurl starts afresh."""
        broken = self._cut(BROKEN)
        self._multi.close()
        self._multi = self._new_multi()
        return broken

    def _cut(self, code: int) -> list[Ended]:
        """Take everything out of the air."""
        for curl in self._flying:
            with contextlib.suppress(pycurl.error):
                self._multi.remove_handle(curl)
        cut = [Ended(exchange, code) for exchange in self._flying.values()]
        self._flying.clear()
        self.restless.clear()
        return cut

    def _on_news(self) -> None:
        self.connections.look()
        if len(self._flying) < CROWD:
            self.turn()
        elif self._apart is None:
            self._apart = self._loop.call_later(CROWD_SECONDS, self._turn_of_a_crowd)

    def _turn_of_a_crowd(self) -> None:
        self._apart = None
        self.turn()

    def _on_timer(self) -> None:
        self._timer = None
        self.turn()

    def _set_timer(self) -> None:
        """A timer that is set already rings within a beat, and is left alone unless an earlier one is wanted."""
        seconds = self._seconds_to_next_turn()
        if self._timer is not None:
            if seconds >= BEAT_SECONDS:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._on_timer) if self._flying else None

    def _seconds_to_next_turn(self) -> float:
        milliseconds = self._multi.timeout()
        wanted = BEAT_SECONDS if milliseconds < 0 else min(milliseconds / 1000, BEAT_SECONDS)
        return min(wanted, RESTLESS_SECONDS) if self.restless else wanted


async def _close_aside(multi: pycurl.CurlMulti) -> None:
    """Close on a thread: libcurl waits there for names that are still being resolved, which may take long."""
    thread = threading.Thread(target=multi.close, daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, CLOSE_SECONDS_MAX)
