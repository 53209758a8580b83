"""Health: whether the server is alive, and whether it can do its work. Answers are one line of text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from duly.errors import DulyError

__all__ = ["health"]

LOOKING: Final = ["GET", "HEAD"]


def health(ready: Callable[[], Awaitable[None]]) -> APIRouter:
    """`/livez` and `/readyz`. `ready` raises DulyError where the server is not, with the line that says why."""
    router = APIRouter()

    @router.api_route("/livez", methods=LOOKING)
    async def livez() -> PlainTextResponse:
        return PlainTextResponse("alive\n")

    @router.api_route("/readyz", methods=LOOKING)
    async def readyz() -> PlainTextResponse:
        try:
            await ready()
        except DulyError as error:
            return PlainTextResponse(f"{error}\n", 503)
        return PlainTextResponse("ready\n")

    return router
