"""How an open delivery moves: seen under the writer's turn, decided in Python, written as a whole.

There is one writer, so a row that was read in a writing transaction is still so when it is written. Every
move is checked against the table of transitions. A move leaves the hot row (`move`), or removes it and
finishes the permanent one (`finish`). Doubt sticks: `may_finish` says which ends are open to a delivery
that may have been accepted.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from duly.core.model import Result
from duly.core.states import FINAL, State, check
from duly.stores.sqlite.connect import Database

__all__ = ["Head", "Row", "ended", "finish", "may_become", "move", "note", "open_row", "open_rows", "record"]

#: What may become of a delivery in doubt: it stays open, was accepted, or nobody will ever know.
OPEN_TO_DOUBT: Final = frozenset(State) - FINAL - {State.FOLDED} | {State.SENT, State.UNCONFIRMED}


class Row(NamedTuple):
    """An open delivery as it stands. Times are stored microseconds."""

    id: bytes
    account: int
    reminder: bytes
    state: State
    fence: int
    attempts: int
    spared: int
    doubt: bool
    closed: bool
    granted: bool
    first_unknown_at: int | None
    reason: str | None
    next_at: int


class Head(NamedTuple):
    """A delivery's permanent row, once it is final."""

    id: bytes
    account: int
    reminder: bytes
    state: State
    attempts: int


def open_row(db: Database, delivery: bytes) -> Row | None:
    """The delivery's open row, if it has one."""
    found = db.row("open_row", id=delivery)
    return None if found is None else _row(found)


def open_rows(db: Database, statement: str, **values: Any) -> list[Row]:
    """The open rows that a statement selects."""
    return [_row(found) for found in db.rows(statement, **values)]


def _row(found: tuple[Any, ...]) -> Row:
    delivery, account, reminder, state, begun, fence, attempts, spared, doubt, closed, granted, *rest = found
    stands = State.SENDING if begun and state == State.LEASED else State(state)
    return Row(
        delivery, account, reminder, stands, fence, attempts, spared, bool(doubt), bool(closed), bool(granted), *rest
    )


def ended(db: Database, delivery: bytes) -> Head | None:
    """How the delivery ended, if it has."""
    found = db.row("delivery_ended", id=delivery)
    if found is None:
        return None
    account, reminder, status, attempts = found
    return Head(delivery, account, reminder, State(status), attempts)


def may_become(row: Row, state: State) -> bool:
    """Whether doubt leaves that way open."""
    return not row.doubt or state in OPEN_TO_DOUBT


def move(db: Database, row: Row, after: Row) -> None:
    """Write where an open row stands now. The lease, if it had one, is over."""
    check(row.state, after.state)
    db.change(
        "work_move",
        id=row.id,
        state=after.state.value,
        fence=after.fence,
        spared=after.spared,
        doubt=after.doubt,
        closed=after.closed,
        granted=after.granted,
        first_unknown_at=after.first_unknown_at,
        reason=after.reason,
        next_at=after.next_at,
    )


def finish(
    db: Database,
    row: Row | Head,
    state: State,
    reason: str,
    *,
    finished_at: int | None = None,
    request_id: str | None = None,
) -> None:
    """Close the row, if it is open, and write how the delivery ended."""
    check(row.state, state)
    db.change("work_close", id=row.id)
    db.change(
        "delivery_finish",
        id=row.id,
        status=state.value,
        reason=reason,
        attempts=row.attempts,
        request_id=request_id,
        finished_at=finished_at,
    )


def note(db: Database, row: Row | Head, kind: str, target: State, actor: str, reason: str) -> None:
    """Leave one line in the timeline."""
    db.change(
        "event_add",
        account=row.account,
        reminder=row.reminder,
        id=row.id,
        kind=kind,
        origin=row.state.value,
        target=target.value,
        actor=actor,
        reason=reason,
    )


def record(db: Database, delivery: bytes, number: int, finished_at: int, result: Result, *, stale: bool) -> bool:
    """Write an attempt's result, once: only an unknown one may be replaced, by a definite one."""
    written = db.change(
        "result_write",
        id=delivery,
        number=number,
        finished_at=finished_at,
        outcome=result.outcome.value,
        **{"class": None if result.failure is None else result.failure.value},
        http_status=result.http_status,
        request_id=result.request_id,
        retry_after=result.retry_after,
        excerpt=result.excerpt,
        detail=result.detail,
        stale=stale,
    )
    return bool(written)
