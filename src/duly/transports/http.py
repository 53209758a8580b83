"""Sends HTTP requests over libcurl. Implements `ports.Transport` for `ports.HttpRequest`: POSTs, and GETs that look up.

A request is looked at, put on a pooled handle, asked whether it may still start, and put in the air; all that
is in the air moves in turns (see `http_turns`). What lands becomes an Answer by its evidence (see
`http_exchange`) and waits to be fetched by `completed`. Nothing is sent twice, nothing is followed, nothing
is read from the environment, and no address inside is connected to unless that is allowed.

HTTP/1.1 only, on purpose: over HTTP/2 one broken connection would put a hundred requests in doubt at once,
over HTTP/1.1 it puts one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import duly
from duly.errors import ConfigError
from duly.ports import Answer, Completion, HttpRequest, Mail, Request, Sent
from duly.transports.bell import Bell
from duly.transports.http_exchange import CUT, Exchange, Settings, Unsendable, unsent
from duly.transports.http_turns import Ended, Turns
from duly.transports.slots import Slots

__all__ = ["HttpTransport", "host_of"]

URL_CHARACTERS_MAX: Final = 4096
CONNECT_TIMEOUT_SECONDS: Final = 5.0
NO_HOST: Final = ""  # what URLs that cannot be sent to are counted under
_URL: Final = re.compile(r"https?://[!-~]+", re.IGNORECASE)  # visible ASCII, no blanks
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class HttpTransport:
    """One worker's requests to HTTP receivers. It belongs to the event loop that first starts one.

    `reading` is the worker's clock (`ports.Clock.reading`). Times are in seconds, `body_limit` in bytes of a
    response's body that are kept. `ca_file` replaces the system's certificates. Raises ConfigError if a
    number is out of range or the file of certificates cannot be read.
    """

    def __init__(  # noqa: PLR0913 - settings by name
        self,
        *,
        reading: Callable[[], float],
        timeout_seconds: float = 10,
        connect_timeout_seconds: float | None = None,
        capacity: int = 512,
        per_host: int = 128,
        allow_private_networks: bool = False,
        body_limit: int = 65536,
        linger_seconds: float = 0.004,
        ca_file: str | None = None,
        user_agent: str | None = None,
    ) -> None:
        _check(timeout_seconds, connect_timeout_seconds, body_limit, ca_file)
        if connect_timeout_seconds is None:
            connect_timeout_seconds = min(CONNECT_TIMEOUT_SECONDS, timeout_seconds)
        self._settings = Settings(
            timeout_ms=_milliseconds(timeout_seconds),
            connect_timeout_ms=_milliseconds(connect_timeout_seconds),
            allow_private_networks=allow_private_networks,
            body_limit=body_limit,
            ca_file=ca_file,
            user_agent=user_agent or _own_name(),
        )
        self._reading = reading
        self._slots = Slots(capacity, per_host)
        self._linger_seconds = linger_seconds
        self._idle: list[Exchange] = []
        self._turns: Turns | None = None
        self._landed: deque[Completion] = deque()
        self._wanted = 1  # so many answers wake whoever waits for them
        self._answer_bell = Bell()
        self._room_bell = Bell()
        self._closed = False

    def room(self) -> int:
        """How many slots are free in all."""
        return self._slots.room()

    async def wait_for_room(self, max_wait: float) -> int:
        """Wait until a slot is free, or for `max_wait` seconds; returns how many are."""
        if self.room() == 0:
            await self._room_bell.wait(max_wait)
        return self.room()

    def reserve(self, destinations: Sequence[str]) -> list[bool]:
        """Take a slot for each URL whose host has one free; one answer per URL, in order."""
        return self._slots.reserve(map(host_of, destinations))

    def release(self, destinations: Sequence[str]) -> None:
        """Free the slots again. Raises ValueError for a slot that nobody holds."""
        self._slots.release(map(host_of, destinations))
        self._room_bell.ring()

    async def start(self, batch: Sequence[Request]) -> None:
        """Put the requests in the air. One that cannot be sent completes with sent NOTHING."""
        turns = self._on_loop()
        if turns is not None:
            turns.connections.look()
        refusals = [(request.token, self._launch(request, turns)) for request in batch]
        self._keep([(token, refusal) for token, refusal in refusals if refusal is not None])
        if turns is not None:
            turns.turn()

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """Up to `limit` answers: waits `max_wait` seconds for the first, then lingers a little for more.

        One coroutine at a time may wait here.
        """
        await self._await_answers(1, max_wait)
        if self._landed and self._in_the_air():
            await self._await_answers(limit, self._linger_seconds)
        return [self._landed.popleft() for _ in range(min(limit, len(self._landed)))]

    async def close(self) -> None:
        """Cut what is in the air, which completes by its evidence, and close all connections. Repeatable."""
        if self._closed:
            return
        self._closed = True
        if self._turns is not None:
            await self._turns.close(CUT)
        for exchange in self._idle:
            exchange.close()
        self._idle.clear()
        self._answer_bell.ring()
        self._room_bell.ring()

    def _on_loop(self) -> Turns | None:
        if self._turns is None and not self._closed:
            self._turns = Turns(self._on_ended, self._slots.capacity, self._slots.per_host)
        return None if self._closed else self._turns

    def _in_the_air(self) -> int:
        return 0 if self._turns is None else len(self._turns)

    def _launch(self, request: Request, turns: Turns | None) -> Answer | None:
        """Put one request in the air, or say why nothing was sent."""
        if turns is None:
            return unsent("connect", "the transport is closed")
        try:
            return self._add(request, turns)
        except Unsendable as refusal:
            return unsent("protocol", str(refusal))
        except Exception:  # noqa: BLE001 - a bug in here must not lose the rest of the batch
            return unsent("protocol", "the transport could not take it")

    def _add(self, request: Request, turns: Turns) -> Answer | None:
        content, host = _sendable(request.content)
        if not self._idle:
            self._idle.append(Exchange(self._settings, self._reading, turns.connections.opened, turns.restless))
        exchange = self._idle[-1]
        exchange.load(request, content, host, fresh=turns.connections.has_ended(host))
        if self._reading() >= request.start_before:
            return unsent("too_late", "the time to start it had passed")
        turns.add(exchange)
        self._idle.pop()
        return None

    def _on_ended(self, ended: Sequence[Ended]) -> None:
        self._keep([(exchange.token, _answer(exchange, code)) for exchange, code in ended])
        self._idle.extend(exchange for exchange, code in ended if code >= 0)

    def _keep(self, answers: Sequence[tuple[int, Answer]]) -> None:
        if not answers:
            return
        finished = self._reading()
        self._landed.extend(Completion(token, answer, finished) for token, answer in answers)
        if len(self._landed) >= self._wanted or not self._in_the_air():
            self._answer_bell.ring()

    async def _await_answers(self, wanted: int, seconds: float) -> None:
        if len(self._landed) < wanted:
            self._wanted = wanted
            await self._answer_bell.wait(seconds)


@lru_cache(maxsize=4096)
def host_of(url: str) -> str:
    """The "host:port" that a URL leads to: what slots are counted by. Empty if it cannot be sent to."""
    if len(url) > URL_CHARACTERS_MAX or not _URL.fullmatch(url):
        return NO_HOST
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError:
        return NO_HOST
    return f"{parts.hostname}:{port}" if parts.hostname else NO_HOST


def _sendable(content: HttpRequest | Mail) -> tuple[HttpRequest, str]:
    """The request and its host. Raises Unsendable if it is not one that can be sent."""
    if not isinstance(content, HttpRequest):
        raise Unsendable("it is not an HTTP request")
    host = host_of(content.url)
    if host == NO_HOST:
        raise Unsendable("the URL is not one that can be sent to")
    return content, host


def _answer(exchange: Exchange, code: int) -> Answer:
    try:
        return exchange.answer(code)
    except Exception:  # noqa: BLE001 - a bug in here must not lose the request
        return Answer(error="protocol", sent=Sent.SOME, detail="the answer could not be read")


def _own_name() -> str:
    return f"duly/{duly.__version__}"


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))  # 0 would mean libcurl's own default, or none


def _check(timeout: float, connect_timeout: float | None, body_limit: int, ca_file: str | None) -> None:
    if timeout <= 0 or (connect_timeout is not None and connect_timeout <= 0):
        raise ConfigError("timeout_seconds and connect_timeout_seconds must be greater than 0")
    if body_limit < 0:
        raise ConfigError("body_limit must be 0 or more bytes")
    if ca_file is not None:
        _check_readable(ca_file)


def _check_readable(ca_file: str) -> None:
    try:
        with Path(ca_file).open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"ca_file {ca_file!r} cannot be read: {error.strerror}") from error
