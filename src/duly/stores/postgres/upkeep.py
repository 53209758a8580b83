"""Upkeep and cancel: what moves rows that no worker is about to send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from duly.core.budget import BEHIND_CIRCUIT
from duly.core.keys import show
from duly.errors import NotFound
from duly.ports import Cancelled, Swept, TakenBack
from duly.stores.postgres.arrays import texts, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.postgres.folding import take_out
from duly.stores.postgres.settling import WAKE_ROWS_MAX

__all__ = [
    "cancel",
    "look_again",
    "next_step",
    "probe_circuits",
    "promote",
    "surely_unsent",
    "suspects",
    "sweep",
    "take_back",
]


async def promote(connections: Connections, limit: int) -> int:
    """See Store.promote."""
    async with connections.transaction() as tx:
        cursor = await tx.send("promote", limit)
    return cursor.rowcount


async def take_back(connections: Connections, limit: int, actor: str, deaths_max: int) -> TakenBack:
    """See Store.take_back."""
    async with connections.transaction() as tx:
        found = await tx.row("take_back", limit, actor, deaths_max)
    return TakenBack._make(found)


async def suspects(connections: Connections, providers: Sequence[str]) -> list[tuple[str, int]]:
    """See Store.suspects."""
    async with connections.transaction() as tx:
        cursor = await tx.send("suspects", texts(providers))
    return [(provider, suspicion) for provider, suspicion in await cursor.fetchall()]


async def sweep(connections: Connections, limit: int, actor: str) -> Swept:
    """See Store.sweep."""
    async with connections.transaction() as tx:
        found = await tx.row("sweep", limit, actor)
    return Swept._make(found)


async def probe_circuits(connections: Connections, providers: Sequence[str]) -> int:
    """See Store.probe_circuits. Returns how many circuits were open."""
    async with connections.transaction() as tx:
        cursor = await tx.send("probe_circuits", texts(providers))
        await tx.send("wake", texts(providers), None, texts(BEHIND_CIRCUIT), WAKE_ROWS_MAX)
    return cursor.rowcount


async def look_again(connections: Connections, chosen: str, limit: int) -> int:
    """See Store.look_again."""
    async with connections.transaction() as tx:
        if await tx.rows("chosen") == [(chosen,)]:
            return 0
        (woken,) = await tx.row("chosen_wake", limit)
        if woken < limit:
            await tx.send("chosen_keep", chosen)
    return int(woken)


async def next_step(connections: Connections, providers: Sequence[str]) -> float | None:
    """See Store.next_step."""
    async with connections.transaction() as tx:
        (seconds,) = await tx.row("next_step", texts(providers))
    return None if seconds is None else max(0.0, seconds)


# --- cancel --------------------------------------------------------------------------------------


async def cancel(
    connections: Connections, actor: str, reason: str, reminder: bytes | None, delivery: bytes | None
) -> Cancelled:
    """See Store.cancel. Raises NotFound."""
    async with connections.transaction() as tx:
        counts = (
            await _cancel_reminder(tx, actor, reason, reminder)
            if reminder is not None
            else await _cancel_delivery(tx, actor, reason, delivery or b"")
        )
    if counts is None:
        raise NotFound(f"nothing goes by {show(reminder or delivery or b'')}")
    return counts


async def _cancel_reminder(tx: Transaction, actor: str, reason: str, reminder: bytes) -> Cancelled | None:
    """Cancel the reminder itself and its deliveries; None if there is no such reminder."""
    found = await tx.rows("lock_reminder", reminder.hex())
    if not found:
        return None
    ((account, status, to_come),) = found
    await tx.send("cancel_reminder", reminder.hex(), actor, reason, status)
    if status == "cancelled":
        await tx.send("cancel_again", reminder.hex(), None, actor, reason)
    ids = [identity for (identity,) in await tx.rows("deliveries_of", account, reminder.hex())]
    counts = await _cancel_deliveries(tx, actor, reason, ids)
    return counts._replace(stopped=int(to_come), before=int(status == "cancelled"))


async def _cancel_delivery(tx: Transaction, actor: str, reason: str, delivery: bytes) -> Cancelled | None:
    """Cancel one delivery; None if there is no such delivery."""
    await _call_off(tx, actor, reason, delivery)
    counts = await _cancel_deliveries(tx, actor, reason, [delivery])
    if counts.before:
        (reminder,) = await tx.row("reminder_of", delivery.hex())
        await tx.send("cancel_again", reminder.hex(), delivery.hex(), actor, reason)
    return counts if any(counts) else None


async def _call_off(tx: Transaction, actor: str, reason: str, delivery: bytes) -> None:
    """One delivery alone: it may be in the air or in doubt, and the next admission has to know."""
    await tx.rows("lock_work", uuids([delivery]))
    await tx.send("call_off", delivery.hex(), actor, reason)


async def _cancel_deliveries(tx: Transaction, actor: str, reason: str, ids: Sequence[bytes]) -> Cancelled:
    """What is open and surely unsent ends; what may have been sent is not sent again."""
    if not ids:
        return Cancelled(0, 0, 0, 0)
    open_rows = await tx.rows("lock_work", uuids(ids))
    if folded := [row[0] for row in open_rows if row[1] == "folded"]:
        await take_out(tx, actor, folded)
        open_rows = await tx.rows("lock_work", uuids(ids))
    cancelled = [row[0] for row in open_rows if surely_unsent(*row[1:])]
    in_doubt = [row[0] for row in open_rows if _in_doubt(*row[1:])]
    if cancelled:
        await tx.send("cancel_work", uuids(cancelled), actor, reason)
    if in_doubt:
        await tx.send("close_work", uuids(in_doubt), actor, reason)
    heads = await tx.rows(
        "heads", uuids([identity for identity in ids if identity not in {row[0] for row in open_rows}])
    )
    sending = len(open_rows) - len(cancelled) - len(in_doubt)
    ends = Counter(status for _, status in heads)
    return Cancelled(len(cancelled), sending, len(in_doubt), len(heads), ends["sent"], before=ends["cancelled"])


def surely_unsent(state: str, begun: bool, doubt: bool) -> bool:  # noqa: FBT001
    """Whether a locked row is open and nothing of it can have left."""
    return state in ("ready", "waiting", "leased") and not begun and not doubt


def _in_doubt(state: str, begun: bool, doubt: bool) -> bool:  # noqa: FBT001
    return not begun and state != "folded" and (doubt or state in ("uncertain", "held"))
