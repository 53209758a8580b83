"""Resume: a paused reminder goes on. What repeats begins behind now, so that nothing floods."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from duly.core.upcoming import resume
from duly.errors import InputError, StoreError
from duly.ports import Store, Zones

__all__ = ["resume_reminder"]

#: Somebody else has to win each of these before we give up.
LOOKS_MAX: Final = 20


async def resume_reminder(
    store: Store, zones: Zones, version: str, actor: str, reason: str, reminder: bytes
) -> datetime | None:
    """Let a paused reminder go on; returns when it is next due, None if nothing is left of it.

    `version`: of the zone data. Raises NotFound if it is not paused, InputError where its moment cannot be told, and
    StoreError if others change the reminder all the time.
    """
    for _ in range(LOOKS_MAX):
        now, row = await store.paused_reminder(reminder)
        try:
            how = resume(row, None if row.zone is None else zones(row.zone), now, version)
        except ValueError as error:
            raise InputError(f"account {row.account}, key {row.key}: it stays paused: {error}") from None
        if await store.resume_reminder(actor, reason, how):
            return how.due_at
    raise StoreError(f"account {row.account}, key {row.key}: others change this reminder all the time; try again")
