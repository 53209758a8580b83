"""The ledger as an outsider sees it: read after every commit, over a connection of its own.

Nothing is taken from the store's memory. What was committed is compared with what was there before, and the
difference is what the checkers judge. The same mirror tells the scheduler from when on there is something to
do for each duty, so that nobody in a simulation asks in vain all the time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

from duly.core.model import Outcome
from duly.core.states import FINAL, State
from duly.sim.clocks import Time
from duly.sim.turns import NEVER_US
from duly.stores.loader import statements

__all__ = ["AttemptRow", "Change", "EventRow", "Ledger", "Move", "ResultRow", "Standing"]


class Standing(NamedTuple):
    """A delivery as it stands. Times are microseconds."""

    id: bytes
    state: State
    reason: str | None
    provider: str
    reminder: bytes
    contact: bytes
    due_at: int
    deadline_at: int
    attempts: int
    fence: int
    doubt: int
    closed: int
    granted: int
    restored: int
    suspicion: int
    next_at: int | None
    lease_until: int | None
    worker: str | None
    request_id: str | None


class Move(NamedTuple):
    """A delivery that stands otherwise than before. `before` is None if it was not written yet."""

    before: Standing | None
    after: Standing


class AttemptRow(NamedTuple):
    """An attempt that was written."""

    id: bytes
    number: int
    started_at: int
    worker: str
    payload_hash: bytes


class ResultRow(NamedTuple):
    """An attempt's result as it stands now, and what it was before (None: there was none)."""

    id: bytes
    number: int
    outcome: Outcome
    request_id: str | None
    covered: int
    before: Outcome | None


class EventRow(NamedTuple):
    """A line of the timeline. `delivery` is None if it concerns the reminder, or all."""

    delivery: bytes | None
    kind: str
    origin: str | None
    target: str | None
    actor: str
    reason: str
    evidence: str | None
    reminder: bytes | None = None


class Change(NamedTuple):
    """What one call has committed."""

    at_us: int
    actor: str
    call: str
    moves: tuple[Move, ...]
    attempts: tuple[AttemptRow, ...]
    results: tuple[ResultRow, ...]
    events: tuple[EventRow, ...]
    guarded: bool  # a restore guard was open before the call, and still is
    forbidden: dict[bytes, str]  # deliveries for which nothing may begin, and why
    arguments: tuple[Any, ...]  # of the call

    def explained(self, delivery: bytes) -> bool:
        """Whether an attempt's result or an event of the same commit tells why a delivery moved."""
        return any(row.id == delivery for row in self.results) or any(row.delivery == delivery for row in self.events)


@cache
def _statements() -> dict[str, str]:
    text = resources.files("duly.sim").joinpath("ledger.sql").read_text(encoding="utf-8")
    return dict(statements(text))


#: A cron expression comes again in a year. What is due so late is not waited for.
FAR_US: Final = Time().after(200 * 86400.0)

STATES: Final = {state.value: state for state in State}
OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


class Ledger:
    """The mirror. `look` brings it up to date; a file that was put back is looked at by `start_over`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start_over()

    def start_over(self) -> None:
        """Read all of a file that holds another past than before. Nothing of it is a change."""
        self.standing: dict[bytes, Standing] = {}
        self.results: dict[tuple[bytes, int], tuple[Outcome, int]] = {}
        self.attempts: dict[tuple[bytes, int], AttemptRow] = {}
        self.events: list[EventRow] = []
        self.moments: dict[str, int] = {}
        self.guarded = False
        self._attempt_seen = self._event_seen = 0
        self._version = -1
        self._raw = sqlite3.connect(self.path, isolation_level=None, cached_statements=32)
        self.look(0, "", "")

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()

    def back_up(self, path: Path) -> None:
        """A copy of the whole file, as a backup program makes it."""
        copy = sqlite3.connect(path)
        self._raw.backup(copy)
        copy.close()

    def look(self, at_us: int, actor: str, call: str, arguments: tuple[Any, ...] = ()) -> Change | None:
        """What was committed since the last look; None if nothing was."""
        version = self._row("version")[0]
        if version == self._version:
            return None
        self._version = version
        was_guarded, self.guarded = self.guarded, self._row("open_guard") is not None
        moves, attempts = tuple(self._moves()), tuple(self._new_attempts())
        results, events = tuple(self._new_results()), tuple(self._new_events())
        self.moments = self._moments()
        forbidden = dict(self._rows("forbidden")) if attempts else {}
        guarded = was_guarded and self.guarded
        return Change(at_us, actor, call, moves, attempts, results, events, guarded, forbidden, arguments)

    def accepted_names(self) -> dict[bytes, set[str]]:
        """Under which names each delivery was accepted, as far as results tell."""
        names: dict[bytes, set[str]] = {}
        for delivery, _, outcome, request_id, _ in self._rows("results"):
            if outcome == Outcome.ACCEPTED and request_id is not None:
                names.setdefault(delivery, set()).add(request_id)
        return names

    # --- differences -----------------------------------------------------------------------------

    def _moves(self) -> Iterator[Move]:
        for delivery, state, *rest in self._rows("standings"):
            after = Standing(delivery, STATES[state], *rest)
            before = self.standing.get(delivery)
            if before != after:
                self.standing[delivery] = after
                yield Move(before, after)

    def _new_attempts(self) -> Iterator[AttemptRow]:
        for place, *rest in self._rows("attempts_after", seen=self._attempt_seen):
            self._attempt_seen = place
            row = AttemptRow(*rest)
            self.attempts[row.id, row.number] = row
            yield row

    def _new_results(self) -> Iterator[ResultRow]:
        for delivery, number, outcome, request_id, covered in self._rows("results"):
            before = self.results.get((delivery, number))
            now = (OUTCOMES[outcome], covered)
            if before != now:
                self.results[delivery, number] = now
                yield ResultRow(delivery, number, now[0], request_id, covered, before and before[0])

    def _new_events(self) -> Iterator[EventRow]:
        for place, *rest in self._rows("events_after", seen=self._event_seen):
            self._event_seen = place
            self.events.append(EventRow(*rest))
            yield self.events[-1]

    # --- duties ----------------------------------------------------------------------------------

    def _moments(self) -> dict[str, int]:
        """From when on there is something to do, for each duty."""
        due = self._row("next_due")[0]
        moments = {"tick": NEVER_US if due is None or due > FAR_US else due}
        for row in self.standing.values():
            if row.state not in FINAL:
                for duty, moment in _duties(row):
                    moments[duty] = min(moments.get(duty, NEVER_US), moment)
        return moments

    def _rows(self, name: str, **values: Any) -> list[Any]:
        return self._raw.execute(_statements()[name], values).fetchall()

    def _row(self, name: str) -> Any:
        return self._raw.execute(_statements()[name]).fetchone()


def _duties(row: Standing) -> Iterator[tuple[str, int]]:
    """Who has something to do about an open row, and from when on."""
    next_at, lease_until = row.next_at or 0, row.lease_until or 0
    match row.state:
        case State.READY:
            yield f"send {row.provider}", 0
            yield "upkeep", row.deadline_at
        case State.WAITING:
            yield "upkeep", min(next_at, row.deadline_at)
        case State.LEASED:
            yield "upkeep", lease_until
        case State.SENDING:
            yield "upkeep", lease_until
            yield f"renew {row.worker}", 0
        case State.UNCERTAIN | State.HELD:
            yield "reconcile", next_at
            if row.state is State.HELD:
                yield "decide", 0
