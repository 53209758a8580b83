"""One paragraph about a delivery: why it was, was not, or is not yet sent, and what happens next.

It reads what `show` shows, and adds no facts: a state, a reason code, the attempts and the next moment
become sentences. Every reason code that the rules give has its sentence here. Moments are told by the clocks where the
recipient lives, and in UTC, where his zone is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

from duly.core.hindered import hindrance, hindrances, said, unsent_outlook
from duly.core.moments import is_before
from duly.core.postponed import (
    deadline_comes_first,
    deferrals,
    expires_waiting,
    last_moment,
    until_when,
    why_expired,
)
from duly.core.schedule import ONCE
from duly.core.spoken import Place, begun, listed, told_at, told_moment
from duly.core.timely import came_late, ended, lateness, taken_in
from duly.core.tried import BLOCKED_HERE, RESTORED, attempts_told, blocked_here, doubt_told, in_doubt

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
    "complained": "the recipient complained about a message, and nothing is sent to him any more",
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
    "opted_out": "the recipient opted out",
    "opted_out_of_marketing": "the recipient opted out of marketing",
    "opted_out_of_purpose": "the recipient opted out of messages of this purpose",
    "opted_out_of_security": "the recipient opted out of security messages",
    "opted_out_of_service": "the recipient opted out of service messages",
    "quiet_hours": "the recipient keeps quiet hours now",
    "rate_limited": "its receiver's allowance is used up for the moment",
    "recipient_deleted": "its recipient was deleted",
    "recipient_moved": "its recipient lives in another zone now",
    "reminder_cancelled": "the reminder was cancelled",
    "reminder_cancelled_in_doubt": "it was cancelled while an attempt may have been accepted",
    "reminder_paused": "the reminder is paused",
    "resend_by_policy": "the account's policy accepts the risk of a duplicate",
    "resend_same_key": "the receiver drops a repeat of the same key",
    "restored": RESTORED,
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

#: The latest say enough; `show` has all of them.
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

EARLIER_IN_DOUBT: Final = ", while an earlier attempt may have been accepted"
#: Reason code -> what is to be added about doubt.
_REFUSED_ADDRESS: Final[Mapping[str, str]] = {
    "rejected_invalid_destination": "",
    "rejected_invalid_destination_in_doubt": EARLIER_IN_DOUBT,
}
_NEXT: Final[Mapping[str, str]] = {
    "ready": "a worker will claim it",
    "leased": "a worker holds it and is about to send it",
    "sending": "a request is under way; if its worker is lost, the outcome will be found out after the lease",
    "waiting": "it will be tried again",
    "uncertain": "it will be reconciled",
    "held": "an operator must decide",
    "folded": "it shares the fate of its summary",
}


def next_action(status: str, next_at: str | None, deadline_at: str, *, late: bool = False) -> str:
    """What happens next to a delivery in that state, by its moments; "nothing" if it is final.

    `late`: it is sent after its deadline too, until `deadline_at`.
    """
    if status == "waiting" and deadline_comes_first(next_at, deadline_at):
        return f"{'its last moment' if late else 'its deadline'} comes first"
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
        came_late(shown, place),
        _standing(shown, place),
        ended(shown, place),
        *_summary(shown),
        *deferrals(shown, place),
        *attempts_told(shown),
        *lateness(shown, place),
        *doubt_told(shown, place),
        *_alarm(shown, place),
        hindrance(shown, place, REASONS),
        _outlook(shown, place),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _place(zone: str | None, zones: Zones) -> Place:
    return Place(zone, None if zone is None else zones(zone))


def _which(shown: Mapping[str, Any]) -> str:
    """The channel, the occurrence where there may be several, and the purpose."""
    label, purpose = shown.get("occurrence", ONCE), shown.get("purpose")
    parts = [shown["channel"], "" if label == ONCE else f"occurrence {label}", purpose and f"purpose {purpose}"]
    return ", ".join(filter(None, parts))


# --- a reminder ----------------------------------------------------------------------------------


def explain_reminder(
    shown: Mapping[str, Any], deliveries: Sequence[Mapping[str, Any]], zones: Zones = _no_zones
) -> str:
    """One paragraph about a reminder and one for each of its deliveries, from what `show` shows of them."""
    place = _place(shown.get("recipient_zone") or shown.get("zone"), zones)
    head = f"Reminder {shown['idempotency_key']} of account {shown['account']}{_of_purpose(shown)}"
    head += ": no further occurrence comes." if shown["status"] == "done" else f" is {shown['status']}."
    events = [_event(event, place) for event in shown["events"][-EVENTS_TOLD_MAX:]]
    if len(shown["events"]) > EVENTS_TOLD_MAX:
        events.insert(0, "...")
    told = [explain_delivery(delivery, zones) for delivery in deliveries]
    outlook = [*_next_occurrence(shown, place), *hindrances(shown, REASONS), *_left_out(shown.get("left_out") or ())]
    return "\n".join([" ".join([head, *events, *outlook]), *told])


def _of_purpose(shown: Mapping[str, Any]) -> str:
    return f" (purpose {shown['purpose']})" if shown.get("purpose") else ""


def _left_out(labels: Sequence[str]) -> list[str]:
    """What was sent before the reminder moved."""
    if not labels:
        return []
    were, does = ("was", "does") if len(labels) == 1 else ("were", "do")
    told = f"{listed(labels)} {were} sent before, or may have been, and {does} not come again"
    return [f"{told}; `duly reschedule` with --again asks for it."]


def _event(event: Mapping[str, Any], place: Place) -> str:
    """What happened to the reminder as a whole, who did it, and why."""
    when, actor, evidence = begun(told_at(event["at"], place)), event["actor"], event.get("evidence") or {}
    match event.get("kind"):
        case "missed":
            return f"{when} {_missed(evidence)}, because {explain_reason(event['reason'])}."
        case "retimed":
            moments = f"from {told_moment(evidence['from'], place)} to {told_moment(evidence['to'], place)}"
            return f"{when} {actor} moved its next occurrence {moments}{_because(event['reason'])}."
        case "revised":
            return f"{when} {actor} changed it{_moved(evidence, place)}{_because(event['reason'])}."
        case "cancelled" if event.get("from") == "cancelled":
            return f"{when} {actor} cancelled it once more{_because(event['reason'])}."
        case "paused" | "resumed" | "cancelled" as kind:
            return f"{when} {actor} {kind} it{_because(event['reason'])}."
    return f"{when} {actor} made it {event['to']}: {event['reason']}."


def _moved(evidence: Mapping[str, Any], place: Place) -> str:
    """From where to where a change moved the next occurrence."""
    before, after = evidence.get("from"), evidence.get("to")
    if after is None or before == after:
        return ""
    if before is None:
        return f", so that its next occurrence was due {told_at(after, place)}"
    return f", moving its next occurrence from {told_moment(before, place)} to {told_moment(after, place)}"


def _missed(evidence: Mapping[str, Any]) -> str:
    count, first, last = evidence["skipped"], evidence["first"], evidence["last"]
    if count == 1:
        return f"one occurrence was missed and left out, {first}"
    return f"{count} occurrences were missed and left out, from {first} to {last}"


def _because(reason: str) -> str:
    """A code in words, or the words that somebody wrote."""
    return f", because {REASONS[reason]}" if reason in REASONS else f": {reason}"


def _next_occurrence(shown: Mapping[str, Any], place: Place) -> list[str]:
    if not shown["next_due_at"]:
        return [] if shown["status"] == "done" else ["No further occurrence is planned."]
    label = shown.get("next_label") or ONCE
    which = "" if label == ONCE else f" (occurrence {label})"
    if shown["status"] == "paused":
        return [f"It stands still until it is resumed: what was to come next{which} does not come before."]
    return [f"It is next due {told_at(shown['next_due_at'], place)}{which}."]


# --- a delivery ----------------------------------------------------------------------------------


def _standing(shown: Mapping[str, Any], place: Place) -> str:
    status, reason = shown["status"], shown["reason"]
    if not reason:
        return f"It is {status}."
    if reason in _REFUSED_ADDRESS and any(map(blocked_here, shown["attempts"][-1:])):
        return f"It is {status}, because {BLOCKED_HERE}{_REFUSED_ADDRESS[reason]}."
    more = until_when(shown, place) or why_expired(shown, place) or said(shown, place)
    return f"It is {status}, because {_why(shown)}{more}."


def _why(shown: Mapping[str, Any]) -> str:
    """Its reason in words. No tick is to blame for what came too late."""
    taken = taken_in(shown)
    if shown["reason"] == "deadline_passed_before_tick" and taken and not is_before(taken, shown["deadline_at"]):
        return f"{last_moment(shown)} had passed before its reminder came"
    return explain_reason(shown["reason"]).replace("its deadline", last_moment(shown))


def _summary(shown: Mapping[str, Any]) -> list[str]:
    """The summary that it is, or that it was folded into."""
    if folded := shown.get("folded"):
        count = "one late reminder" if len(folded) == 1 else f"{len(folded)} late reminders"
        return [f"It is a summary of {count}."]
    if summary := shown.get("summary"):
        return [f"It {'is' if shown['status'] == 'folded' else 'was'} folded into the summary {summary}."]
    return []


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
        return f"Next: {action}; if nobody does, {_hold_ends(shown.get('hold_ends'), place)}."
    last = last_moment(shown)
    if shown["status"] == "uncertain" and deadline_comes_first(moment, shown["deadline_at"]):
        passed = f"{begun(last)} has passed by then, so no request leaves any more."
        return f"Next: {action} {told_at(moment, place)}. {passed}"
    when = f" {told_at(moment, place)}" if moment else ""
    deadline = f"no later than {last} {told_at(shown['deadline_at'], place)}"
    doubt = in_doubt(shown)
    told = expires_waiting(shown, place, in_doubt=doubt) or unsent_outlook(shown, place, in_doubt=doubt)
    return f"Next: {told or f'{action}{when}, {deadline}'}."


def _hold_ends(hold: Mapping[str, Any] | None, place: Place) -> str:
    """Until when a hold lasts, and what follows, where the account's policy is at hand."""
    if hold is None:
        return "the hold ends as its account's policy says"
    resend = "it is sent again, if that may be, and closed otherwise"
    then = resend if hold["then"] == "resend" else "it is closed, unconfirmed, and not sent again"
    return f"the hold ends {told_at(hold['ends_at'], place)}: {then}"
