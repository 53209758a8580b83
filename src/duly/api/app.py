"""The application: the routers, put together.

The links come last: their path may be the root, and then whatever is nobody else's is theirs. There is no
description (OpenAPI) and no page of documentation yet, because nothing here is for programs of others. FastAPI's own
tracing is off: it would tell whole paths, with the tokens in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from fastapi import FastAPI

from duly.api.health import health
from duly.api.ledger import Ledger
from duly.api.links import links
from duly.runtime.config import Config
from duly.runtime.telemetry import ServerTelemetry

__all__ = ["application", "links_path"]


def application(config: Config, secrets: Sequence[bytes], ledger: Ledger, log: ServerTelemetry) -> FastAPI:
    """What this configuration serves. Without [unsubscribe], which `secrets` belong to, that is health alone."""
    app = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.include_router(health(ledger.ready))
    path = links_path(config)
    if path is not None:
        app.include_router(links(path, secrets, ledger.opt_out, log))
    return app


def links_path(config: Config) -> str | None:
    """Under which path links are answered: that of the public URL. None if there are none."""
    return unquote(urlsplit(config.unsubscribe.url).path) if config.unsubscribe else None
