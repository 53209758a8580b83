"""What was tried, and what nobody knows of it, as sentences of `explain`.

Attempts that went alike, one after the other, are told once, with their number. Of an attempt that may have been
accepted it is said what follows: that it was settled; that only a repeat may leave which the receiver drops; or that
somebody decided to send it again all the same. Such a resend is told with who decided it and why, and that the
receiver may have the message twice: an acceptance that came after it says nothing about the attempt before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from duly.core.moments import is_before
from duly.core.spoken import Place, told_at
from duly.core.text import one_line

__all__ = ["BLOCKED_HERE", "RESTORED", "attempts_told", "blocked_here", "doubt_told", "in_doubt"]

RESTORED: Final = "the ledger was restored from a backup, and an attempt that it does not remember may have been made"
FORGOTTEN: Final = f"; {RESTORED}."

#: What blocked a URL inside a private network. The provider's detail of such an attempt names the switch.
PRIVATE_NETWORK_SWITCH: Final = "allow_private_networks"
BLOCKED_HERE: Final = (
    f"it was blocked here: its address is inside a private network and `{PRIVATE_NETWORK_SWITCH}` is off;"
    " nothing left this machine"
)

ACCEPTANCE: Final = "the acceptance on record"
AS_A_REPEAT: Final = "under the same key and to a receiver that drops repeats"
DECISION: Final = "a decision or evidence in its events"
RESENT: Final = "resend_by_policy"

#: The latest say enough; `show` has all of them. Those that went alike count as one.
ATTEMPTS_TOLD_MAX: Final = 6
DETAIL_CHARACTERS_MAX: Final = 120


def attempts_told(shown: Mapping[str, Any]) -> list[str]:
    """How many attempts there were, and how the latest went."""
    attempts, restored = shown["attempts"], _was_restored(shown)
    made = "on record" if restored else "made"
    if not attempts:
        return [f"No attempt {'is' if restored else 'was'} {made}{FORGOTTEN if restored else '.'}"]
    one, many = ("is", "are") if restored else ("was", "were")
    count = f"One attempt {one}" if len(attempts) == 1 else f"{len(attempts)} attempts {many}"
    told = list(_runs(map(_attempt, attempts)))
    if len(told) > ATTEMPTS_TOLD_MAX:
        told = ["...", *told[-ATTEMPTS_TOLD_MAX:]]
    return [f"{count} {made}: {', then '.join(told)}."]


def _runs(words: Iterable[str]) -> Iterable[str]:
    """Each once, with how often it came in a row."""
    for word, alike in groupby(words):
        times = len(list(alike))
        yield word if times == 1 else f"{times} times {word}"


def blocked_here(attempt: Mapping[str, Any]) -> bool:
    """Whether our own guard against private networks refused the address; the receiver was never asked."""
    return attempt["class"] == "invalid_destination" and PRIVATE_NETWORK_SWITCH in (attempt["detail"] or "")


def _attempt(attempt: Mapping[str, Any]) -> str:
    if blocked_here(attempt):
        return "blocked here (private network)"
    if attempt["covered"]:
        return "unknown (looked up in vain)"
    outcome = (attempt["outcome"] or "no answer yet").replace("_", " ")
    why = attempt["class"] or (attempt["http_status"] and str(attempt["http_status"]))
    if not why or outcome == "accepted":
        return outcome
    return f"{outcome} ({why.replace('_', ' ')}{_detail(attempt)})"


def _detail(attempt: Mapping[str, Any]) -> str:
    """Our words about what never left: nothing of a receiver's answer is in them."""
    if attempt["outcome"] != "not_sent" or not attempt["detail"]:
        return ""
    return f": {one_line(attempt['detail'], DETAIL_CHARACTERS_MAX)}"


def _was_restored(shown: Mapping[str, Any]) -> bool:
    """Whether its ledger may have forgotten an attempt: the open row says so, later its events."""
    return bool(shown["restored"]) or any(event["kind"] == "restored" for event in shown["events"])


# --- doubt ---------------------------------------------------------------------------------------


def in_doubt(shown: Mapping[str, Any]) -> bool:
    """Whether an attempt may have been accepted; after a restore, one that no row tells of."""
    forgotten = _was_restored(shown) if shown["status"] in ("sent", "unconfirmed") else shown["restored"]
    return any(map(_unknown, shown["attempts"])) or bool(forgotten)


def _unknown(attempt: Mapping[str, Any]) -> bool:
    return attempt["outcome"] == "unknown" and not attempt["covered"]


def doubt_told(shown: Mapping[str, Any], place: Place) -> list[str]:
    """What is not known of it, and what follows from that."""
    resent = _resent(shown)
    if resent is not None:
        return [_decided(resent, place), _perhaps_twice(shown, resent)]
    if not in_doubt(shown):
        return []
    if shown["status"] == "sent":
        accepted = any(attempt["outcome"] == "accepted" for attempt in shown["attempts"])
        return [f"The doubt about the earlier attempt was settled by {ACCEPTANCE if accepted else DECISION}."]
    if shown["status"] in ("held", "unconfirmed"):
        return ["An attempt may have been accepted, so it was not sent again."]
    may_leave = "the same bytes" if shown["attempts"] else "what is rendered anew from the same data"
    return [f"An attempt may have been accepted: until that is known, only {may_leave} may leave, {AS_A_REPEAT}."]


def _resent(shown: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The latest decision to send it again although an attempt may have been accepted, where that is so still."""
    decided: list[Mapping[str, Any]] = [event for event in shown["events"] if _is_resend(event)]
    if not decided or not (in_doubt(shown) or _accepted_before(shown["attempts"], decided[-1]["at"])):
        return None
    return decided[-1]


def _is_resend(event: Mapping[str, Any]) -> bool:
    verdict = (event.get("evidence") or {}).get("verdict")
    return event["kind"] == "decided" and event["to"] == "ready" and (event["reason"] == RESENT or verdict == "resend")


def _accepted_before(attempts: Sequence[Mapping[str, Any]], moment: str) -> bool:
    """Whether an attempt from before that moment has turned out to be accepted since."""
    return any(attempt["outcome"] == "accepted" and not _began_after(attempt, moment) for attempt in attempts)


def _began_after(attempt: Mapping[str, Any], moment: str) -> bool:
    return is_before(moment, attempt["started_at"])


def _decided(event: Mapping[str, Any], place: Place) -> str:
    """Who decided on it, and why."""
    head = f"An attempt may have been accepted; {told_at(event['at'], place)}"
    if event["reason"] == RESENT:
        return f"{head} the account's policy, which accepts the risk, decided that it is sent again all the same."
    return f"{head} {event['actor']} decided that it is sent again all the same: {event['reason']}."


def _perhaps_twice(shown: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    if any(_began_after(attempt, event["at"]) and _may_have_come(attempt) for attempt in shown["attempts"]):
        return "The receiver may have it twice."
    still_to_come = shown["status"] not in ("sent", "held", "unconfirmed")
    return "The receiver may then have it twice." if still_to_come else "It has not left again since."


def _may_have_come(attempt: Mapping[str, Any]) -> bool:
    return attempt["outcome"] in (None, "accepted", "unknown")
