"""The ladder: what may be done about a delivery of which nobody knows whether it was accepted.

The rungs follow from what the receiver declares, never from hope:

    1  keyed, and within its window: the same bytes under the same key again
    5  nothing can be asked: the account's policy (hold, resend, close)

(Rungs that look something up belong to providers that can be looked up.) Reconcile only decides: a
resend goes back to ready, and through claim and admission like any other delivery. Where a late
answer has made every attempt definite, doubt is over and the last answer counts.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from duly.core.admit import key_window_end
from duly.core.backoff import wait_seconds
from duly.core.limits import Limits
from duly.core.model import Capabilities, Doubtful, OnDoubt, Outcome
from duly.core.states import State

__all__ = ["Step", "climb"]


class Step(NamedTuple):
    """Where the delivery goes from uncertain."""

    state: State
    reason: str
    next_at: datetime | None = None
    granted: bool = False
    certain: bool = False


def climb(row: Doubtful, now: datetime, jitter: float, promise: Capabilities, policy: OnDoubt, limits: Limits) -> Step:
    """Decide about one uncertain delivery."""
    if row.unknown == 0:
        return _certain_again(row, now, jitter, limits)
    forbidden = _forbids_sending(row, now, limits)
    unasked = forbidden or _forbids_asking(row, now, promise, limits)
    if unasked is None:
        return Step(State.READY, "resend_same_key")
    return _last_rung(policy, unasked, may_send=forbidden is None)


def _certain_again(row: Doubtful, now: datetime, jitter: float, limits: Limits) -> Step:
    """A late answer came: the last attempt's outcome decides, as it would have at once."""
    if row.last_outcome is Outcome.REJECTED:
        return Step(State.REJECTED, f"rejected_{row.last_failure}", certain=True)
    if row.attempts - row.spared >= limits.attempts_max:
        return Step(State.DEAD, "attempts_exhausted", certain=True)
    wait = timedelta(seconds=wait_seconds(row.attempts, jitter, None, limits))
    return Step(State.WAITING, "late_answer", now + wait, certain=True)


def _forbids_sending(row: Doubtful, now: datetime, limits: Limits) -> str | None:
    """Why no further request may leave, whatever the policy; None if one may."""
    if row.closed:
        return row.reason or "sending_closed"
    if not row.frozen:
        return "frozen_bytes_gone"
    if now >= row.deadline_at:
        return "deadline_passed_in_doubt"
    if row.attempts - row.spared >= limits.attempts_max:
        return "attempts_exhausted_in_doubt"
    return None


def _forbids_asking(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> str | None:
    """Why the receiver cannot be asked by a repeat; None if it can."""
    window_end = key_window_end(row.first_unknown_at, promise, limits)
    if window_end is None:
        return "no_way_to_ask"
    return "key_window_closed" if now >= window_end else None


def _last_rung(policy: OnDoubt, why: str, *, may_send: bool) -> Step:
    if policy is OnDoubt.RESEND and may_send:
        return Step(State.READY, "resend_by_policy", granted=True)
    if policy is OnDoubt.CLOSE:
        return Step(State.UNCONFIRMED, why)
    return Step(State.HELD, why)
