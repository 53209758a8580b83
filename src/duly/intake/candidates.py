"""Zones in which a recipient may live who has not said where.

A phone number tells something: its prefix belongs to a country, often to a part of one. `phonenumbers` knows
the zones of each prefix (its data are those of libphonenumber). People move and keep their numbers, so this is
a guess, and quiet hours are kept in every zone of it.

A prefix that several countries share, or none, says nothing: a toll-free number of North America may ring in 42
zones, from Guam to Saint John's, and no hour of the day is free in all of them. Over 16 candidates, which are
those of a Russian mobile number, are therefore none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import phonenumbers
from phonenumbers import NumberParseException
from phonenumbers import timezone as prefixes

from duly.intake import zones

__all__ = ["CANDIDATES_ZONES_MAX", "zones_of", "zones_of_phone"]

CANDIDATES_ZONES_MAX: Final = 16
NUMBERS_CACHED_MAX: Final = 16_384
NUMBER_CHARACTERS_MAX: Final = 40


def zones_of(zone: str | None, phone: str | None, account_zone: str | None) -> tuple[str, ...]:
    """The zones in which quiet hours are kept: the recipient's own, else his phone's, else the account's.

    Empty if none is known: then quiet hours cannot be told, and UTC would be no better than any other guess.
    """
    if zone is not None:
        return (zone,)
    found = zones_of_phone(phone) if phone is not None else ()
    return found or ((account_zone,) if account_zone is not None else ())


@lru_cache(NUMBERS_CACHED_MAX)
def zones_of_phone(e164: str) -> tuple[str, ...]:
    """The zones in which a number in E.164 may ring, at most 16; none if it says too little. Never raises."""
    if len(e164) > NUMBER_CHARACTERS_MAX:
        return ()
    try:
        number = phonenumbers.parse(e164, None)
    except NumberParseException:
        return ()
    # A mobile number has the zones of its whole country code, unless that is shared by many: then its prefix's.
    whole, of_prefix = prefixes.time_zones_for_number(number), prefixes.time_zones_for_geographical_number(number)
    return _fit(whole) or _fit(of_prefix)


def _fit(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names that are zones here (`Etc/Unknown`, for a number of nowhere, is none), if they are few enough."""
    return tuple(filter(zones.known, names)) if len(names) <= CANDIDATES_ZONES_MAX else ()
