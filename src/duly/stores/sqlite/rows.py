"""What SQLite keeps, as the values of the model, and back: times, ids, flags and JSON text.

Times are integer microseconds since 1970-01-01T00:00:00Z. The columns that make a `Claimed` come in the
order in which `claim_bring` selects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

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
    Guard,
    Lane,
    Outcome,
    Revisions,
)
from duly.core.states import State

__all__ = [
    "SECOND_US",
    "claimed",
    "doubtful",
    "due",
    "frozen",
    "guard",
    "json_text",
    "maybe_micros",
    "maybe_moment",
    "micros",
    "moment",
]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
SECOND_US: Final = 1_000_000
#: Looked up rather than called: an enum's constructor is slow, and these stand in every claimed row.
LANES: Final = {lane.value: lane for lane in Lane}
CHANNELS: Final = {channel.value: channel for channel in Channel}


def micros(when: datetime) -> int:
    """A moment as it is stored."""
    return (when - EPOCH) // MICROSECOND


def maybe_micros(when: datetime | None) -> int | None:
    """A moment as it is stored, or nothing."""
    return None if when is None else micros(when)


def moment(stored: int) -> datetime:
    """A stored moment, in UTC."""
    return EPOCH + stored * MICROSECOND


def maybe_moment(stored: int | None) -> datetime | None:
    """A stored moment, or nothing."""
    return None if stored is None else moment(stored)


def json_text(value: Any) -> str:
    """JSON as it is stored."""
    return orjson.dumps(value).decode()


def due(row: tuple[Any, ...]) -> Due:
    """A row of `due`."""
    reminder, account_id, account, key, recipient, revision, due_at, deadline_at, *rest = row
    channels, addresses, inline, lane, *schedule = rest
    return Due(
        reminder, account_id, account, key, recipient, revision, moment(due_at), moment(deadline_at),
        tuple(CHANNELS[name] for name in orjson.loads(channels)), orjson.loads(addresses), bool(inline), LANES[lane],
        *schedule,
    )  # fmt: skip


def claimed(row: Sequence[Any], attempts: int, lease_until: datetime, bytes_before: Frozen | None, now: int) -> Claimed:
    """A row of `claim_bring`, from `delivery_id` on."""
    (
        delivery, account_id, account, fence, spared, doubt, closed, granted, first_unknown_at,
        reminder, reminder_key, reminder_status, occurrence, lane, due_at, deadline_at,
        endpoint, channel, address, ref, name, zone, locale, template, data,
        account_revision, reminder_revision, recipient_revision, contact_revision,
        paused, suppressed, blocked_until, block_reason, circuit, purpose, late_after, quiet_hours, pinned,
        returned,
    ) = row  # fmt: skip
    return Claimed(  # by place, in the order of the fields: half the time of 32 keywords
        delivery,
        account_id,
        account,
        fence,
        attempts,
        spared,
        bool(doubt),
        bool(closed),
        bool(granted),
        maybe_moment(first_unknown_at),
        reminder,
        reminder_key,
        reminder_status,
        occurrence,
        LANES[lane],
        moment(due_at),
        moment(deadline_at),
        lease_until,
        endpoint,
        CHANNELS[channel],
        address,
        ref,
        name,
        zone,
        locale,
        template,
        orjson.loads(data),
        Revisions(account_revision, reminder_revision, recipient_revision, contact_revision),
        bool(paused),
        suppressed,
        _block(blocked_until, block_reason, circuit, now),
        bytes_before,
        purpose,
        late_after,
        tuple(orjson.loads(quiet_hours)) if quiet_hours else (),
        None,
        pinned,
        returned is not None and returned < RETURNS_MAX,
    )


def frozen(row: tuple[Any, ...]) -> Frozen:
    """A row of `frozen_latest`."""
    number, destination, body, template, version, reminder_revision, recipient_revision, contact_revision, sent = row
    return Frozen(
        destination=destination,
        body=body,
        template=template,
        template_version=version,
        number=number,
        reminder_revision=reminder_revision,
        recipient_revision=recipient_revision,
        contact_revision=contact_revision,
        hash=sent or payload_hash(body),
    )


def doubtful(row: tuple[Any, ...], bytes_before: Frozen | None) -> Doubtful:
    """A row of `doubtful_seen`."""
    (
        delivery, fence, state, since, account, provider, address, attempts, spared, unknown, number, given_up_at,
        request_id, outcome, failure, first_unknown_at, misses, missed_at, due_at, deadline_at,
        closed, restored, alarmed, refused, reason,
    ) = row  # fmt: skip
    return Doubtful(
        id=delivery,
        fence=fence,
        state=State(state),
        since=moment(since),
        account=account,
        provider=provider,
        address=address,
        attempts=attempts,
        spared=spared,
        unknown=unknown,
        last_unknown=number,
        last_unknown_at=_given_up_at(unknown, given_up_at, since, restored),
        request_id=request_id,
        last_outcome=Outcome(outcome) if outcome else None,
        last_failure=FailureClass(failure) if failure else None,
        first_unknown_at=maybe_moment(first_unknown_at),
        misses=misses,
        missed_at=maybe_moment(missed_at),
        due_at=moment(due_at),
        deadline_at=moment(deadline_at),
        closed=bool(closed),
        restored=bool(restored),
        alarmed=bool(alarmed),
        refused=refused,
        frozen=bytes_before,
        reason=reason or "",
    )


def _given_up_at(unknown: int, given_up_at: int | None, since: int, restored: int) -> datetime | None:
    """When the latest unknown attempt was given up. One that nobody remembers may have been made until `since`."""
    if not unknown:
        return None
    if given_up_at is None:
        return moment(since)
    return moment(max(given_up_at, since) if restored else given_up_at)


def guard(row: tuple[Any, ...]) -> Guard:
    """A row of `guard_standing`."""
    number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why = row
    return Guard(
        number, moment(since), moment(opened_at), opened_by, why, maybe_moment(closed_at), closed_by, closing_why
    )


def _block(until: int | None, reason: str | None, circuit: int | None, now: int) -> Block | None:
    """A door that is closed, or a circuit that wants a probe; None where anybody may pass."""
    if until is None or not (circuit or until > now):
        return None
    return Block(moment(until), reason or "", bool(circuit))
