"""The restore guard: signs of life, what a restored backup may have forgotten, and the door that it shuts.

A backup does not know what was sent after it was taken. While a guard is open nothing is claimed or begun;
the view `gate` says so to both. Opening it takes, in one transaction, the row of the installation, then every
open row: their fences rise, so that whoever held one has lost it, and reconcile asks for each before it may
be sent again. What a tick writes later, for the time that the guard covers, starts in doubt too.

It opens by itself where a heartbeat finds the database in another place than the last one did, or older than
this process has seen it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from duly.core.model import Guard
from duly.core.moments import instant
from duly.errors import InputError
from duly.ports import Heartbeat
from duly.stores.postgres.connect import Connections, Cursor, Transaction

__all__ = ["Covered", "close_guard", "heartbeat", "keep_out_guard", "open_guard"]

#: Opening a guard writes every open row: as long as a million of them may take.
OPENING_SECONDS_MAX: Final = 600.0
MOVED: Final = "the database is another one than the last sign of life was written to"
OLDER: Final = "the database is older than a running program has seen it"


# --- signs of life -------------------------------------------------------------------------------


async def heartbeat(connections: Connections, actor: str, after: datetime | None) -> Heartbeat:
    """See Store.heartbeat."""
    async with connections.transaction() as tx:
        written = await tx.rows("heartbeat", after)
        standing = await tx.send("guard_standing")
    if written:
        return Heartbeat(await tx.now(), await _guard(standing))
    async with connections.transaction(OPENING_SECONDS_MAX) as tx:
        await _look_closer(tx, actor, after)
        standing = await tx.send("guard_standing")
    return Heartbeat(await tx.now(), await _guard(standing))


async def _look_closer(tx: Transaction, actor: str, after: datetime | None) -> None:
    """Open a guard, unless somebody else has done it meanwhile."""
    await tx.send("hold_installation")
    if await tx.rows("heartbeat", after):
        return
    last, moved = await tx.row("last_sign")
    await _open(tx, actor, MOVED if moved else OLDER, last)
    await tx.send("settle_in")


# --- the guard -----------------------------------------------------------------------------------


async def open_guard(connections: Connections, actor: str, why: str, since: datetime | None) -> Guard:
    """See Store.open_guard. Raises InputError."""
    async with connections.transaction(OPENING_SECONDS_MAX) as tx:
        await tx.send("hold_installation")
        last, _ = await tx.row("last_sign")
        if since is not None and since > last:
            raise InputError(f"since: the last sign of life in this database is of {instant(last)}; go back from there")
        return await _open(tx, actor, why, since or last, again=False)


async def _open(tx: Transaction, actor: str, why: str, since: datetime, *, again: bool = True) -> Guard:
    """Open the guard or move it back, and put in doubt what is not: the backup may have been made under a guard.

    `again`: rows that are in doubt of a restore already are so once more.
    """
    standing = await _guard(await tx.send("guard_standing"))
    if standing is None:
        ((*columns,),) = await tx.rows("add_guard", since, actor, why)
    else:
        ((*columns,),) = await tx.rows("move_guard_back", since, actor, why)
    await tx.send("restore", actor, again or standing is None)
    return Guard._make(columns)


async def close_guard(connections: Connections, actor: str, why: str, number: int | None) -> Guard:
    """See Store.close_guard. Raises InputError."""
    async with connections.transaction() as tx:
        closed = await _guard(await tx.send("close_guard", actor, why, number))
    if closed is None:
        raise InputError(f"no restore guard{'' if number is None else f' {number}'} is open: there is nothing to close")
    return closed


async def _guard(cursor: Cursor) -> Guard | None:
    found = await cursor.fetchone()
    return None if found is None else Guard._make(found)


# --- what it covers ------------------------------------------------------------------------------


class Covered(NamedTuple):
    """When each guard that there ever was was closed (None: it is open)."""

    closings: tuple[datetime | None, ...] = ()

    @classmethod
    async def told_by(cls, cursor: Cursor) -> Covered:
        """As the statement `guards` tells it."""
        return cls(tuple(Guard._make(row).closed_at for row in await cursor.fetchall()))

    def cover(self, due_at: datetime) -> bool:
        """Whether what was due then may have been sent by what a backup has forgotten.

        However long it was due before that backup: a tick that came late may have found it afterwards.
        """
        return any(closed_at is None or due_at <= closed_at for closed_at in self.closings)


async def keep_out_guard(tx: Transaction) -> Cursor:
    """Keep guards from being opened until the commit, and ask for those that there are."""
    await tx.send("keep_out_guard")
    return await tx.send("guards")
