"""An installation per test, and a process that is afterwards as it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.runtime.installed import Installed


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    """An installation. What a worker changes in its process is changed back."""
    thresholds = gc.get_threshold()
    with beside(Receiver(slow_seconds=0.1)) as receiver:
        yield Installed(tmp_path, receiver)
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    structlog.reset_defaults()
