"""The ledger as the flows write it. What its calls take and bring stands in `entries`, what it shows in `views`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from duly.core.consent import Verdict
from duly.core.folding import Folding
from duly.core.limits import DEATHS_MAX
from duly.core.model import (
    Begun,
    Channel,
    Decision,
    Doubtful,
    Due,
    Fired,
    Guard,
    Looked,
    NewContact,
    NewReminder,
    Scheduled,
    Settlement,
    Signal,
    Start,
    TemplateSource,
)
from duly.core.revising import Standing
from duly.core.rezoning import Retiming
from duly.core.upcoming import Resumption, Timing
from duly.ports.consent import NewConsent, RecipientChange, Upserted
from duly.ports.entries import (
    Cancelled,
    Claim,
    ClaimOrder,
    DueBatch,
    Heartbeat,
    Materialised,
    Revision,
    Settled,
    Swept,
    TakenBack,
    Upgrade,
    Upgraded,
    ZonedBatch,
)
from duly.ports.views import Views

__all__ = ["Store"]


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

    async def keep_templates(self, sources: Sequence[TemplateSource]) -> int:
        """Keep versions of templates, so that reminders can be pinned to them; returns how many were new. Repeatable.

        Up to 200 rows.
        """
        ...

    async def template_sources(self, versions: Sequence[tuple[str, str]]) -> list[TemplateSource]:
        """Those of these (name, version) pairs that are kept."""
        ...

    async def upgrade_template(self, actor: str, reason: str, upgrade: Upgrade) -> Upgraded:
        """Move reminders of one page to another version: those with occurrences to come or dead letters. Repeatable.

        Those of which a delivery is open are left as they are. A moved one's revision rises, and it leaves an event
        `template_upgraded`. A page holds up to 1,000 rows of the ledger, whatever their template.
        """
        ...

    async def due(self, limit: int, after: Due | None = None) -> DueBatch:
        """Read up to `limit` due reminders, oldest first. Takes no locks.

        `after`: one that was read before; no older one need be looked for. It spares a ledger to walk over what a tick
        has just moved on.
        """
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
        revisions are those that admission saw, no restore guard is open, its cap has room (see `core.caps`) and the
        budget has a token. Locks are taken in one order: budgets, reminders, recipients, contacts, each in key order;
        only then, in a later statement, the comparison. What a cap lets begin counts from here on. Rows that a budget
        or a cap puts off wait; those of a cap cost no token. Not repeatable: after StoreUnavailable call `abandon`.
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

    async def fold(self, worker: str, rows: Sequence[Folding]) -> dict[bytes, bytes]:
        """Fold leased rows of which nothing has begun into summaries; returns the summary of each that was folded.

        One summary gathers for each recipient, address, provider and group. Where it is in somebody's hands, or the
        fence does not hold, a row is left as it is; so are all while a restore guard is open.
        """
        ...

    async def share_fates(self, limit: int, actor: str) -> Counter[str]:
        """Let the ends of up to `limit` summaries become those of what is folded into them; how many went where.

        Sent or unconfirmed as the summary, ready again where it ended in another way. Where acceptance of a summary
        becomes known late, so it does for what it has carried. Repeatable.
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

    async def take_back(self, limit: int, actor: str, deaths_max: int = DEATHS_MAX) -> TakenBack:
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

    async def forget_places(self, limit: int) -> int:
        """Drop the oldest records of what began under a cap, where no cap can look back so far any more.

        Returns how many; at most `limit`. Repeatable.
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

    async def look_again(self, chosen: str, limit: int) -> int:
        """Where accounts have chosen other hours or caps, wake up to `limit` rows that wait for them; how many it woke.

        `chosen` stands for what they have chosen. It is remembered when less than `limit` were left to wake, and as
        long as it stays the same nothing is woken. A worker does this when it starts. Repeatable.
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

    async def standing(self, reminder: bytes, labels: Sequence[str]) -> Standing:
        """A reminder as it stands, with its open deliveries and those that have these labels, in any generation.

        Raises NotFound. Takes no locks.
        """
        ...

    async def revise(self, actor: str, reason: str, revision: Revision) -> bool:
        """Bring a newer version of a reminder in force; its revision rises. False: it is not as it was seen.

        Nor is anything written where a restore guard covers its next occurrence.
        The deliveries to be called off end cancelled (`superseded`). A paused one stays so unless it is woken. Leaves
        an event `revised`.
        """
        ...

    async def zoned(
        self, after: bytes, limit: int, version: str, recipients: Sequence[bytes] | None = None
    ) -> ZonedBatch:
        """A page of active reminders whose next moment zone data tell, by their ids behind `after`. Takes no locks.

        Those whose moment another version of the data told; with `recipients` (up to 1,000), whatever told it, those
        that follow one of them.
        """
        ...

    async def retime(self, actor: str, reason: str, rows: Sequence[Retiming]) -> frozenset[bytes]:
        """Write next occurrences told anew, by compare-and-set on revision and due time; returns those reminders.

        Where the moment moves the revision rises, and an event `retimed` tells. What a restore guard covers is left
        as it is. Up to 1,000 rows.
        """
        ...

    async def pause_reminder(self, actor: str, reason: str, reminder: bytes) -> bool:
        """Let an active reminder stand still; its revision rises. False: it is not active. Leaves an event."""
        ...

    async def paused_reminder(self, reminder: bytes) -> tuple[datetime, Timing]:
        """A paused reminder as it stands, and the database's time. Raises NotFound if it is not paused."""
        ...

    async def resume_reminder(self, actor: str, reason: str, how: Resumption) -> bool:
        """Let a paused reminder go on; its revision rises, and what waits for that is looked at again at once.

        False: it is not as it was seen. Leaves an event.
        """
        ...

    async def requeue(self, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
        """Return dead and rejected deliveries to ready, under the same id, their attempts spared. Repeatable.

        Returns those that were; not one in whose place a newer version of its reminder lets another come. One that
        falls under a restore guard (due before its closing) becomes uncertain instead. Leaves an event `redriven` at
        each.
        """
        ...

    # --- people ----------------------------------------------------------------------------------

    async def contact(self, identity: bytes) -> tuple[str, NewContact]:
        """The account of a contact that is known, and its address. Raises NotFound."""
        ...

    async def record_consent(self, actor: str, account: str, rows: Sequence[NewConsent]) -> list[Verdict]:
        """Hear statements about addresses of one account, in their order; one verdict per row. Repeatable.

        Account and contacts are made where they are not there. What is recorded raises the contact's revision, so
        that no admission of before can begin, and leaves an event (`suppressed`, `allowed`) at every open delivery
        whose answer may have changed. Up to 1,000 rows.
        """
        ...

    async def upsert_recipients(self, actor: str, account: str, rows: Sequence[RecipientChange]) -> list[Upserted]:
        """Write recipients of one account, or change what is said of them; one answer per row, in order. Repeatable.

        A revision rises only where something changed; whose zone or quiet hours did, what waits for the end of his
        quiet hours is looked at again at once. Contacts of new addresses are made; open deliveries keep the contact
        that they have. Account is made where it is not there. Up to 1,000 rows.
        """
        ...

    async def recipient_zones(self, account: str, refs: Sequence[str]) -> dict[str, str | None]:
        """The zones of these recipients of an account, by the caller's own ids; of those who are there. Up to 1,000."""
        ...

    async def delete_recipient(self, actor: str, reason: str, recipient: bytes) -> bool:
        """Mark a recipient deleted: nothing is sent to him any more, and his reminders produce nothing.

        His revision rises. Leaves an event at every open delivery. False: he was deleted before. Raises NotFound.
        """
        ...

    async def disable_channel(
        self, actor: str, reason: str, recipient: bytes, channel: Channel, *, disabled: bool = True
    ) -> bool:
        """Let nothing go to a recipient by that channel, or let it again. As `delete_recipient` otherwise."""
        ...

    async def pause_account(self, actor: str, reason: str, account: str, *, paused: bool = True) -> bool:
        """Pause an account, or resume it: what waits for that is looked at again at once.

        Its revision rises, so that no admission of before can begin. False: it was so before. Raises NotFound.
        """
        ...

    async def pause_template(self, actor: str, reason: str, template: str, *, paused: bool = True) -> bool:
        """Pause a template, or resume it. It binds the next admission. False: it was so before."""
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
        before it, `materialise` writes what it would write as ready or expired as uncertain in the same way,
        and `revise` moves none of it. Each leaves an event. Raises InputError for a `since` that lies ahead
        of the last heartbeat.
        """
        ...

    async def close_guard(self, actor: str, why: str, number: int | None = None) -> Guard:
        """Close the guard of that number (None: whichever is open). Raises InputError if it is not open."""
        ...

    def views(self) -> Views:
        """The read-only views of the same ledger."""
        ...

    async def close(self) -> None:
        """Give back the connections."""
        ...
