"""Decide: moves that no attempt explains, made by admission, reconcile or an operator.

A decision holds for the row as its maker saw it: under that fence, in that state. A row in doubt is never
finished as if it had not been sent, whatever the decision says. Doubt ends by decision only where every
attempt has a definite answer on record, or where counted misses cover those that have none: these are
marked so.
"""

from __future__ import annotations

from collections.abc import Sequence

from duly.core.model import Decision
from duly.core.states import FINAL, NOT_DECIDED, IllegalTransition, State, check
from duly.stores.rounds import rounds
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.capping import give_places_back
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.moves import Entries, Row, may_become, open_rows_of

__all__ = ["decide"]


def decide(db: Database, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
    """See Store.decide."""
    moved: set[bytes] = set()
    for decision in decisions:
        _check(decision)
    with db.writing():
        for batch in rounds(decisions, lambda decision: decision.id):
            seen, entries = open_rows_of(db, batch), Entries()
            done = [one for one in batch if _decide(db, actor, one, seen.get(one.id), entries)]
            entries.write(db)
            give_places_back(db, [one.id for one in done if one.certain])
            moved.update(one.id for one in done)
    return frozenset(moved)


def _check(decision: Decision) -> None:
    check(decision.origin, decision.state)
    if decision.origin in NOT_DECIDED - {State.LEASED} or decision.state in NOT_DECIDED:
        raise IllegalTransition(f"{decision.origin} -> {decision.state} is done by another call, never decided")


def _decide(db: Database, actor: str, decision: Decision, row: Row | None, entries: Entries) -> bool:
    if row is None or (row.fence, row.state) != (decision.fence, decision.origin):
        return False
    if decision.certain and db.value("unknown_attempts", id=row.id):
        return False
    after = _without_doubt(row) if decision.certain or decision.covered else row
    if not may_become(after, decision.state):
        return False
    if decision.covered:
        entries.cover(row)
    if decision.state in FINAL:
        entries.end(row, decision.state, decision.reason)
    else:
        entries.move(row, _moved(db, after, decision))
    if (decision.origin, decision.state) != (State.LEASED, State.READY):
        entries.note(row, "decided", decision.state, actor, decision.reason, decision.evidence)
    return True


def _without_doubt(row: Row) -> Row:
    open_again = row._replace(doubt=False, closed=False, granted=False, first_unknown_at=None)
    return open_again._replace(restored=0, misses=0, missed_at=None)


def _moved(db: Database, row: Row, decision: Decision) -> Row:
    """The row where the decision puts it. What is ready needs no reason."""
    return row._replace(
        state=decision.state,
        reason=None if decision.state is State.READY else decision.reason,
        next_at=db.now() if decision.next_at is None else stored.micros(decision.next_at),
        closed=(row.closed and not decision.reopened) or decision.closed,
        granted=row.granted or decision.granted,
    )
