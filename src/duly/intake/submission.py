"""From a submitted object to a reminder that can be written, or the reason why not.

Everything is decided here, while somebody is looking: unknown fields, wrong types, addresses, zones,
times, and whether the template can be rendered with the data. What a later version will understand
(`fallback`) is refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from duly.core import keys
from duly.core.folding import PREFIX
from duly.core.model import Channel, Lane, NewContact, NewReminder
from duly.core.schedule import Slot
from duly.intake import zones
from duly.intake.body import body_hash, read_data, written
from duly.intake.contacts import new_contact
from duly.intake.fields import FIELDS, choice, kind, known, label, need, number, shown
from duly.intake.late import read_late
from duly.intake.purposes import Purposes
from duly.intake.recipients import ID_CHARACTERS_MAX, Recipient, read_recipient
from duly.intake.rejected import set_aside
from duly.intake.rejection import Rejection, did_you_mean, nearest_or_all
from duly.intake.when import RECIPIENT, When, read_when

__all__ = ["Intake", "KnownTemplates", "RecipientZones"]

KEY_CHARACTERS_MAX: Final = 255
ACCOUNT_CHARACTERS_MAX: Final = 100
TEMPLATE_CHARACTERS_MAX: Final = 100
PURPOSE_CHARACTERS_MAX: Final = 50
GROUP_CHARACTERS_MAX: Final = 255
EVENT_VERSION_MAX: Final = 2**31 - 1

PURPOSE: Final = "service"

#: The field that holds a channel's address.
_FIELD: Final = {Channel.EMAIL: "to.email", Channel.SMS: "to.phone", Channel.WEBHOOK: "to.webhook"}
_EXAMPLE: Final = '["email"]'

#: The zone of a recipient, by his account and the caller's own id of him; None if none is known.
RecipientZones = Callable[[str, str], str | None]


class KnownTemplates(Container[str], Iterable[str], Protocol):
    """The configured templates."""

    def version(self, name: str) -> str:
        """The template's current version."""
        ...

    def missing(
        self,
        name: str,
        data: Mapping[str, Any],
        recipient: Mapping[str, str | None] | None,
        reminder: Mapping[str, str],
        slot: Slot,
    ) -> str | None:
        """Why the template cannot be rendered for this occurrence, or None. `recipient` is None if not known yet."""
        ...


class Intake:
    """Checks submissions against one installation's configuration. It keeps nothing between rows but caches."""

    def __init__(
        self,
        namespace: str,
        templates: KnownTemplates,
        channels_available: Mapping[str, str],
        account_zones: Callable[[str], str | None],
        purposes: Purposes | None = None,
    ) -> None:
        """`channels_available` names the provider of each channel; `account_zones` an account's configured zone.

        `purposes` are those that are known; None: any is taken as it is.
        """
        self._namespace = namespace
        self._templates = templates
        self._channels_available = channels_available
        self._account_zones = account_zones
        self._purposes = purposes

    def accept(
        self, raw: Mapping[str, Any], now: datetime | None = None, zone_of: RecipientZones | None = None
    ) -> NewReminder:
        """Check one submission. Raises Rejection, and nothing else, whatever the object holds.

        `now` is when what repeats begins; without it a cron expression needs a `notify_at`. `zone_of` knows the zones
        of recipients who are named by an id, for submissions that do not say it: see `asks_zone`.
        """
        row = known(set_aside(raw), FIELDS)
        _refuse_later_versions(row)
        key = _key(row)
        account = need(row, "account", ACCOUNT_CHARACTERS_MAX)
        recipient = _with_zone(read_recipient(row.get("to")), account, zone_of)
        _check_quiet_hours(recipient, self._account_zones(account))
        channels = self._channels(row.get("channels"), recipient.addresses)
        when = read_when(row, self._account_zones(account), recipient.zone, now)
        late = read_late(row, when)
        template = self._template(row)
        data, data_text = read_data(row)
        self._check_rendering(template, data, recipient, {"key": key, "account": account}, when)
        return NewReminder(
            id=keys.reminder_id(self._namespace, account, key),
            account=account,
            key=key,
            recipient=keys.recipient_id(self._namespace, account, recipient.ref),
            recipient_ref=recipient.ref,
            recipient_name=recipient.name,
            recipient_zone=recipient.zone,
            recipient_locale=recipient.locale,
            contacts=self._contacts(account, recipient.addresses),
            channels=channels,
            template=template,
            data=data_text,
            to=written(recipient.submitted),
            notify_at=when.notify_at,
            zone=when.zone,
            next_due_at=when.first.due_at,
            deadline=when.deadline,
            deadline_at=late.deadline_at,
            late=late.policy,
            lane=Lane(choice(row, "lane", Lane, Lane.NORMAL)),
            purpose=self._purpose(row, account),
            event_version=number(row, "event_version", EVENT_VERSION_MAX),
            schedule=when.schedule.to_text() if when.goes_on else None,
            next_label=when.first.label if when.goes_on else None,
            follows_recipient=when.follows_recipient,
            zone_data=zones.version() if when.in_zone else None,
            missed=when.missed,
            grace=when.grace,
            recipient_quiet_hours=recipient.quiet_hours,
            late_until=late.until,
            group=label(row, "group", GROUP_CHARACTERS_MAX),
            template_version=self._templates.version(template),
            # Last, because only what has been checked can be written.
            body_hash=body_hash({**row, "data": data, "to": recipient.submitted}),
        )

    def near_purpose(self, reminder: NewReminder) -> str | None:
        """The known purpose that the reminder's may be meant to be, though it is another one; None if none is near."""
        return self._purposes.near(reminder.account, reminder.purpose) if self._purposes else None

    def _purpose(self, row: Mapping[str, Any], account: str) -> str:
        purpose = label(row, "purpose", PURPOSE_CHARACTERS_MAX) or PURPOSE
        if self._purposes:
            self._purposes.check(account, purpose)
        return purpose

    def asks_zone(self, raw: Mapping[str, Any]) -> tuple[str, str] | None:
        """Whose zone a submission needs and does not say: account and id. None: nobody's, or it will be refused."""
        row = set_aside(raw)
        if not isinstance(row, Mapping):
            return None
        to, account, zone = row.get("to"), row.get("account"), row.get("zone")
        if not isinstance(to, Mapping) or to.get("zone") or not isinstance(account, str):
            return None
        if zone != RECIPIENT and (zone or self._account_zones(account)):
            return None
        try:
            ref = label(to, "id", ID_CHARACTERS_MAX)
            return None if ref is None else (need(row, "account", ACCOUNT_CHARACTERS_MAX), ref)
        except Rejection:
            return None

    def _channels(self, wanted: Any, addresses: Mapping[Channel, str]) -> tuple[Channel, ...]:
        channels = _only_channel(addresses) if wanted is None else _named_channels(wanted)
        for channel in channels:
            if channel not in self._channels_available:
                raise Rejection(f"no provider sends {channel} here; add one to duly.toml", "channels")
            if addresses and channel not in addresses:
                raise Rejection(f"{channel} is asked for, and there is no {_FIELD[channel]}", "channels")
        return channels

    def _template(self, row: Mapping[str, Any]) -> str:
        name = need(row, "template", TEMPLATE_CHARACTERS_MAX)
        if name not in self._templates:
            raise Rejection(f"no template has this name{nearest_or_all(name, self._templates)}", "template")
        return name

    def _check_rendering(
        self, template: str, data: dict[str, Any], recipient: Recipient, reminder: Mapping[str, str], when: When
    ) -> None:
        person = None
        if recipient.addresses:
            person = {
                "id": recipient.ref,
                "name": recipient.name,
                "zone": recipient.zone,
                "locale": recipient.locale,
            }
        reason = self._templates.missing(template, data, person, reminder, when.first)
        if reason is not None:
            raise Rejection(reason, "data")

    def _contacts(self, account: str, addresses: Mapping[Channel, str]) -> tuple[NewContact, ...]:
        return tuple([new_contact(self._namespace, account, channel, one) for channel, one in addresses.items()])


def _with_zone(recipient: Recipient, account: str, zone_of: RecipientZones | None) -> Recipient:
    """A recipient who is named by an id lives where the ledger says, unless the submission says where."""
    if zone_of is None or recipient.zone is not None or not recipient.submitted.get("id"):
        return recipient
    return recipient._replace(zone=zone_of(account, recipient.ref))


def _key(row: Mapping[str, Any]) -> str:
    key = need(row, "idempotency_key", KEY_CHARACTERS_MAX)
    if key.startswith(PREFIX):
        raise Rejection(
            f"begins with {PREFIX}, as only keys of Duly's own summaries do; choose another", "idempotency_key"
        )
    return key


def _refuse_later_versions(row: Mapping[str, Any]) -> None:
    if row.get("fallback") not in (None, ""):
        raise Rejection("is not supported by this version; leave it out", "fallback")


def _check_quiet_hours(recipient: Recipient, account_zone: str | None) -> None:
    if recipient.quiet_hours and not (recipient.zone or account_zone or set(recipient.addresses) == {Channel.SMS}):
        raise Rejection("need a zone; give to.zone, or the account one in duly.toml", "to.quiet_hours")


def _only_channel(addresses: Mapping[Channel, str]) -> tuple[Channel, ...]:
    if len(addresses) == 1:
        return tuple(addresses)
    given = "several addresses" if addresses else "no address"
    raise Rejection(f"is missing, and to gives {given}; name the channels, like {_EXAMPLE}", "channels")


def _named_channels(wanted: Any) -> tuple[Channel, ...]:
    if not isinstance(wanted, (list, tuple)):
        raise Rejection(f"must be a list like {_EXAMPLE}, not {kind(wanted)}", "channels")
    if not 0 < len(wanted) <= len(Channel):
        raise Rejection(f"must name one to {len(Channel)} channels", "channels")
    channels = tuple(map(_channel, wanted))
    if len(set(channels)) < len(channels):
        raise Rejection("names a channel twice", "channels")
    return channels


def _channel(word: Any) -> Channel:
    try:
        return Channel(word)
    except ValueError:
        known_words = [str(channel) for channel in Channel]
        hint = did_you_mean(shown(word), known_words)
        raise Rejection(f"a channel is {' or '.join(known_words)}{hint}", "channels") from None
