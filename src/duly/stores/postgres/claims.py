"""Claim and begin: the two commits that come before a request.

Claim leases rows and costs no attempt. Begin writes the attempt and the bytes before anything leaves. It
takes its locks in the order that every writer keeps: budgets, then reminders, recipients and contacts,
then work; and compares only in a later statement, whose snapshot is newer than what the locks waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from duly.core.budget import Allowance, Grant, burst, grant
from duly.core.keys import NO_ENDPOINT, payload_hash
from duly.core.model import Begun, Start
from duly.ports import Claim, ClaimOrder
from duly.stores.postgres import capping
from duly.stores.postgres import rows as stored
from duly.stores.postgres.arrays import Packed, bools, byteas, floats, ints, texts, times, uuids
from duly.stores.postgres.connect import Connections, Transaction

__all__ = ["abandon", "add_budgets", "begin", "claim", "claim_values", "renew"]


# --- claim ---------------------------------------------------------------------------------------


async def claim(connections: Connections, order: ClaimOrder) -> Claim:
    """See Store.claim. If nothing is ready behind the cursor, it starts over at once."""
    claimed = await _claim(connections, order)
    if not claimed.rows and order.after_account and not order.suspicion:
        return await _claim(connections, order._replace(after_account=0))
    return claimed


async def _claim(connections: Connections, order: ClaimOrder) -> Claim:
    async with connections.transaction() as tx:
        cursor = await tx.send("claim", *claim_values(order))
    now, found = await tx.now(), await cursor.fetchall()
    until = now + timedelta(seconds=order.lease_seconds)
    rows = [stored.claimed(row, order.lane, until, now) for row in found]
    rows.sort(key=lambda row: row.due_at)
    accounts = max((row.account_id for row in rows), default=0)
    return Claim(now, rows, 0 if order.suspicion or _all_had_their_turn(found) else accounts)


def claim_values(order: ClaimOrder) -> tuple[Any, ...]:
    """The parameters of the statement `claim`."""
    lone_endpoint = NO_ENDPOINT.hex()
    return (
        *(order.provider, order.lane, order.limit, order.after_account, order.worker),
        *(order.lease_seconds, lone_endpoint, order.suspicion),
    )


def _all_had_their_turn(found: Sequence[tuple[Any, ...]]) -> bool:
    """Whether every account behind the cursor was offered its share, so that the next claim starts over."""
    accounts: int
    allowed: int
    accounts, allowed = found[0][-2:] if found else (0, 1)
    return accounts < allowed and accounts * ceil(allowed / max(1, accounts)) <= allowed


# --- budgets -------------------------------------------------------------------------------------


async def add_budgets(tx: Transaction, provider: str, rates: Mapping[bytes, float | None]) -> None:
    """Queue the insert of budgets that are not there, full, in key order."""
    new = sorted(rates)
    if new:
        tokens = floats(burst(rates[endpoint] or 1.0) for endpoint in new)
        await tx.send("add_budgets", provider, uuids(new), tokens, floats(rates[endpoint] for endpoint in new))


class Budget(NamedTuple):
    """An endpoint's budget under its lock, and what it said. `was` is the rate on record."""

    was: float | None
    allowance: Allowance
    granted: Grant


class Allotment(NamedTuple):
    """What the budgets let pass."""

    may_begin: list[Start]
    put_off: list[tuple[Start, datetime, str]]
    budgets: dict[bytes, Budget]
    at: datetime


class Locked(NamedTuple):
    """The budgets that have something to say, by endpoint, under their locks; and the time, when they were had."""

    found: dict[bytes, list[Any]]
    at: datetime


async def _lock_budgets(tx: Transaction, provider: str, rows: Sequence[Start]) -> Locked:
    """Lock the budgets of the rows' endpoints; those that are new and have a rate are made."""
    first = {row.endpoint: row.rate for row in reversed(rows)}
    rates = {endpoint: rate for endpoint, rate in first.items() if rate is not None}
    locked = await _lock(tx, provider, first, rates)
    if not rates.keys() <= locked.found.keys():
        await add_budgets(tx, provider, {endpoint: rates[endpoint] for endpoint in rates.keys() - locked.found.keys()})
        locked = await _lock(tx, provider, first, rates)
    return locked


async def _lock(tx: Transaction, provider: str, asked: Iterable[bytes], rated: Iterable[bytes]) -> Locked:
    locked = await tx.send("lock_budgets", provider, uuids(sorted(asked)), uuids(sorted(rated)))
    clock = await tx.send("clock")
    found = {endpoint: values for endpoint, *values in await locked.fetchall()}
    ((now,),) = await clock.fetchall()
    return Locked(found, now)


def _share_out(rows: Sequence[Start], locked: Locked) -> Allotment:
    """Ask the budget of each endpoint; rows ask in their order."""
    asking: dict[bytes, list[Start]] = {}
    for row in rows:
        asking.setdefault(row.endpoint, []).append(row)
    shares = Allotment([], [], {}, locked.at)
    for endpoint, asks in asking.items():
        if endpoint in locked.found:
            _ask(shares, endpoint, asks, locked.found[endpoint])
        else:
            shares.may_begin.extend(asks)
    return shares


def _ask(shares: Allotment, endpoint: bytes, rows: list[Start], found: list[Any]) -> None:
    was, tokens, updated_at, *door = found
    allowance = Allowance(tokens, updated_at, rows[0].rate, *door)
    granted = grant(allowance, len(rows), shares.at)
    shares.budgets[endpoint] = Budget(was, allowance, granted)
    shares.may_begin.extend(rows[: granted.granted])
    late = zip(rows[granted.granted :], granted.put_off, strict=True)
    shares.put_off.extend((row, until, reason) for row, (until, reason) in late)


async def _spend(tx: Transaction, provider: str, shares: Allotment, numbers: Mapping[bytes, int]) -> None:
    """Write what is left of the budgets that count, or that let a probe pass."""
    used = Counter(row.endpoint for row in shares.may_begin if row.id in numbers)
    left = [
        (endpoint, *_left(budget, used[endpoint]))
        for endpoint, budget in shares.budgets.items()
        if budget.allowance.rate is not None or budget.was is not None or used[endpoint]
    ]
    if left:
        endpoints, tokens, rates, doors, failures = zip(*left, strict=True)
        await tx.send(
            "spend", provider, uuids(endpoints), floats(tokens), floats(rates), times(doors), ints(failures), shares.at
        )


def _left(budget: Budget, used: int) -> tuple[float, float | None, datetime | None, int]:
    """Tokens, rate, door and failures. A grant that was not used costs nothing, and an unused probe is none."""
    granted, allowance = budget.granted, budget.allowance
    door = granted if used else allowance
    return granted.tokens + granted.granted - used, allowance.rate, door.blocked_until, door.failures


# --- begin ---------------------------------------------------------------------------------------


async def begin(connections: Connections, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
    """See Store.begin."""
    if not rows:
        return Begun({}, {})
    async with connections.transaction() as tx:
        budgets = await _lock_budgets(tx, provider, rows)
        capped = await capping.look(tx, rows)
        shares = _share_out(capped.let_pass(rows), budgets)
        numbers = await _begin(tx, provider, worker, sorted(shares.may_begin, key=lambda row: row.id))
        await capping.take_places(tx, capped, numbers.keys())
        late = [*shares.put_off, *capped.put_off(rows, numbers.keys())]
        put_off = await _put_off(tx, worker, sorted(late, key=lambda one: one[0].id))
        await capping.note(tx, worker, capped, put_off)
        await _spend(tx, provider, shares, numbers)
    return Begun(numbers, put_off)


async def _begin(tx: Transaction, provider: str, worker: str, rows: Sequence[Start]) -> dict[bytes, int]:
    """Lock what admission read, then begin the rows of which nothing has changed."""
    if not rows:
        return {}
    await tx.send("lock_revisions", uuids([row.id for row in rows]))
    return dict(await tx.rows("begin", *_start_columns(rows), provider, worker))


def _start_columns(rows: Sequence[Start]) -> list[Packed]:
    revisions = list(zip(*(row.revisions for row in rows), strict=True))
    return [
        uuids([row.id for row in rows]),
        ints(row.fence for row in rows),
        *(ints(column) for column in revisions),
        times(row.good_until for row in rows),
        texts(row.frozen.destination for row in rows),
        byteas(row.frozen.body for row in rows),
        byteas(row.frozen.hash or payload_hash(row.frozen.body) for row in rows),
        texts(row.frozen.template for row in rows),
        texts(row.frozen.template_version for row in rows),
        bools(row.frozen.number == 0 for row in rows),
    ]


async def _put_off(
    tx: Transaction, worker: str, late: Sequence[tuple[Start, datetime, str]]
) -> dict[bytes, tuple[datetime, str]]:
    """Let rows wait for their budget or their cap; returns those that do."""
    if not late:
        return {}
    found = await tx.rows(
        "put_off",
        uuids([row.id for row, _, _ in late]),
        ints(row.fence for row, _, _ in late),
        times(until for _, until, _ in late),
        texts(reason for _, _, reason in late),
        worker,
    )
    moved = {identity for (identity,) in found}
    return {row.id: (until, reason) for row, until, reason in late if row.id in moved}


async def renew(
    connections: Connections, worker: str, rows: Sequence[tuple[bytes, int]], lease_seconds: float
) -> frozenset[bytes]:
    """See Store.renew."""
    if not rows:
        return frozenset()
    ordered = sorted(rows)
    fences = ints(fence for _, fence in ordered)
    async with connections.transaction() as tx:
        cursor = await tx.send("renew", uuids([identity for identity, _ in ordered]), fences, worker, lease_seconds)
    return frozenset([identity for (identity,) in await cursor.fetchall()])


async def abandon(connections: Connections, worker: str, rows: Sequence[tuple[bytes, int]]) -> None:
    """See Store.abandon."""
    if not rows:
        return
    ordered = sorted(rows)
    async with connections.transaction() as tx:
        fences = ints(fence for _, fence in ordered)
        await tx.send("abandon", uuids([identity for identity, _ in ordered]), fences, worker)
