"""Redrive: dead letters return to work. What is dead is looked at under the writer's turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from duly.core.revising import is_replaced
from duly.core.states import State
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.guarding import closings
from duly.stores.sqlite.moves import Entries, endings

__all__ = ["requeue"]


class Asked(NamedTuple):
    """A delivery that is to be returned to work."""

    id: bytes


def requeue(db: Database, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
    """See Store.requeue."""
    with db.writing():
        asked = _each_once(deliveries)
        replaced = _replaced(db, asked)
        dead = [row for row in endings(db, asked, "redrivable").values() if row.id not in replaced]
        guards, entries = closings(db), Entries()
        for row in dead:
            target = State.UNCERTAIN if guards.cover(row.due_at) else State.READY
            entries.reopen(row, target)
            entries.note(row, "redriven", target, actor, reason)
        entries.write(db)
    return frozenset(row.id for row in dead)


def _each_once(deliveries: Iterable[bytes]) -> list[Asked]:
    return [Asked(delivery) for delivery in dict.fromkeys(deliveries)]


def _replaced(db: Database, asked: Iterable[Asked]) -> set[bytes]:
    """Those in whose place another generation has come, or will."""
    found = db.rows("generations", ids=b"".join(one.id for one in asked))
    return {delivery for delivery, newer, *seen in found if newer or is_replaced(*seen)}
