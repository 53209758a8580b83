"""One scene per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.scene import Scene, scene_in


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """An empty ledger, a provider whose receivers drop repeats, and more slots than any test needs."""
    with scene_in(tmp_path) as opened:
        yield opened
