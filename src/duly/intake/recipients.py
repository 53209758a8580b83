"""Who a reminder is for.

`to` gives an id, addresses, or both. With addresses they belong to this reminder. With an id alone the
recipient is read as he is when the reminder is due. Without an id the recipient is named by his address:
the first of e-mail, phone and webhook, normalised, so that two rows for one address are one recipient.

A name is prose: NUL and lone surrogates are taken out of it, and line breaks become spaces.

Quiet hours are the recipient's own, a list of windows like those of an account; an empty list says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from duly.core.model import Channel
from duly.core.quiet_hours import read_windows, written
from duly.core.text import one_line
from duly.intake import addresses, zones
from duly.intake.fields import RECIPIENT_FIELDS, kind, known, label
from duly.intake.rejection import Rejection

__all__ = ["Recipient", "read_recipient", "read_zone"]

ID_CHARACTERS_MAX: Final = 255
NAME_CHARACTERS_MAX: Final = 200
LOCALE_CHARACTERS_MAX: Final = 35  # RFC 5646, 4.4.1
ADDRESS_CHARACTERS_MAX: Final = addresses.URL_CHARACTERS_MAX

_LOCALE: Final = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
#: In the order in which an address may stand for an id.
_CHANNELS: Final[tuple[tuple[str, Channel, Callable[[str], str]], ...]] = (
    ("email", Channel.EMAIL, addresses.normal_email),
    ("phone", Channel.SMS, addresses.normal_phone),
    ("webhook", Channel.WEBHOOK, addresses.normal_url),
)


class Recipient(NamedTuple):
    """`to`, checked.

    `addresses` are normalised, and empty if `to` is an id alone; `submitted` is without nulls; `quiet_hours` are
    windows in their canonical text.
    """

    ref: str
    name: str | None
    zone: str | None
    locale: str | None
    addresses: dict[Channel, str]
    submitted: Mapping[str, Any]
    quiet_hours: tuple[str, ...] = ()


def read_recipient(value: Any) -> Recipient:
    """Raises Rejection."""
    if value is None:
        raise Rejection("is missing; give an id or an address", "to")
    to = known(value, RECIPIENT_FIELDS, "to")
    name, found = _name(to), _addresses(to)
    ref = label(to, "id", ID_CHARACTERS_MAX, "to.") or next(iter(found.values()), None)
    if ref is None:
        raise Rejection("needs an id or an address (email, phone or webhook)", "to")
    submitted = to if name == to.get("name") else {**to, "name": name}
    return Recipient(ref, name or None, read_zone(to), _locale(to), found, submitted, _quiet_hours(to))


def _addresses(to: Mapping[str, Any]) -> dict[Channel, str]:
    found = {}
    for field, channel, normalise in _CHANNELS:
        address = label(to, field, ADDRESS_CHARACTERS_MAX, "to.") if field in to else None
        if address is None:
            continue
        try:
            found[channel] = normalise(address)
        except Rejection as rejection:
            raise Rejection(rejection.reason, f"to.{field}") from None
    return found


def _name(to: Mapping[str, Any]) -> str | None:
    name = to.get("name")
    if name is None:
        return None
    if not isinstance(name, str):
        raise Rejection(f"must be text, not {kind(name)}", "to.name")
    if len(name) > NAME_CHARACTERS_MAX:
        raise Rejection(f"is longer than {NAME_CHARACTERS_MAX} characters; shorten it", "to.name")
    return name if name.isascii() and name.isprintable() else one_line(name, NAME_CHARACTERS_MAX)


def read_zone(to: Mapping[str, Any]) -> str | None:
    """The IANA name of the recipient's zone, if `to` gives one. Raises Rejection."""
    zone = label(to, "zone", zones.ZONE_CHARACTERS_MAX, "to.")
    return None if zone is None else zones.find(zone, "to.zone").key


def _locale(to: Mapping[str, Any]) -> str | None:
    locale = label(to, "locale", LOCALE_CHARACTERS_MAX, "to.")
    if locale is not None and not _LOCALE.fullmatch(locale):
        raise Rejection("is not a language tag; write one like en or pt-BR", "to.locale")
    return locale


def _quiet_hours(to: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = to.get("quiet_hours", "")
    if wanted == "":
        return ()
    if not isinstance(wanted, list | tuple) or not all(isinstance(text, str) for text in wanted):
        given = "a list of something else" if isinstance(wanted, list | tuple) else kind(wanted)
        raise Rejection(f'must be a list like ["21:00-08:00"], not {given}', "to.quiet_hours")
    try:
        return tuple(map(written, read_windows(wanted)))
    except ValueError as error:
        raise Rejection(str(error), "to.quiet_hours") from None
