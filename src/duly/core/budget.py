"""The shared allowance of one endpoint: who may begin now, and when the others may ask again.

A budget is a token bucket (https://en.wikipedia.org/wiki/Token_bucket) with two doors in front of it.
The bucket fills at `rate` per second up to one second's worth, at least one. The first door is a
moment: until `blocked_until` nobody passes, because the receiver asked for it (Retry-After). The
second is the circuit: it was opened by an answer that concerns every delivery of the endpoint (wrong
credentials, wrong configuration). Behind an open circuit one delivery probes at a time, after
`blocked_until`. The grant of the probe counts as a failure in advance and moves `blocked_until` on by an
interval that doubles with each, so that the others wait for its answer, and an answer that says again
what opened the circuit changes nothing more. A good answer closes it and clears the count.

All times are the database's. A store holds the budget's row locked while it asks.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final, NamedTuple

__all__ = [
    "BEHIND_CIRCUIT",
    "CIRCUIT_SECONDS_MAX",
    "PROBE_SECONDS",
    "Allowance",
    "Grant",
    "burst",
    "circuit_seconds",
    "grant",
    "refill",
]

#: The first interval between probes, in seconds; it doubles with each failure.
PROBE_SECONDS: Final = 5.0
#: The longest interval of a circuit, in seconds: a mended secret is noticed within it.
CIRCUIT_SECONDS_MAX: Final = 60.0

#: Rows of an endpoint slower than this stand this far apart.
LONGEST_STEP_SECONDS: Final = 3600.0

CIRCUIT_OPEN: Final = "circuit_open"
RATE_LIMITED: Final = "rate_limited"
RETRY_AFTER: Final = "retry_after"
#: Why deliveries wait that look again as soon as their circuit closes, or may be probed.
BEHIND_CIRCUIT: Final = (CIRCUIT_OPEN, "refused_auth", "refused_config")


class Allowance(NamedTuple):
    """A budget as the ledger holds it. `rate` is per second; None: no limit."""

    tokens: float
    updated_at: datetime
    rate: float | None
    blocked_until: datetime | None
    block_reason: str | None
    circuit: bool
    failures: int  # in a row


class Grant(NamedTuple):
    """The first `granted` of the rows that asked may begin; the rest wait as `put_off` says, in order.

    `tokens` are left if all `granted` begin: give one back for each that does not. `blocked_until` and
    `failures` are to be stored if one begins; where they are not the allowance's own, it is the probe.
    """

    granted: int
    tokens: float
    blocked_until: datetime | None
    failures: int
    put_off: tuple[tuple[datetime, str], ...]


def burst(rate: float) -> float:
    """What the bucket holds at most: one second's worth, and never less than one token."""
    return max(1.0, rate)


def refill(allowance: Allowance, now: datetime) -> float:
    """The tokens at `now`; infinite without a rate. A clock that stepped back adds nothing."""
    if allowance.rate is None:
        return math.inf
    elapsed = max(0.0, (now - allowance.updated_at).total_seconds())
    return min(burst(allowance.rate), allowance.tokens + allowance.rate * elapsed)


def circuit_seconds(first_seconds: float, failures: int) -> float:
    """The interval of a circuit after so many failures in a row: doubled by each, and bounded."""
    return min(CIRCUIT_SECONDS_MAX, first_seconds * 2.0 ** min(failures, 16))


def grant(allowance: Allowance, wanted: int, now: datetime, probe_seconds: float = PROBE_SECONDS) -> Grant:
    """Decide for `wanted` rows of one endpoint, in the order in which they ask.

    The k-th row that gets no token waits k / rate seconds, so that they do not all come back at once.
    """
    tokens = refill(allowance, now)
    until, reason = _door(allowance, now)
    if until is not None:
        return _granted(allowance, 0, tokens, _line(until, reason, allowance.rate, wanted, first=0))
    if allowance.circuit and wanted and tokens >= 1:
        return _probe(allowance, tokens, wanted, now, probe_seconds)
    count = wanted if tokens >= wanted else int(tokens)
    return _granted(allowance, count, tokens, _line(now, RATE_LIMITED, allowance.rate, wanted - count, first=1))


def _door(allowance: Allowance, now: datetime) -> tuple[datetime | None, str]:
    """Until when nobody passes, and why."""
    if allowance.blocked_until is None or allowance.blocked_until <= now:
        return None, ""
    return allowance.blocked_until, CIRCUIT_OPEN if allowance.circuit else allowance.block_reason or RETRY_AFTER


def _probe(allowance: Allowance, tokens: float, wanted: int, now: datetime, probe_seconds: float) -> Grant:
    """The circuit is half open: one row passes, the others wait for what it learns."""
    until = now + timedelta(seconds=circuit_seconds(probe_seconds, allowance.failures))
    probing = allowance._replace(blocked_until=until, failures=allowance.failures + 1)
    return _granted(probing, 1, tokens, _line(until, CIRCUIT_OPEN, allowance.rate, wanted - 1, first=0))


def _granted(allowance: Allowance, granted: int, tokens: float, put_off: tuple[tuple[datetime, str], ...]) -> Grant:
    """`granted` rows begin. Without a rate nothing is counted, and a column holds no infinity."""
    left = 0.0 if math.isinf(tokens) else tokens - granted
    return Grant(granted, left, allowance.blocked_until, allowance.failures, put_off)


def _line(
    start: datetime, reason: str, rate: float | None, rows: int, *, first: int
) -> tuple[tuple[datetime, str], ...]:
    """One moment per row: from `start`, one token's time apart where there is a rate."""
    step = timedelta(seconds=min(1 / rate, LONGEST_STEP_SECONDS)) if rate else timedelta()
    return tuple((start + step * (first + k), reason) for k in range(rows))
