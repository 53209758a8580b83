"""What people allow, and who they are, as the ledger takes it: statements about addresses, recipients in bulk."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from duly.core.consent import Said
from duly.core.model import Channel, NewContact

__all__ = ["NewConsent", "RecipientChange", "Upsert", "Upserted"]


class NewConsent(NamedTuple):
    """A statement about a normalised address. One that is not imported is said now, by the database's clock."""

    contact: NewContact
    said: Said


class RecipientChange(NamedTuple):
    """What is known about a recipient. What is absent stays as it is, None clears it.

    `fields` are of name, zone and locale; `addresses` go by channel. `quiet_hours` are windows as they are written;
    none at all clears them, and None leaves them as they are.
    """

    id: bytes
    ref: str
    fields: Mapping[str, str | None]
    addresses: Mapping[Channel, NewContact | None]
    quiet_hours: tuple[str, ...] | None = None


class Upsert(StrEnum):
    """What became of a recipient's row."""

    CREATED = "created"
    CHANGED = "changed"
    SAME = "same"
    DELETED = "deleted"  # he was deleted, and stays so: nothing was changed


class Upserted(NamedTuple):
    """One recipient after an import. Where his zone changed, schedules in it are to be computed anew."""

    id: bytes
    what: Upsert
    zone_changed: bool = False
