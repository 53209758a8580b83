"""What a process says about itself: one typed event per thing worth telling, and one place that logs it.

Lines go to standard error, as text on a terminal and as JSON elsewhere. They carry ids and counts,
never addresses, message bodies, amounts or secrets. The library is imported where it is used: it takes a tenth
of a second, and most commands log nothing.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import datetime
from typing import Any

__all__ = ["ServerTelemetry", "Telemetry", "configure"]


def configure(*, debug: bool = False) -> None:
    """Set up logging for this process."""
    import structlog

    renderer: Any = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer(sort_keys=True)
    )
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it would say, our own errors say
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


class Telemetry:
    """The events of a worker."""

    def __init__(self, worker: str) -> None:
        import structlog

        self._log = structlog.get_logger().bind(worker=worker)

    def started(self, providers: list[str]) -> None:
        """The worker has begun to claim."""
        self._log.info("worker_started", providers=providers)

    def draining(self) -> None:
        """No more claims; sends under way are finished and recorded."""
        self._log.info("worker_draining")

    def stopped(self, tally: dict[str, int]) -> None:
        """The worker has left nothing of its own behind."""
        self._log.info("worker_stopped", **tally)

    def database_away(self, why: str) -> None:
        """The database does not answer; the worker waits."""
        self._log.warning("database_away", why=why)

    def database_back(self, seconds: float) -> None:
        """The database answers again."""
        self._log.warning("database_back", away_seconds=round(seconds, 1))

    def provider_failing(self, provider: str, endpoint: str | None, attempts: int, why: str) -> None:
        """So many attempts in a row got no answer from a provider, or from one endpoint of it."""
        self._log.warning("provider_failing", provider=provider, endpoint=endpoint, attempts=attempts, why=why)

    def provider_answers(self, provider: str, endpoint: str | None, attempts: int, seconds: float) -> None:
        """One that was told to fail answers again."""
        where = {"provider": provider, "endpoint": endpoint}
        self._log.warning("provider_answers", **where, attempts=attempts, away_seconds=round(seconds, 1))

    def unrecorded(self, requests: int) -> None:
        """The worker left while the database was away: these requests' outcomes will be found out after their lease."""
        self._log.error("left_unrecorded", requests=requests)

    def guard_open(self, since: datetime, why: str) -> None:
        """A restore guard is open: nothing is sent until an operator closes it."""
        self._log.error("restore_guard_open", since=since.isoformat(), why=why)

    def guard_closed(self) -> None:
        """The guard that this worker had seen is closed: sending goes on."""
        self._log.warning("restore_guard_closed")

    def double_acceptance(self, deliveries: int) -> None:
        """Providers named two messages for one delivery: `duly show` has both names."""
        self._log.error("double_acceptance", deliveries=deliveries)

    def holds_overdue(self, deliveries: int) -> None:
        """So many holds have just reached their alarm: `duly holds list` shows them."""
        self._log.error("hold_alarm", deliveries=deliveries)

    def look_ups_unanswered(self, look_ups: int) -> None:
        """So many look-ups were answered by nothing that proves anything: an error, a redirect, or not at all."""
        self._log.warning("look_ups_unanswered", look_ups=look_ups)

    def killed_workers(self, deliveries: int) -> None:
        """So many deliveries were given up because workers died over them, each alone."""
        self._log.error("killed_its_workers", deliveries=deliveries)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        """A bug: a loop of the worker raised what it should not."""
        self._log.error("loop_failed", loop=loop, **_bug(error))


class ServerTelemetry:
    """The events of a server. A request is told by its route, never by its path: the token of a link is in that."""

    def __init__(self) -> None:
        import structlog

        self._log = structlog.get_logger()

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """A request was answered; `route` is None where nothing is served under its path."""
        self._log.info("request", method=method, route=route, status=status, seconds=round(seconds, 4))

    def not_recorded(self, why: str) -> None:
        """Somebody wanted to opt out, and the ledger has not heard it."""
        self._log.warning("opt_out_not_recorded", why=why)

    def draining(self) -> None:
        """No more connections; requests under way are finished."""
        self._log.info("server_draining")

    def request_failed(self, error: BaseException) -> None:
        """A bug: the answer to a request raised what it should not."""
        self._log.error("request_failed", **_bug(error))


def _bug(error: BaseException) -> dict[str, str]:
    """Where it is, and not what: an exception's words may hold an address."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f"{last[0].filename}:{last[0].lineno}" if last else "unknown"
    return {"error": type(error).__name__, "at": place}
