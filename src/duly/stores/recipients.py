"""What a row of an import changes of a recipient: fields that it names, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from duly.core.model import NewContact
from duly.ports import RecipientChange, Upsert, Upserted

__all__ = ["Kept", "changed_fields", "contacts", "merged", "tells_time_anew", "upserted"]

#: The fields that a channel's address stands in.
_FIELD_OF: Mapping[str, str] = {"email": "email", "sms": "phone", "webhook": "webhook"}


class Kept(NamedTuple):
    """What is kept about a recipient. `addresses` go by channel."""

    name: str | None = None
    zone: str | None = None
    locale: str | None = None
    addresses: Mapping[str, str] = {}
    quiet_hours: Sequence[str] = ()

    @property
    def quiet_hours_text(self) -> str | None:
        """JSON text; None where there are none."""
        return json.dumps(list(self.quiet_hours)) if self.quiet_hours else None


def merged(kept: Kept, change: RecipientChange) -> Kept:
    """What is kept from now on."""
    addresses = dict(kept.addresses)
    for channel, contact in change.addresses.items():
        if contact is None:
            addresses.pop(channel.value, None)
        else:
            addresses[channel.value] = contact.address
    quiet_hours = kept.quiet_hours if change.quiet_hours is None else change.quiet_hours
    return kept._replace(**change.fields, addresses=addresses, quiet_hours=list(quiet_hours))


def changed_fields(before: Kept, after: Kept) -> list[str]:
    """The names of the fields that differ, in order: never what stands in them."""
    plain = [name for name in ("name", "zone", "locale") if getattr(before, name) != getattr(after, name)]
    plain += ["quiet_hours"] * (list(before.quiet_hours) != list(after.quiet_hours))
    channels = {**before.addresses, **after.addresses}
    addresses = [_FIELD_OF[one] for one in channels if before.addresses.get(one) != after.addresses.get(one)]
    return sorted(plain + addresses)


def tells_time_anew(changed: Iterable[str]) -> bool:
    """Whether what waits for the end of his quiet hours may wait for another moment now."""
    return not {"zone", "quiet_hours"}.isdisjoint(changed)


def upserted(identity: bytes, changed: Iterable[str]) -> Upserted:
    """What became of a recipient who was there."""
    names = list(changed)
    return Upserted(identity, Upsert.CHANGED if names else Upsert.SAME, "zone" in names)


def contacts(changes: Iterable[RecipientChange]) -> list[NewContact]:
    """The contacts that the rows name, each once, in key order."""
    found = {one.id: one for change in changes for one in change.addresses.values() if one is not None}
    return [found[identity] for identity in sorted(found)]
