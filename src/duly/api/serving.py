"""Serving: the socket, uvicorn on it, and an orderly end.

The first signal stops listening and finishes what is under way; the second leaves at once. An opt-out is one
transaction, so nothing can be half done. uvicorn is told to keep quiet: its lines would hold addresses.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from duly.api.app import application, links_path
from duly.api.edge import Edge
from duly.api.ledger import ANSWER_SECONDS_MAX, Ledger
from duly.errors import InputError
from duly.runtime.bootstrap import open_store, unsubscribe_secrets
from duly.runtime.clock import SystemClock
from duly.runtime.config import Config
from duly.runtime.running import run_on_loop, stop_on_signals
from duly.runtime.telemetry import ServerTelemetry, configure

__all__ = ["run_server"]

#: Connections at once, idle ones included; whoever comes beyond is answered with 503.
CONNECTIONS_MAX: Final = 500
#: Longer than proxies keep an idle connection (nginx: 60 s): else a POST may meet one that is just being closed.
KEEP_ALIVE_SECONDS: Final = 75
DRAIN_SECONDS_MAX: Final = int(ANSWER_SECONDS_MAX) + 5
HOST_CHARACTERS_MAX: Final = 40


def run_server(config: Config, host: str, port: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Serve until a signal; returns `requests, unsubscribed, seconds`. `say` gets the line that tells where.

    Raises SchemaError if migrations are pending, InputError if nobody can listen there.
    """
    configure(debug=bool(os.environ.get("DULY_DEBUG")))
    reading = SystemClock().reading
    began = reading()
    counts = run_on_loop(_serve(config, host, port, say))
    return {**counts, "seconds": round(reading() - began, 3)}


async def _serve(config: Config, host: str, port: int, say: Callable[[str], None]) -> dict[str, int]:
    secrets, log = unsubscribe_secrets(config), ServerTelemetry()
    async with open_store(config) as store:
        ledger = Ledger(store, config.database.reveal(), f"serve@{socket.gethostname()[:HOST_CHARACTERS_MAX]}")
        edge = Edge(application(config, secrets, ledger, log), log, SystemClock().reading)
        with _listening(host, port) as listener:
            say(_where(listener, links_path(config)))
            await _Server(edge, log).serve([listener])
    return {"requests": edge.requests, "unsubscribed": ledger.recorded}


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens. Raises InputError."""
    if not host or not host.isascii():
        raise InputError("--host: write an address, such as 127.0.0.1, or a name in ASCII; 0.0.0.0 is every address")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no name of a host"
        raise InputError(f"nobody can listen on {host}, port {port}: {why}; see --host and --port") from None
    with listener:
        yield listener


def _where(listener: socket.socket, path: str | None) -> str:
    host, port = listener.getsockname()[:2]
    at = f"listening on http://{f'[{host}]' if ':' in host else host}:{port}"
    if path is None:
        return f"{at}, for health alone: without [unsubscribe] there are no links to answer"
    return f"{at}; links to unsubscribe are answered under {path}/"


class _Server(uvicorn.Server):
    """uvicorn, whose signals are ours: it would raise them again in the end, and so spoil an orderly one."""

    def __init__(self, app: Edge, log: ServerTelemetry) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS_MAX,
            )
        )
        self._log = log

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Called around everything else."""
        stop_on_signals(self._drain)
        yield

    def _drain(self) -> None:
        self._log.draining()
        self.should_exit = True
