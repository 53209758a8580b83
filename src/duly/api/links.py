"""Links to unsubscribe, under the path of their public URL. What is answered is the flow's to say.

No answer depends on a body: the token is the proof, and a mail program may send the form, another one, or none
(RFC 8058, 3.2). So no body is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from duly.errors import DulyError
from duly.flows.unsubscribe import NOT_RECORDED, OptOut, answer
from duly.runtime.telemetry import ServerTelemetry

__all__ = ["links"]

RETRY_AFTER_SECONDS: Final = 60


def links(path: str, secrets: Sequence[bytes], opt_out: OptOut, log: ServerTelemetry) -> APIRouter:
    """Every path under `path`, which is empty or begins with a slash: what is no token of ours gets one page."""
    router = APIRouter()

    async def heard(contact: bytes, purpose: str) -> None:
        try:
            await opt_out(contact, purpose)
        except DulyError as error:
            log.not_recorded(str(error))
            raise

    @router.api_route(f"{path}/{{token:path}}", methods=["GET", "HEAD", "POST"])
    async def follow(request: Request, token: str) -> HTMLResponse:
        try:
            page = await answer(request.method, token, secrets, heard)
        except DulyError:
            headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return HTMLResponse(NOT_RECORDED.html, NOT_RECORDED.status, headers)
        return HTMLResponse(page.html, page.status)

    return router
