"""What the flows ask of the world: Protocols, and nothing that implements them.

A flow awaits only these. In production they run on asyncio; in a simulation the same flows are driven
by a seeded scheduler. Two rules hold for every port:

- an adapter raises only errors of `duly.errors`; `StoreUnavailable` means that the call may or may
  not have happened;
- a call that writes is either repeatable (said in its docstring) or fenced.

Rooms: `around` (time, chance, zones, policies), `consent` (addresses and recipients), `entries`, `ledger` and
`views` (the store), `sending` (requests, transports, providers).
"""

from __future__ import annotations

from duly.ports.around import (
    Clock,
    Dice,
    Policies,
    Quiet,
    Zones,
)
from duly.ports.consent import (
    NewConsent,
    RecipientChange,
    Upsert,
    Upserted,
)
from duly.ports.entries import (
    Batch,
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
from duly.ports.ledger import (
    Store,
)
from duly.ports.sending import (
    Answer,
    Claims,
    Completion,
    HttpRequest,
    Mail,
    Provider,
    Request,
    Sent,
    Templates,
    Transport,
)
from duly.ports.views import (
    Filters,
    Views,
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
    "NewConsent",
    "Policies",
    "Provider",
    "Quiet",
    "RecipientChange",
    "Request",
    "Revision",
    "Sent",
    "Settled",
    "Store",
    "Swept",
    "TakenBack",
    "Templates",
    "Transport",
    "Upgrade",
    "Upgraded",
    "Upsert",
    "Upserted",
    "Views",
    "ZonedBatch",
    "Zones",
]
