"""What the calls of a `Store` take and bring, beside the words of the model."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from duly.core.model import Claimed, Due, Guard, NewReminder
from duly.core.upcoming import Timing

__all__ = [
    "Batch",
    "Cancelled",
    "Claim",
    "ClaimOrder",
    "DueBatch",
    "Heartbeat",
    "Materialised",
    "Revision",
    "Settled",
    "Swept",
    "TakenBack",
    "Upgrade",
    "Upgraded",
    "ZonedBatch",
]


class DueBatch(NamedTuple):
    """Due reminders, oldest first, and the database's time at which they were read."""

    now: datetime
    rows: list[Due]


class Materialised(NamedTuple):
    """What a tick's transaction wrote. `stale`: reminders that somebody else had moved on."""

    created: int
    already: int
    stale: int


class Revision(NamedTuple):
    """A reminder as it is to be, where it stands as somebody has seen it."""

    reminder: NewReminder
    seen: int  # the revision on record
    seen_due: datetime | None  # when its next occurrence is due: a tick moves it on without another revision
    generation: int
    call_off: tuple[bytes, ...]  # open deliveries that end for it, if they are surely unsent still
    keep_body: bool  # the body as first submitted stays on record
    wake: bool = False  # a paused one goes on
    evidence: str | None = None  # JSON text: see `core.revising.moved`


class Upgrade(NamedTuple):
    """Reminders to be moved to a version of their template: a page of `limit` after the id `after`."""

    template: str
    version: str
    account: str | None  # None: of every account
    after: bytes
    limit: int


class Upgraded(NamedTuple):
    """What became of a page. `last`: its last id; None: there is no further page."""

    moved: int
    under_way: int  # left as they were: a delivery of theirs is open
    last: bytes | None


class ZonedBatch(NamedTuple):
    """Next occurrences whose moments zone data tell, and the database's time at which they were read."""

    now: datetime
    rows: list[Timing]


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
    sent: int = 0  # ... of these, sent
    stopped: int = 0  # reminders with an occurrence to come, which does not come now
    before: int = 0  # reminders that were cancelled before, or the one delivery that was
