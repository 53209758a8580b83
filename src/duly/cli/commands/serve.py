"""`duly serve`: the HTTP server. Ctrl-C or SIGTERM finishes the requests under way; a second one leaves at once."""

from __future__ import annotations

from typing import Annotated

import typer

from duly.cli.surface import Surface, command

__all__ = ["register"]

PORT_MAX = 65_535

Host = Annotated[str, typer.Option("--host", help="The address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=PORT_MAX, help="The port; 0: any that is free.")]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def serve(surface: Surface, host: Host = "127.0.0.1", port: Port = 8080) -> None:
        """Answer links to unsubscribe, and say over HTTP whether it is alive."""
        from duly.errors import ConfigError

        try:
            from duly.api import run_server
        except ImportError:
            raise ConfigError("the server needs its libraries: pip install 'duly[serve]'") from None
        done = run_server(surface.config(), host, port, surface.note)
        surface.result(done, "{requests} requests, {unsubscribed} unsubscribed, {seconds} s".format(**done))
