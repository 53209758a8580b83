"""Sends requests over a real transport and waits for their answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from duly.ports import Answer, HttpRequest, Mail, Request, Sent
from duly.transports.http import HttpTransport

HEADERS = (("content-type", "application/json"), ("webhook-id", "abc"))
NEVER = float("inf")
T = TypeVar("T")


def post(url: str, body: bytes = b"{}", headers: tuple[tuple[str, str], ...] = HEADERS) -> HttpRequest:
    return HttpRequest(url, headers, body)


def transport(**settings: Any) -> HttpTransport:
    """A transport that may connect to loopback, without haste, unless the test says otherwise."""
    chosen: dict[str, Any] = {"reading": time.monotonic, "timeout_seconds": 30, "allow_private_networks": True}
    return HttpTransport(**{**chosen, **settings})


async def answers(over: HttpTransport, *contents: HttpRequest | Mail, start_before: float = NEVER) -> list[Answer]:
    """Send all at once; the answers in the order of the requests. Fails if one does not come within a minute."""
    await over.start([Request(token, content, start_before) for token, content in enumerate(contents)])
    return await landed(over, len(contents))


async def landed(over: HttpTransport, count: int) -> list[Answer]:
    """The answers of tokens 0 to `count`, each exactly once."""
    found: dict[int, Answer] = {}
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} requests have an answer"
        for completion in await over.completed(count, 0.5):
            assert completion.token not in found, "a request has two answers"
            found[completion.token] = completion.answer
    return [found[token] for token in range(count)]


def with_transport(use: Callable[[HttpTransport], Awaitable[T]], **settings: Any) -> T:
    """Run `use` with a fresh transport, and close it."""

    async def whole() -> T:
        over = transport(**settings)
        try:
            return await use(over)
        finally:
            await over.close()

    return asyncio.run(whole())


def one_answer(content: HttpRequest | Mail, start_before: float = NEVER, **settings: Any) -> Answer:
    """What a fresh transport answers to one request."""

    async def use(over: HttpTransport) -> Answer:
        return (await answers(over, content, start_before=start_before))[0]

    return with_transport(use, **settings)


def unsent(error: str, answer: Answer) -> bool:
    """Whether the answer says: this error, and nothing was sent."""
    return answer.error == error and answer.sent is Sent.NOTHING and answer.status is None


def unknown(error: str, answer: Answer) -> bool:
    """Whether the answer says: this error, and nobody knows what the receiver did."""
    return answer.error == error and answer.sent is Sent.SOME and answer.status is None
