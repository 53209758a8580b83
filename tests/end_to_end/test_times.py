"""Times that change: a recipient moves, zone data change, an operator changes his mind, on each database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.installation import ACCOUNT, Installation, Shown, reminder

OF: Final = ("--account", ACCOUNT)
WHY: Final = ("--why", "the visit was moved")
NINE: Final = "2099-12-01T09:00"
IN_NEW_YORK: Final = "2099-12-01T14:00:00Z"
IN_TOKYO: Final = "2099-12-01T00:00:00Z"


def people(duly: Installation, **fields: str) -> dict[str, int]:
    """Import the recipient `bob`."""
    found: dict[str, int] = duly.told("recipients", "import", "-", *OF, stdin=json.dumps({"id": "bob", **fields}))
    return found


def local(key: str, receiver: Receiver, **more: Any) -> dict[str, Any]:
    """A reminder of nine o'clock, in the zone of its recipient unless it says another."""
    said = {"notify_at": NINE, "zone": "recipient", "to": {"id": "bob"}, "channels": ["webhook"]}
    return {**reminder(key, webhook=receiver.url("ok", key)), **said, **more}


def shown(duly: Installation, key: str) -> Shown:
    """The reminder as `duly show` tells it."""
    found: Shown = duly.told("show", key, *OF)
    return found


@pytest.mark.heavy
def test_reminders_follow_their_recipient_and_the_zone_data(duly: Installation, receiver: Receiver) -> None:
    """Who moves takes along what follows him; other zone data move what they told; each says why."""
    people(duly, name="Bob", webhook=receiver.url("ok", "bob"), zone="America/New_York")
    daily = {"repeat": "FREQ=DAILY", "idempotency_key": "daily"}
    fixed = {"zone": "America/New_York", "idempotency_key": "fixed"}
    rows = [local("once", receiver), local("daily", receiver, **daily), local("fixed", receiver, **fixed)]
    assert duly.take(rows)["created"] == 3
    assert {shown(duly, key)["next_due_at"] for key in ("once", "daily", "fixed")} == {IN_NEW_YORK}
    moved = people(duly, zone="Asia/Tokyo")
    assert (moved["zone_changed"], moved["retimed"]) == (1, 2)
    assert {shown(duly, key)["next_due_at"] for key in ("once", "daily")} == {IN_TOKYO}
    assert (shown(duly, "daily")["next_label"], shown(duly, "daily")["next_local"]) == (NINE, f"{NINE}:00")
    text = duly.told("explain", "once", *OF)["explanation"]
    assert "because its recipient lives in another zone now." in text
    assert "It is next due on Tue 1 Dec 2099 09:00 in Asia/Tokyo (00:00 UTC)." in text
    duly.change("update reminder set zone_data = '2020a', zone = 'Europe/Berlin' where caller_key = 'fixed'")
    told = duly.told("zones", "refresh")
    assert [told[word] for word in ("looked", "moved", "same", "stale", "unknown")] == [1, 1, 0, 0, 0]
    assert shown(duly, "fixed")["next_due_at"] == "2099-12-01T08:00:00Z"
    (event,) = shown(duly, "fixed")["events"]
    assert (event["kind"], event["reason"], event["evidence"]["from"]) == ("retimed", "zone_data_changed", IN_NEW_YORK)
    assert duly.told("zones", "refresh")["looked"] == 0


def test_an_occurrence_put_into_the_past_is_sent(duly: Installation, receiver: Receiver) -> None:
    """Nine o'clock of today is past where its recipient lives now: it was not sent, so it is sent at once."""
    people(duly, name="Bob", webhook=receiver.url("ok", "bob"), zone="Pacific/Pago_Pago")
    soon = (datetime.now(UTC) + timedelta(hours=-9)).replace(tzinfo=None, second=0, microsecond=0)
    row = local("today", receiver, notify_at=soon.isoformat(timespec="minutes"), deadline="PT1H")
    assert duly.take([row])["created"] == 1
    assert people(duly, zone="Pacific/Kiritimati")["retimed"] == 1
    duly.run("up", "--until-idle")
    assert duly.ledger()["today"]["status"] == "sent"
    assert receiver.count("ok", "bob") == 1


@pytest.mark.heavy
def test_an_operator_changes_his_mind(duly: Installation, receiver: Receiver) -> None:
    """Rescheduled to a time that is past it is sent at once, and again only by name; a group is cancelled together."""
    rows = [reminder(key, webhook=receiver.url("ok", key), due_in=3600, group="visits") for key in ("a", "b", "c")]
    assert duly.take(rows)["created"] == 3
    order = ("reschedule", "a", *OF, "--at", datetime.now(UTC).isoformat(timespec="milliseconds"), *WHY)
    assert duly.told(*order)["answer"] == "moved"
    duly.run("up", "--until-idle")
    assert duly.ledger()["a"]["status"] == "sent"
    refused = duly.run(*order, "--json", code=1)
    assert refused.document["answer"] == "already_sent"
    assert refused.complaints == [
        "duly: it was already sent, and nothing was changed; --again sends it once more, by name"
    ]
    assert duly.told(*order, "--again")["label"] == "once#2"
    duly.run("up", "--until-idle")
    assert receiver.count("ok", "a") == 2
    cancelled = duly.told("cancel", "--group", "visits", *OF)
    assert (cancelled["reminders"], cancelled["cancelled"], cancelled["final"]) == (3, 0, 2)
    assert shown(duly, "b")["status"] == "cancelled"


def test_a_paused_reminder_goes_on_without_a_flood(duly: Installation, receiver: Receiver) -> None:
    """What came due while it stood still does not come."""
    assert duly.take([reminder("r", webhook=receiver.url("ok", "r"), due_in=3600)])["created"] == 1
    begin = (datetime.now(UTC) - timedelta(days=3)).isoformat(timespec="seconds")
    duly.told("reschedule", "r", *OF, "--repeat", "FREQ=MINUTELY", "--at", begin, *WHY)
    assert duly.told("reminders", "pause", "r", *OF, *WHY)["status"] == "paused"
    duly.change("update reminder set next_due_at = created_at")
    assert duly.told("tick")["due"] == 0
    resumed = duly.told("reminders", "resume", "r", *OF, *WHY)
    ahead = datetime.fromisoformat(resumed["next_due_at"]) - datetime.now(UTC)
    assert timedelta(seconds=-5) < ahead <= timedelta(minutes=1)
    assert duly.told("list")["deliveries"] == []
