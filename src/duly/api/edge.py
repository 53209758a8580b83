"""The edge: what holds for every request, whoever answers it.

- A body that says that it is too long is refused before anything is read or done. None is read here: a router that
  reads one whose length is not told bounds it itself.
- Every answer may be kept by nobody, loads nothing, is framed by nobody, and gives no address away when it is left.
- One line is logged, and nothing in it names a person: the route and not the path, no address, no header.
- Who still waits when the server leaves gets 503, and may come again.
- A bug ends here. Its request is answered with 500 and told by its place.

Sources: https://www.rfc-editor.org/rfc/rfc9111#section-5.2.2.5 (no-store), https://www.w3.org/TR/CSP3/,
https://www.w3.org/TR/referrer-policy/.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duly.runtime.telemetry import ServerTelemetry

__all__ = ["BODY_BYTES_MAX", "Edge"]

BODY_BYTES_MAX: Final = 4_096

HEADERS: Final = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
TOO_LONG: Final = PlainTextResponse(
    f"A body may have {BODY_BYTES_MAX} bytes here.\n", 413, {"Connection": "close"}
)  # what is still to come is not waited for

LEAVING: Final = PlainTextResponse(
    "The server is being stopped; come again in a minute.\n", 503, {"Connection": "close", "Retry-After": "60"}
)


class Edge:
    """The application with what holds for all of it. `requests` counts the answers; `reading` is a clock's."""

    def __init__(self, app: ASGIApp, log: ServerTelemetry, reading: Callable[[], float]) -> None:
        self._app, self._log, self._reading = app, log, reading
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of HTTP, the only kind there is without lifespan and WebSockets."""
        began, status, answering = self._reading(), 500, False

        async def send_on(message: Message) -> None:
            nonlocal status, answering
            if message["type"] == "http.response.start":
                status, answering = message["status"], True
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        try:
            await (TOO_LONG if _body_bytes(scope) > BODY_BYTES_MAX else self._app)(scope, receive, send_on)
        except asyncio.CancelledError:  # the server leaves: who waits is asked to come again
            if not answering:
                await LEAVING(scope, receive, send_on)
        except Exception as error:  # noqa: BLE001 - FastAPI has answered it with 500
            self._log.request_failed(error)
        finally:
            self.requests += 1
            self._log.answered(_method(scope), _route(scope), status, self._reading() - began)


def _body_bytes(scope: Scope) -> int:
    """How long the body says it is; 0 if it does not. The parser has let only digits pass."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _method(scope: Scope) -> str:
    """The method, unless somebody made it up: it would be his words in our log."""
    return scope["method"] if scope["method"] in METHODS else "other"


def _route(scope: Scope) -> str | None:
    """The pattern of the path that was matched; None if none was."""
    return getattr(scope.get("route"), "path", None)
