"""A working directory as an operator's: a configuration, which is the module's own, and an empty ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores.ledgers import create_sqlite


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which is also the working directory. Its configuration is `CONFIG` of the module that asks."""
    (tmp_path / "duly.toml").write_text(request.module.CONFIG, encoding="utf-8")
    create_sqlite(tmp_path / "duly.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path
