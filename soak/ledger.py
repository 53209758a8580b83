"""What Duly says in the end: every delivery as `duly show` tells it, and reminders that have none.

Read in one go through the same views as the commands use: a program for each of thousands of deliveries
would take longer than the soak.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from duly.core import keys
from duly.errors import NotFound
from duly.ports import Filters, Views
from duly.runtime.bootstrap import open_views
from duly.runtime.config import parse
from soak.installation import ACCOUNT, Installation

__all__ = ["Ledger", "Shown", "read"]

ROWS_MAX = 10_000_000
#: A delivery as `duly show --json` tells it.
Shown = dict[str, Any]


class Ledger(NamedTuple):
    """Deliveries by their id, and the state of each reminder that has none, by its key."""

    deliveries: dict[str, Shown]
    without_delivery: dict[str, str]


def read(installation: Installation, submitted: Iterable[str]) -> Ledger:
    """The whole ledger; `submitted` are the keys that it should know."""
    return asyncio.run(_read(installation, submitted))


async def _read(installation: Installation, submitted: Iterable[str]) -> Ledger:
    config = parse(installation.text, installation.file, installation.environment)
    async with open_views(config) as views:
        rows = await views.deliveries(Filters(limit=ROWS_MAX))
        shown = {row["id"]: await views.show_delivery(keys.parse(row["id"]) or b"") for row in rows}
        known = {one["reminder"] for one in shown.values()}
        without = {key: await _status(views, key) for key in submitted if key not in known}
    return Ledger(shown, without)


async def _status(views: Views, key: str) -> str:
    try:
        _, found = await views.find(key, ACCOUNT)
    except NotFound:
        return "unknown"
    return str((await views.show_reminder(found))["status"])
