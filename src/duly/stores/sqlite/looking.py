"""Looking: reconcile's claims on rows in doubt, what it has seen of them, and a held row as an operator reads it.

A claim raises the fence and moves `next_at` on, like a lease: a reconciler that dies is succeeded when that
moment comes, and its late decision finds another fence. Held rows come at their alarm and at their end;
there are few of them, and each comes twice, so they are taken first.

A look that ends nothing leaves a row where it is. A miss that counts is recorded with its time, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from duly.core import keys
from duly.core.model import Doubtful, Frozen, Looked
from duly.core.states import State
from duly.errors import NotFound
from duly.stores.rounds import rounds
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Entries, Row, open_rows_of

__all__ = ["doubtful", "held", "looked"]

ALARM: Final = "hold_alarm"
BEING_LOOKED_AT: Final = frozenset({State.UNCERTAIN, State.HELD})


def doubtful(
    db: Database, providers: Sequence[str], limit: int, lease_seconds: float
) -> tuple[datetime, list[Doubtful]]:
    """See Store.doubtful."""
    with db.writing():
        now = db.now()
        found = _due(db, stored.json_text(list(providers)), limit)
        until = now + round(lease_seconds * stored.SECOND_US)
        db.change_each("doubtful_lease", [(until, delivery) for delivery in found])
        return stored.moment(now), _seen(db, found)


def _due(db: Database, providers: str, limit: int) -> list[bytes]:
    """The rows whose time has come."""
    held_ = db.rows("held_due", providers=providers, limit=limit)
    uncertain = db.rows("uncertain_due", providers=providers, limit=limit - len(held_))
    return [delivery for (delivery,) in (*held_, *uncertain)]


def _seen(db: Database, deliveries: Sequence[bytes]) -> list[Doubtful]:
    """These rows as they stand, in this order."""
    seen = db.rows("doubtful_seen", ids=b"".join(deliveries))
    return [stored.doubtful(row, _bytes_before(db, row[0])) for row in seen]


def _bytes_before(db: Database, delivery: bytes) -> Frozen | None:
    kept = db.row("frozen_latest", id=delivery)
    return None if kept is None else stored.frozen(kept)


def held(db: Database, delivery: bytes) -> tuple[datetime, Doubtful]:
    """See Store.held."""
    with db.reading():
        now = stored.moment(db.now())
        for row in _seen(db, [delivery]):
            if row.state is State.HELD:
                return now, row
    raise NotFound(f"delivery {keys.show(delivery)}: it is not held; see where it stands with `duly show`")


# --- what was seen -------------------------------------------------------------------------------


def looked(db: Database, actor: str, looks: Sequence[Looked]) -> frozenset[bytes]:
    """See Store.looked."""
    stayed: set[bytes] = set()
    with db.writing():
        now = db.now()
        for batch in rounds(looks, lambda look: look.id):
            seen, entries = open_rows_of(db, batch), Entries()
            stayed.update(look.id for look in batch if _look(actor, look, seen.get(look.id), now, entries))
            entries.write(db)
    return frozenset(stayed)


def _look(actor: str, look: Looked, row: Row | None, now: int, entries: Entries) -> bool:
    if row is None or row.fence != look.fence or row.state not in BEING_LOOKED_AT:
        return False
    alarm = look.alarmed and row.state is State.HELD
    first_said = look.missed and look.misses > row.misses
    entries.look(
        row._replace(
            next_at=stored.micros(look.next_at),
            misses=look.misses,
            missed_at=now if first_said else row.missed_at,
            alarmed=int(row.alarmed or alarm),
        )
    )
    if alarm and not row.alarmed:
        entries.note(row, ALARM, State.HELD, actor, ALARM)
    return True
