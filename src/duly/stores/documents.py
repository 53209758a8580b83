"""The words of the views, once for both databases: what each document says, and in which order.

A statement selects its columns in the order of the words here. Words that end in `at`, `until` or `since`
are moments, shown as RFC 3339 in UTC, ending in Z. A local time carries no offset and stands beside its zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duly.core.explain import next_action

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
    "WAITING",
    "delivery",
    "guards",
    "instant",
    "is_moment",
    "reminder",
]

LINE: Final = ("id", "account", "reminder", "occurrence", "channel", "status", "reason", "attempts", "due_at")
DELIVERY: Final = (
    *("id", "account", "reminder", "occurrence", "channel", "provider", "template", "template_version", "status"),
    *("reason", "next_at", "due_at", "deadline_at", "lane", "payload_hash", "request_id", "lease_expires_at"),
    *("recipient", "restored"),
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
)
BUDGET: Final = ("provider", "endpoint", "tokens", "rate_per_second", "blocked_until", "reason", "circuit", "failures")

CONSENT: Final = ("kind", "purpose", "code", "at", "source", "reason", "actor", "recorded_at")
CONSENT_EVENT: Final = ("kind", "purpose", "at", "source", "reason", "actor", "recorded_at")
CONSENTS: Final = ("contact", "kind", "purpose", "channel", "address", "at", "source", "reason")
RECIPIENT: Final = ("id", "name", "email", "phone", "webhook", "zone", "locale")
ACCOUNT: Final = ("account", "paused", "created_at")
PAUSED_TEMPLATE: Final = ("template", "since", "actor", "reason")
PINNED_TEMPLATE: Final = ("template", "version", "reminders")

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
    return word in ("at", "since") or word.endswith(("_at", "_until", "_since"))


def instant(when: datetime) -> str:
    """RFC 3339 in UTC, ending in Z."""
    return when.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def delivery(
    columns: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A delivery with its timeline, from its columns (DELIVERY), attempts (ATTEMPT) and events (EVENT)."""
    document: dict[str, Any] = {}
    for word in DELIVERY:
        document[word] = columns[word]
        if word == "reason":
            document["next_action"] = next_action(columns["status"])
        if word == "lane":
            document["idempotency_key"] = columns["id"]
    if columns["status"] not in _NEXT_MOMENT:
        document["next_at"] = None
    return {**document, "attempts": list(attempts), "receipts": [], "events": list(events)}


def reminder(
    columns: Mapping[str, Any],
    next_due_at: datetime | None,
    lines: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A reminder with its deliveries and its own events, from its columns (REMINDER), its deliveries' (LINE), EVENT."""
    local = _local(next_due_at, columns["zone"])
    return {**columns, "next_local": local, "deliveries": list(lines), "events": list(events)}


def guards(all_: Sequence[Mapping[str, Any]], covered: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The restore guards, newest first (GUARD), and what is in doubt of them (COVERED)."""
    opened = next((guard for guard in all_ if guard["closed_at"] is None), None)
    return {"open": opened, "guards": list(all_), "covered": list(covered)}


def _local(when: datetime | None, zone: str | None) -> str | None:
    if when is None or zone is None:
        return None
    try:
        return when.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
