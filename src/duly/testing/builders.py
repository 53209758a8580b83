"""Builders of the values that travel between flows and a store: each argument has a plain default.

A test names what it is about and leaves the rest to the builder. Ids are derived like real ones, under
the namespace `NAMESPACE`. No builder reads a clock: moments come from the ledger (a claim's `now`), or
are said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from duly.core import keys
from duly.core.folding import Folding, group_of, part_of
from duly.core.model import (
    Channel,
    Claimed,
    Content,
    Decision,
    FailureClass,
    Frozen,
    Lane,
    Looked,
    NewContact,
    NewReminder,
    Outcome,
    Result,
    Settlement,
    Start,
)
from duly.core.states import FINAL, State

__all__ = [
    "NAMESPACE",
    "PROVIDERS",
    "contact",
    "decision",
    "folding",
    "frozen",
    "looked",
    "new_reminder",
    "settlement",
    "start",
]

NAMESPACE: Final = "a-namespace-for-tests"
#: The provider of each channel, as a configuration would name them.
PROVIDERS: Final[Mapping[str, str]] = {"email": "mail", "sms": "texts", "webhook": "hooks"}

ADDRESSES: Final[Mapping[Channel, str]] = {
    Channel.EMAIL: "ana@example.com",
    Channel.SMS: "+14155550100",
    Channel.WEBHOOK: "https://app.example.com/hooks",
}


def contact(account: str, channel: Channel, address: str) -> NewContact:
    """The contact of an address, under its derived id; a webhook's endpoint is its URL."""
    hook = channel is Channel.WEBHOOK
    endpoint = keys.endpoint_id(NAMESPACE, address) if hook else keys.NO_ENDPOINT
    return NewContact(keys.contact_id(NAMESPACE, account, channel, address), channel, address, endpoint)


def new_reminder(  # noqa: PLR0913 - what a test is about, each with a plain default
    key: str,
    due: datetime,
    *,
    account: str = "acme",
    ref: str = "ana",
    channels: Sequence[Channel] = (Channel.WEBHOOK,),
    addresses: Mapping[Channel, str] | None = ADDRESSES,
    lasts: timedelta = timedelta(hours=8),
    lane: Lane = Lane.NORMAL,
    data: Mapping[str, Any] | None = None,
    **more: Any,
) -> NewReminder:
    """A reminder with inline addresses, due at `due` and good for `lasts`; `addresses=None`: `to` is an id alone.

    `more` sets any other field of NewReminder. The body's hash is of key, addresses and data, so the same
    arguments are the same body.
    """
    inline = addresses or {}
    body = json.dumps([key, sorted(inline.items()), data, sorted(more.items())], default=str)
    fields: dict[str, Any] = {
        "id": keys.reminder_id(NAMESPACE, account, key),
        "account": account,
        "key": key,
        "body_hash": keys.payload_hash(body.encode()),
        "recipient": keys.recipient_id(NAMESPACE, account, ref),
        "recipient_ref": ref,
        "recipient_name": "Ana",
        "recipient_zone": "America/New_York",
        "recipient_locale": "en",
        "contacts": tuple(contact(account, channel, inline[channel]) for channel in channels if channel in inline),
        "channels": tuple(channels),
        "template": "note",
        "data": json.dumps(data or {}),
        "to": json.dumps({"id": ref, **inline}),
        "notify_at": due.isoformat(),
        "zone": None,
        "next_due_at": due,
        "deadline": "PT8H",
        "deadline_at": due + lasts,
        "late": "drop",
        "lane": lane,
        "purpose": "service",
        "event_version": None,
    }
    return NewReminder(**{**fields, **more})


def folding(row: Claimed, subject: str = "Note") -> Folding:
    """A claimed row that is to be folded, with what it would have said."""
    return Folding(
        row.id,
        row.fence,
        row.revisions.reminder,
        group_of(row),
        part_of(row, Content(subject, f"about {row.reminder_key}", None, "v1")),
    )


def frozen(row: Claimed, body: bytes = b'{"type":"reminder.due"}') -> Frozen:
    """Bytes that were rendered now for a claimed row."""
    return Frozen(
        destination=row.address,
        body=body,
        template=row.template,
        template_version="v1",
        reminder_revision=row.revisions.reminder,
        recipient_revision=row.revisions.recipient,
        contact_revision=row.revisions.contact,
        hash=keys.payload_hash(body),
    )


def start(row: Claimed, *, rate: float | None = None, good_until: datetime | None = None, **more: Any) -> Start:
    """One row of a begin, with new bytes unless the row has some; good until its lease ends."""
    fields: dict[str, Any] = {
        "id": row.id,
        "fence": row.fence,
        "revisions": row.revisions,
        "good_until": good_until or row.lease_until,
        "endpoint": row.endpoint,
        "rate": rate,
        "frozen": row.frozen or frozen(row),
    }
    return Start(**{**fields, **more})


#: What usually follows from an outcome.
_THEN: Final[Mapping[Outcome, State]] = {
    Outcome.ACCEPTED: State.SENT,
    Outcome.REJECTED: State.REJECTED,
    Outcome.REFUSED: State.WAITING,
    Outcome.NOT_SENT: State.WAITING,
    Outcome.UNKNOWN: State.UNCERTAIN,
}
_WHY: Final[Mapping[Outcome, FailureClass]] = {
    Outcome.REJECTED: FailureClass.INVALID_DESTINATION,
    Outcome.REFUSED: FailureClass.TEMPORARY,
    Outcome.NOT_SENT: FailureClass.CONNECTION,
    Outcome.UNKNOWN: FailureClass.TIMEOUT,
}


class Leased(Protocol):
    """Whatever knows a delivery and the fence under which it was leased."""

    @property
    def id(self) -> bytes:
        """The delivery."""
        ...

    @property
    def fence(self) -> int:
        """The fence of the lease."""
        ...


def settlement(
    row: Leased,
    number: int,
    outcome: Outcome,
    at: datetime,
    *,
    state: State | None = None,
    wait: timedelta = timedelta(),
    result: Result | None = None,
    **more: Any,
) -> Settlement:
    """What followed from attempt `number`, settled at `at`; an open state has its next step `wait` later."""
    then = state or _THEN[outcome]
    failure = _WHY.get(outcome)
    fields: dict[str, Any] = {
        "id": row.id,
        "fence": row.fence,
        "number": number,
        "finished_at": at,
        "result": result or Result(outcome, failure),
        "state": then,
        "reason": f"{outcome}_{failure}" if failure else str(outcome),
        "next_at": None if then in FINAL else at + wait,
        "closed": False,
        "spared": False,
    }
    return Settlement(**{**fields, **more})


def decision(row: Leased, origin: State, state: State, reason: str = "operator", **more: Any) -> Decision:
    """A decision about a row under the fence that the row has."""
    return Decision(row.id, row.fence, origin, state, reason, **more)


def looked(row: Leased, next_at: datetime, **more: Any) -> Looked:
    """A look at a row under the fence that it has. It counts nothing, unless `more` says so."""
    return Looked(row.id, row.fence, next_at, **{"misses": 0, "missed": False, **more})
