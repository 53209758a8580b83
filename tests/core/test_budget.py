"""Budgets: how many may begin now, and when the others ask again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.budget import CIRCUIT_SECONDS_MAX, Allowance, Grant, burst, circuit_seconds, grant, refill

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
RATES = st.floats(0.001, 100_000)


def seconds(number: float) -> timedelta:
    """So many seconds."""
    return timedelta(seconds=number)


def allowance(tokens: float = 0.0, rate: float | None = 10.0, **more: object) -> Allowance:
    """A budget whose doors are open."""
    plain = Allowance(tokens, NOW, rate, None, None, circuit=False, failures=0)
    return plain._replace(**more)


def waits(granted: Grant) -> list[float]:
    """For how many seconds each row is put off."""
    return [(until - NOW).total_seconds() for until, _ in granted.put_off]


def reasons(granted: Grant) -> set[str]:
    """Why rows are put off."""
    return {reason for _, reason in granted.put_off}


# --- the bucket ----------------------------------------------------------------------------------


def test_without_a_rate_all_may_begin() -> None:
    """An endpoint without a rate counts nothing."""
    assert grant(allowance(rate=None), 500, NOW) == Grant(500, 0.0, None, 0, ())


def test_each_token_lets_one_row_begin() -> None:
    """As many rows begin as there are whole tokens, and the fraction stays."""
    granted = grant(allowance(3.5), 5, NOW)
    assert (granted.granted, granted.tokens, reasons(granted)) == (3, 0.5, {"rate_limited"})


def test_the_bucket_fills_with_time_up_to_one_second() -> None:
    """Tokens come back at the rate, and no more than one second's worth is kept."""
    assert refill(allowance(2.0), NOW + seconds(0.5)) == 7.0
    assert refill(allowance(2.0), NOW + seconds(60)) == 10.0


def test_a_slow_endpoint_keeps_one_token() -> None:
    """A rate below one per second still lets one row begin, once its token is whole."""
    assert burst(0.1) == 1.0
    assert grant(allowance(0.0, 0.1), 1, NOW + seconds(9)).granted == 0
    assert grant(allowance(0.0, 0.1), 1, NOW + seconds(10)).granted == 1


def test_a_clock_that_stepped_back_takes_nothing() -> None:
    """A time before the last one adds no tokens and takes none."""
    assert refill(allowance(2.0), NOW - seconds(60)) == 2.0


def test_rows_come_back_one_token_apart() -> None:
    """Rows without a token wait for the next one, the one after it, and so on."""
    assert waits(grant(allowance(1.0), 4, NOW)) == [0.1, 0.2, 0.3]


@given(tokens=st.floats(0, 1_000), rate=RATES, wanted=st.integers(0, 1_000), later=st.floats(0, 10_000))
def test_no_row_is_lost_and_no_token_made_up(tokens: float, rate: float, wanted: int, later: float) -> None:
    """Every row begins or waits, and what begins was in the bucket."""
    now = NOW + seconds(later)
    full = refill(allowance(tokens, rate), now)
    granted = grant(allowance(tokens, rate), wanted, now)
    assert granted.granted + len(granted.put_off) == wanted
    assert granted.granted <= full
    assert granted.tokens == pytest.approx(full - granted.granted)
    assert all(until > now for until, _ in granted.put_off)


@given(rate=RATES, asks=st.lists(st.tuples(st.floats(0, 5), st.integers(0, 200)), max_size=20))
def test_over_time_no_more_begin_than_the_rate_allows(rate: float, asks: list[tuple[float, int]]) -> None:
    """However it is asked, no more rows begin than the first bucket and the rate give."""
    budget, now, begun = allowance(burst(rate), rate), NOW, 0
    for pause, wanted in asks:
        now += seconds(pause)
        granted = grant(budget, wanted, now)
        begun += granted.granted
        budget = budget._replace(tokens=granted.tokens, updated_at=now)
    assert begun <= burst(rate) + rate * (now - NOW).total_seconds() + 1e-6


# --- the doors -----------------------------------------------------------------------------------


def test_nobody_passes_a_closed_door() -> None:
    """Until the moment that the receiver asked for, no row begins, whatever the tokens."""
    blocked = allowance(10.0, blocked_until=NOW + seconds(30), block_reason="retry_after")
    granted = grant(blocked, 3, NOW)
    assert (granted.granted, granted.tokens, reasons(granted)) == (0, 10.0, {"retry_after"})
    assert waits(granted) == [30.0, 30.1, 30.2]


def test_a_door_opens_at_its_moment() -> None:
    """From its moment on, a door without a circuit lets all pass."""
    opened = allowance(10.0, blocked_until=NOW, block_reason="retry_after")
    assert grant(opened, 3, NOW).granted == 3


def test_an_open_circuit_stops_all_until_its_moment() -> None:
    """Behind an open circuit the reason is the circuit, not what opened it."""
    opened = allowance(rate=None, blocked_until=NOW + seconds(5), block_reason="auth", circuit=True, failures=1)
    granted = grant(opened, 2, NOW)
    assert (granted.granted, granted.failures, reasons(granted)) == (0, 1, {"circuit_open"})
    assert waits(granted) == [5.0, 5.0]


def test_one_row_probes_an_open_circuit() -> None:
    """After its moment one row passes, counts as a failure in advance, and the others wait for its answer."""
    opened = allowance(rate=None, blocked_until=NOW, block_reason="auth", circuit=True, failures=1)
    granted = grant(opened, 3, NOW, probe_seconds=5.0)
    assert (granted.granted, granted.failures) == (1, 2)
    assert granted.blocked_until == NOW + seconds(10)
    assert waits(granted) == [10.0, 10.0]
    assert reasons(granted) == {"circuit_open"}


def test_a_probe_takes_a_token() -> None:
    """A probe needs a token like any other row, and without one nobody probes."""
    opened = allowance(1.5, blocked_until=NOW, circuit=True, failures=1)
    assert grant(opened, 2, NOW).tokens == 0.5
    empty = grant(opened._replace(tokens=0.5), 2, NOW)
    assert (empty.granted, empty.failures, empty.blocked_until, reasons(empty)) == (0, 1, NOW, {"rate_limited"})


def test_nobody_asks_and_nothing_changes() -> None:
    """Without a row there is no probe."""
    opened = allowance(1.5, blocked_until=NOW, circuit=True, failures=1)
    assert grant(opened, 0, NOW) == Grant(0, 1.5, NOW, 1, ())


def test_the_interval_of_a_circuit_doubles_and_is_bounded() -> None:
    """Each failure doubles the interval, up to a minute."""
    assert [circuit_seconds(5.0, failures) for failures in range(5)] == [5.0, 10.0, 20.0, 40.0, 60.0]
    assert circuit_seconds(5.0, 10_000) == CIRCUIT_SECONDS_MAX
