"""How deliveries move: seen under the writer's turn, decided in Python, written statement by statement.

There is one writer, so what was read in a writing transaction is still so when it is written. `Entries`
gathers what a transaction has decided, checks every move against the table of transitions, and writes it
at the end: one statement per kind of entry, over all of its rows. A move leaves the hot row; an ending
removes it and finishes the permanent one. Doubt sticks: `may_become` says which ways are open to a
delivery that may have been accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from duly.core.model import Outcome, Result
from duly.core.states import FINAL, State, check
from duly.stores.sqlite.connect import Database

__all__ = ["Ending", "Entries", "Row", "endings", "may_become", "open_rows", "open_rows_of", "result_values"]

#: What may become of a delivery in doubt: it stays open, was accepted, or nobody will ever know.
OPEN_TO_DOUBT: Final = frozenset(State) - FINAL - {State.FOLDED} | {State.SENT, State.UNCONFIRMED}
STATES: Final = {state.value: state for state in State}


class Row(NamedTuple):
    """An open delivery as it stands. Times are stored microseconds, flags are 0 or 1."""

    id: bytes
    account: int
    reminder: bytes
    state: State
    fence: int
    attempts: int
    spared: int
    doubt: int
    closed: int
    granted: int
    first_unknown_at: int | None
    reason: str | None
    next_at: int
    worker: str | None
    misses: int
    missed_at: int | None
    restored: int
    alarmed: int
    suspicion: int
    deaths: int


class Ending(NamedTuple):
    """A delivery that is final."""

    id: bytes
    account: int
    reminder: bytes
    state: State
    attempts: int
    request_id: str | None
    due_at: int


class Named(Protocol):
    """Anything that is about one delivery."""

    @property
    def id(self) -> bytes:
        """The delivery."""
        ...


def open_rows_of(db: Database, batch: Iterable[Named]) -> dict[bytes, Row]:
    """The open rows of these deliveries, by id."""
    return {row.id: row for row in open_rows(db, "open_rows", ids=b"".join(one.id for one in batch))}


def open_rows(db: Database, statement: str, **values: Any) -> list[Row]:
    """The open rows that a statement selects."""
    return [
        Row(delivery, account, reminder, STATES[state], *rest)
        for delivery, account, reminder, state, *rest in db.rows(statement, **values)
    ]


def endings(db: Database, batch: Iterable[Named], statement: str = "deliveries_ended") -> dict[bytes, Ending]:
    """Those of these deliveries that are final, by id; of them those that the statement selects."""
    found = db.rows(statement, ids=b"".join(one.id for one in batch))
    return {
        delivery: Ending(delivery, account, reminder, STATES[state], *rest)
        for delivery, account, reminder, state, *rest in found
    }


def may_become(row: Row, state: State) -> bool:
    """Whether doubt leaves that way open."""
    return not row.doubt or state in OPEN_TO_DOUBT


def result_values(delivery: bytes, number: int, finished_at: int, result: Result, *, stale: bool) -> tuple[Any, ...]:
    """The values of `result_write`."""
    return (
        delivery,
        number,
        finished_at,
        result.outcome.value,
        None if result.failure is None else result.failure.value,
        result.http_status,
        result.request_id,
        result.retry_after,
        result.excerpt,
        result.detail,
        int(stale),
    )


class Entries:
    """What a transaction will write about deliveries."""

    def __init__(self) -> None:
        self._entries: dict[str, list[tuple[Any, ...]]] = {}
        self.not_sent: list[bytes] = []  # deliveries of which an attempt was not sent

    def record(self, delivery: bytes, number: int, finished_at: int, result: Result) -> None:
        """An attempt's result, under its own fence. It is written once; only unknown gives way to a definite one."""
        self._add("result_write", result_values(delivery, number, finished_at, result, stale=False))
        if result.outcome is Outcome.NOT_SENT:
            self.not_sent.append(delivery)

    def cover(self, row: Row) -> None:
        """Its unknown attempts were looked up in vain often enough. Those without a result have one now."""
        self._add("results_cover", (row.id, row.attempts))

    def move(self, row: Row, after: Row) -> None:
        """Where an open row stands from now on. The lease, if it had one, is over; so is a hold."""
        check(row.state, after.state)
        flags = (int(after.doubt), int(after.closed), int(after.granted))
        values = (after.state.value, after.fence, after.spared, *flags, after.first_unknown_at, after.reason)
        recovery = (after.misses, after.missed_at, after.restored, after.suspicion, after.deaths)
        self._add("work_move", (*values, after.next_at, *recovery, row.id))

    def look(self, after: Row) -> None:
        """What a look at an open row has changed. It stays where it is."""
        self._add("work_look", (after.next_at, after.misses, after.missed_at, after.alarmed, after.id))

    def reopen(self, row: Ending, state: State) -> None:
        """Work again for a delivery that had ended. Its attempts are spared."""
        check(row.state, state)
        self._add("work_reopen", (row.id, state.value, int(state is State.UNCERTAIN)))
        self._add("delivery_reopen", (row.id,))

    def end(
        self,
        row: Row | Ending,
        state: State,
        reason: str,
        finished_at: int | None = None,
        request_id: str | None = None,
    ) -> None:
        """How a delivery ended; its open row, if it has one, is removed. Without a moment, now."""
        check(row.state, state)
        self._add("work_close", (row.id,))
        self._add("delivery_finish", (state.value, reason, row.attempts, request_id, finished_at, row.id))

    def note(
        self, row: Row | Ending, kind: str, target: State, actor: str, reason: str, evidence: str | None = None
    ) -> None:
        """One line of the timeline. `evidence`: JSON text."""
        states = (row.state.value, target.value)
        self._add("event_add", (row.account, row.reminder, row.id, kind, *states, actor, reason, evidence))

    def write(self, db: Database) -> None:
        """Write all of it."""
        for statement, values in self._entries.items():
            db.change_each(statement, values)

    def _add(self, statement: str, values: tuple[Any, ...]) -> None:
        self._entries.setdefault(statement, []).append(values)
