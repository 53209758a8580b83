"""Time zones by name, and the version of the data behind them. Finding one reads files, so it is remembered.

A name is an IANA name. Zones were renamed over the years, and data of any age knows only some of the names: where
one is not known, the other names of the same zone are tried (Europe/Kiev and Europe/Kyiv, both ways). The names
that Windows uses (Eastern Standard Time) are understood too. Both tables are CLDR's, as Babel brings them
(https://github.com/unicode-org/cldr, windowsZones.xml and timezone.xml). What is kept is the IANA name: `key` of the
zone that was found.

`zoneinfo` reads the machine's own data where there are any, else those of the package tzdata.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from babel.core import get_global

from duly.intake.rejection import Rejection, did_you_mean

__all__ = ["ZONE_CHARACTERS_MAX", "find", "known", "version", "version_of"]

ZONE_CHARACTERS_MAX: Final = 64
ZONES_CACHED_MAX: Final = 1_024
FIRST_LINE_CHARACTERS_MAX: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
#: Files of the same folder that name this machine's zone, or no zone.
_NOT_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})
#: Folders of the same folder: its zones once more, and once with leap seconds.
_NOT_FOLDERS: Final = ("posix/", "right/")
_VERSION: Final = re.compile(r"(?:# version )?([0-9]{4}[a-z]{1,2})\s*")


def find(name: str, field: str) -> ZoneInfo:
    """The zone of that name; its `key` is its IANA name. Raises Rejection."""
    zone = known(name)
    if zone is None:
        hint = did_you_mean(name, _names()) or "; write one like America/New_York"
        raise Rejection(f"there is no such time zone{hint}", field)
    return zone


def version() -> str:
    """The version of the zone data that `zoneinfo` reads, like 2026a; of data that do not tell it, a hash."""
    return version_of(zoneinfo.TZPATH)


@lru_cache(ZONES_CACHED_MAX)
def version_of(folders: tuple[str, ...]) -> str:
    """The same, for these folders in their order."""
    for folder in map(Path, folders):
        if (folder / "UTC").is_file() or (folder / "Etc" / "UTC").is_file():
            return _told(folder) or _hash(folder)
    return str(import_module("tzdata").IANA_VERSION)  # it has no types


# --- finding -------------------------------------------------------------------------------------


@lru_cache(ZONES_CACHED_MAX)
def known(name: str) -> ZoneInfo | None:
    """The zone of that name, or of what else it is called; None if this machine does not know it."""
    if len(name) > ZONE_CHARACTERS_MAX:
        return None
    return next(filter(None, map(_read, _candidates(name))), None)


def _candidates(name: str) -> Iterator[str]:
    """The name, and what else the zone is called."""
    yield name
    windows: Mapping[str, str] = get_global("windows_zone_mapping")
    if name in windows:
        yield windows[name]
    yield from _other_names(name)


def _other_names(name: str) -> Iterable[str]:
    newer: Mapping[str, str] = get_global("zone_aliases")
    today = newer.get(name, name)
    return [today, *(old for old, new in newer.items() if new == today and old != name)] if name in _renamed() else []


@lru_cache(1)
def _renamed() -> frozenset[str]:
    newer: Mapping[str, str] = get_global("zone_aliases")
    return frozenset({*newer, *newer.values()})


def _read(name: str) -> ZoneInfo | None:
    if name in _NOT_ZONES or name.startswith(_NOT_FOLDERS) or not _NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such file, not a zone's file, a folder
        return None


@lru_cache(1)
def _names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


# --- the data's version --------------------------------------------------------------------------


def _told(folder: Path) -> str | None:
    """What the data say: the first line of tzdata.zi, or +VERSION (macOS, FreeBSD)."""
    for name in ("tzdata.zi", "+VERSION"):
        try:
            with (folder / name).open(encoding="ascii", errors="replace") as file:
                found = _VERSION.fullmatch(file.readline(FIRST_LINE_CHARACTERS_MAX))
        except OSError:
            continue
        if found:
            return found[1]
    return None


def _hash(folder: Path) -> str:
    """Of the data themselves: other data have another one."""
    digest = sha256()
    for name in _names():
        try:
            digest.update(name.encode() + (folder / name).read_bytes())
        except OSError:
            continue
    return f"unnamed-{digest.hexdigest()[:12]}"
