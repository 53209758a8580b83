"""A plain libcurl loop on the calling thread: a fixed number of handles, filled again as they land."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Empty, Queue
from typing import Final, NamedTuple

import pycurl

from bench.ideal.message import Message, Signer

__all__ = ["Landed", "Posts"]

WAIT_SECONDS: Final = 0.05
TIMEOUT_MS: Final = 10_000
OK: Final = 200


class Landed(NamedTuple):
    """A message that was accepted, and when."""

    message: Message
    finished_at: datetime


class Posts:
    """Sends what comes out of `feed` (None: no more) and hands over what has landed, turn by turn."""

    def __init__(self, in_flight: int, signer: Signer, hand_over: Callable[[list[Landed]], None]) -> None:
        self._signer, self._hand_over = signer, hand_over
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, in_flight)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
        self._idle = [_new_curl() for _ in range(in_flight)]
        self._flying: dict[pycurl.Curl, Message] = {}
        self._waiting: deque[Message] = deque()
        self._more = True

    def run(self, feed: Queue[list[Message] | None]) -> None:
        """Return when the feed has ended and everything has landed. Raises RuntimeError for any other answer."""
        while self._more or self._waiting or self._flying:
            self._take(feed)
            self._launch()
            self._multi.perform()
            self._land()
            if self._flying and not self._waiting:
                self._multi.select(WAIT_SECONDS if not self._more else 0.002)
            elif self._flying:
                self._multi.select(WAIT_SECONDS)

    def _take(self, feed: Queue[list[Message] | None]) -> None:
        """The next batch, if it is wanted; wait for it only if nothing is in the air."""
        if not self._more or len(self._waiting) >= len(self._idle):
            return
        try:
            batch = feed.get(block=not self._flying and not self._waiting)
        except Empty:
            return
        if batch is None:
            self._more = False
        else:
            self._waiting.extend(batch)

    def _launch(self) -> None:
        seconds = int(time.time())
        while self._idle and self._waiting:
            curl, message = self._idle.pop(), self._waiting.popleft()
            curl.setopt(pycurl.URL, message.row.address)
            curl.setopt(pycurl.HTTPHEADER, self._signer.headers(message, seconds))
            curl.setopt(pycurl.POSTFIELDS, message.body)
            self._flying[curl] = message
            self._multi.add_handle(curl)

    def _land(self) -> None:
        _, good, bad = self._multi.info_read(1024)
        if bad:
            raise RuntimeError(f"a request failed: {bad[0][2]}")
        if not good:
            return
        now = datetime.now(UTC)
        landed = []
        for curl in good:
            if curl.getinfo(pycurl.RESPONSE_CODE) != OK:
                raise RuntimeError(f"the receiver answered {curl.getinfo(pycurl.RESPONSE_CODE)}")
            self._multi.remove_handle(curl)
            landed.append(Landed(self._flying.pop(curl), now))
            self._idle.append(curl)
        self._hand_over(landed)


def _new_curl() -> pycurl.Curl:
    curl = pycurl.Curl()
    curl.setopt(pycurl.POST, 1)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.TIMEOUT_MS, TIMEOUT_MS)
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.WRITEFUNCTION, _ignore)
    return curl


def _ignore(_part: bytes) -> None:
    """The body of an answer is not kept."""
