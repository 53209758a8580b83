"""Reconcile: find out what became of deliveries of which nobody knows. It only looks and decides.

Uncertain rows are claimed under a fence of their own, the ladder says what may be done with each, and
one commit records it. What may be sent again goes back to ready: no request leaves from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from duly.core.ladder import Step, climb
from duly.core.limits import Limits
from duly.core.model import Decision, Doubtful
from duly.core.states import State
from duly.ports import Dice, Policies, Provider, Store

__all__ = ["reconcile"]

RECONCILE_BATCH_ROWS: Final = 500
RECONCILE_LEASE_SECONDS: Final = 60.0


async def reconcile(
    store: Store,
    providers: Mapping[str, Provider],
    limits: Mapping[str, Limits],
    policies: Policies,
    dice: Dice,
    actor: str,
) -> Counter[str]:
    """Decide about one batch of uncertain deliveries; returns how many went to each state.

    `providers` and `limits` go by the provider's name; rows of other providers are left alone.
    """
    now, rows = await store.doubtful(list(providers), RECONCILE_BATCH_ROWS, RECONCILE_LEASE_SECONDS)

    def decide(row: Doubtful) -> Step:
        promise = providers[row.provider].capabilities(row.address)
        return climb(row, now, dice.roll(), promise, policies.on_doubt(row.account), limits[row.provider])

    steps = [(row, decide(row)) for row in rows]
    moved = await store.decide(actor, [_decision(row, step) for row, step in steps]) if steps else frozenset()
    return Counter(str(step.state) for row, step in steps if row.id in moved)


def _decision(row: Doubtful, step: Step) -> Decision:
    return Decision(
        row.id,
        row.fence,
        State.UNCERTAIN,
        step.state,
        step.reason,
        step.next_at,
        granted=step.granted,
        certain=step.certain,
    )
