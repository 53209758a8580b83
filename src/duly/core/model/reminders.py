"""What the application asked for, and what a tick makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from duly.core.model.words import Channel, Lane
from duly.core.states import State

__all__ = ["Due", "Fired", "FiredNote", "NewContact", "NewDelivery", "NewReminder", "TemplateSource"]


class NewContact(NamedTuple):
    """A normalised address of one account."""

    id: bytes
    channel: Channel
    address: str
    endpoint: bytes  # keys.NO_ENDPOINT unless the channel is webhook


class TemplateSource(NamedTuple):
    """What one version of a template is made of, and what its text may do as SMS."""

    name: str
    version: str
    subject: str
    text: str
    html: str | None
    sms_segments_max: int
    sms_to_gsm: bool


@dataclass(frozen=True, slots=True)
class NewReminder:
    """A validated reminder, ready to be written. `body_hash` is of the body as submitted."""

    id: bytes
    account: str
    key: str
    body_hash: bytes
    recipient: bytes
    recipient_ref: str
    recipient_name: str | None
    recipient_zone: str | None
    recipient_locale: str | None
    contacts: tuple[NewContact, ...]  # inline addresses; empty if `to` is an id alone
    channels: tuple[Channel, ...]
    template: str
    data: str  # JSON text
    to: str  # JSON text, as submitted
    notify_at: str  # as submitted
    zone: str | None
    next_due_at: datetime
    deadline: str | None  # as submitted
    deadline_at: datetime  # of this occurrence
    late: str
    lane: Lane
    purpose: str
    event_version: int | None
    schedule: str | None = None  # JSON text of a Schedule that repeats or has offsets; None: fires once
    next_label: str | None = None  # of the next occurrence; None: once
    follows_recipient: bool = False  # local times are read in the recipient's zone
    zone_data: str | None = None  # version of the zone data by which the due time was told; None: an instant
    missed: str | None = None  # as submitted
    grace: str | None = None  # as submitted
    recipient_quiet_hours: tuple[str, ...] = ()  # his own, as windows are written
    late_until: str | None = None  # as submitted: how long a late one is still sent, marked as late
    group: str | None = None  # by which it may be cancelled together with others
    template_version: str | None = None  # by which it is rendered; None: by whichever is current


class Due(NamedTuple):
    """A reminder that is due. `addresses` are the inline ones, else the recipient's as he is now."""

    reminder: bytes
    account_id: int
    account: str
    key: str
    recipient: bytes
    revision: int
    due_at: datetime
    deadline_at: datetime
    channels: tuple[Channel, ...]
    addresses: dict[str, str]
    inline: bool
    lane: Lane
    schedule: str | None = None  # JSON text; None: fires once
    label: str | None = None  # of the occurrence that is due; None: once
    zone: str | None = None  # in which local times are read now
    deadline: str | None = None  # as submitted; until when a late one is sent, where that is later
    missed: str | None = None
    grace: str | None = None
    generation: int = 1  # of its occurrences
    refused: str | None = None  # why nothing may come of it any more: recipient_deleted


class NewDelivery(NamedTuple):
    """One occurrence on one channel. `state` is ready, expired or skipped; the last two carry a reason."""

    id: bytes
    account_id: int
    reminder: bytes
    recipient: bytes
    contact: bytes
    endpoint: bytes
    occurrence: str
    channel: Channel
    provider: str
    lane: Lane
    due_at: datetime
    deadline_at: datetime
    state: State
    reason: str | None
    address: str | None  # set where the contact has yet to be written (`to` is an id alone)


class Fired(NamedTuple):
    """What one due reminder becomes: its deliveries, and the schedule moved on."""

    reminder: bytes
    revision: int
    expected_due: datetime
    next_due: datetime | None  # None: no further occurrence, the reminder is done
    deliveries: tuple[NewDelivery, ...]
    next_label: str | None = None
    next_deadline: datetime | None = None  # of the next occurrence; None: as it was
    note: FiredNote | None = None


class FiredNote(NamedTuple):
    """An event of a tick that concerns the reminder as a whole."""

    account_id: int
    kind: str  # missed, or paused: then the reminder stands still until somebody looks at it
    reason: str
    evidence: str | None = None  # JSON text
