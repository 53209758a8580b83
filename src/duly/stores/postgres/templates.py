"""Templates: versions that are kept, and reminders that are moved from one to another."""

from __future__ import annotations

from collections.abc import Sequence

from duly.core.model import TemplateSource
from duly.ports import Upgrade, Upgraded
from duly.stores.postgres.arrays import bools, ints, texts, uuids
from duly.stores.postgres.connect import Connections

__all__ = ["keep", "sources", "upgrade"]


async def keep(connections: Connections, rows: Sequence[TemplateSource]) -> int:
    """See Store.keep_templates."""
    ordered = sorted(rows, key=lambda row: (row.name, row.version))
    columns = [
        texts(row.name for row in ordered),
        texts(row.version for row in ordered),
        texts(row.subject for row in ordered),
        texts(row.text for row in ordered),
        texts(row.html for row in ordered),
        ints(row.sms_segments_max for row in ordered),
        bools(row.sms_to_gsm for row in ordered),
    ]
    async with connections.transaction() as tx:
        cursor = await tx.send("keep_templates", *columns)
    return cursor.rowcount


async def sources(connections: Connections, versions: Sequence[tuple[str, str]]) -> list[TemplateSource]:
    """See Store.template_sources."""
    names, wanted = texts(name for name, _ in versions), texts(version for _, version in versions)
    async with connections.transaction() as tx:
        cursor = await tx.send("template_sources", names, wanted)
    return [TemplateSource(*row) for row in await cursor.fetchall()]


async def upgrade(connections: Connections, actor: str, reason: str, wanted: Upgrade) -> Upgraded:
    """See Store.upgrade_template."""
    what = (wanted.template, wanted.version)
    async with connections.transaction() as tx:
        last, others = await tx.row("page_to_upgrade", wanted.after.hex(), *what, wanted.account, wanted.limit)
        locked = [one for (one,) in await tx.rows("lock_to_upgrade", uuids(others), *what)] if others else []
        moved = await tx.rows("upgrade_reminders", uuids(locked), wanted.version, actor, reason) if locked else []
    return Upgraded(len(moved), len(locked) - len(moved), last)
