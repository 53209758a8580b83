"""Who a reminder is for.

`to` gives an id, addresses, or both. Addresses and quiet hours that it brings belong to this reminder; so do a name, a
zone and a locale that are others than those on record. What it says as it is known, or does not say, is the
recipient's, and changes with him. Only the first reminder that names him writes him down. Without an id the recipient
is named by his address: the first of e-mail, phone and webhook, normalised, so that two rows for one address are one
recipient.

A name is prose: NUL and lone surrogates are taken out of it, and line breaks become spaces.

Quiet hours are the recipient's own, a list of windows like those of an account; an empty list says nothing.

Recipients also come by themselves, in bulk: then the id is needed, what is absent stays as it is, and an explicit
null clears.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from duly.core import keys
from duly.core.model import Channel, NewContact
from duly.core.quiet_hours import read_windows, written
from duly.core.text import one_line
from duly.intake import zones
from duly.intake.addresses import URL_CHARACTERS_MAX
from duly.intake.contacts import NORMALISE, new_contact
from duly.intake.fields import RECIPIENT_FIELDS, kind, known, label
from duly.intake.rejected import set_aside
from duly.intake.rejection import Rejection
from duly.intake.tables import Table
from duly.ports import RecipientChange

__all__ = ["ID_CHARACTERS_MAX", "RECIPIENT_TABLE", "Recipient", "RecipientIntake", "read_recipient", "read_zone"]

ID_CHARACTERS_MAX: Final = 255
NAME_CHARACTERS_MAX: Final = 200
LOCALE_CHARACTERS_MAX: Final = 35  # RFC 5646, 4.4.1
ADDRESS_CHARACTERS_MAX: Final = URL_CHARACTERS_MAX

_LOCALE: Final = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
#: In the order in which an address may stand for an id.
_CHANNELS: Final = (("email", Channel.EMAIL), ("phone", Channel.SMS), ("webhook", Channel.WEBHOOK))


RECIPIENT_TABLE: Final = Table(RECIPIENT_FIELDS, ("id",))


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


class RecipientIntake:
    """Checks rows about recipients of one account."""

    def __init__(self, namespace: str, account: str) -> None:
        self._namespace, self._account = namespace, account

    def accept(self, raw: Mapping[str, Any]) -> RecipientChange:
        """Check one row. Raises Rejection, and nothing else, whatever the object holds."""
        whole = set_aside(raw)
        row = known(whole, RECIPIENT_FIELDS)
        # One who was named by his address alone has it for an id.
        ref = label(row, "id", ADDRESS_CHARACTERS_MAX)
        if ref is None:
            raise Rejection("is missing; it is your own name for the recipient", "id")
        cleared = {name for name, value in whole.items() if value is None}
        identity = keys.recipient_id(self._namespace, self._account, ref)
        said = "quiet_hours" in row or "quiet_hours" in cleared
        quiet_hours = _quiet_hours(row, "") if said else None
        return RecipientChange(identity, ref, _fields(row, cleared), self._contacts(row, cleared), quiet_hours)

    def _contacts(self, row: Mapping[str, Any], cleared: Collection[str]) -> dict[Channel, NewContact | None]:
        found: dict[Channel, NewContact | None] = {
            channel: new_contact(self._namespace, self._account, channel, address)
            for channel, address in _addresses(row, "").items()
        }
        return found | {channel: None for field, channel in _CHANNELS if field in cleared}


def _fields(row: Mapping[str, Any], cleared: Collection[str]) -> dict[str, str | None]:
    """The fields that the row names, and None for those that it clears."""
    read = {"name": _name(row, ""), "zone": read_zone(row, ""), "locale": _locale(row, "")}
    return {name: value or None for name, value in read.items() if value or name in cleared}


def _addresses(to: Mapping[str, Any], prefix: str = "to.") -> dict[Channel, str]:
    found = {}
    for field, channel in _CHANNELS:
        address = label(to, field, ADDRESS_CHARACTERS_MAX, prefix) if field in to else None
        if address is None:
            continue
        try:
            found[channel] = NORMALISE[channel](address)
        except Rejection as rejection:
            raise Rejection(rejection.reason, prefix + field) from None
    return found


def _name(to: Mapping[str, Any], prefix: str = "to.") -> str | None:
    name = to.get("name")
    if name is None:
        return None
    if not isinstance(name, str):
        raise Rejection(f"must be text, not {kind(name)}", f"{prefix}name")
    if len(name) > NAME_CHARACTERS_MAX:
        raise Rejection(f"is longer than {NAME_CHARACTERS_MAX} characters; shorten it", f"{prefix}name")
    return name if name.isascii() and name.isprintable() else one_line(name, NAME_CHARACTERS_MAX)


def read_zone(to: Mapping[str, Any], prefix: str = "to.") -> str | None:
    """The IANA name of the recipient's zone, if `to` gives one. Raises Rejection."""
    zone = label(to, "zone", zones.ZONE_CHARACTERS_MAX, prefix)
    return None if zone is None else zones.find(zone, f"{prefix}zone").key


def _locale(to: Mapping[str, Any], prefix: str = "to.") -> str | None:
    locale = label(to, "locale", LOCALE_CHARACTERS_MAX, prefix)
    if locale is not None and not _LOCALE.fullmatch(locale):
        raise Rejection("is not a language tag; write one like en or pt-BR", f"{prefix}locale")
    return locale


def _quiet_hours(to: Mapping[str, Any], prefix: str = "to.") -> tuple[str, ...]:
    wanted = to.get("quiet_hours", "")
    if wanted == "":
        return ()
    if not isinstance(wanted, list | tuple) or not all(isinstance(text, str) for text in wanted):
        given = "a list of something else" if isinstance(wanted, list | tuple) else kind(wanted)
        raise Rejection(f'must be a list like ["21:00-08:00"], not {given}', f"{prefix}quiet_hours")
    try:
        return tuple(map(written, read_windows(wanted)))
    except ValueError as error:
        raise Rejection(str(error), f"{prefix}quiet_hours") from None
