"""The clock and the dice of a real process, and what it says about itself."""

from __future__ import annotations

import asyncio
import json

import pytest
import structlog

from duly.runtime.clock import SystemClock, SystemDice
from duly.runtime.telemetry import Telemetry, configure


def test_the_clock_never_steps_back_and_a_sleep_lasts() -> None:
    """Readings only grow, by at least what was slept."""
    clock = SystemClock()
    before = clock.reading()
    asyncio.run(clock.sleep(0.01))
    assert clock.reading() - before >= 0.01


def test_a_roll_is_from_zero_to_less_than_one() -> None:
    """And not always the same."""
    rolls = [SystemDice().roll() for _ in range(100)]
    assert all(0.0 <= roll < 1.0 for roll in rolls)
    assert len(set(rolls)) > 1


def test_lines_go_to_stderr_as_json_with_the_workers_name(capsys: pytest.CaptureFixture[str]) -> None:
    """One line per event; away from a terminal each is a JSON document."""
    try:
        configure()
        telemetry = Telemetry("w1")
        telemetry.started(["hooks"])
        telemetry.loop_failed("send hooks", ZeroDivisionError("x"))
    finally:
        structlog.reset_defaults()
    out, err = capsys.readouterr()
    assert out == ""
    started, failed = map(json.loads, err.splitlines())
    assert (started["event"], started["worker"], started["providers"]) == ("worker_started", "w1", ["hooks"])
    assert (failed["event"], failed["loop"], failed["error"]) == ("loop_failed", "send hooks", "ZeroDivisionError")
