"""Redrive: dead letters go back to work, under the same id and the same key.

What is dead or rejected was never in doubt, so a redrive repeats nothing. It works through its list in
batches, each of them one commit: stopped half-way, it is simply run again, and what went back already is
no longer a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duly.flows.route import parts
from duly.ports import Store

__all__ = ["REDRIVE_BATCH_ROWS", "redrive"]

REDRIVE_BATCH_ROWS: Final = 200


async def redrive(store: Store, deliveries: Sequence[bytes], why: str, actor: str) -> int:
    """Return these to ready, where they are dead or rejected; returns how many were."""
    return sum([len(await store.requeue(actor, why, part)) for part in parts(deliveries, REDRIVE_BATCH_ROWS)])
