"""Values for tests of the pure rules: one plausible row, changed where a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from duly.core.keys import NO_ENDPOINT
from duly.core.model import Capabilities, Channel, Claimed, Doubtful, Due, Frozen, Lane, Outcome, Revisions
from duly.core.states import State

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
KEYED = Capabilities(Channel.WEBHOOK, keyed_for=timedelta(days=1), key_scope=("endpoint",))
NOTHING = Capabilities(Channel.EMAIL)
SETTLING = timedelta(minutes=10)
ASKED = Capabilities(Channel.EMAIL, lookup_by_key=True, settling=SETTLING)
NAMED = Capabilities(Channel.EMAIL, lookup_by_id=True, settling=SETTLING)
SEARCHED = Capabilities(Channel.SMS, searchable=True, settling=SETTLING)
ECHOED = Capabilities(Channel.SMS, echoes_key=True, echo_within=timedelta(hours=1))
FROZEN = Frozen("https://a.example/in", b"{}", "note", "abc", 1, 1, 1, 1, b"h" * 32)


def later(**delta: float) -> datetime:
    """A moment after NOW."""
    return NOW + timedelta(**delta)


def claimed(**changes: Any) -> Claimed:
    """A claimed delivery without any objection."""
    values: dict[str, Any] = {
        "id": b"d" * 16,
        "account_id": 1,
        "account": "harbour",
        "fence": 1,
        "attempts": 0,
        "spared": 0,
        "doubt": False,
        "closed": False,
        "granted": False,
        "first_unknown_at": None,
        "reminder": b"r" * 16,
        "reminder_key": "inspection-1",
        "reminder_status": "done",
        "occurrence": "once",
        "lane": Lane.NORMAL,
        "due_at": NOW,
        "deadline_at": later(hours=8),
        "lease_until": later(seconds=60),
        "endpoint": NO_ENDPOINT,
        "channel": Channel.WEBHOOK,
        "address": "https://a.example/in",
        "recipient_ref": "tenant-17",
        "recipient_name": "Ana",
        "recipient_zone": "UTC",
        "recipient_locale": "en",
        "template": "note",
        "data": {},
        "revisions": Revisions(1, 1, 1, 1),
        "account_paused": False,
        "suppressed": None,
        "block": None,
        "frozen": None,
    }
    return Claimed(**{**values, **changes})


def in_doubt(**changes: Any) -> Claimed:
    """A claimed delivery of which one attempt may have been accepted a minute ago."""
    values = {"doubt": True, "attempts": 1, "first_unknown_at": later(minutes=-1), "frozen": FROZEN}
    return claimed(**{**values, **changes})


def doubtful(**changes: Any) -> Doubtful:
    """An uncertain delivery with one unknown attempt."""
    values: dict[str, Any] = {
        "id": b"d" * 16,
        "fence": 2,
        "state": State.UNCERTAIN,
        "since": later(minutes=-1),
        "account": "harbour",
        "provider": "hooks",
        "address": "https://a.example/in",
        "attempts": 1,
        "spared": 0,
        "unknown": 1,
        "last_unknown": 1,
        "last_unknown_at": later(minutes=-1),
        "request_id": None,
        "last_outcome": Outcome.UNKNOWN,
        "last_failure": None,
        "first_unknown_at": later(minutes=-1),
        "misses": 0,
        "missed_at": None,
        "due_at": later(minutes=-2),
        "deadline_at": later(hours=8),
        "closed": False,
        "restored": False,
        "alarmed": False,
        "refused": None,
        "frozen": FROZEN,
        "reason": "unknown_timeout",
    }
    return Doubtful(**{**values, **changes})


def due(**changes: Any) -> Due:
    """A reminder that is due now, on one channel."""
    values: dict[str, Any] = {
        "reminder": b"r" * 16,
        "account_id": 1,
        "account": "harbour",
        "key": "inspection-1",
        "recipient": b"p" * 16,
        "revision": 3,
        "due_at": NOW,
        "deadline_at": later(hours=8),
        "channels": (Channel.WEBHOOK,),
        "addresses": {"webhook": "https://a.example/in"},
        "inline": True,
        "lane": Lane.NORMAL,
    }
    return Due(**{**values, **changes})
