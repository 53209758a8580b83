"""What every room says: channels, lanes, outcomes and what a receiver promises."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Capabilities", "Channel", "FailureClass", "HoldPolicy", "Lane", "OnDoubt", "Outcome", "Scheduled"]


class Channel(StrEnum):
    """By what a reminder travels."""

    EMAIL = "email"
    SMS = "sms"
    WEBHOOK = "webhook"


class Lane(StrEnum):
    """How urgent a delivery is, in the order in which lanes are claimed."""

    URGENT = "urgent"
    NORMAL = "normal"
    BULK = "bulk"


class Outcome(StrEnum):
    """The classified answer of one attempt."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"  # a definite no, for good
    REFUSED = "refused"  # a definite no, for now
    NOT_SENT = "not_sent"  # no byte of the request can have been taken
    UNKNOWN = "unknown"  # it may have been accepted


class FailureClass(StrEnum):
    """Why an attempt was not accepted. The glossary calls it the class."""

    INVALID_DESTINATION = "invalid_destination"
    CONSENT_REVOKED = "consent_revoked"
    CONTENT_REJECTED = "content_rejected"
    AUTH = "auth"  # wrong credentials: opens the route's circuit
    CONFIG = "config"  # wrong address, sender or path: opens the route's circuit
    RATE_LIMITED = "rate_limited"
    TEMPORARY = "temporary"
    PROVIDER_DOWN = "provider_down"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TOO_LATE = "too_late"  # the lease or the deadline ran out before the first byte: nothing left
    WORKER_LOST = "worker_lost"  # the lease ended with no answer on record


class OnDoubt(StrEnum):
    """An account's policy for the last rung of the ladder."""

    HOLD = "hold"
    RESEND = "resend"
    CLOSE = "close"


class Scheduled(StrEnum):
    """What `schedule` did with one reminder."""

    CREATED = "created"
    ALREADY = "already"
    CONFLICT = "conflict"  # same key, other body than first submitted
    NEWER = "newer"  # ... and a higher event_version: to be revised
    OLDER = "older"  # ... and an event_version that is not higher than the one on record
    NO_RECIPIENT = "no_recipient"  # `to` is an id alone, and nobody goes by it
    NO_ADDRESS = "no_address"  # `to` is an id alone, and it has no address for a channel


class HoldPolicy(NamedTuple):
    """An account's policy for holds: when the alarm is raised, when the hold ends, and how."""

    alarm_after: timedelta = timedelta(hours=4)
    ends_after: timedelta = timedelta(days=7)
    then: OnDoubt = OnDoubt.CLOSE  # resend or close; a resend that may no longer be sent is closed


class Capabilities(NamedTuple):
    """What the receiver of one destination promises. The ladder and the guarantee table read it."""

    channel: Channel
    keyed_for: timedelta | None = None  # a repeat under the same key is dropped for so long
    key_scope: tuple[str, ...] = ()  # what must be the same for the key to be the same
    lookup_by_id: bool = False  # what it accepted can be asked for by its own name for it
    lookup_by_key: bool = False  # ... by our key
    echoes_key: bool = False  # its first event brings our key back
    echo_within: timedelta | None = None  # an echo that has not come after so long is not waited for
    searchable: bool = False  # ... by recipient and time, matched on our own bytes
    settling: timedelta | None = None  # before a look-up's miss may count, and between two that count
    receipts: bool = False
    names_message: bool = True  # a request id names one message, so two of them are two messages
