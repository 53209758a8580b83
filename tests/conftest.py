"""What every test stands on: nothing from outside, a Ctrl-C that is heard, logs of its own, properties that repeat.

A `DULY_...` variable of the shell that started pytest would configure the code under test, so they are
taken away before anything is imported. The few that are meant for the tests themselves stay.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Final

import pytest
import structlog
from hypothesis import HealthCheck, settings

FOR_TESTS: Final = {"DULY_TEST_POSTGRES", "DULY_TEST_POSTGRES_REQUIRED"}

for name in [name for name in os.environ if name.startswith("DULY_") and name not in FOR_TESTS]:
    del os.environ[name]

# The programs that tests start would otherwise compile the product anew, each of them, at every start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts us in the background lets us ignore Ctrl-C, and every program that we start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A deadline per example would measure the machine, and so would the check for slow strategies. CI draws the same
# examples every time, so that a red run is about the change; a developer's own runs keep looking for new ones.
BASE: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("here", BASE)
settings.register_profile("ci", BASE, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(autouse=True)
def logs_of_its_own() -> Iterator[None]:
    """A command that runs inside of a test sets logging up for a stream that ends with it."""
    yield
    structlog.reset_defaults()
