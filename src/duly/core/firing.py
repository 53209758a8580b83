"""What a due reminder becomes: one delivery per occurrence and channel, each judged by its deadline.

An occurrence that is already past its deadline is written all the same, as expired: the record must
explain why nothing came. Ids are derived from the occurrence's label, so a tick that is replayed
writes the same rows, which are then already there.

A schedule that repeats may be due several times at once, if nothing ran for a while. Which of these
occurrences are fired is the reminder's own policy (`missed`); how many were not, and which, stands in one
event. Where a schedule cannot be read any more (this machine does not know its zone), the reminder is
paused with that reason: nothing is guessed, and the tick goes on with the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Final

from duly.core import keys
from duly.core.missed import Caught, Policy, catch_up, read_missed
from duly.core.model import Channel, Due, Fired, FiredNote, NewDelivery
from duly.core.moments import parse_duration
from duly.core.revising import named
from duly.core.schedule import ONCE, Schedule, Slot
from duly.core.states import State
from duly.core.upcoming import Upcoming, upcoming

__all__ = ["fire", "would_have_been_sent"]

#: Why nothing comes of a reminder whose recipient was deleted, as the ledger says.
RECIPIENT_DELETED: Final = "recipient_deleted"

POLICIES_CACHED_MAX: Final = 4_096


def fire(row: Due, now: datetime, namespace: str, providers: Mapping[str, str], zone: tzinfo | None = None) -> Fired:
    """Turn one due reminder into its deliveries.

    `providers` names the provider of each channel. `zone` is the one in which the row's local times are read;
    None for one that fires once, and where this machine does not know it.
    """
    if row.schedule is None:
        once = Upcoming(ONCE, row.due_at, row.deadline_at)
        return Fired(row.reminder, row.revision, row.due_at, None, _deliveries(row, once, now, namespace, providers))
    try:
        return _fire_schedule(row, Schedule.from_text(row.schedule), now, namespace, providers, zone)
    except ValueError:
        return _stand_still(row, "schedule_cannot_be_read")


def _fire_schedule(
    row: Due, schedule: Schedule, now: datetime, namespace: str, providers: Mapping[str, str], zone: tzinfo | None
) -> Fired:
    if zone is None and _follows_clocks(row, schedule):
        return _stand_still(row, "zone_unknown")
    caught = catch_up(schedule, zone, row.label or ONCE, now, _policy(row.missed, row.grace), row.due_at)
    occurrences = [_occurrence(row, schedule, zone, slot) for slot in caught.fire]
    deliveries = [_deliveries(row, one, now, namespace, providers) for one in occurrences]
    then = None if caught.next is None else _occurrence(row, schedule, zone, caught.next)
    return Fired(
        row.reminder,
        row.revision,
        row.due_at,
        then.due_at if then else None,
        tuple(new for each in deliveries for new in each),
        then.label if then else None,
        then.deadline_at if then else None,
        _missed(row, caught) if caught.skipped else None,
    )


def _follows_clocks(row: Due, schedule: Schedule) -> bool:
    """Whether its moments are told by a zone: wall times, and rules for which a zone was named."""
    return schedule.start.tzinfo is None or (schedule.repeat is not None and row.zone is not None)


def _occurrence(row: Due, schedule: Schedule, zone: tzinfo | None, slot: Slot) -> Upcoming:
    if slot.label == row.label and slot.due_at == row.due_at:
        return Upcoming(slot.label, slot.due_at, row.deadline_at)
    return upcoming(schedule, zone, slot, row.deadline)


def _missed(row: Due, caught: Caught) -> FiredNote:
    evidence = {"skipped": caught.skipped, "first": caught.first_skipped, "last": caught.last_skipped}
    return FiredNote(row.account_id, "missed", "occurrences_missed", json.dumps(evidence))


def _stand_still(row: Due, reason: str) -> Fired:
    note = FiredNote(row.account_id, "paused", reason)
    return Fired(row.reminder, row.revision, row.due_at, row.due_at, (), row.label, note=note)


@lru_cache(POLICIES_CACHED_MAX)
def _policy(missed: str | None, grace: str | None) -> Policy:
    policy = read_missed(missed or "latest")
    return policy if grace is None else policy._replace(grace=parse_duration(grace))


def would_have_been_sent(new: NewDelivery) -> bool:
    """Whether only its deadline, or that its recipient was deleted, ends it now: sooner, it could have gone out."""
    return bool(new.provider) and (new.state is State.EXPIRED or new.reason == RECIPIENT_DELETED)


# --- deliveries ----------------------------------------------------------------------------------


def _deliveries(
    row: Due, occurrence: Upcoming, now: datetime, namespace: str, providers: Mapping[str, str]
) -> tuple[NewDelivery, ...]:
    return tuple([_delivery(row, occurrence, channel, now, namespace, providers) for channel in row.channels])


def _delivery(
    row: Due, occurrence: Upcoming, channel: Channel, now: datetime, namespace: str, providers: Mapping[str, str]
) -> NewDelivery:
    address, provider = row.addresses.get(channel), providers.get(channel)
    state, reason = _judge(row.refused, occurrence, now, address, provider)
    label, endpoint = named(occurrence.label, row.generation), keys.NO_ENDPOINT
    if channel is Channel.WEBHOOK and address:
        endpoint = keys.endpoint_id(namespace, address)
    return NewDelivery(
        id=keys.delivery_id(namespace, row.account, row.key, label, channel),
        account_id=row.account_id,
        reminder=row.reminder,
        recipient=row.recipient,
        contact=keys.contact_id(namespace, row.account, channel, address or ""),
        endpoint=endpoint,
        occurrence=label,
        channel=channel,
        provider=provider or "",
        lane=row.lane,
        due_at=occurrence.due_at,
        deadline_at=occurrence.deadline_at,
        state=state,
        reason=reason,
        address=None if row.inline else address,
    )


def _judge(
    refused: str | None, occurrence: Upcoming, now: datetime, address: str | None, provider: str | None
) -> tuple[State, str | None]:
    if now >= occurrence.deadline_at:
        return State.EXPIRED, "deadline_passed_before_tick"
    if address is None:
        return State.SKIPPED, "no_address"
    if provider is None:
        return State.SKIPPED, "no_provider"
    if refused is not None:
        return State.SKIPPED, refused
    return State.READY, None
