"""Back-off: jittered, floored by Retry-After, capped, and never past the deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.core.backoff import next_try, wait_seconds
from duly.core.limits import Limits
from tests.core.values import NOW, later

LIMITS = Limits()
JITTER = st.floats(0, 1, exclude_max=True)
TRIES = st.integers(-3, 10_000)
RETRY_AFTER = st.none() | st.floats(-10, 1e9)


def test_the_spread_doubles_up_to_the_ceiling() -> None:
    """1, 2, 4, ... seconds, and no more than 15 minutes."""
    assert [wait_seconds(n, 0.5, None, LIMITS) for n in (1, 2, 3, 10, 11, 500)] == [0.5, 1, 2, 256, 450, 450]


def test_a_long_retry_after_is_capped() -> None:
    """A receiver cannot put a delivery off for longer than our own ceiling."""
    assert wait_seconds(1, 0.0, 86_400.0, LIMITS) == LIMITS.retry_after_ceiling_seconds


@given(TRIES, JITTER, RETRY_AFTER)
def test_the_wait_is_bounded_and_never_short_of_retry_after(tries: int, jitter: float, told: float | None) -> None:
    """Whatever the numbers: within the ceilings, at least zero, at least what was asked for."""
    wait = wait_seconds(tries, jitter, told, LIMITS)
    assert 0 <= wait <= LIMITS.retry_after_ceiling_seconds + LIMITS.backoff_first_seconds
    if told is not None:
        assert wait >= min(told, LIMITS.retry_after_ceiling_seconds)


@given(TRIES, JITTER, RETRY_AFTER, st.floats(0, 1e6))
def test_no_try_is_planned_at_or_past_the_deadline(tries: int, jitter: float, told: float | None, left: float) -> None:
    """The next try lies between now and the deadline, or there is none."""
    deadline = later(seconds=left)
    moment = next_try(NOW, deadline, tries, jitter, told, LIMITS)
    assert moment is None or NOW <= moment < deadline
