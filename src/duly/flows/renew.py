"""Renew: a request that is slow to be answered keeps its lease, so that nobody thinks its worker lost.

Only what has begun and is in the air is renewed, from half of its lease on: trust to *start* a request
is counted from the first claim and never grows. A request that outlasts its timeout by a whole lease is
not renewed any more: then something is wrong with this worker, and others may look at the row.
"""

from __future__ import annotations

from typing import Final

from duly.flows.route import Flight, Route, parts

__all__ = ["RENEW_SECONDS_MAX", "renew_some"]

#: How long to wait at most before looking again.
RENEW_SECONDS_MAX: Final = 5.0


async def renew_some(route: Route) -> int:
    """Renew what needs it; returns how many leases were."""
    reading = route.clock.reading()
    due = {token: flight for token, flight in route.flights.items() if _is_due(route, flight, reading)}
    renewed = 0
    for part in parts(list(due.items())):
        rows = [(flight.lease.row.id, flight.lease.row.fence) for _, flight in part]
        held = await route.store.renew(route.worker, rows, route.lease_seconds)
        renewed += len(held)
        _note(route, [token for token, _ in part], reading)
    return renewed


def _is_due(route: Route, flight: Flight, reading: float) -> bool:
    half, last = route.lease_seconds / 2, route.provider.timeout_seconds + route.lease_seconds
    return reading - flight.renewed_at >= half and reading - flight.began_at <= last


def _note(route: Route, tokens: list[int], reading: float) -> None:
    """Those that were fenced out are not asked for again and again. Some have landed meanwhile."""
    for token in tokens:
        if token in route.flights:
            route.flights[token] = route.flights[token]._replace(renewed_at=reading)
