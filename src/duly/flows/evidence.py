"""Evidence: a provider has accepted a delivery, and we learn it otherwise than from the answer to a request.

A look-up that found it, an event that echoes our key, a receipt: acceptance is evidence, not an opinion.
It wins whatever the fence, and over a final state; the ledger records it like an answer of its attempt.
An attempt that nobody remembers (after a restore) has the number 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from duly.core.model import Outcome, Result, Settlement
from duly.core.states import State
from duly.ports import Settled, Store

__all__ = ["Acceptance", "accept"]

NO_FENCE: Final = -1


class Acceptance(NamedTuple):
    """What proves that a delivery was accepted. `source` is the reason code that views show."""

    delivery: bytes
    number: int
    at: datetime
    source: str
    request_id: str | None = None
    named: bool = True  # a request id names one message at this receiver


async def accept(store: Store, provider: str, found: Sequence[Acceptance]) -> Settled:
    """Record acceptances of one provider. Repeatable."""
    return await store.settle(provider, [_settlement(one) for one in found], [])


def _settlement(one: Acceptance) -> Settlement:
    result = Result(Outcome.ACCEPTED, request_id=one.request_id, detail=one.source)
    return Settlement(
        one.delivery,
        NO_FENCE,
        one.number,
        one.at,
        result,
        State.SENT,
        one.source,
        None,
        closed=False,
        spared=False,
        named=one.named,
    )
