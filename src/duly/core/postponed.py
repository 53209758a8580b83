"""What a delivery waits for, and what it waited for when its deadline came, as sentences of `explain`.

A delivery may be put off until a moment that lies behind its deadline: quiet hours that last longer, a cap without
room, a pause that nobody lifts. It is not known before, so it waits, and expires. Both are told: while it waits, that
it will expire and when; afterwards, what it waited for. A cap is told with its number and its window, as it was when
it put the delivery off; quiet hours with whose clock decides, where the recipient's zone is not known.

What may be sent late ends at its *last moment* (`late_until`), and not at its deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from duly.core.caps import FREQUENCY_CAP, read_cap
from duly.core.moments import is_before
from duly.core.spoken import Place, begun, listed, told_at, told_moment, told_span

__all__ = [
    "PAUSES",
    "WAITED",
    "deadline_comes_first",
    "deferrals",
    "expires_waiting",
    "last_moment",
    "until_when",
    "why_expired",
]

#: Why it was put off without an attempt -> what it waited for, as the end of a sentence about the past.
WAITED: Final[Mapping[str, str]] = {
    "account_paused": "the account was paused",
    "begin_unconfirmed": "the database did not confirm what it recorded",
    "circuit_open": "the circuit of its receiver was open",
    FREQUENCY_CAP: "its recipient had had as many of this purpose as the account allows",
    "endpoint_busy": "its receiver had as many requests under way as it may have",
    "quiet_hours": "the recipient kept quiet hours",
    "rate_limited": "its receiver's allowance was used up",
    "reminder_paused": "the reminder was paused",
    "retry_after": "the receiver had asked us to wait",
    "template_paused": "its template was paused",
    "template_version_unknown": "the version of its template that it was promised by was not kept here",
}
#: Somebody ends these, and nobody knows when. Until then it is looked at again and again.
PAUSES: Final = frozenset({"account_paused", "reminder_paused", "template_paused"})
ANOTHER_TRY: Final = "it waited for another try"
DEFERRALS_TOLD_MAX: Final = 3
ZONES_NAMED_MAX: Final = 3
PASSED: Final = "deadline_passed"


def deferrals(shown: Mapping[str, Any], place: Place) -> list[str]:
    """The last times that it was put off before, without an attempt."""
    events = _put_off(shown)
    before = events[:-1] if shown["status"] == "waiting" else events
    return [
        f"{begun(told_at(event['at'], place))} it was put off: {event['reason'].replace('_', ' ')}{_cap([event])}."
        for event in before[-DEFERRALS_TOLD_MAX:]
    ]


def until_when(shown: Mapping[str, Any], place: Place) -> str:
    """What is to be added to the reason of one that waits: which cap it is, and until when it waits for that."""
    if not shown["next_at"]:
        return ""
    when = told_moment(shown["next_at"], place)
    match shown["reason"]:
        case "quiet_hours":
            return f", until {when}{_whose_clock(shown.get('quiet_clock'))}"
        case "frequency_cap":
            return f"{_cap(_put_off(shown)[-1:])}; there is room for it from {when} on"
    return ""


def why_expired(shown: Mapping[str, Any], place: Place) -> str:
    """What is to be added to a deadline that has passed: what the delivery waited for then."""
    if (shown["status"], shown["reason"]) != ("expired", PASSED):
        return ""
    end: Mapping[str, Any] = next((event for event in reversed(shown["events"]) if event["reason"] == PASSED), {})
    evidence = end.get("evidence") or {}
    code = evidence.get("waited_for") or _paused_last(shown)
    if code is None:
        return " before a worker took it" if end.get("from") == "ready" and not shown["attempts"] else ""
    until = told_moment(evidence["until"], place) if "until" in evidence else ""
    return f" while {WAITED.get(code, ANOTHER_TRY)}{_more(code, shown, until)}"


def deadline_comes_first(next_at: str | None, deadline_at: str) -> bool:
    """Whether the next moment of one that waits is not before its deadline."""
    return next_at is not None and not is_before(next_at, deadline_at)


def expires_waiting(shown: Mapping[str, Any], place: Place, *, in_doubt: bool) -> str | None:
    """What happens next to one that waits, where its deadline may come before it is tried; None where it does not."""
    if shown["status"] != "waiting" or not shown["next_at"]:
        return None
    last, deadline = last_moment(shown), told_at(shown["deadline_at"], place)
    if deadline_comes_first(shown["next_at"], shown["deadline_at"]):
        then = "what became of it is found out then" if in_doubt else "it expires then"
        return f"{last} comes first, {deadline}: {then}, and it is not tried again"
    if PAUSES & {shown["reason"], shown.get("obstacle")}:
        when = told_at(shown["next_at"], place)
        return f"it will be looked at again {when}; if the pause lasts until {last} {deadline}, it expires then"
    return None


def last_moment(shown: Mapping[str, Any]) -> str:
    """What its `deadline_at` is to be called."""
    return "its deadline" if shown.get("late_from") is None else "its last moment"


def _whose_clock(clock: Mapping[str, Any] | None) -> str:
    """Who decides about quiet hours where nobody knows the recipient's zone; nothing where it is known."""
    if clock is None:
        return ""
    zones = clock["zones"]
    named = listed(zones) if len(zones) <= ZONES_NAMED_MAX else f"{len(zones)} zones"
    if clock["of"] == "number":
        return f"; his zone is not known, so it must be free in every zone in which his number may ring ({named})"
    return f"; his zone is not known, so the account's clock decides ({named})"


def _put_off(shown: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [event for event in shown["events"] if event["kind"] == "decided" and event["to"] == "waiting"]


def _paused_last(shown: Mapping[str, Any]) -> str | None:
    """The pause that it was in at last, if it was in one: it may have been looked at just when its deadline came."""
    last = _put_off(shown)[-1:]
    return str(last[0]["reason"]) if last and last[0]["reason"] in PAUSES else None


def _more(code: str, shown: Mapping[str, Any], until: str) -> str:
    if code == FREQUENCY_CAP:
        events = [event for event in _put_off(shown) if event["reason"] == code]
        return f"{_cap(events[-1:])}; there would have been room from {until} on"
    return f", until {until}" if code == "quiet_hours" else ""


def _cap(events: Sequence[Mapping[str, Any]]) -> str:
    """The cap of a deferral: its number, and its window."""
    text = (events[0].get("evidence") or {}).get("cap") if events else None
    if text is None:
        return ""
    cap = read_cap(text)
    return f" ({cap.count} within {told_span(cap.per)})"
