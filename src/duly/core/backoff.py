"""When to try again: exponential back-off with full jitter.

The wait before try n + 1 is drawn evenly from zero to min(ceiling, first x 2^(n-1)), so that a crowd
that failed together does not return together (M. Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015). A Retry-After is a floor: it is waited out, up to a ceiling of our own, and
the jitter of the first step comes on top. No try is ever planned at or past the deadline.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.core.limits import Limits

__all__ = ["next_try", "wait_seconds"]

DOUBLINGS_MAX = 30


def wait_seconds(tries: int, jitter: float, retry_after: float | None, limits: Limits) -> float:
    """Seconds to wait after `tries` counted tries (at least 1). `jitter` is in [0, 1)."""
    doublings = min(max(tries, 1) - 1, DOUBLINGS_MAX)
    spread = jitter * min(limits.backoff_ceiling_seconds, limits.backoff_first_seconds * 2.0**doublings)
    if retry_after is None:
        return spread
    floor = min(max(retry_after, 0.0), limits.retry_after_ceiling_seconds)
    return max(spread, floor + jitter * limits.backoff_first_seconds)


def next_try(
    now: datetime, deadline: datetime, tries: int, jitter: float, retry_after: float | None, limits: Limits
) -> datetime | None:
    """The moment of the next try, or None if it would be at or past the deadline."""
    moment = now + timedelta(seconds=wait_seconds(tries, jitter, retry_after, limits))
    return moment if moment < deadline else None
