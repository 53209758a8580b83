"""What the flows ask of the world: Protocols, and nothing that implements them.

A flow awaits only these. In production they run on asyncio; in a simulation the same flows are driven
by a seeded scheduler. Two rules hold for every port:

- an adapter raises only errors of `duly.errors`; `StoreUnavailable` means that the call may or may
  not have happened;
- a call that writes is either repeatable (said in its docstring) or fenced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from duly.core.model import (
    Attempt,
    Begun,
    Capabilities,
    Claimed,
    Content,
    Decision,
    Doubtful,
    Due,
    Fired,
    Frozen,
    Guard,
    HoldPolicy,
    Look,
    Looked,
    LookKind,
    NewReminder,
    OnDoubt,
    Result,
    Scheduled,
    Settlement,
    Signal,
    Start,
)

__all__ = [
    "Answer",
    "Batch",
    "Cancelled",
    "Claim",
    "ClaimOrder",
    "Claims",
    "Clock",
    "Completion",
    "Dice",
    "DueBatch",
    "Filters",
    "Heartbeat",
    "HttpRequest",
    "Mail",
    "Materialised",
    "Policies",
    "Provider",
    "Request",
    "Sent",
    "Settled",
    "Store",
    "Swept",
    "TakenBack",
    "Templates",
    "Transport",
    "Views",
]


# --- time and chance -----------------------------------------------------------------------------


class Clock(Protocol):
    """A worker's own clock. It never decides what is due: the database's does."""

    def reading(self) -> float:
        """Seconds on a clock that never steps back and runs through suspend; only differences count."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class Dice(Protocol):
    """Chance, for jitter."""

    def roll(self) -> float:
        """A number in [0, 1)."""
        ...


# --- the store -----------------------------------------------------------------------------------


class DueBatch(NamedTuple):
    """Due reminders, oldest first, and the database's time at which they were read."""

    now: datetime
    rows: list[Due]


class Materialised(NamedTuple):
    """What a tick's transaction wrote. `stale`: reminders that somebody else had moved on."""

    created: int
    already: int
    stale: int


class ClaimOrder(NamedTuple):
    """What to claim: one provider's ready rows of one lane, fairly across accounts after the cursor."""

    provider: str
    lane: str
    limit: int
    after_account: int
    worker: str
    lease_seconds: float
    suspicion: int = 0  # only rows of that suspicion: above 0, whatever their lane and account


class Claim(NamedTuple):
    """Claimed rows, the database's time, and where the next claim's cursor stands (0: start over)."""

    now: datetime
    rows: list[Claimed]
    next_account: int


class Batch(NamedTuple):
    """Claimed rows and two times: the clock's reading before the claim was asked for, from which trust
    in the leases is counted, and the database's time when it answered.
    """

    asked_at: float
    now: datetime
    rows: list[Claimed]


class Settled(NamedTuple):
    """What a settle wrote. `moved` are the deliveries that now stand where the settlement says."""

    moved: frozenset[bytes]
    stale: int  # results recorded for rows that another fence had taken
    corrected: int  # final states that acceptance evidence overturned
    doubled: int = 0  # double acceptances: a second request id for a delivery that was accepted under another


class TakenBack(NamedTuple):
    """Ended leases: claimed but not begun (ready again), and begun with no answer (uncertain)."""

    ready: int
    uncertain: int
    dead: int = 0  # not begun, and too many workers died while they held it alone


class Heartbeat(NamedTuple):
    """A sign of life: the database's time, and the guard that is open, if one is."""

    now: datetime
    guard: Guard | None


class Swept(NamedTuple):
    """Rows whose deadline passed while they were ready or waiting."""

    expired: int
    uncertain: int  # in doubt: not expired as if it had not been sent


class Cancelled(NamedTuple):
    """What a cancel did to the deliveries of a reminder (or to one delivery)."""

    cancelled: int  # now final
    sending: int  # already begun: the ledger will show what came of it
    in_doubt: int  # may have been accepted: will not be sent again
    final: int  # were final before


class Filters(NamedTuple):
    """What `duly list` may narrow by."""

    status: str | None = None
    account: str | None = None
    channel: str | None = None
    limit: int = 100


class Store(Protocol):
    """The ledger. Every method is one transaction; batches hold up to 500 rows unless it says otherwise."""

    async def namespace(self) -> str:
        """The installation's namespace, the root of every derived id. Raises SchemaError if there is none."""
        ...

    async def schedule(self, rows: Sequence[NewReminder]) -> list[Scheduled]:
        """Write reminders with their accounts, recipients and contacts; one answer per row, in order.

        Repeatable: the same key and body is `already`, and touches nothing. A recipient is written by the
        first reminder that names it and never changed by a later one. Up to 1,000 rows.
        """
        ...

    async def due(self, limit: int) -> DueBatch:
        """Read up to `limit` due reminders, oldest first. Takes no locks."""
        ...

    async def materialise(self, fired: Sequence[Fired]) -> Materialised:
        """Move schedules on by compare-and-set (due time and revision) and write the deliveries of those
        that moved, with open work for those that are really new. Repeatable. Up to 2,000 rows.
        """
        ...

    async def due_remain(self, within_seconds: float = 0.0) -> bool:
        """Whether any reminder is due now, or will be within so many seconds."""
        ...

    async def claim(self, order: ClaimOrder) -> Claim:
        """Lease ready rows: raise the fence, set the lease, count no attempt. SKIP LOCKED.

        Brings nothing while a restore guard is open, or where the database is not in the place that the last
        heartbeat saw.
        """
        ...

    async def begin(self, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
        """Write attempts and frozen requests and take the budgets' tokens, in one commit.

        A row begins only where the fence holds, the database's clock stands before `good_until`, the
        revisions are those that admission saw, no restore guard is open and the budget has a token. Locks are
        taken in one order: budgets, reminders, recipients, contacts, each in key order; only then, in a later
        statement, the comparison. Not repeatable: after StoreUnavailable call `abandon`.
        """
        ...

    async def abandon(self, worker: str, rows: Sequence[tuple[bytes, int]]) -> None:
        """Give back (delivery, fence) pairs of which nothing was sent. Repeatable.

        Not begun: ready again. Begun (a begin whose reply was lost): its attempt is settled as not_sent
        and the row waits.
        """
        ...

    async def decide(self, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
        """Apply decisions where the fence holds; returns the deliveries that moved. Repeatable.

        A delivery in doubt never becomes expired, cancelled, suppressed, rejected or dead, whatever the
        decision says: such a row is left as it is.
        """
        ...

    async def settle(self, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
        """Record outcomes of many deliveries, and what endpoints said, in one commit. Repeatable.

        Moves a row only under its fence, but `accepted` wins whatever the fence and overturns a final state
        (event `corrected`). A result may go from none or unknown to a definite one, never otherwise.
        """
        ...

    async def promote(self, limit: int) -> int:
        """Waiting rows whose time has come become ready."""
        ...

    async def renew(self, worker: str, rows: Sequence[tuple[bytes, int]], lease_seconds: float) -> frozenset[bytes]:
        """Let the leases of begun (delivery, fence) pairs that this worker still holds end so many seconds from now.

        A lease that has ended is not renewed. Returns the deliveries whose leases were. Repeatable.
        """
        ...

    async def take_back(self, limit: int, actor: str, deaths_max: int = 3) -> TakenBack:
        """Rows whose lease has ended: not begun, ready again; begun, uncertain, the attempt unknown.

        Each of them becomes more suspect of having killed its worker: suspicion rises to at most 3. For one that
        was claimed at 3, alone, a death counts; at `deaths_max` it ends dead (`killed_its_workers`) or, begun or
        in doubt, is uncertain and closed (`killed_its_workers_in_doubt`). A settle under its fence clears both.
        """
        ...

    async def suspects(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """(provider, suspicion) pairs above 0 of which rows are ready."""
        ...

    async def sweep(self, limit: int, actor: str) -> Swept:
        """Ready and waiting rows past their deadline: expired, or uncertain and closed if in doubt.

        Held and uncertain rows are reconcile's to end.
        """
        ...

    async def doubtful(
        self, providers: Sequence[str], limit: int, lease_seconds: float
    ) -> tuple[datetime, list[Doubtful]]:
        """Claim these providers' uncertain and held rows whose time has come: raises the fence, moves `next_at` on.

        Held rows come at their alarm and at their deadline.
        """
        ...

    async def looked(self, actor: str, rows: Sequence[Looked]) -> frozenset[bytes]:
        """Record looks of rows that stay uncertain or held, where the fence holds; returns those. Repeatable."""
        ...

    async def held(self, delivery: bytes) -> tuple[datetime, Doubtful]:
        """A held delivery as it stands, and the database's time. Raises NotFound if it is not held. Takes no fence."""
        ...

    async def probe_circuits(self, providers: Sequence[str]) -> int:
        """Let each open circuit of these providers be probed now, and wake what waits behind it.

        A worker does this once when it starts: a restart is how a mended secret arrives.
        """
        ...

    async def next_step(self, providers: Sequence[str]) -> float | None:
        """Seconds (0 if overdue) until the next step of any open row of these providers; None if there is none.

        Held rows, and waiting rows behind an open circuit, do not count.
        """
        ...

    async def cancel(self, actor: str, reason: str, *, reminder: bytes | None, delivery: bytes | None) -> Cancelled:
        """Cancel a reminder with its open deliveries, or one delivery. Whoever commits first wins."""
        ...

    async def suppress(self, actor: str, reason: str, contact: bytes) -> bool:
        """Suppress a contact: its revision rises, so that no admission of before can begin. False: it was already.

        Raises NotFound. Leaves an event at every open delivery of that contact.
        """
        ...

    async def reschedule(
        self, actor: str, reason: str, reminder: bytes, next_due_at: datetime, deadline_at: datetime
    ) -> bool:
        """Move an active reminder's next occurrence; its revision rises. False: it has none left to move.

        Raises NotFound. Leaves an event.
        """
        ...

    async def requeue(self, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
        """Return dead and rejected deliveries to ready, under the same id, their attempts spared. Repeatable.

        Returns those that were. One that falls under a restore guard (due from its `since` to its closing, or
        not past that closing) becomes uncertain instead. Leaves an event `redriven` at each.
        """
        ...

    # --- restore ---------------------------------------------------------------------------------

    async def heartbeat(self, actor: str, after: datetime | None = None) -> Heartbeat:
        """Write a sign of life. `after`: the last one this process has seen.

        Opens a guard by itself, since the last heartbeat on record, where the database tells that it is another
        one than before (PostgreSQL: system identifier, timeline, database), or the record is older than `after`.
        Call it before anything else, and every few seconds.
        """
        ...

    async def open_guard(self, actor: str, why: str, since: datetime | None = None) -> Guard:
        """Open the restore guard, or move the open one's `since` back. Default: the last heartbeat on record.

        Every open row but those held starts in doubt: uncertain, `restored`, its key window counted from its due
        time; a begun attempt without a result is unknown. Until the closing, and afterwards for what was due
        before it, `materialise` writes ready deliveries that were due from `since` on as uncertain in the same
        way. Each leaves an event. Raises InputError for a `since` that lies ahead of the last heartbeat.
        """
        ...

    async def close_guard(self, actor: str, why: str) -> Guard:
        """Let sending begin again. Raises InputError if no guard is open."""
        ...

    def views(self) -> Views:
        """The read-only views of the same ledger."""
        ...

    async def close(self) -> None:
        """Give back the connections."""
        ...


class Views(Protocol):
    """Read-only views, as plain data ready for JSON: ids shown, times RFC 3339 in UTC ending in Z."""

    async def deliveries(self, filters: Filters) -> list[dict[str, Any]]:
        """Newest first: id, account, reminder, occurrence, channel, status, reason, attempts, due_at."""
        ...

    async def status(self) -> dict[str, Any]:
        """`states` (each `count, oldest_age_seconds`), `lanes`, `budgets`, `reminders` (`count, next_due_at`)."""
        ...

    async def find(self, identity: str, account: str | None) -> tuple[str, bytes]:
        """("reminder" | "delivery", id) for a shown id, or a caller's key with its account. Raises NotFound."""
        ...

    async def show_delivery(self, identity: bytes) -> dict[str, Any]:
        """A delivery with its timeline, in the words of the surface."""
        ...

    async def show_reminder(self, identity: bytes) -> dict[str, Any]:
        """A reminder with its deliveries, and the events that concern all of them."""
        ...

    async def holds(self, account: str | None, limit: int) -> list[dict[str, Any]]:
        """Held deliveries, oldest first: `id, account, reminder, occurrence, channel, provider, reason, attempts,
        held_since, age_seconds, alarmed, next_at, deadline_at`.
        """
        ...

    async def guard(self) -> dict[str, Any]:
        """The restore guards: `open` (the open one or null), `guards` (all, newest first) and `covered`: for the
        open rows in doubt of a restore, each provider's and state's `count` and `oldest_due_at`.
        """
        ...

    async def invariants(self) -> list[tuple[str, int]]:
        """Each invariant that SQL can check, and how many rows break it."""
        ...

    async def findings(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """What breaks no invariant and still wants somebody, each with its number of rows: `guard_open`,
        `hold_past_its_alarm`, `lease_not_taken_back` (for over a minute), `provider_not_configured` (open rows of
        providers other than these).
        """
        ...


# --- sending -------------------------------------------------------------------------------------


class Sent(StrEnum):
    """How much of a request may have left: the evidence that parts not_sent from unknown."""

    NOTHING = "nothing"
    SOME = "some"


class HttpRequest(NamedTuple):
    """One POST, or one GET without a body: a look-up. Header values hold no CR or LF."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    method: str = "POST"


class Mail(NamedTuple):
    """One message for one recipient. `message` is RFC 5322 bytes with CRLF line ends."""

    sender: str
    recipient: str
    message: bytes
    envelope_id: str


@dataclass(slots=True)
class Request:
    """A request in a transport's hands. `start_before` is a clock reading after which it must not start."""

    token: int  # the caller's own number for it
    content: HttpRequest | Mail
    start_before: float


class Answer(NamedTuple):
    """What came back, or what went wrong: raw evidence, not yet an outcome.

    `status` is the HTTP status or the SMTP reply code, None if no answer came. With an `error` and
    `sent` NOTHING, no byte of the request (for SMTP: not the final dot) was taken.
    """

    status: int | None = None
    headers: Mapping[str, str] = MappingProxyType({})  # names in lower case
    body: bytes = b""
    error: str | None = None  # dns | connect | tls | timeout | reset | refused_address | too_late | protocol
    sent: Sent = Sent.SOME
    detail: str = ""
    phase: str = ""  # SMTP: connect, helo, auth, mail, rcpt, data, dot


class Completion(NamedTuple):
    """A finished request, and the clock's reading when its answer was complete."""

    token: int
    answer: Answer
    finished: float


class Transport(Protocol):
    """Sends. Exactly one request leaves per attempt: nothing in here may repeat it.

    A slot is taken by `reserve` and stays occupied until `release`, which the caller does when the
    outcome is durable. So what has begun is never more than what can be sent at once.
    """

    def room(self) -> int:
        """How many slots are free in all."""
        ...

    async def wait_for_room(self, max_wait: float) -> int:
        """Wait until a slot is free, or for `max_wait` seconds; returns how many are."""
        ...

    def reserve(self, destinations: Sequence[str]) -> list[bool]:
        """Take a slot for each destination that has one free (in all, and for its host)."""
        ...

    def release(self, destinations: Sequence[str]) -> None:
        """Free the slots again."""
        ...

    async def start(self, batch: Sequence[Request]) -> None:
        """Take the requests over. Returns at once; each will appear in `completed`."""
        ...

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """Answers, as soon as there are some: waits `max_wait` for the first, then gathers for a few milliseconds."""
        ...

    async def close(self) -> None:
        """Close connections. Requests under way are cut, and complete as SOME unless nothing had left."""
        ...


class Provider(Protocol):
    """One configured provider: pure functions around its declared capabilities. No I/O."""

    name: str
    kind: str
    channel: str
    timeout_seconds: float

    def capabilities(self, destination: str) -> Capabilities:
        """What the receiver behind this destination promises."""
        ...

    def rate(self, destination: str) -> float | None:
        """The allowance per second of the destination's endpoint; None: no limit."""
        ...

    def freeze(self, row: Claimed, content: Content, now: datetime) -> Frozen:
        """The bytes to send. Raises Unrenderable if this row can never be sent."""
        ...

    def request(self, frozen: Frozen, attempt: Attempt) -> HttpRequest | Mail:
        """The frozen bytes with what belongs to the attempt: timestamp, signature, credentials."""
        ...

    def classify(self, answer: Answer, now: datetime) -> Result:
        """The outcome that the answer proves. `now` is for Retry-After dates."""
        ...

    def look(self, row: Doubtful, by: LookKind, now: datetime) -> HttpRequest:
        """The GET that asks for a delivery in one of the ways that its capabilities declare, signed at `now`.

        Raises LookupError for a way that they do not declare: a bug of the caller.
        """
        ...

    def seen(self, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:
        """What the answer to `look` proves; a search matches the row's own bytes. Never raises."""
        ...


class Templates(Protocol):
    """Compiled templates."""

    def render(self, row: Claimed) -> Content:
        """Render the row's template. Raises Unrenderable, with the reason that views show."""
        ...


class Claims(Protocol):
    """Claimed rows, one batch ahead of the sender."""

    async def take(self, limit: int, max_wait: float) -> Batch | None:
        """The next batch, or None if nothing came within `max_wait` seconds."""
        ...


class Policies(Protocol):
    """What accounts have chosen."""

    def on_doubt(self, account: str) -> OnDoubt:
        """The account's policy for the last rung."""
        ...

    def hold(self, account: str) -> HoldPolicy:
        """How long the account's holds last, and what follows."""
        ...
