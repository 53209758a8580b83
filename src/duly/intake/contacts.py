"""Addresses as contacts of an account: normalised, under their derived ids.

The channel is told by the address where that can be: a URL is a webhook, what holds an `@` is an e-mail
address, and else what begins with `+` is a phone number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from duly.core import keys
from duly.core.model import Channel, NewContact
from duly.intake.addresses import normal_email, normal_phone, normal_url
from duly.intake.rejection import Rejection

__all__ = ["NORMALISE", "contact_of", "new_contact"]

#: The one form of an address of a channel; each raises Rejection.
NORMALISE: Final[Mapping[Channel, Callable[[str], str]]] = {
    Channel.EMAIL: normal_email,
    Channel.SMS: normal_phone,
    Channel.WEBHOOK: normal_url,
}


def new_contact(namespace: str, account: str, channel: Channel, address: str) -> NewContact:
    """The contact of an address that is normalised."""
    endpoint = keys.NO_ENDPOINT
    if channel is Channel.WEBHOOK:
        endpoint = keys.endpoint_id(namespace, address)
    return NewContact(keys.contact_id(namespace, account, channel, address), channel, address, endpoint)


def contact_of(namespace: str, account: str, address: str, channel: Channel | None = None) -> NewContact:
    """The contact of an address as somebody wrote it. Raises Rejection, which never repeats it."""
    chosen = channel or _channel(address)
    try:
        return new_contact(namespace, account, chosen, NORMALISE[chosen](address))
    except Rejection as rejection:
        raise Rejection(rejection.reason, "address") from None


def _channel(address: str) -> Channel:
    if "://" in address:
        return Channel.WEBHOOK
    if "@" in address:
        return Channel.EMAIL
    if address.startswith("+"):
        return Channel.SMS
    raise Rejection("is no e-mail address, no number like +14155550100 and no URL", "address")
