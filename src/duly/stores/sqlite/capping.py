"""Caps: who has had enough for now, counted and reserved under the writer's turn, so that none slips in between."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.core.caps import PER_DAYS_MAX, Ask, Cap, evidence, passing, waiting
from duly.core.model import Start
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database

__all__ = ["Capped", "forget_places", "give_places_back", "look", "note", "take_places"]


class Capped(NamedTuple):
    """The rows of a batch that are under a cap, and the ledger's time."""

    asks: Mapping[bytes, Ask]
    passed: frozenset[bytes]
    now: datetime

    def lets_pass(self, delivery: bytes) -> bool:
        """Whether no cap puts it off."""
        return delivery not in self.asks or delivery in self.passed

    def put_off(self, begun: Collection[bytes]) -> dict[bytes, datetime]:
        """Until when those wait that a cap puts off, now that these have begun."""
        return waiting(self.asks, self.passed, begun, self.now)


def look(db: Database, rows: Sequence[Start]) -> Capped:
    """Let the caps of the rows decide, in the rows' order."""
    asks = {row.id: _ask(db, row.id, row.cap) for row in rows if row.cap is not None}
    now = stored.moment(db.now())
    return Capped(asks, passing(asks, now), now)


def _ask(db: Database, delivery: bytes, cap: Cap) -> Ask:
    recipient, channel, purpose, has_place, doubt = db.row("cap_ask", id=delivery)
    whose = {"recipient": recipient, "channel": channel, "purpose": purpose}
    taken = db.rows("cap_taken", id=delivery, count=cap.count, **whose)
    moments = [stored.moment(began_at) for (began_at,) in taken]
    return Ask((recipient, channel, purpose), cap, moments, bool(has_place), bool(doubt))


def take_places(db: Database, capped: Capped, begun: Iterable[bytes]) -> None:
    """Reserve the places of capped rows that have begun."""
    db.change_each("cap_take", [(one, *capped.asks[one].whose) for one in begun if one in capped.asks])


def note(db: Database, worker: str, capped: Capped, late: Mapping[bytes, datetime]) -> None:
    """Say which cap has put these off, in their timelines."""
    told = [(worker, evidence(capped.asks[one].cap, until), one) for one, until in late.items()]
    db.change_each("cap_note", told)


def give_places_back(db: Database, moved: Iterable[bytes]) -> None:
    """Of these, those of which nothing ever left do not count any more."""
    db.change_each("cap_give_back", [(delivery,) for delivery in moved])


def forget_places(db: Database, limit: int) -> int:
    """See Store.forget_places."""
    with db.writing():
        before = stored.moment(db.now()) - timedelta(days=PER_DAYS_MAX)
        return db.change("cap_forget", before=stored.micros(before), limit=limit)
