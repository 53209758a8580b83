"""Quiet hours of a delivery: whose windows they are, and in which zones they are kept.

The windows are the account's, for the reminder's purpose, and the recipient's own, which hold for every
purpose but security. The zone is the recipient's; where that is not known, his phone's candidates, else the
account's. If none of these is known, nobody can say when it is quiet there: nothing is held back on a guess.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Final

from duly.core.model import Channel, Claimed
from duly.core.quiet_hours import ANY_TIME, LOUD_PURPOSE, Look, Window, look, read_windows
from duly.intake import candidates, zones
from duly.ports import Policies

__all__ = ["QuietHours"]

ZONES_CACHED_MAX: Final = 4_096


class QuietHours:
    """ports.Quiet, from what accounts and recipients have chosen."""

    def __init__(self, policies: Policies, account_zones: dict[str, str | None]) -> None:
        self._policies = policies
        self._account_zones = account_zones

    def __call__(self, row: Claimed, now: datetime) -> Look:
        """See ports.Quiet."""
        windows = (*self._policies.quiet(row.account, row.purpose), *_own(row))
        if not windows:
            return ANY_TIME
        phone = row.address if row.channel is Channel.SMS else None
        found = _zones(candidates.zones_of(row.recipient_zone, phone, self._account_zones.get(row.account)))
        return look(windows, found, now) if found else ANY_TIME


def _own(row: Claimed) -> tuple[Window, ...]:
    if not row.recipient_quiet_hours or row.purpose == LOUD_PURPOSE:
        return ()
    return _windows(row.recipient_quiet_hours)


@lru_cache(ZONES_CACHED_MAX)
def _windows(texts: tuple[str, ...]) -> tuple[Window, ...]:
    return read_windows(texts)


@lru_cache(ZONES_CACHED_MAX)
def _zones(names: tuple[str, ...]) -> tuple[tzinfo, ...]:
    return tuple(filter(None, map(zones.known, names)))
