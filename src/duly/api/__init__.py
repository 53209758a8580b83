"""The HTTP server: today it answers links to unsubscribe, and says whether it is alive.

Every request passes the `edge`: the limit on bodies, the headers of every answer, the log, and where a bug ends.
Behind it `app` puts routers together. A router is a function that takes what it needs (`health`, `links`); another
one is another module and another line in `app`. What the routers ask of the database stands in `ledger`, each call
with an end; `serving` has the socket, the signals and the count.

TLS, and whoever is slow on purpose, are the business of the proxy in front.
"""

from duly.api.serving import run_server

__all__ = ["run_server"]
