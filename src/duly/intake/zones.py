"""Time zones by their IANA names. Finding one reads files, so what was found is remembered."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from duly.intake.rejection import Rejection, did_you_mean

__all__ = ["ZONE_CHARACTERS_MAX", "find", "known"]

ZONE_CHARACTERS_MAX: Final = 64
ZONES_CACHED_MAX: Final = 1_024

_NAME: Final = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
#: Files of the same folder that name this machine's zone, or no zone.
_NOT_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})


def find(name: str, field: str) -> ZoneInfo:
    """The zone of that name. Raises Rejection."""
    zone = known(name)
    if zone is None:
        hint = did_you_mean(name, _names()) or "; write one like America/New_York"
        raise Rejection(f"there is no such time zone{hint}", field)
    return zone


@lru_cache(ZONES_CACHED_MAX)
def known(name: str) -> ZoneInfo | None:
    """The zone of that name; None if this machine does not know it."""
    if len(name) > ZONE_CHARACTERS_MAX or name in _NOT_ZONES or not _NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such file, not a zone's file, a folder
        return None


@lru_cache(1)
def _names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))
