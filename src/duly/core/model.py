"""The words of Duly as values: what travels between the flows, the stores and the providers.

Times are aware datetimes in UTC, read from the database's clock. Durations are `timedelta`, or
seconds where the name says so. Ids are 16 bytes (see `keys`). Everything is immutable: a decision is
made from these values and returned as another one, and only a store writes. What is made for every
delivery is a named tuple, which costs a fraction of a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from duly.core.keys import payload_hash
from duly.core.states import State

__all__ = [
    "Attempt",
    "Begun",
    "Block",
    "Capabilities",
    "Channel",
    "Claimed",
    "Content",
    "Decision",
    "Doubtful",
    "Due",
    "FailureClass",
    "Fired",
    "Frozen",
    "Guard",
    "HoldPolicy",
    "Lane",
    "Look",
    "LookKind",
    "Looked",
    "NewContact",
    "NewDelivery",
    "NewReminder",
    "OnDoubt",
    "Outcome",
    "Result",
    "Revisions",
    "Scheduled",
    "Settlement",
    "Signal",
    "SignalKind",
    "Start",
]


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


# --- schedule ------------------------------------------------------------------------------------


class NewContact(NamedTuple):
    """A normalised address of one account."""

    id: bytes
    channel: Channel
    address: str
    endpoint: bytes  # keys.NO_ENDPOINT unless the channel is webhook


@dataclass(frozen=True, slots=True)
class NewReminder:
    """A validated reminder, ready to be written. `body_hash` is of the body as submitted."""

    id: bytes
    account: str
    key: str
    body_hash: bytes
    recipient: bytes
    recipient_ref: str
    recipient_name: str | None
    recipient_zone: str | None
    recipient_locale: str | None
    contacts: tuple[NewContact, ...]  # inline addresses; empty if `to` is an id alone
    channels: tuple[Channel, ...]
    template: str
    data: str  # JSON text
    to: str  # JSON text, as submitted
    notify_at: str  # as submitted
    zone: str | None
    next_due_at: datetime
    deadline: str | None  # as submitted
    deadline_at: datetime  # of this occurrence
    late: str
    lane: Lane
    purpose: str
    event_version: int | None


# --- tick ----------------------------------------------------------------------------------------


class Due(NamedTuple):
    """A reminder that is due. `addresses` are the inline ones, else the recipient's as he is now."""

    reminder: bytes
    account_id: int
    account: str
    key: str
    recipient: bytes
    revision: int
    due_at: datetime
    deadline_at: datetime
    channels: tuple[Channel, ...]
    addresses: dict[str, str]
    inline: bool
    lane: Lane


class NewDelivery(NamedTuple):
    """One occurrence on one channel. `state` is ready, expired or skipped; the last two carry a reason."""

    id: bytes
    account_id: int
    reminder: bytes
    recipient: bytes
    contact: bytes
    endpoint: bytes
    occurrence: str
    channel: Channel
    provider: str
    lane: Lane
    due_at: datetime
    deadline_at: datetime
    state: State
    reason: str | None
    address: str | None  # set where the contact has yet to be written (`to` is an id alone)


class Fired(NamedTuple):
    """What one due reminder becomes: its deliveries, and the schedule moved on."""

    reminder: bytes
    revision: int
    expected_due: datetime
    next_due: datetime | None  # None: no further occurrence, the reminder is done
    deliveries: tuple[NewDelivery, ...]


# --- claim, admit, begin -------------------------------------------------------------------------


class Revisions(NamedTuple):
    """What admission saw. A row begins only if all four are still so."""

    account: int
    reminder: int
    recipient: int
    contact: int


class Content(NamedTuple):
    """A rendered template. `html` is None if the template has none."""

    subject: str
    text: str
    html: str | None
    version: str


class Frozen(NamedTuple):
    """The bytes that bind while a delivery is in doubt. Credentials and timestamps are not in them."""

    destination: str
    body: bytes
    template: str
    template_version: str
    number: int = 0  # of the attempt that rendered them; 0: rendered now, not yet written
    reminder_revision: int = 0
    recipient_revision: int = 0
    contact_revision: int = 0
    hash: bytes = b""

    @classmethod
    def of(cls, row: Claimed, content: Content, body: bytes) -> Frozen:
        """Bytes that were rendered just now for this row, with what they were made from."""
        seen = row.revisions
        return cls(
            row.address,
            body,
            row.template,
            content.version,
            reminder_revision=seen.reminder,
            recipient_revision=seen.recipient,
            contact_revision=seen.contact,
            hash=payload_hash(body),
        )


class Block(NamedTuple):
    """A closed door before one endpoint (or a provider that has only one)."""

    until: datetime
    reason: str  # retry_after | auth | config
    circuit: bool  # opened by auth or config: after `until` one delivery probes it


class Claimed(NamedTuple):
    """A delivery under a lease, with all that admission, rendering and the request need."""

    id: bytes
    account_id: int
    account: str
    fence: int
    attempts: int  # begun so far
    spared: int  # of these, not counted towards exhaustion (auth and config answers)
    doubt: bool
    closed: bool  # in doubt, and the rungs that send are closed
    granted: bool  # a resend outside the key window was granted (policy or decision)
    first_unknown_at: datetime | None
    reminder: bytes
    reminder_key: str
    reminder_status: str
    occurrence: str
    lane: Lane
    due_at: datetime
    deadline_at: datetime
    lease_until: datetime
    endpoint: bytes
    channel: Channel
    address: str
    recipient_ref: str
    recipient_name: str | None
    recipient_zone: str | None
    recipient_locale: str | None
    template: str
    data: dict[str, Any]
    revisions: Revisions
    account_paused: bool
    suppressed: str | None  # why the contact is suppressed
    block: Block | None
    frozen: Frozen | None  # the latest frozen request, if any attempt has begun
    purpose: str = "service"


class Start(NamedTuple):
    """One row of a begin. `rate` is the endpoint's allowance per second, None if it has none."""

    id: bytes
    fence: int
    revisions: Revisions
    good_until: datetime
    endpoint: bytes
    rate: float | None
    frozen: Frozen


class Begun(NamedTuple):
    """What begin did: attempt numbers of rows that may be sent, and rows the budget put off."""

    numbers: dict[bytes, int]
    put_off: dict[bytes, tuple[datetime, str]]  # until when, and the reason code


class Decision(NamedTuple):
    """A move that no attempt explains: made by admission, reconcile, a sweep or an operator.

    It is applied only where the fence holds. Every decision but a plain return to ready leaves an event.
    """

    id: bytes
    fence: int
    origin: State
    state: State
    reason: str
    next_at: datetime | None = None  # for waiting, uncertain, held and ready; None: now
    closed: bool = False
    granted: bool = False
    certain: bool = False  # every attempt now has a definite answer: doubt ends, where the ledger agrees
    covered: bool = False  # counted misses cover every unknown attempt: they are marked so, and doubt ends
    reopened: bool = False  # the rungs that send are open again (an operator's decision)
    evidence: str | None = None  # JSON text: what the decision was based on


# --- send, settle --------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """One call to a provider: the key, its number, and the database's time for its timestamp."""

    key: str  # the delivery's shown id
    number: int
    now: datetime


class Result(NamedTuple):
    """The classified answer of one attempt."""

    outcome: Outcome
    failure: FailureClass | None = None
    http_status: int | None = None  # or the SMTP reply code
    request_id: str | None = None
    retry_after: float | None = None  # seconds
    excerpt: str | None = None  # of the provider's own words, cut and cleaned
    detail: str | None = None  # our words: which part failed


class Settlement(NamedTuple):
    """An attempt's result and what follows from it, in one row."""

    id: bytes
    fence: int
    number: int
    finished_at: datetime
    result: Result
    state: State
    reason: str
    next_at: datetime | None
    closed: bool
    spared: bool
    named: bool = True  # a request id names one message there: two different ones are a double acceptance


class SignalKind(StrEnum):
    """What an answer says about the endpoint as a whole."""

    BLOCK = "block"  # wait until a moment (Retry-After)
    OPEN = "open"  # auth or config: open the circuit (a circuit that is already shut stays as it is)
    CLOSE = "close"  # any other definite answer: the circuit may close


class Signal(NamedTuple):
    """One endpoint's change of mind."""

    endpoint: bytes
    kind: SignalKind
    reason: str
    seconds: float  # BLOCK: for how long; OPEN: the first interval of the circuit


# --- reconcile -----------------------------------------------------------------------------------


class Doubtful(NamedTuple):
    """An uncertain or held delivery under reconcile's own fence, with what its attempts say.

    An attempt is *unknown* while it may have been accepted: no definite answer is on record, and no
    counted miss covers it. After a restore, one more counts that nobody remembers.
    """

    id: bytes
    fence: int
    state: State  # uncertain, or held: then its alarm or its deadline has come
    since: datetime  # when it came into that state
    account: str
    provider: str
    address: str
    attempts: int
    spared: int
    unknown: int
    last_unknown: int | None  # number of the latest unknown attempt; None if there is none on record
    last_unknown_at: datetime | None  # when that one was given up; for one that nobody remembers, `since`
    request_id: str | None  # the provider's name for an unknown attempt, where we hold one
    last_outcome: Outcome | None  # of the latest attempt
    last_failure: FailureClass | None
    first_unknown_at: datetime | None
    misses: int
    missed_at: datetime | None
    due_at: datetime
    deadline_at: datetime
    closed: bool
    restored: bool  # an attempt that nobody remembers may have been made
    alarmed: bool
    refused: str | None  # why admission would refuse it for good: reminder cancelled, contact suppressed
    frozen: Frozen | None  # the latest bytes, if they are still kept
    reason: str = ""  # why it is where it is


class LookKind(StrEnum):
    """By what a provider is asked for a delivery."""

    REQUEST_ID = "request_id"
    KEY = "key"
    SEARCH = "search"


class Look(NamedTuple):
    """What a provider's answer to a look-up proves. `found` None: nothing, so ask again later."""

    found: bool | None
    request_id: str | None = None
    retry_after: float | None = None  # seconds


class Looked(NamedTuple):
    """A row that stays where it is after reconcile has looked at it."""

    id: bytes
    fence: int
    next_at: datetime
    misses: int  # counted so far, this look included
    missed: bool  # this look was a miss that counts: its time is recorded
    alarmed: bool = False  # held, and the alarm is raised now: leaves an event `hold_alarm`


# --- restore -------------------------------------------------------------------------------------


class Guard(NamedTuple):
    """A restore guard: while it is open nothing is sent. What happened from `since` on may be forgotten."""

    number: int
    since: datetime
    opened_at: datetime
    opened_by: str
    why: str
    closed_at: datetime | None = None
    closed_by: str | None = None
    closing_why: str | None = None
