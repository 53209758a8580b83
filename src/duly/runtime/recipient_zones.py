"""Zones of recipients whom submissions name by their ids alone.

The ledger knows those who are written. An import writes one batch while it checks the next, so who was introduced by
the batch before, or by an earlier row of the same, is remembered until he is there. He is written by the first that
names him, so the first counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from duly.core.model import NewReminder
from duly.ports import Store

__all__ = ["KnownZones"]

#: An account and the caller's own id of a recipient.
Named = tuple[str, str]


class KnownZones:
    """intake.RecipientZones for one batch at a time."""

    def __init__(self) -> None:
        self._stored: dict[Named, str | None] = {}
        self._before: dict[Named, str | None] = {}
        self._introduced: dict[Named, str | None] = {}

    async def look_up(self, store: Store, asked: Iterable[Named]) -> None:
        """Read whose zones are asked for by the batch that begins: one read for each account. Repeatable."""
        stored: dict[Named, str | None] = {}
        for account, refs in _by_account(asked).items():
            found = await store.recipient_zones(account, refs)
            stored.update({(account, ref): zone for ref, zone in found.items()})
        self._stored, self._before, self._introduced = stored, self._introduced, {}

    def introduce(self, reminder: NewReminder) -> None:
        """Remember a recipient who comes with his addresses."""
        if reminder.contacts:
            self._introduced.setdefault((reminder.account, reminder.recipient_ref), reminder.recipient_zone)

    def __call__(self, account: str, ref: str) -> str | None:
        """See intake.RecipientZones."""
        for known in (self._stored, self._before, self._introduced):
            if (account, ref) in known:
                return known[account, ref]
        return None


def _by_account(asked: Iterable[Named]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for account, ref in asked:
        found.setdefault(account, []).append(ref)
    return found
