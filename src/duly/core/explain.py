"""One paragraph about a delivery: why it was, was not, or is not yet sent, and what happens next.

It reads what `show` shows, and adds no facts: a state, a reason code, the attempts and the next moment
become sentences. Every reason code that the rules give has its sentence here. Moments are told by the clocks where the
recipient lives, and in UTC, where his zone is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Final

from duly.core.postponed import deadline_comes_first, deferrals, expires_waiting, until_when, why_expired
from duly.core.schedule import ONCE
from duly.core.spoken import Place, begun, told_at, told_moment

__all__ = ["REASONS", "explain_delivery", "explain_reason", "explain_reminder", "next_action"]

#: Reason code -> what it means, as the end of a sentence that begins with "because".
REASONS: Final[Mapping[str, str]] = {
    "accepted": "the provider accepted it",
    "account_paused": "the account is paused",
    "attempts_exhausted": "every attempt that it may have was used",
    "attempts_exhausted_in_doubt": "every attempt was used, and one of them may have been accepted",
    "begin_unconfirmed": "the database did not confirm that an attempt was recorded, so nothing was sent",
    "bounced": "the address bounced earlier, and nothing is sent to it any more",
    "called_off": "this delivery was cancelled",
    "cancelled_in_doubt": "it was cancelled while an attempt may have been accepted",
    "channel_disabled": "this channel of its recipient was disabled",
    "circuit_open": "the receiver refuses us (credentials or address), so its circuit is open",
    "complained": "its owner complained about a message, and nothing is sent to him any more",
    "deadline_before_next_try": "the next try would come after its deadline",
    "deadline_before_next_try_in_doubt": "no time is left for another try, and an attempt may have been accepted",
    "deadline_passed": "its deadline had passed",
    "deadline_passed_before_tick": "its deadline had passed before the tick found it",
    "deadline_passed_in_doubt": "its deadline passed while an attempt may have been accepted",
    "double_acceptance": "the provider accepted it under two different names: it was sent twice",
    "echo_did_not_come": "the provider would have reported on it by now if it had it, and did not",
    "endpoint_busy": "its receiver has as many requests under way as it may have",
    "frequency_cap": "its recipient has had as many of this purpose as the account allows for now",
    "found_by_look_up": "the provider was asked for it, and has it",
    "frozen_bytes_gone": "the bytes that were sent are no longer kept, so they cannot be repeated",
    "hold_alarm": "it has been held for so long that an operator should look at it now",
    "hold_ended": "its hold came to an end without a decision",
    "key_window_closed": "the receiver no longer promises to drop a repeat",
    "killed_its_workers": "too many workers died while they held it alone",
    "killed_its_workers_in_doubt": "too many workers died while they held it alone, and one of them may have sent it",
    "late_answer": "an answer came late and was definite: not accepted",
    "lease_ended": "the worker that held it gave no sign of life",
    "lease_ran_out": "the lease was too short for another request",
    "look_up_gave_no_answer": "the provider was asked for it and gave no answer that proves anything",
    "late": "it was late, and so comes with others in a summary",
    "looked_up_in_vain": "the provider was asked for it as often as it takes, and does not have it",
    "newer_version": "a newer version of it was submitted",
    "no_address": "the recipient has no address for this channel",
    "no_provider": "no provider is configured for this channel",
    "no_way_to_ask": "the receiver offers no way to find out",
    "occurrences_missed": "nobody looked in time",
    "operator": "an operator decided so",
    "opted_out": "its owner opted out",
    "opted_out_of_marketing": "its owner opted out of marketing",
    "opted_out_of_purpose": "its owner opted out of messages of this purpose",
    "opted_out_of_security": "its owner opted out of security messages",
    "opted_out_of_service": "its owner opted out of service messages",
    "quiet_hours": "the recipient keeps quiet hours now",
    "rate_limited": "its receiver's allowance is used up for the moment",
    "recipient_deleted": "its recipient was deleted",
    "recipient_moved": "its recipient lives in another zone now",
    "reminder_cancelled": "the reminder was cancelled",
    "reminder_cancelled_in_doubt": "it was cancelled while an attempt may have been accepted",
    "reminder_paused": "the reminder is paused",
    "resend_by_policy": "the account's policy accepts the risk of a duplicate",
    "resend_same_key": "the receiver drops a repeat of the same key",
    "restored": "the ledger was restored from a backup, and an attempt that it does not remember may have been made",
    "retry_after": "the receiver asked us to wait",
    "schedule_cannot_be_read": "this version cannot read its schedule",
    "sending_closed": "no further request may leave for it",
    "summary_cancelled": "the summary that it was folded into was called off",
    "summary_dead": "the summary that it was folded into was given up",
    "summary_expired": "the summary that it was folded into came too late",
    "summary_gathers": "it waits a moment for other reminders that are late",
    "summary_rejected": "the summary that it was folded into was refused for good",
    "summary_retired": "a reminder in it was changed before anything was sent",
    "summary_sent": "the summary that it was folded into was sent",
    "summary_suppressed": "the summary that it was folded into could not be sent to its recipient",
    "summary_unconfirmed": "nobody knows whether the summary that it was folded into was accepted",
    "summary_under_way": "a summary for the same recipient is just being sent, and it may join the next one",
    "superseded": "a newer version of its reminder took its place",
    "suppressed": "an operator suppressed the address",
    "template_paused": "its template is paused",
    "template_version_unknown": "the version of its template that it was promised by is not kept here",
    "unknown_worker_lost": "the worker was lost after it had begun to send",
    "zone_data_changed": "the rules of its zone have changed",
    "zone_unknown": "this machine does not know its zone; update the zone data (tzdata)",
}

ACCEPTANCE: Final = "the acceptance on record"
AS_A_REPEAT: Final = "under the same key and to a receiver that drops repeats"
DECISION: Final = "a decision or evidence in its events"

#: The latest say enough; `show` has all of them.
ATTEMPTS_TOLD_MAX: Final = 6
EVENTS_TOLD_MAX: Final = 10

#: A zone by its name; None if nobody knows it here.
Zones = Callable[[str], tzinfo | None]

_FAILURES: Final[Mapping[str, str]] = {
    "invalid_destination": "the address does not take messages",
    "consent_revoked": "the receiver wants no more messages",
    "content_rejected": "the content was not taken",
    "auth": "the credentials were not accepted",
    "config": "the address or the sender is not set up as it should be",
    "rate_limited": "too many requests were made",
    "temporary": "the trouble is temporary",
    "provider_down": "the receiver is in trouble",
    "timeout": "no answer came in time",
    "connection": "the connection failed",
    "too_late": "the time for a request had run out",
    "worker_lost": "the worker was lost",
}

_OUTCOMES: Final[Mapping[str, str]] = {
    "rejected": "the receiver refused it for good",
    "refused": "the receiver refused it for now",
    "not_sent": "nothing left this machine",
    "unknown": "nobody knows whether it was accepted",
}

#: What blocked a URL inside a private network. The provider's detail of such an attempt names the switch.
PRIVATE_NETWORK_SWITCH: Final = "allow_private_networks"
BLOCKED_HERE: Final = (
    f"it was blocked here: its address is inside a private network and `{PRIVATE_NETWORK_SWITCH}` is off;"
    " nothing left this machine"
)
EARLIER_IN_DOUBT: Final = ", while an earlier attempt may have been accepted"
#: Reason code -> what is to be added about doubt.
_REFUSED_ADDRESS: Final[Mapping[str, str]] = {
    "rejected_invalid_destination": "",
    "rejected_invalid_destination_in_doubt": EARLIER_IN_DOUBT,
}
FORGOTTEN: Final = f"; {REASONS['restored']}."

_NEXT: Final[Mapping[str, str]] = {
    "ready": "a worker will claim it",
    "leased": "a worker holds it and is about to send it",
    "sending": "a request is under way; if its worker is lost, the outcome will be found out after the lease",
    "waiting": "it will be tried again",
    "uncertain": "it will be reconciled",
    "held": "an operator must decide",
    "folded": "it shares the fate of its summary",
}


def next_action(status: str, next_at: str | None, deadline_at: str) -> str:
    """What happens next to a delivery in that state, by its moments; "nothing" if it is final."""
    if status == "waiting" and deadline_comes_first(next_at, deadline_at):
        return "its deadline comes first"
    return _NEXT.get(status, "nothing")


def explain_reason(reason: str | None) -> str:
    """The sentence behind a reason code; the code itself where it is made of others' words."""
    if not reason:
        return "no reason is on record"
    if reason in REASONS:
        return REASONS[reason]
    plain = reason.removesuffix("_in_doubt")
    doubt = "" if plain == reason else EARLIER_IN_DOUBT
    if plain in _OUTCOMES:
        return f"{_OUTCOMES[plain]}{doubt}"
    for outcome, words in _OUTCOMES.items():
        failure = plain.removeprefix(f"{outcome}_")
        if plain != failure and failure in _FAILURES:
            return f"{words}: {_FAILURES[failure]}{doubt}"
    return f"{REASONS.get(plain) or plain.replace('_', ' ')}{doubt}"


def _no_zones(_: str) -> None:
    """Where nobody knows zones, moments are told in UTC."""


def explain_delivery(shown: Mapping[str, Any], zones: Zones = _no_zones) -> str:
    """One paragraph about a delivery, from what `show` shows of it."""
    place = _place(shown.get("zone"), zones)
    head = f"Delivery {shown['id']} of reminder {shown['reminder']} ({_which(shown)})"
    sentences = [
        f"{head} was due {told_at(shown['due_at'], place)}.",
        _standing(shown, place),
        *_summary(shown),
        *deferrals(shown, place),
        *_attempts(shown["attempts"], restored=_was_restored(shown)),
        *_lateness(shown, place),
        *_doubt(shown),
        *_alarm(shown, place),
        _outlook(shown, place),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _place(zone: str | None, zones: Zones) -> Place:
    return Place(zone, None if zone is None else zones(zone))


def _which(shown: Mapping[str, Any]) -> str:
    """The channel, and the occurrence where there may be several."""
    label = shown.get("occurrence", ONCE)
    return shown["channel"] if label == ONCE else f"{shown['channel']}, occurrence {label}"


# --- a reminder ----------------------------------------------------------------------------------


def explain_reminder(
    shown: Mapping[str, Any], deliveries: Sequence[Mapping[str, Any]], zones: Zones = _no_zones
) -> str:
    """One paragraph about a reminder and one for each of its deliveries, from what `show` shows of them."""
    place = _place(shown.get("recipient_zone") or shown.get("zone"), zones)
    head = f"Reminder {shown['idempotency_key']} of account {shown['account']} is {shown['status']}."
    events = [_event(event, place) for event in shown["events"][-EVENTS_TOLD_MAX:]]
    if len(shown["events"]) > EVENTS_TOLD_MAX:
        events.insert(0, "...")
    told = [explain_delivery(delivery, zones) for delivery in deliveries]
    return "\n".join([" ".join([head, *events, _next_occurrence(shown, place)]), *told])


def _event(event: Mapping[str, Any], place: Place) -> str:
    """What happened to the reminder as a whole, who did it, and why."""
    when, actor, evidence = begun(told_at(event["at"], place)), event["actor"], event.get("evidence") or {}
    match event.get("kind"):
        case "missed":
            return f"{when} {_missed(evidence)}, because {explain_reason(event['reason'])}."
        case "retimed":
            moments = f"from {told_moment(evidence['from'], place)} to {told_moment(evidence['to'], place)}"
            return f"{when} {actor} moved its next occurrence {moments}{_because(event['reason'])}."
        case "paused" | "resumed" | "revised" as kind:
            return f"{when} {actor} {_DONE[kind]} it{_because(event['reason'])}."
    return f"{when} {actor} made it {event['to']}: {event['reason']}."


_DONE: Final[Mapping[str, str]] = {
    "paused": "paused",
    "resumed": "resumed",
    "revised": "changed",
}


def _missed(evidence: Mapping[str, Any]) -> str:
    count, first, last = evidence["skipped"], evidence["first"], evidence["last"]
    if count == 1:
        return f"one occurrence was missed and left out, {first}"
    return f"{count} occurrences were missed and left out, from {first} to {last}"


def _because(reason: str) -> str:
    """A code in words, or the words that somebody wrote."""
    return f", because {REASONS[reason]}" if reason in REASONS else f": {reason}"


def _next_occurrence(shown: Mapping[str, Any], place: Place) -> str:
    if not shown["next_due_at"]:
        return "No further occurrence is planned."
    label = shown.get("next_label") or ONCE
    which = "" if label == ONCE else f" (occurrence {label})"
    if shown["status"] == "paused":
        return f"It stands still until it is resumed: what was to come next{which} does not come before."
    return f"It is next due {told_at(shown['next_due_at'], place)}{which}."


# --- a delivery ----------------------------------------------------------------------------------


def _standing(shown: Mapping[str, Any], place: Place) -> str:
    status, reason = shown["status"], shown["reason"]
    if not reason:
        return f"It is {status}."
    if reason in _REFUSED_ADDRESS and any(map(_blocked_here, shown["attempts"][-1:])):
        return f"It is {status}, because {BLOCKED_HERE}{_REFUSED_ADDRESS[reason]}."
    more = until_when(shown, place) or why_expired(shown, place)
    return f"It is {status}, because {explain_reason(reason)}{more}."


def _summary(shown: Mapping[str, Any]) -> list[str]:
    """The summary that it is, or that it was folded into."""
    if folded := shown.get("folded"):
        count = "one late reminder" if len(folded) == 1 else f"{len(folded)} late reminders"
        return [f"It is a summary of {count}."]
    if summary := shown.get("summary"):
        return [f"It {'is' if shown['status'] == 'folded' else 'was'} folded into the summary {summary}."]
    return []


def _lateness(shown: Mapping[str, Any], place: Place) -> list[str]:
    """Since when it is late, where it is sent all the same."""
    late_from = shown.get("late_from")
    if late_from is None:
        return []
    when = told_moment(late_from, place)
    if not shown["attempts"]:
        return [f"From {when} on it is late, and says so when it is sent."]
    began_late = datetime.fromisoformat(shown["attempts"][0]["started_at"]) >= datetime.fromisoformat(late_from)
    return [f"It was late since {when}, and said so."] if began_late else []


def _attempts(attempts: Sequence[Mapping[str, Any]], *, restored: bool) -> list[str]:
    made = "on record" if restored else "made"
    if not attempts:
        return [f"No attempt {'is' if restored else 'was'} {made}{FORGOTTEN if restored else '.'}"]
    one, many = ("is", "are") if restored else ("was", "were")
    count = f"One attempt {one}" if len(attempts) == 1 else f"{len(attempts)} attempts {many}"
    shown = [_attempt(attempt) for attempt in attempts[-ATTEMPTS_TOLD_MAX:]]
    if len(attempts) > ATTEMPTS_TOLD_MAX:
        shown.insert(0, "...")
    return [f"{count} {made}: {', then '.join(shown)}."]


def _was_restored(shown: Mapping[str, Any]) -> bool:
    """Whether its ledger may have forgotten an attempt: the open row says so, later its events."""
    return bool(shown["restored"]) or any(event["kind"] == "restored" for event in shown["events"])


def _blocked_here(attempt: Mapping[str, Any]) -> bool:
    """Whether our own guard against private networks refused the address; the receiver was never asked."""
    return attempt["class"] == "invalid_destination" and PRIVATE_NETWORK_SWITCH in (attempt["detail"] or "")


def _attempt(attempt: Mapping[str, Any]) -> str:
    if _blocked_here(attempt):
        return "blocked here (private network)"
    if attempt["covered"]:
        return "unknown (looked up in vain)"
    outcome = (attempt["outcome"] or "no answer yet").replace("_", " ")
    why = attempt["class"] or (attempt["http_status"] and str(attempt["http_status"]))
    return f"{outcome} ({why.replace('_', ' ')})" if why and outcome != "accepted" else outcome


def _doubt(shown: Mapping[str, Any]) -> list[str]:
    if not _unknown(shown):
        return []
    if shown["status"] == "sent":
        accepted = any(attempt["outcome"] == "accepted" for attempt in shown["attempts"])
        return [f"The doubt about the earlier attempt was settled by {ACCEPTANCE if accepted else DECISION}."]
    if shown["status"] in ("held", "unconfirmed"):
        return ["An attempt may have been accepted, so it was not sent again."]
    may_leave = "the same bytes" if shown["attempts"] else "what is rendered anew from the same data"
    return [f"An attempt may have been accepted: until that is known, only {may_leave} may leave, {AS_A_REPEAT}."]


def _unknown(shown: Mapping[str, Any]) -> bool:
    """Whether an attempt may have been accepted; after a restore, one that no row tells of."""
    unknown = any(attempt["outcome"] == "unknown" and not attempt["covered"] for attempt in shown["attempts"])
    forgotten = _was_restored(shown) if shown["status"] in ("sent", "unconfirmed") else shown["restored"]
    return unknown or bool(forgotten)


def _alarm(shown: Mapping[str, Any], place: Place) -> list[str]:
    """When the alarm of the hold was raised, as long as it is held."""
    raised = [event["at"] for event in shown["events"] if event["kind"] == "hold_alarm"]
    return (
        [f"The alarm of its hold was raised {told_at(raised[-1], place)}."]
        if raised and shown["status"] == "held"
        else []
    )


def _outlook(shown: Mapping[str, Any], place: Place) -> str:
    action, moment = shown["next_action"], shown["next_at"]
    if action == "nothing":
        return "It is final: nothing more will happen."
    if shown["status"] == "held":
        return f"Next: {action}; if nobody does, the hold ends as its account's policy says."
    if shown["status"] == "uncertain" and deadline_comes_first(moment, shown["deadline_at"]):
        return (
            f"Next: {action} {told_at(moment, place)}. Its deadline has passed by then, so no request leaves any more."
        )
    when = f" {told_at(moment, place)}" if moment else ""
    deadline = f"no later than its deadline {told_at(shown['deadline_at'], place)}"
    return f"Next: {expires_waiting(shown, place, in_doubt=_unknown(shown)) or f'{action}{when}, {deadline}'}."
