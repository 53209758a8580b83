"""Admission: may this delivery be sent now, and until when does that answer hold?

The questions are asked in a fixed order, and the first that objects decides: cancelled, suppressed,
past its deadline, paused, behind a closed door, quiet hours. Each answer carries the reason code that every view
shows. A delivery in doubt is never finished as if it had not been sent: an objection for good closes
the rungs that send and leaves the rest to the ladder.

`good_until` is the earliest of the deadline, the next quiet hour, the end of the trusted part of the lease
and, in doubt, the end of the receiver's promise to drop a repeat. Begin compares it with the database's clock, and
the transport asks once more.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from duly.core.limits import Limits
from duly.core.model import Capabilities, Claimed
from duly.core.quiet_hours import ANY_TIME, Look
from duly.core.states import State

__all__ = ["Go", "Stop", "admit", "key_window_end"]


class Go(NamedTuple):
    """It may be sent, if it begins before `good_until`."""

    good_until: datetime


class Stop(NamedTuple):
    """It may not; it goes to `state` for `reason`. `next_at` is None for final states and for at once."""

    state: State
    reason: str
    next_at: datetime | None = None
    closed: bool = False


def admit(
    row: Claimed, now: datetime, trust_until: datetime, promise: Capabilities, limits: Limits, quiet: Look = ANY_TIME
) -> Go | Stop:
    """Decide about one claimed row. `now` and `trust_until` are in the database's time, as `quiet` is."""
    return (
        _refused_for_good(row, now)
        or _put_off(row, now, limits, quiet)
        or _beyond_asking(row, now, promise, limits)
        or _good_until(row, now, _until_quiet(trust_until, quiet), promise, limits)
    )


def _until_quiet(trust_until: datetime, quiet: Look) -> datetime:
    return trust_until if quiet.next_start is None else min(trust_until, quiet.next_start)


def key_window_end(first_unknown_at: datetime | None, promise: Capabilities, limits: Limits) -> datetime | None:
    """Until when a repeat under the same key is dropped, less a margin; None if that was never promised."""
    if promise.keyed_for is None or first_unknown_at is None:
        return None
    return first_unknown_at + promise.keyed_for - limits.key_window_margin


def _refused_for_good(row: Claimed, now: datetime) -> Stop | None:
    if row.reminder_status == "cancelled":
        return _end(row, State.CANCELLED, "reminder_cancelled")
    if row.reminder_status == "called_off":  # this delivery alone
        return _end(row, State.CANCELLED, "called_off")
    if row.suppressed is not None:
        return _end(row, State.SUPPRESSED, row.suppressed)
    if now >= row.deadline_at:
        return _end(row, State.EXPIRED, "deadline_passed")
    return None


def _end(row: Claimed, state: State, reason: str) -> Stop:
    """Final, unless an attempt may have been accepted: then only the ladder may finish it."""
    if row.doubt:
        return Stop(State.UNCERTAIN, f"{reason}_in_doubt", closed=True)
    return Stop(state, reason)


def _put_off(row: Claimed, now: datetime, limits: Limits, quiet: Look) -> Stop | None:
    if row.account_paused:
        return Stop(State.WAITING, "account_paused", now + timedelta(seconds=limits.pause_look_seconds))
    if row.reminder_status == "template_paused":
        return Stop(State.WAITING, "template_paused", now + timedelta(seconds=limits.pause_look_seconds))
    if row.reminder_status == "paused":
        return Stop(State.WAITING, "reminder_paused", now + timedelta(seconds=limits.pause_look_seconds))
    if row.block is not None and row.block.until > now:
        reason = "circuit_open" if row.block.circuit else "retry_after"
        return Stop(State.WAITING, reason, row.block.until)
    if quiet.until is not None:
        return Stop(State.WAITING, "quiet_hours", quiet.until)
    return None


def _beyond_asking(row: Claimed, now: datetime, promise: Capabilities, limits: Limits) -> Stop | None:
    """In doubt, only the same bytes under a key that is still honoured may go out, unless that was granted."""
    if not row.doubt:
        return None
    if row.closed:
        return Stop(State.UNCERTAIN, "sending_closed", closed=True)
    if row.frozen is None and row.attempts:  # without any: restored, and rendered anew from the same data
        return Stop(State.UNCERTAIN, "frozen_bytes_gone", closed=True)
    if row.granted:
        return None
    window_end = key_window_end(row.first_unknown_at, promise, limits)
    if window_end is None:
        return Stop(State.UNCERTAIN, "no_way_to_ask")
    return Stop(State.UNCERTAIN, "key_window_closed") if now >= window_end else None


def _good_until(row: Claimed, now: datetime, trust_until: datetime, promise: Capabilities, limits: Limits) -> Go | Stop:
    good_until = min(row.deadline_at, trust_until)
    if row.doubt and not row.granted:
        good_until = min(good_until, key_window_end(row.first_unknown_at, promise, limits) or good_until)
    return Go(good_until) if now < good_until else Stop(State.READY, "lease_ran_out")
