"""Upgrade: reminders that were promised by an earlier version of their template are moved to another one.

The ledger is walked page by page in the order of its ids, each page in a commit of its own, so that nothing is held
up for long. It may be stopped and run again at any time: what was moved is not moved twice. A reminder of which a
delivery is open is left as it is: what has fired keeps its promise.
"""

from __future__ import annotations

from typing import Final

from duly.ports import Store, Upgrade, Upgraded

__all__ = ["UPGRADE_PAGE_ROWS", "upgrade"]

UPGRADE_PAGE_ROWS: Final = 1_000


async def upgrade(store: Store, template: str, version: str, *, account: str | None, why: str, actor: str) -> Upgraded:
    """Move the reminders of a template to a version that is kept; returns how many, and how many are under way."""
    moved, under_way = 0, 0
    after: bytes | None = bytes(16)
    while after is not None:
        page = await store.upgrade_template(actor, why, Upgrade(template, version, account, after, UPGRADE_PAGE_ROWS))
        moved, under_way, after = moved + page.moved, under_way + page.under_way, page.last
    return Upgraded(moved, under_way, None)
