"""Fold: late deliveries are taken up by a summary, and share its end.

The reminders of a batch are locked, with those of the summaries that gather for it, and only then the work, members
before summaries, as whoever calls one off does. So what is in a summary is read and written under one lock. One that
came to be meanwhile, or that a worker has in its hands, is not waited for: its rows are not folded this time. New ones
are made in one order, because two of one group wait for each other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duly.core import keys
from duly.core.folding import TEMPLATE, Foldable, Folding, Gathered, Gathering, gather
from duly.core.model import Channel
from duly.core.moments import instant
from duly.stores.postgres.arrays import ints, texts, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.postgres.guarding import keep_out_guard

__all__ = ["fold", "retire_summaries", "share_fates", "take_out"]


async def fold(connections: Connections, worker: str, rows: Sequence[Folding]) -> dict[bytes, bytes]:
    """See Store.fold."""
    folded: dict[bytes, bytes] = {}
    if not rows:
        return folded
    async with connections.transaction() as tx:
        await keep_out_guard(tx)
        ((namespace,),) = await tx.rows("namespace")
        now = await tx.now()
        for one in gather(await _foldable(tx, worker, rows), namespace, now):
            if await _write(tx, worker, one, now):
                folded |= dict.fromkeys(one.members, one.summary.id)
        await _fold(tx, worker, folded)
    return folded


async def _foldable(tx: Transaction, worker: str, rows: Sequence[Folding]) -> list[Foldable]:
    """The rows as they stand, under the locks of all that is to be written."""
    ids, groups = uuids([row.id for row in rows]), texts(row.group for row in rows)
    reminders = [reminder for (reminder,) in await tx.rows("lock_reminders", ids, groups)]
    summaries = uuids([summary for (summary,) in await tx.rows("summaries_among", uuids(reminders))])
    await tx.rows("lock_work", ids)
    await tx.rows("lock_work", summaries)
    await tx.send("let_go", summaries)
    numbers = (ints(row.fence for row in rows), ints(row.revision for row in rows))
    found = await tx.rows("foldable", ids, *numbers, groups, worker, summaries)
    asked = {row.id: row for row in rows}
    return [_as_found(asked[identity], *rest) for identity, *rest in found]


def _as_found(row: Folding, *found: Any) -> Foldable:
    account, channel, recipient, contact, due_at, deadline_at, folds, *summary = found
    into = None if summary[0] is None else Gathering(*summary)
    return Foldable(row, account, Channel(channel), (recipient, contact), due_at, deadline_at, folds, into)


async def _write(tx: Transaction, worker: str, one: Gathered, now: datetime) -> bool:
    """Make the summary, or extend it. False: another one gathers by now."""
    summary = one.summary
    if one.new_key is None:
        await tx.send(
            "extend_summary",
            *(summary.id.hex(), summary.reminder.hex(), summary.parts, summary.due_at, summary.deadline_at),
            *(one.group, one.send_at),
        )
        return True
    ids = (summary.id.hex(), summary.reminder.hex())
    body = (one.new_key, keys.payload_hash(one.new_key.encode()), one.members[0].hex(), TEMPLATE, summary.parts)
    times = (summary.due_at, summary.deadline_at, one.send_at)
    return bool(await tx.rows("add_summary", *ids, *body, *times, one.group, instant(now), worker))


async def _fold(tx: Transaction, worker: str, folded: Mapping[bytes, bytes]) -> None:
    if folded:
        members = sorted(folded)
        evidence = texts(json.dumps({"summary": keys.show(folded[member])}) for member in members)
        await tx.send("fold", uuids(members), uuids([folded[member] for member in members]), evidence, worker)


async def retire_summaries(tx: Transaction, actor: str, account: int, reminder: bytes) -> None:
    """Take the deliveries of a locked reminder out of summaries of which nothing can have left."""
    folded = [delivery for (delivery,) in await tx.rows("folded_of", account, reminder.hex())]
    if folded:
        await tx.rows("lock_work", uuids(folded))
        await take_out(tx, actor, folded)


async def take_out(tx: Transaction, actor: str, folded: Sequence[bytes]) -> None:
    """As `retire_summaries`, of locked rows. Whoever ends such a summary at this moment is waited for."""
    summaries = [summary for (summary,) in await tx.rows("summaries_of", uuids(folded))]
    await tx.rows("lock_work", uuids(summaries))
    await tx.send("retire_summaries", uuids(folded), uuids(summaries), actor)


async def share_fates(connections: Connections, limit: int, actor: str) -> Counter[str]:
    """See Store.share_fates."""
    async with connections.transaction() as tx:
        ready, sent, unconfirmed, summaries, ends = await tx.row("share_fates", limit, actor)
        if summaries:
            await tx.send("close_summaries", uuids(summaries), texts(ends))
    return Counter(ready=ready, sent=sent, unconfirmed=unconfirmed)
