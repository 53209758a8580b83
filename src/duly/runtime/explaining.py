"""What `explain` knows beside the ledger: the time, whose clock decides about quiet hours, until when a hold lasts.

All of it is as it is configured now. A zone is looked for only where the recipient's own is not known, and a phone
number only where its zones decide: it is not told.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from duly.core.model import Channel
from duly.core.moments import instant
from duly.intake import candidates
from duly.ports import Views
from duly.runtime.bootstrap import ConfiguredPolicies, account_zones
from duly.runtime.config import Config

__all__ = ["DELIVERIES_TOLD_MAX", "as_told", "read"]

DELIVERIES_TOLD_MAX: Final = 10

#: A document of a view.
Shown = dict[str, Any]


async def read(
    views: Views, config: Config, asked: tuple[str, str | None], now: datetime
) -> tuple[str, Shown, list[Shown]]:
    """What is asked about (`identity, account`) and, of a reminder, its latest deliveries. Raises NotFound."""
    kind, found = await views.find(*asked)
    if kind == "delivery":
        return kind, await as_told(views, config, await views.show_delivery(found), now), []
    shown = await views.show_reminder(found)
    latest = [(await views.find(line["id"], None))[1] for line in shown["deliveries"][:DELIVERIES_TOLD_MAX]]
    deliveries = [await views.show_delivery(delivery) for delivery in latest]
    return kind, shown, [await as_told(views, config, one, now) for one in deliveries]


async def as_told(views: Views, config: Config, shown: Mapping[str, Any], now: datetime) -> Shown:
    """A delivery with `told_at`, and where it matters `quiet_clock` (`of, zones`) or `hold_ends` (`ends_at, then`)."""
    told: Shown = {**shown, "told_at": instant(now)}
    if shown["status"] == "held":
        told["hold_ends"] = _hold_ends(config, shown)
    if (shown["status"], shown["reason"], shown["recipient_zone"]) == ("waiting", "quiet_hours", None):
        told["quiet_clock"] = await _quiet_clock(views, config, shown)
    return told


def _hold_ends(config: Config, shown: Mapping[str, Any]) -> Shown:
    policy = ConfiguredPolicies(config).hold(shown["account"])
    ends_at = datetime.fromisoformat(shown["since"]) + policy.ends_after
    return {"ends_at": instant(ends_at), "then": str(policy.then)}


async def _quiet_clock(views: Views, config: Config, shown: Mapping[str, Any]) -> Shown | None:
    phone = await _phone(views, shown) if shown["channel"] == Channel.SMS else None
    if of_number := candidates.zones_of(None, phone, None):
        return {"of": "number", "zones": of_number}
    zone = account_zones(config).get(shown["account"])
    return None if zone is None else {"of": "account", "zones": (zone,)}


async def _phone(views: Views, shown: Mapping[str, Any]) -> str | None:
    """The number that it goes to: its reminder's own, else its recipient's."""
    _, reminder = await views.find(shown["reminder"], shown["account"])
    own: str | None = (await views.submission(reminder))["to"].get("phone")
    known = await views.recipient(shown["account"], shown["recipient"]) or {}
    return own or known.get("phone")
