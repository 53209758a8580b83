"""Settle and decide: where outcomes and decisions become durable, many in one commit.

A batch that the database refuses for what a row holds is halved until that row stands alone; its texts,
which are the only part of it that came from outside, are then dropped, and its outcome is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from duly.core.budget import BEHIND_CIRCUIT, CIRCUIT_SECONDS_MAX
from duly.core.model import Decision, Outcome, Settlement, Signal, SignalKind
from duly.core.states import NOT_DECIDED, IllegalTransition, State, check
from duly.core.text import recordable
from duly.ports import Settled
from duly.stores.bisect import write_all
from duly.stores.postgres.arrays import Packed, bools, floats, ints, texts, times, uuids
from duly.stores.postgres.capping import give_places_back
from duly.stores.postgres.claims import add_budgets
from duly.stores.postgres.connect import Connections, Cursor, Transaction
from duly.stores.rounds import rounds

__all__ = ["WAKE_ROWS_MAX", "decide", "settle"]

#: The rest of what waits behind a circuit comes forward at its own time, at most a minute later.
WAKE_ROWS_MAX: Final = 10_000
HTTP_STATUS_MAX: Final = 999


# --- settle --------------------------------------------------------------------------------------


async def settle(
    connections: Connections, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]
) -> Settled:
    """See Store.settle. The signals are written with the first rows that can be."""
    for row in rows:
        check(State.SENDING, row.state)
    told = list(signals)

    async def write(part: Sequence[Settlement]) -> Settled:
        async with connections.transaction() as tx:
            await _signal(tx, provider, told)
            settled = [await _settle(tx, distinct) for distinct in rounds(part, lambda row: row.id)]
        told.clear()
        return _added(settled)

    return _added(await write_all(sorted(rows, key=lambda row: row.id), write, _scrub))


def _added(parts: Sequence[Settled]) -> Settled:
    moved = frozenset[bytes]().union(*(part.moved for part in parts))
    stale, corrected = sum(part.stale for part in parts), sum(part.corrected for part in parts)
    return Settled(moved, stale, corrected, sum(part.doubled for part in parts))


async def _settle(tx: Transaction, rows: Sequence[Settlement]) -> Settled:
    """Settle distinct deliveries."""
    moved, ended, overtaken, stale, corrected = await tx.row("settle", *_columns(rows))
    settled = {*(moved or ()), *(ended or ())}
    not_sent = [row.id for row in rows if row.result.outcome is Outcome.NOT_SENT and row.id in settled]
    await give_places_back(tx, not_sent)
    if overtaken:
        await tx.send("recount", uuids(sorted(overtaken)))
    if corrected:
        await tx.send("end_requeued", uuids(sorted(corrected)))
    others = [row for row in rows if row.id not in settled]
    doubled = await _note_doubled(tx, [row for row in others if _names_another(row)])
    settled |= await _standing(tx, others)
    return Settled(frozenset(settled), stale, len(corrected or ()), doubled)


def _names_another(row: Settlement) -> bool:
    """Whether this acceptance, which ended nothing, may be a second one of the same delivery."""
    return row.named and row.result.outcome is Outcome.ACCEPTED and row.result.request_id is not None


async def _note_doubled(tx: Transaction, rows: Sequence[Settlement]) -> int:
    """Note acceptances under another request id than the one on record; returns how many are new."""
    if not rows:
        return 0
    ids = uuids([row.id for row in rows])
    await tx.send("lock_sent", ids)
    request_ids = texts(row.result.request_id for row in rows)
    doubled = await tx.rows("note_doubled", ids, ints(row.number for row in rows), request_ids)
    await tx.send("name_sent", ids, request_ids)
    return len(doubled)


async def _standing(tx: Transaction, rows: Sequence[Settlement]) -> set[bytes]:
    """Of rows that did not move: those that an earlier call with the same outcome had moved there."""
    if not rows:
        return set()
    found = await tx.rows(
        "standing",
        uuids([row.id for row in rows]),
        ints(row.number for row in rows),
        texts(row.result.outcome for row in rows),
        texts(row.state for row in rows),
    )
    return {identity for (identity,) in found}


def _columns(rows: Sequence[Settlement]) -> list[Packed]:
    results = [row.result for row in rows]
    return [
        uuids([row.id for row in rows]),
        ints(row.fence for row in rows),
        ints(row.number for row in rows),
        texts(result.outcome for result in results),
        texts(row.state for row in rows),
        texts(row.reason for row in rows),
        times(row.next_at for row in rows),
        times(row.finished_at for row in rows),
        bools(row.closed for row in rows),
        bools(row.spared for row in rows),
        texts(result.failure for result in results),
        ints(result.http_status for result in results),
        texts(result.request_id for result in results),
        floats(result.retry_after for result in results),
        texts(result.excerpt for result in results),
        texts(result.detail for result in results),
    ]


def _scrub(row: Settlement) -> Settlement:
    """The same outcome without what the database may have refused. A request id is kept as far as it can be."""
    result = row.result
    status, wait = result.http_status, result.retry_after
    clean = result._replace(
        http_status=status if status is not None and 0 <= status <= HTTP_STATUS_MAX else None,
        request_id=recordable(result.request_id) if result.request_id else None,
        retry_after=wait if wait is not None and math.isfinite(wait) and abs(wait) < 1e9 else None,  # noqa: PLR2004
        excerpt=None,
        detail=None,
    )
    return row._replace(reason=recordable(row.reason), result=clean)


# --- signals -------------------------------------------------------------------------------------


async def _signal(tx: Transaction, provider: str, signals: Sequence[Signal]) -> None:
    """Lock the budgets, in the order of begin, and write what was said about their endpoints."""
    if not signals:
        return
    ordered = sorted(signals, key=lambda signal: signal.endpoint)
    by_kind = {kind: [signal for signal in ordered if signal.kind is kind] for kind in SignalKind}
    shut = by_kind[SignalKind.BLOCK] + by_kind[SignalKind.OPEN]
    await add_budgets(tx, provider, {signal.endpoint: None for signal in shut})
    spoken_of = uuids([signal.endpoint for signal in ordered])
    await tx.send("lock_budgets", provider, spoken_of, spoken_of)
    await _shut_doors(tx, provider, "block_endpoints", by_kind[SignalKind.BLOCK])
    await _shut_doors(tx, provider, "open_circuits", by_kind[SignalKind.OPEN], CIRCUIT_SECONDS_MAX)
    await _close_circuits(tx, provider, by_kind[SignalKind.CLOSE])


async def _shut_doors(
    tx: Transaction, provider: str, statement: str, signals: Sequence[Signal], *limits: float
) -> None:
    if signals:
        await tx.send(
            statement,
            provider,
            uuids([signal.endpoint for signal in signals]),
            floats(signal.seconds for signal in signals),
            texts(signal.reason for signal in signals),
            *limits,
        )


async def _close_circuits(tx: Transaction, provider: str, signals: Sequence[Signal]) -> None:
    """Close circuits that are open, and wake what waits behind them."""
    if not signals:
        return
    found = await tx.rows("close_circuits", provider, uuids([signal.endpoint for signal in signals]))
    if found:
        closed = uuids([endpoint for (endpoint,) in found])
        await tx.send("wake", texts([provider]), closed, texts(BEHIND_CIRCUIT), WAKE_ROWS_MAX)


# --- decide --------------------------------------------------------------------------------------


async def decide(connections: Connections, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
    """See Store.decide."""
    for decision in decisions:
        _check(decision)

    async def write(part: Sequence[Decision]) -> frozenset[bytes]:
        certain = {decision.id for decision in part if decision.certain}
        async with connections.transaction() as tx:
            cursors = [
                await tx.send("decide", *_decision_columns(distinct), actor)
                for distinct in rounds(part, lambda decision: decision.id)
            ]
            moved = await _moved(cursors) if certain else None
            await give_places_back(tx, [one for one in moved or () if one in certain])
        return await _moved(cursors) if moved is None else moved

    parts = await write_all(sorted(decisions, key=lambda decision: decision.id), write, _scrub_decision)
    return frozenset[bytes]().union(*parts)


async def _moved(cursors: Sequence[Cursor]) -> frozenset[bytes]:
    return frozenset([identity for cursor in cursors for (identity,) in await cursor.fetchall()])


def _check(decision: Decision) -> None:
    check(decision.origin, decision.state)
    if decision.origin in NOT_DECIDED - {State.LEASED} or decision.state in NOT_DECIDED:
        raise IllegalTransition(f"{decision.origin} -> {decision.state} is done by another call, never decided")


def _decision_columns(rows: Sequence[Decision]) -> list[Packed]:
    return [
        uuids([row.id for row in rows]),
        ints(row.fence for row in rows),
        texts(row.origin for row in rows),
        texts(row.state for row in rows),
        texts(row.reason for row in rows),
        times(row.next_at for row in rows),
        bools(row.closed for row in rows),
        bools(row.granted for row in rows),
        bools(row.certain for row in rows),
        bools(row.covered for row in rows),
        bools(row.reopened for row in rows),
        texts(row.evidence for row in rows),
    ]


def _scrub_decision(row: Decision) -> Decision:
    """A reason may quote a template's words; without what cannot be recorded it still says why."""
    return row._replace(reason=recordable(row.reason), evidence=None)
