"""Rows of the database as the values of `core.model`. Every function takes one row in its statement's order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duly.core.folding import RETURNS_MAX
from duly.core.keys import payload_hash
from duly.core.model import (
    Block,
    Channel,
    Claimed,
    Doubtful,
    Due,
    FailureClass,
    Frozen,
    Lane,
    Outcome,
    Revisions,
)
from duly.core.states import State

__all__ = ["claimed", "doubtful", "due"]

_CHANNELS = {str(channel): channel for channel in Channel}
_LANES = {str(lane): lane for lane in Lane}


def due(row: tuple[Any, ...]) -> Due:
    """A row of the statement `due`."""
    identity, number, account, key, recipient, revision, due_at, deadline_at, *rest = row
    channels, addresses, inline, lane, *schedule = rest
    return Due(
        identity, number, account, key, recipient, revision, due_at, deadline_at,
        tuple(_CHANNELS[channel] for channel in channels), addresses, inline, _LANES[lane], *schedule,
    )  # fmt: skip


def claimed(row: tuple[Any, ...], lane: str, lease_until: datetime, now: datetime) -> Claimed:
    """A row of the statement `claim`. What all rows of one claim share is not fetched for each row."""
    (
        identity, account_id, account, fence, attempts, spared, doubt, closed, granted, first_unknown_at,
        reminder, key, status, occurrence, own_lane, due_at, deadline_at, endpoint, channel, address,
        ref, name, zone, locale, template, data, *revisions, paused, suppressed,
        blocked_until, block_reason, circuit, number, destination, body, frozen_template, template_version,
        reminder_revision, recipient_revision, contact_revision, purpose, late_after, quiet_hours, pinned,
        returned, _, _,
    ) = row  # fmt: skip
    return Claimed(
        identity, account_id, account, fence, attempts, spared, doubt, closed, granted, first_unknown_at,
        reminder, key, status, occurrence, _LANES[own_lane or lane], due_at, deadline_at, lease_until, endpoint,
        _CHANNELS[channel], address, ref, name, zone, locale, template, data, Revisions._make(revisions),
        paused, suppressed,
        None if circuit is None else Block(blocked_until or now, block_reason or "", circuit),
        None if number is None else Frozen(
            destination, body, frozen_template, template_version, number,
            reminder_revision, recipient_revision, contact_revision, payload_hash(body),
        ),
        purpose, late_after, tuple(quiet_hours or ()), None, pinned,
        returned is not None and returned < RETURNS_MAX,
    )  # fmt: skip


def doubtful(row: tuple[Any, ...]) -> Doubtful:
    """A row of the statement `doubtful`."""
    (
        identity, fence, state, since, account, provider, address, attempts, spared, unknown, last_unknown,
        last_unknown_at, request_id, outcome, failure, first_unknown_at, misses, missed_at, due_at, deadline_at,
        closed, restored, alarmed, refused, reason,
        number, destination, body, template, template_version,
        reminder_revision, recipient_revision, contact_revision,
    ) = row  # fmt: skip
    return Doubtful(
        identity, fence, State(state), since, account, provider, address, attempts, spared, unknown, last_unknown,
        last_unknown_at, request_id, Outcome(outcome) if outcome else None, _failure(failure), first_unknown_at,
        misses, missed_at, due_at, deadline_at, closed, restored, alarmed, refused,
        None if number is None else Frozen(
            destination, body, template, template_version, number,
            reminder_revision, recipient_revision, contact_revision, payload_hash(body),
        ),
        reason or "",
    )  # fmt: skip


def _failure(text: str | None) -> FailureClass | None:
    """A class that this program knows; one of a later program says nothing here."""
    try:
        return FailureClass(text) if text else None
    except ValueError:
        return None
