"""Holds: an operator decides about a delivery of which nobody will find out any more.

    sent    he knows that it was accepted
    resend  it may be sent again, although that may be the second time
    close   it ends unconfirmed

A decision holds for the row as it stood when it was read, and its event keeps what it was based on. A
resend that could not leave any more is refused here, where its reason can still be said.
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Final

from duly.core import keys
from duly.core.model import Decision, Doubtful
from duly.core.states import State
from duly.errors import InputError
from duly.ports import Store

__all__ = ["Verdict", "decide_hold", "hopeless"]


class Verdict(StrEnum):
    """What an operator may decide."""

    SENT = "sent"
    RESEND = "resend"
    CLOSE = "close"


TARGETS: Final = {Verdict.SENT: State.SENT, Verdict.RESEND: State.READY, Verdict.CLOSE: State.UNCONFIRMED}


async def decide_hold(store: Store, delivery: bytes, verdict: Verdict, why: str, actor: str) -> State:
    """Decide; returns where the delivery stands now. Raises NotFound if it is not held, InputError if it cannot be."""
    now, row = await store.held(delivery)
    why_not = hopeless(row, now) if verdict is Verdict.RESEND else None
    if why_not is not None:
        raise InputError(f"delivery {keys.show(row.id)}: it cannot be sent again, {why_not}; decide sent or close")
    decision = _decision(row, verdict, why)
    if row.id not in await store.decide(actor, [decision]):
        raise InputError(
            f"delivery {keys.show(row.id)}: it changed while this was decided; look again with `duly show`"
        )
    return decision.state


def hopeless(row: Doubtful, now: datetime) -> str | None:
    """Why a resend would be refused by admission, and helps nobody; None if it may leave."""
    if row.refused is not None:
        return row.refused.replace("_", " ")
    if now >= row.deadline_at:
        return "its deadline has passed"
    if row.frozen is None and row.attempts:
        return "the bytes that were sent are no longer kept"
    return None


def _decision(row: Doubtful, verdict: Verdict, why: str) -> Decision:
    resend = verdict is Verdict.RESEND
    return Decision(
        row.id,
        row.fence,
        State.HELD,
        TARGETS[verdict],
        why,
        granted=resend,
        reopened=resend,
        evidence=json.dumps(_evidence(row, verdict)),
    )


def _evidence(row: Doubtful, verdict: Verdict) -> dict[str, object]:
    """What was known when it was decided."""
    return {
        "verdict": str(verdict),
        "held_because": row.reason,
        "held_since": f"{row.since:%Y-%m-%dT%H:%M:%SZ}",
        "attempts": row.attempts,
        "unknown": row.unknown,
        "last_outcome": row.last_outcome,
        "payload_hash": row.frozen.hash.hex() if row.frozen else None,
    }
