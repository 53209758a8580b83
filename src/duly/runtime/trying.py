"""Trying a reminder out: what it would say, and one real message of it, without a ledger.

A submission is checked exactly as at import, and rendered as a worker would render it. `preview` stops there.
`send_test` sends once, to an address of the operator's, through the configured provider, and marks what it
sends: a receiver that counts must not take it for a reminder. The mark is in the bytes: the subject begins with
"[test] ", a webhook's type is `reminder.test`, and the id that every receiver sees is random, begins with
`test-`, and stands in no ledger. Nothing is repeated, whatever the answer: its outcome is the operator's to read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from duly.content import TemplateSet
from duly.core import keys, sms
from duly.core.model import (
    Attempt,
    Channel,
    Claimed,
    Content,
    Frozen,
    NewReminder,
    Result,
    Revisions,
)
from duly.core.schedule import ONCE
from duly.core.text import one_line
from duly.errors import ConfigError, InputError
from duly.ports import Provider, Request
from duly.runtime import bootstrap
from duly.runtime.clock import SystemClock
from duly.runtime.config import Config, Smtp

__all__ = ["preview", "send_test"]

SUBJECT_CHARACTERS_MAX: Final = 998
ANSWER_MARGIN_SECONDS: Final = 5.0
MARK: Final = "[test] "
ID_MARK: Final = "test-"
#: Ids and contacts of an installation that keeps its namespace in the ledger alone.
STAND_IN: Final = "-"


def preview(config: Config, submitted: Mapping[str, Any], channel: str | None) -> dict[str, Any]:
    """What a submission would say on a channel (by default its first), and the headers of its mail.

    Raises InputError if it would not be taken, and Unrenderable if it could not be sent.
    """
    templates = bootstrap.templates(config)
    reminder = _taken(config, templates, submitted)
    chosen = _channel(reminder, channel)
    identity = keys.delivery_id(config.namespace or STAND_IN, reminder.account, reminder.key, _label(reminder), chosen)
    row = _specimen(reminder, chosen, _address(reminder, chosen), identity)
    content = templates.render(row)
    text = sms.to_gsm(content.text) if templates.source(row.template).sms_to_gsm else content.text
    return {
        "channel": chosen,
        "template": row.template,
        "template_version": content.version,
        "subject": content.subject,
        "text": content.text,
        "html": content.html,
        "sms": sms.measure(text)._asdict(),
        "headers": _headers(config, row, content) if chosen is Channel.EMAIL and row.address else None,
    }


async def send_test(config: Config, submitted: Mapping[str, Any], to: str, channel: str | None) -> dict[str, Any]:
    """Send one marked message of a submission to an address, and say what came of it.

    Raises InputError, ConfigError or Unrenderable before anything is sent.
    """
    templates = bootstrap.templates(config)
    reminder = _taken(config, templates, submitted)
    chosen = _channel(reminder, channel)
    name = _provider_of(config, chosen)
    provider = bootstrap.provider(name, config, config.namespace)
    row = _specimen(reminder, chosen, _normal(to, chosen), uuid.uuid4().bytes)
    now = datetime.now(UTC)
    frozen = _marked(row, provider.freeze(row, _announced(templates.render(row)), now))
    result = await _send(config, provider, frozen, Attempt(_shown(row), 1, now))
    return {
        "id": _shown(row),
        "channel": chosen,
        "provider": name,
        "outcome": result.outcome,
        "class": result.failure,
        "http_status": result.http_status,
        "request_id": result.request_id,
        "detail": result.detail,
        "response_excerpt": result.excerpt,
    }


# --- the row -------------------------------------------------------------------------------------


def _taken(config: Config, templates: TemplateSet, submitted: Mapping[str, Any]) -> NewReminder:
    """The submission, checked as at import, as if every channel had a provider."""
    from duly.intake import Intake

    everything = {str(channel): STAND_IN for channel in Channel}
    zones, purposes = bootstrap.account_zones(config), bootstrap.purposes(config)
    intake = Intake(config.namespace or STAND_IN, templates, everything, zones.get, purposes)
    reminder = intake.accept(submitted, datetime.now(UTC))
    if not reminder.contacts:
        raise InputError(
            "to: it is an id alone, and only the ledger knows who that is; add --from-ledger, or a name and an address"
        )
    return reminder


def _label(reminder: NewReminder) -> str:
    """Of its first occurrence."""
    return reminder.next_label or ONCE


def _channel(reminder: NewReminder, wanted: str | None) -> Channel:
    if wanted is None:
        return reminder.channels[0]
    try:
        return Channel(wanted)
    except ValueError:
        raise InputError(f"--channel: it is not one of {', '.join(Channel)}") from None


def _address(reminder: NewReminder, channel: Channel) -> str:
    """Empty if the submission has none for this channel."""
    return next((contact.address for contact in reminder.contacts if contact.channel is channel), "")


def _normal(to: str, channel: Channel) -> str:
    from duly.intake import NORMALISE, Rejection

    try:
        return NORMALISE[channel](to)
    except Rejection as rejection:
        raise InputError(f"--to: the address for {channel} {rejection.reason}") from None


def _specimen(reminder: NewReminder, channel: Channel, address: str, identity: bytes) -> Claimed:
    """The row that a worker would claim at the due time. It is of no ledger."""
    return Claimed(
        id=identity,
        account_id=0,
        account=reminder.account,
        fence=0,
        attempts=0,
        spared=0,
        doubt=False,
        closed=False,
        granted=False,
        first_unknown_at=None,
        reminder=reminder.id,
        reminder_key=reminder.key,
        reminder_status="active",
        occurrence=_label(reminder),
        lane=reminder.lane,
        due_at=reminder.next_due_at,
        deadline_at=reminder.deadline_at,
        lease_until=reminder.next_due_at + timedelta(minutes=1),
        endpoint=keys.NO_ENDPOINT,
        channel=channel,
        address=address,
        recipient_ref=reminder.recipient_ref,
        recipient_name=reminder.recipient_name,
        recipient_zone=reminder.recipient_zone,
        recipient_locale=reminder.recipient_locale,
        template=reminder.template,
        data=orjson.loads(reminder.data),
        revisions=Revisions(0, 0, 0, 0),
        account_paused=False,
        suppressed=None,
        block=None,
        frozen=None,
        purpose=reminder.purpose,
    )


def _headers(config: Config, row: Claimed, content: Content) -> dict[str, str] | None:
    """The mail's headers as a person reads them, dated at the due time; None if nothing sends mail here."""
    from duly.providers.smtp_message import headers_of

    for name, one in config.providers.items():
        if isinstance(one, Smtp):
            mail = bootstrap.provider(name, config, config.namespace).freeze(row, content, row.due_at)
            return headers_of(mail.body)
    return None


# --- the marks -----------------------------------------------------------------------------------


def _shown(row: Claimed) -> str:
    return ID_MARK + keys.show(row.id)


def _announced(content: Content) -> Content:
    return content._replace(subject=one_line(MARK + content.subject, SUBJECT_CHARACTERS_MAX))


def _marked(row: Claimed, frozen: Frozen) -> Frozen:
    """The id marked wherever it stands (it is random, so it stands nowhere else), and a webhook's type."""
    body = frozen.body.replace(keys.show(row.id).encode(), _shown(row).encode())
    if row.channel is Channel.WEBHOOK:
        body = orjson.dumps({**orjson.loads(body), "type": "reminder.test"})
    return frozen._replace(body=body, hash=keys.payload_hash(body))


# --- the message ---------------------------------------------------------------------------------


def _provider_of(config: Config, channel: Channel) -> str:
    name = bootstrap.channels(config).get(channel)
    if name is None:
        raise ConfigError(f"no provider sends {channel} here; add a [providers.NAME] table to duly.toml")
    return name


async def _send(config: Config, provider: Provider, frozen: Frozen, attempt: Attempt) -> Result:
    """One request, and what its answer proves."""
    clock = SystemClock()
    transport = bootstrap.transport(config.providers[provider.name], clock)
    try:
        transport.reserve([frozen.destination])
        content = provider.request(frozen, attempt)
        await transport.start([Request(1, content, clock.reading() + provider.timeout_seconds)])
        landed = await transport.completed(1, provider.timeout_seconds + ANSWER_MARGIN_SECONDS)
    finally:
        await transport.close()
    landed = landed or await transport.completed(1, 0.0)  # what was cut has landed too
    return provider.classify(landed[0].answer, datetime.now(UTC))
