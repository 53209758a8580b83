"""The words of the views, once for both databases: what each document says, and in which order.

A statement selects its columns in the order of the words here. Words that end in `at`, `until` or `since`
are moments, shown as RFC 3339 in UTC, ending in Z. A local time carries no offset and stands beside its zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duly.core.deadlines import deadline_of
from duly.core.explain import next_action
from duly.core.moments import instant, write_duration
from duly.core.revising import left_out_of, named
from duly.core.schedule import ONCE, Schedule
from duly.core.spoken import told_schedule

__all__ = [
    "ACCOUNT",
    "ATTEMPT",
    "BUDGET",
    "CONSENT",
    "CONSENTS",
    "CONSENT_EVENT",
    "COVERED",
    "DELIVERY",
    "EVENT",
    "FAILING",
    "FLAGS",
    "FORGOTTEN",
    "GUARD",
    "HISTORY_ROWS_MAX",
    "HOLD",
    "LINE",
    "PAUSED_TEMPLATE",
    "PINNED_TEMPLATE",
    "RECIPIENT",
    "REMINDER",
    "SUBMISSION",
    "WAITING",
    "delivery",
    "guards",
    "is_moment",
    "reminder",
    "submission",
]

#: As it was submitted: a duration or a moment.
LATE_UNTIL: Final = "late_until"

LINE: Final = ("id", "account", "reminder", "occurrence", "channel", "status", "reason", "attempts", "due_at")
DELIVERY: Final = (
    *("id", "account", "reminder", "occurrence", "channel", "provider", "template", "template_version", "status"),
    *("reason", "next_at", "due_at", "deadline_at", "lane", "payload_hash", "request_id", "lease_expires_at"),
    *("recipient", "restored", "zone", "late_from", "summary", "purpose", "submitted_at", "revised_at", "since"),
    *("finished_at", "recipient_zone", "obstacle"),
)
ATTEMPT: Final = (
    *("number", "started_at", "finished_at", "outcome", "class", "http_status", "request_id", "payload_hash"),
    *("retry_after", "response_excerpt", "worker", "detail", "covered"),
)
EVENT: Final = ("at", "kind", "from", "to", "actor", "reason", "evidence")
HOLD: Final = (
    *("id", "account", "reminder", "occurrence", "channel", "provider", "reason", "attempts", "held_since"),
    *("age_seconds", "alarmed", "next_at", "deadline_at"),
)
GUARD: Final = ("number", "since", "opened_at", "opened_by", "why", "closed_at", "closed_by", "closing_why")
COVERED: Final = ("provider", "state", "count", "oldest_due_at")
FORGOTTEN: Final = (
    *("provider", "endpoint", "account", "state", "granted", "closed", "deadline_passed", "age_seconds", "count"),
)
WAITING: Final = ("count", "next_due_at")
REMINDER: Final = (
    *("id", "account", "idempotency_key", "status", "schedule", "zone", "template", "template_version", "next_due_at"),
    *("next_label", "missed", "group", "recipient_zone", "submitted", "generation", "purpose", "deadline", "late"),
    LATE_UNTIL,
)
SUBMISSION: Final = (
    *("idempotency_key", "account", "to", "channels", "template", "data", "notify_at", "schedule", "zone", "missed"),
    *("grace", "deadline", "late", "late_until", "group", "lane", "purpose", "event_version"),
    *("follows_recipient", "recipient_zone"),
)
FAILING: Final = ("provider", "status", "reason", "count")
BUDGET: Final = ("provider", "endpoint", "tokens", "rate_per_second", "blocked_until", "reason", "circuit", "failures")

CONSENT: Final = ("kind", "purpose", "code", "at", "source", "reason", "actor", "recorded_at")
CONSENT_EVENT: Final = ("kind", "purpose", "at", "source", "reason", "actor", "recorded_at")
CONSENTS: Final = ("contact", "kind", "purpose", "channel", "address", "at", "source", "reason")
RECIPIENT: Final = ("id", "name", "email", "phone", "webhook", "zone", "locale", "quiet_hours")
ACCOUNT: Final = ("account", "paused", "created_at")
PAUSED_TEMPLATE: Final = ("template", "since", "actor", "reason")
PINNED_TEMPLATE: Final = ("template", "version", "reminders")

#: What becomes of occurrences that nobody saw in time, where a reminder does not say.
MISSED_DEFAULT: Final = "latest"

#: How much of what was said about an address is shown.
HISTORY_ROWS_MAX: Final = 1_000

#: Words for yes or no.
FLAGS: Final = frozenset(
    {"alarmed", "circuit", "closed", "covered", "deadline_passed", "granted", "paused", "restored"}
)

#: Only these wait for a moment: a ready row is claimed at once, a held one waits for a person, and a lease's end has
#: its own word.
_NEXT_MOMENT: Final = frozenset({"waiting", "uncertain"})


def is_moment(word: str) -> bool:
    """Whether the word names a moment."""
    return word in ("at", "since") or (word.endswith(("_at", "_until", "_since")) and word != LATE_UNTIL)


def delivery(
    columns: Mapping[str, Any],
    folded: Sequence[Mapping[str, Any]],
    attempts: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    consent: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A delivery with its timeline, from its columns (DELIVERY), what is folded into it (LINE), ATTEMPT and EVENT.

    `consent`: what was said that silences it, as `said_against` finds it.
    """
    document: dict[str, Any] = {}
    for word in DELIVERY:
        document[word] = columns[word]
        if word == "reason":
            late = columns["late_from"] is not None
            moments = (columns["next_at"], columns["deadline_at"])
            document["next_action"] = next_action(columns["status"], *moments, late=late)
        if word == "lane":
            document["idempotency_key"] = columns["id"]
    if columns["status"] not in _NEXT_MOMENT:
        document["next_at"] = None
    if columns["late_from"] is not None:
        document["late_from"] = instant(deadline_of(_parsed(columns["due_at"]), columns["late_from"], None))
    told = {"attempts": list(attempts), "receipts": [], "events": list(events)}
    return {**document, "folded": list(folded), **told, "consent": list(consent)}


def reminder(
    columns: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    obstacles: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A reminder with its deliveries and its own events, from its columns (REMINDER), its deliveries' (LINE), EVENT.

    `obstacles`: what stands in the way of what is still to come, as `in_the_way` tells it.
    """
    document: dict[str, Any] = {}
    for word in REMINDER:
        if word not in ("submitted", "generation"):
            document[word] = columns[word]
        if word == "next_due_at":
            document["next_local"] = _local(columns["next_due_at"], columns["zone"])
    document["schedule"] = told_schedule(columns["schedule"], columns["submitted"])
    if columns["next_due_at"] is not None:
        document["next_label"] = named(columns["next_label"] or ONCE, columns["generation"])
    if _repeats(columns["schedule"]):
        document["missed"] = columns["missed"] or MISSED_DEFAULT
    document["left_out"] = _left_out(columns["schedule"])
    return {**document, "obstacles": list(obstacles), "deliveries": list(lines), "events": list(events)}


def submission(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A reminder as the API takes it, from its columns (SUBMISSION), without what was not said.

    Where it follows its recipient, `to` says the zone that he has now.
    """
    times, unsaid = _times(columns["schedule"], columns["notify_at"]), ("schedule", "follows_recipient")
    said = {word: columns[word] for word in SUBMISSION if word not in ("notify_at", "recipient_zone", *unsaid)} | times
    if columns["follows_recipient"]:
        said["zone"] = "recipient"
        zone = columns["recipient_zone"] or columns["zone"]
        said["to"] = {**columns["to"], "zone": zone} if zone else columns["to"]
    return {word: value for word, value in said.items() if value is not None}


def _times(schedule: str | None, notify_at: str) -> dict[str, Any]:
    """When it fires, in the fields of a submission."""
    found = None if schedule is None else Schedule.from_text(schedule)
    if found is None or not found.before:
        return {"notify_at": notify_at, "repeat": found and found.repeat}
    return {"starts_at": notify_at, "before": list(map(write_duration, found.before))}


def _left_out(schedule: str | None) -> list[str]:
    return [] if schedule is None else left_out_of(Schedule.from_text(schedule))


def _repeats(schedule: str | None) -> bool:
    return schedule is not None and Schedule.from_text(schedule).repeat is not None


def _parsed(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


def guards(all_: Sequence[Mapping[str, Any]], covered: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The restore guards, newest first (GUARD), and what is in doubt of them (COVERED)."""
    opened = next((guard for guard in all_ if guard["closed_at"] is None), None)
    return {"open": opened, "guards": list(all_), "covered": list(covered)}


def _local(when: str | None, zone: str | None) -> str | None:
    if when is None or zone is None:
        return None
    try:
        return _parsed(when).astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
