"""From claim to settle: what a worker holds, decides and reports."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from duly.core.caps import Cap
from duly.core.keys import payload_hash
from duly.core.model.words import Channel, FailureClass, Lane, Outcome
from duly.core.states import State

__all__ = [
    "Attempt",
    "Begun",
    "Block",
    "Claimed",
    "Content",
    "Decision",
    "Frozen",
    "Result",
    "Revisions",
    "Settlement",
    "Signal",
    "SignalKind",
    "Start",
]


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
    suppressed: str | None  # why nothing of its purpose may go there: see consent.objection
    block: Block | None
    frozen: Frozen | None  # the latest frozen request, if any attempt has begun
    purpose: str = "service"
    late_after: str | None = None  # the deadline as submitted, where a late one is sent all the same
    recipient_quiet_hours: tuple[str, ...] = ()
    late: timedelta | None = None  # how late it is, set when it is rendered as late
    template_version: str | None = None  # by which it was promised; None: whichever is current
    summarized: bool = False  # a late one is folded into a summary: see `folding`


class Start(NamedTuple):
    """One row of a begin. `rate` is the endpoint's allowance per second, None if it has none."""

    id: bytes
    fence: int
    revisions: Revisions
    good_until: datetime
    endpoint: bytes
    rate: float | None
    frozen: Frozen
    cap: Cap | None = None  # how often its recipient may get one of its purpose on its channel


class Begun(NamedTuple):
    """What begin did: attempt numbers of rows that may be sent, and rows that a budget or a cap put off."""

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
