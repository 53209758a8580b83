"""Templates: versions that are kept, and reminders that are moved from one to another, under the writer's turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duly.core.model import TemplateSource
from duly.ports import Upgrade, Upgraded
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database

__all__ = ["keep", "sources", "upgrade"]

UPGRADED: Final = "template_upgraded"


def keep(db: Database, rows: Sequence[TemplateSource]) -> int:
    """See Store.keep_templates. What brings nothing new does not wait for its turn to write."""
    known = {(one.name, one.version) for one in sources(db, [(row.name, row.version) for row in rows])}
    new = [row for row in rows if (row.name, row.version) not in known]
    if not new:
        return 0
    with db.writing():
        return db.change_each("template_keep", new)


def sources(db: Database, versions: Sequence[tuple[str, str]]) -> list[TemplateSource]:
    """See Store.template_sources."""
    with db.reading():
        found = [db.row("template_kept", name=name, version=version) for name, version in versions]
    return [TemplateSource(*row)._replace(sms_to_gsm=bool(row[-1])) for row in found if row is not None]


def upgrade(db: Database, actor: str, reason: str, wanted: Upgrade) -> Upgraded:
    """See Store.upgrade_template."""
    with db.writing():
        last = db.value("page_end", after=wanted.after, limit=wanted.limit)
        found = db.rows("reminders_to_upgrade", **wanted._asdict())
        moved = [one for one, under_way in ((row[:-1], row[-1]) for row in found) if not under_way]
        db.change_each("reminder_upgrade", [(wanted.version, reminder) for reminder, *_ in moved])
        for reminder, account, status, was in moved:
            evidence = stored.json_text({"template": wanted.template, "from": was, "to": wanted.version})
            states = (status, status)
            db.change_one("event_add", account, reminder, None, UPGRADED, *states, actor, reason, evidence)
    return Upgraded(len(moved), len(found) - len(moved), last)
