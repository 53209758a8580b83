"""Decide: moves that no attempt explains, made by admission, reconcile or an operator.

A decision holds for the row as its maker saw it: under that fence, in that state. A row in doubt is never
finished as if it had not been sent, whatever the decision says. Doubt ends by decision only where every
attempt has a definite answer on record.
"""

from __future__ import annotations

from collections.abc import Sequence

from duly.core.model import Decision
from duly.core.states import FINAL, IllegalTransition, State, check
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Row, finish, may_become, move, note, open_row

__all__ = ["decide"]


def decide(db: Database, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
    """See Store.decide."""
    for decision in decisions:
        _check(decision)
    with db.writing():
        return frozenset(decision.id for decision in decisions if _decide(db, actor, decision))


def _check(decision: Decision) -> None:
    check(decision.origin, decision.state)
    if decision.origin is State.SENDING or decision.state in (State.LEASED, State.SENDING):
        raise IllegalTransition(f"{decision.origin} -> {decision.state} is claimed, begun or settled, never decided")


def _decide(db: Database, actor: str, decision: Decision) -> bool:
    row = open_row(db, decision.id)
    if row is None or (row.fence, row.state) != (decision.fence, decision.origin):
        return False
    after = _certain(db, row) if decision.certain else row
    if after is None or not may_become(after, decision.state):
        return False
    _apply(db, row, after, decision)
    if (decision.origin, decision.state) != (State.LEASED, State.READY):
        note(db, row, "decided", decision.state, actor, decision.reason)
    return True


def _certain(db: Database, row: Row) -> Row | None:
    """The row without its doubt, if every attempt has a definite answer on record."""
    if db.value("unknown_attempts", id=row.id):
        return None
    return row._replace(doubt=False, closed=False, granted=False, first_unknown_at=None)


def _apply(db: Database, row: Row, after: Row, decision: Decision) -> None:
    if decision.state in FINAL:
        finish(db, row, decision.state, decision.reason)
        return
    next_at = db.now() if decision.next_at is None else stored.micros(decision.next_at)
    move(
        db,
        row,
        after._replace(
            state=decision.state,
            reason=None if decision.state is State.READY else decision.reason,
            next_at=next_at,
            closed=after.closed or decision.closed,
            granted=after.granted or decision.granted,
        ),
    )
