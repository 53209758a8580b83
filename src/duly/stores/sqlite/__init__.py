"""The ledger in one SQLite file: durable on one machine, with nothing to install."""

from __future__ import annotations

from duly.stores.sqlite.store import Run, SqliteStore
from duly.stores.sqlite.views import SqliteViews

__all__ = ["Run", "SqliteStore", "SqliteViews"]
