"""Settling: what one attempt's result means for its delivery, and for its endpoint.

`accepted` is the end. `unknown` puts the delivery in doubt and leaves it to reconcile. A refusal, or a
request that never left, is retried with back-off while attempts and time last. Doubt sticks: an answer
speaks for its own attempt only, so a delivery that is already in doubt is never rejected, dead or
expired here; such an end only closes the rungs that send.

`auth` and `config` answers are the operator's to mend: they open the endpoint's circuit and are not
counted against the delivery.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from duly.core.backoff import next_try
from duly.core.limits import Limits
from duly.core.model import Claimed, FailureClass, Outcome, Result, Signal, SignalKind
from duly.core.states import State

__all__ = ["Next", "settle", "signal"]

OPERATORS_TO_MEND: Final = frozenset({FailureClass.AUTH, FailureClass.CONFIG})


class Next(NamedTuple):
    """Where the delivery goes. `next_at` is None for final states and for at once."""

    state: State
    reason: str
    next_at: datetime | None = None
    closed: bool = False
    spared: bool = False


def settle(row: Claimed, number: int, result: Result, now: datetime, jitter: float, limits: Limits) -> Next:
    """Decide what follows from attempt `number`'s result. `now` is when its answer was complete."""
    match result.outcome:
        case Outcome.ACCEPTED:
            return Next(State.SENT, "accepted")
        case Outcome.UNKNOWN:
            return _unknown(row, number, result, now, jitter, limits)
        case Outcome.REJECTED:
            return _end(row, State.REJECTED, _reason(result))
        case _:  # refused, not_sent
            return _again(row, number, result, now, jitter, limits)


def signal(row: Claimed, result: Result, limits: Limits) -> Signal | None:
    """What the answer says about the endpoint, if anything."""
    if result.outcome is Outcome.REFUSED and result.failure in OPERATORS_TO_MEND:
        return Signal(row.endpoint, SignalKind.OPEN, str(result.failure), limits.circuit_first_seconds)
    if result.outcome is Outcome.REFUSED and result.retry_after:
        seconds = min(result.retry_after, limits.retry_after_ceiling_seconds)
        return Signal(row.endpoint, SignalKind.BLOCK, "retry_after", seconds)
    if row.block is not None and row.block.circuit and result.outcome in (Outcome.ACCEPTED, Outcome.REJECTED):
        return Signal(row.endpoint, SignalKind.CLOSE, "answered", 0.0)
    return None


def _unknown(row: Claimed, number: int, result: Result, now: datetime, jitter: float, limits: Limits) -> Next:
    """In doubt. Reconcile looks after a back-off; out of attempts, only the looking rungs remain."""
    exhausted = number - row.spared >= limits.attempts_max
    look_at = next_try(now, row.deadline_at, number, jitter, None, limits)
    reason = "attempts_exhausted_in_doubt" if exhausted else _reason(result)
    return Next(State.UNCERTAIN, reason, look_at, closed=row.closed or exhausted)


def _again(row: Claimed, number: int, result: Result, now: datetime, jitter: float, limits: Limits) -> Next:
    spared = result.failure in OPERATORS_TO_MEND
    tries = number - row.spared - int(spared)
    if not spared and tries >= limits.attempts_max:
        return _end(row, State.DEAD, "attempts_exhausted")
    retry_after = limits.circuit_first_seconds if spared else result.retry_after
    moment = next_try(now, row.deadline_at, tries, jitter, retry_after, limits)
    if moment is None:
        return _end(row, State.EXPIRED, "deadline_before_next_try")
    return Next(State.WAITING, _reason(result), moment, closed=row.closed, spared=spared)


def _end(row: Claimed, state: State, reason: str) -> Next:
    """Final, unless an earlier attempt may have been accepted: then only the ladder may finish it."""
    if row.doubt:
        return Next(State.UNCERTAIN, f"{reason}_in_doubt", closed=True)
    return Next(state, reason)


def _reason(result: Result) -> str:
    return f"{result.outcome}_{result.failure}" if result.failure else str(result.outcome)
