"""The ladder: what may be done about a delivery of which nobody knows whether it was accepted.

The rungs follow from what the receiver declares, never from hope:

    0  we hold its name for an attempt: ask for that
    1  keyed, and within its window: the same bytes under the same key again
    2  it can be asked for our key: wait out the settling time, look, look again
    3  it echoes our key: wait for the event that brings it back, but not for ever
    4  it can be searched by recipient and time: as 2, matched on our own bytes
    5  nothing can be asked: the account's policy (hold, resend, close)

A look-up's miss proves nothing; a settling time does. Two misses that count, one settling time apart,
cover the unknown attempts: nobody has them, and the delivery is no longer in doubt. What closes the
rungs that send (a permanent refusal, a cancel, a deadline) leaves the rungs that look, each with a
longest wait. Reconcile only looks and decides: a resend goes back to ready, and through claim and
admission like any other delivery. A hold is a rung too: it has an alarm, and an end of its own.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.core.admit import key_window_end
from duly.core.backoff import wait_seconds
from duly.core.limits import Limits
from duly.core.model import Capabilities, Doubtful, HoldPolicy, Look, LookKind, OnDoubt, Outcome
from duly.core.states import State

__all__ = ["KILLED", "Ask", "Doubts", "Stay", "Step", "climb", "forbids_sending", "learn"]

#: A provider that cannot answer is asked again after a quarter of the time for which it has been asked, up to this.
LOOK_SECONDS_MAX: Final = 3600.0
#: Why a delivery is given up over which workers died; `_in_doubt` where one of them may have sent it.
KILLED: Final = "killed_its_workers"


class Doubts(NamedTuple):
    """An account's policies for what is in doubt."""

    on_doubt: OnDoubt = OnDoubt.HOLD
    hold: HoldPolicy = HoldPolicy()


class Step(NamedTuple):
    """Where the delivery goes."""

    state: State
    reason: str
    next_at: datetime | None = None
    granted: bool = False
    certain: bool = False
    covered: bool = False


class Ask(NamedTuple):
    """Look it up now; `learn` says what follows."""

    by: LookKind


class Stay(NamedTuple):
    """It stays where it is until `next_at`. `missed`: a miss was counted just now."""

    next_at: datetime
    misses: int
    missed: bool = False
    alarmed: bool = False


def climb(
    row: Doubtful, now: datetime, jitter: float, promise: Capabilities, doubts: Doubts, limits: Limits
) -> Step | Ask | Stay:
    """Decide about one uncertain or held delivery."""
    if row.state is State.HELD:
        return _held(row, now, doubts.hold, limits)
    if row.unknown == 0:
        return _certain_again(row, now, jitter, limits)
    return (
        _ask_by_name(row, now, promise, limits)
        or _repeat(row, now, promise, limits)
        or _ask_by_key(row, now, promise, limits)
        or _await_echo(row, now, promise)
        or _search(row, now, promise, limits)
        or _last_rung(row, now, promise, doubts, limits)
    )


def learn(
    row: Doubtful, look: Look, now: datetime, jitter: float, promise: Capabilities, limits: Limits
) -> Step | Stay:
    """What follows from a look-up that did not find the delivery. `now` is when its answer was complete."""
    if look.found is None:
        return _ask_later(row, look, now, jitter, limits)
    if promise.settling is None:  # then a miss means nothing, whenever it comes
        return _ask_later(row, look, now, jitter, limits)
    misses = row.misses + 1
    if misses < limits.misses_needed:
        return Stay(now + promise.settling, misses, missed=True)
    return _covered(row, now, jitter, limits)


def forbids_sending(row: Doubtful, now: datetime, limits: Limits) -> str | None:
    """Why no further request may leave, whatever the policy; None if one may."""
    if row.closed:
        return row.reason or "sending_closed"
    if row.refused is not None:
        return f"{row.refused}_in_doubt"
    if row.frozen is None and row.attempts:
        return "frozen_bytes_gone"
    if now >= row.deadline_at:
        return "deadline_passed_in_doubt"
    if row.attempts - row.spared >= limits.attempts_max:
        return "attempts_exhausted_in_doubt"
    return None


# --- doubt is over -------------------------------------------------------------------------------


def _certain_again(row: Doubtful, now: datetime, jitter: float, limits: Limits) -> Step:
    """A late answer came: the last attempt's outcome decides, as it would have at once."""
    final = _final(row, limits)
    if final is not None:
        return Step(*final, certain=True)
    wait = timedelta(seconds=wait_seconds(row.attempts, jitter, None, limits))
    return Step(State.WAITING, "late_answer", now + wait, certain=True)


def _covered(row: Doubtful, now: datetime, jitter: float, limits: Limits) -> Step:
    """Nobody has it. Admission will end it if it may not be sent any more."""
    final = _final(row, limits)
    if final is not None:
        return Step(*final, covered=True)
    wait = timedelta(seconds=wait_seconds(1, jitter, None, limits))
    return Step(State.WAITING, "looked_up_in_vain", now + wait, covered=True)


def _final(row: Doubtful, limits: Limits) -> tuple[State, str] | None:
    """The end that doubt alone had kept off; None if it may be tried again."""
    if row.last_outcome is Outcome.REJECTED:
        return State.REJECTED, f"rejected_{row.last_failure}"
    if row.reason.startswith(KILLED):
        return State.DEAD, KILLED
    if row.attempts - row.spared >= limits.attempts_max:
        return State.DEAD, "attempts_exhausted"
    return None


# --- the rungs -----------------------------------------------------------------------------------


def _ask_by_name(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> Ask | Stay | None:
    """A name speaks for one attempt: of another that is unknown too, its absence says nothing."""
    if not promise.lookup_by_id or row.request_id is None or row.unknown > 1:
        return None
    return _ask(row, now, promise, LookKind.REQUEST_ID, limits)


def _repeat(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> Step | None:
    if forbids_sending(row, now, limits) or _window(row, now, promise, limits) is not None:
        return None
    return Step(State.READY, "resend_same_key")


def _ask_by_key(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> Ask | Stay | None:
    return _ask(row, now, promise, LookKind.KEY, limits) if promise.lookup_by_key else None


def _await_echo(row: Doubtful, now: datetime, promise: Capabilities) -> Stay | None:
    """The event itself moves the delivery when it comes; here is only how long it is waited for."""
    if not promise.echoes_key or promise.echo_within is None:
        return None
    ends = _since(row) + promise.echo_within
    return Stay(ends, row.misses) if now < ends else None


def _search(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> Ask | Stay | None:
    """Only our own bytes can be told from another message to the same recipient. What nobody remembers had others."""
    if not promise.searchable or row.frozen is None or row.restored:
        return None
    return _ask(row, now, promise, LookKind.SEARCH, limits)


def _ask(row: Doubtful, now: datetime, promise: Capabilities, by: LookKind, limits: Limits) -> Ask | Stay | None:
    """Not before a miss would count, and not for longer than is worth it."""
    if now >= _since(row) + max(limits.looking_longest, _looks_take(promise, limits)):
        return None
    settling = promise.settling or timedelta()
    last = _since(row) if row.missed_at is None else max(row.missed_at, _since(row))
    return Ask(by) if now >= last + settling else Stay(last + settling, row.misses)


def _looks_take(promise: Capabilities, limits: Limits) -> timedelta:
    """For how long one has to look at least, with one look to spare."""
    return (promise.settling or timedelta()) * (limits.misses_needed + 1)


def _ask_later(row: Doubtful, look: Look, now: datetime, jitter: float, limits: Limits) -> Stay:
    patience = (now - _since(row)).total_seconds() / 4
    pause = min(max(patience, limits.look_seconds), LOOK_SECONDS_MAX)
    floor = min(look.retry_after or 0.0, limits.retry_after_ceiling_seconds)
    return Stay(now + timedelta(seconds=max(floor, pause * (1 + jitter / 4))), row.misses)


def _since(row: Doubtful) -> datetime:
    """From when on nothing can still be on its way to the receiver."""
    return row.last_unknown_at or row.since


# --- the last rung, and holds --------------------------------------------------------------------


def _last_rung(row: Doubtful, now: datetime, promise: Capabilities, doubts: Doubts, limits: Limits) -> Step:
    forbidden = forbids_sending(row, now, limits)
    why = forbidden or _unasked(row, now, promise, limits)
    if doubts.on_doubt is OnDoubt.RESEND and forbidden is None:
        return Step(State.READY, "resend_by_policy", granted=True)
    if doubts.on_doubt is OnDoubt.CLOSE:
        return Step(State.UNCONFIRMED, why)
    return Step(State.HELD, why, now + min(doubts.hold.alarm_after, doubts.hold.ends_after))


def _unasked(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> str:
    """Why no rung could settle it."""
    if promise.lookup_by_id or promise.lookup_by_key or promise.searchable:
        return "look_up_gave_no_answer"
    if promise.echoes_key:
        return "echo_did_not_come"
    return _window(row, now, promise, limits) or "sending_closed"


def _window(row: Doubtful, now: datetime, promise: Capabilities, limits: Limits) -> str | None:
    """Why the receiver cannot be asked by a repeat; None if it can."""
    window_end = key_window_end(row.first_unknown_at, promise, limits)
    if window_end is None:
        return "no_way_to_ask"
    return "key_window_closed" if now >= window_end else None


def _held(row: Doubtful, now: datetime, hold: HoldPolicy, limits: Limits) -> Step | Stay:
    if row.unknown == 0:
        return Step(State.UNCERTAIN, "late_answer")
    ends = row.since + hold.ends_after
    if now < ends:
        return _alarm(row, now, hold, ends)
    if hold.then is OnDoubt.RESEND and forbids_sending(row, now, limits) is None:
        return Step(State.READY, "resend_by_policy", granted=True)
    return Step(State.UNCONFIRMED, "hold_ended")


def _alarm(row: Doubtful, now: datetime, hold: HoldPolicy, ends: datetime) -> Stay:
    alarm = row.since + hold.alarm_after
    if row.alarmed:
        return Stay(ends, row.misses)
    return Stay(ends, row.misses, alarmed=True) if now >= alarm else Stay(min(alarm, ends), row.misses)
