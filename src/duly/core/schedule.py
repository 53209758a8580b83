"""What a due reminder becomes: one delivery per channel, each judged by its deadline.

An occurrence that is already past its deadline is written all the same, as expired: the record must
explain why nothing came. Ids are derived from the occurrence's label, so a tick that is replayed
writes the same rows, which are then already there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from duly.core import keys
from duly.core.model import Channel, Due, Fired, NewDelivery
from duly.core.states import State

__all__ = ["ONCE", "fire", "would_have_been_sent"]

#: The label of a reminder that fires once.
ONCE: Final = "once"
#: Why nothing comes of a reminder whose recipient was deleted, as the ledger says.
RECIPIENT_DELETED: Final = "recipient_deleted"


def fire(row: Due, now: datetime, namespace: str, providers: Mapping[str, str]) -> Fired:
    """Turn one due reminder into its deliveries. `providers` names the provider of each channel."""
    deliveries = tuple(_delivery(row, channel, now, namespace, providers) for channel in row.channels)
    return Fired(row.reminder, row.revision, row.due_at, None, deliveries)


def would_have_been_sent(new: NewDelivery) -> bool:
    """Whether only its deadline, or that its recipient was deleted, ends it now: sooner, it could have gone out."""
    return bool(new.provider) and (new.state is State.EXPIRED or new.reason == RECIPIENT_DELETED)


def _delivery(row: Due, channel: Channel, now: datetime, namespace: str, providers: Mapping[str, str]) -> NewDelivery:
    address, provider = row.addresses.get(channel), providers.get(channel)
    state, reason = _judge(row, now, address, provider)
    endpoint = keys.NO_ENDPOINT
    if channel is Channel.WEBHOOK and address:
        endpoint = keys.endpoint_id(namespace, address)
    return NewDelivery(
        id=keys.delivery_id(namespace, row.account, row.key, ONCE, channel),
        account_id=row.account_id,
        reminder=row.reminder,
        recipient=row.recipient,
        contact=keys.contact_id(namespace, row.account, channel, address or ""),
        endpoint=endpoint,
        occurrence=ONCE,
        channel=channel,
        provider=provider or "",
        lane=row.lane,
        due_at=row.due_at,
        deadline_at=row.deadline_at,
        state=state,
        reason=reason,
        address=None if row.inline else address,
    )


def _judge(row: Due, now: datetime, address: str | None, provider: str | None) -> tuple[State, str | None]:
    if now >= row.deadline_at:
        return State.EXPIRED, "deadline_passed_before_tick"
    if address is None:
        return State.SKIPPED, "no_address"
    if provider is None:
        return State.SKIPPED, "no_provider"
    if row.refused is not None:
        return State.SKIPPED, row.refused
    return State.READY, None
