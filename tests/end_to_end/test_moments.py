"""The right moment: what repeats, what counts from an anchor, what comes too late, what is revised, what must wait.

Each is told on both databases, by the real program and a real receiver.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from duly.core.schedule import Schedule, read_repeat
from duly.stores.documents import instant
from duly.testing.receiver import Receiver
from tests.end_to_end.installation import ACCOUNT, Installation, reminder

EVERY_QUARTER = "FREQ=MINUTELY;INTERVAL=15"


def moment(**away: float) -> str:
    """An instant so far from now."""
    return (datetime.now(UTC) + timedelta(**away)).isoformat(timespec="seconds")


def local(**away: float) -> str:
    """Wall time in UTC, to the minute."""
    return f"{datetime.now(UTC) + timedelta(**away):%Y-%m-%dT%H:%M}"


def deliveries(duly: Installation, **of: str) -> list[dict[str, Any]]:
    """What became of it, in the order of its occurrences."""
    found = [one for one in duly.told("list")["deliveries"] if all(one[name] == value for name, value in of.items())]
    return sorted(found, key=lambda one: str(one["due_at"]))


def work(duly: Installation) -> None:
    """Everything that can be done now."""
    duly.told("tick")
    duly.told("work", "--until-idle", "--patience", "0")


def test_a_one_off_of_a_week_ago_is_handled_once_and_explained(duly: Installation, receiver: Receiver) -> None:
    """The tick finds it, writes it as expired, and no second one; the record says why nothing came."""
    duly.take([reminder("old", webhook=receiver.url("ok"), due_in=-7 * 86_400)])
    assert [duly.told("tick")["created"] for _ in range(2)] == [1, 0]
    work(duly)
    (one,) = deliveries(duly, reminder="old")
    assert (one["status"], one["reason"], one["attempts"]) == ("expired", "deadline_passed_before_tick", 0)
    assert "its deadline had passed before the tick found it" in duly.run("explain", one["id"]).out
    assert receiver.requests == 0


def test_what_repeats_begins_when_it_is_submitted(duly: Installation, receiver: Receiver) -> None:
    """A daily reminder whose rule began last year fires once for now, and its next occurrence is tomorrow's."""
    begun = local(days=-400, minutes=-1)
    due = local(minutes=-1)
    duly.take(
        [reminder("daily", webhook=receiver.url("ok")) | {"notify_at": begun, "zone": "UTC", "repeat": "FREQ=DAILY"}]
    )
    work(duly)
    (one,) = deliveries(duly, reminder="daily")
    assert (one["status"], one["occurrence"]) == ("sent", f"{due[:10]}T{begun[11:]}")
    shown = duly.told("show", "daily", "--account", ACCOUNT)
    assert shown["status"] == "active"
    assert shown["next_due_at"][:10] == local(days=1, minutes=-1)[:10]


def test_what_no_tick_found_is_sent_as_its_policy_says(duly: Installation, receiver: Receiver) -> None:
    """After three hours without a tick a reminder of every quarter of an hour is sent once, or as often as it asked."""
    duly.take(
        reminder(key, webhook=receiver.url("ok")) | {"notify_at": moment(minutes=-1), "repeat": rule, **more}
        for key, rule, more in (
            ("latest", EVERY_QUARTER, {}),
            ("three", EVERY_QUARTER, {"missed": "all:3"}),
            ("none", EVERY_QUARTER, {"missed": "skip"}),
        )
    )
    # As if they had been submitted three hours ago, and nothing had run since.
    begun = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=3, minutes=7)
    text, label = Schedule(begun, read_repeat(EVERY_QUARTER, begun)).to_text(), f"{begun:%Y-%m-%dT%H:%M}Z"
    duly.change(f"update reminder set schedule = '{text}', next_label = '{label}'")  # noqa: S608 - our own text
    work(duly)
    assert [len(deliveries(duly, reminder=key)) for key in ("latest", "three", "none")] == [1, 3, 0]
    (event,) = duly.told("show", "latest", "--account", ACCOUNT)["events"]
    assert (event["kind"], event["evidence"]["skipped"], event["evidence"]["first"]) == ("missed", 12, label)


def test_offsets_before_an_anchor_each_have_their_record(duly: Installation, receiver: Receiver) -> None:
    """Of a visit in two hours the reminder a day before came too late, the one an hour and a half before is next."""
    anchor = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    visit = {"notify_at": None, "starts_at": anchor.isoformat(), "before": ["PT24H", "PT90M"], "deadline": "PT1H"}
    duly.take([reminder("visit", webhook=receiver.url("ok")) | visit])
    work(duly)
    (day,) = deliveries(duly, reminder="visit")
    assert (day["occurrence"], day["status"]) == ("-PT24H", "expired")
    shown = duly.told("show", "visit", "--account", ACCOUNT)
    assert (shown["status"], shown["next_due_at"]) == ("active", instant(anchor - timedelta(minutes=90)))


def test_a_newer_version_takes_the_place_of_what_was_not_sent(duly: Installation, receiver: Receiver) -> None:
    """A moved appointment is sent once, at its new moment; a version that comes too late says so."""
    hook = receiver.url("ok")
    first, second, third = (
        reminder("visit", webhook=hook, due_in=due_in) | {"event_version": version}
        for version, due_in in ((1, 3_600), (2, -1), (3, -1))
    )
    assert duly.take([first])["created"] == 1
    assert duly.take([second])["revised"] == 1
    assert duly.take([first])["rejected"] == 1
    work(duly)
    assert duly.take([third])["rejected"] == 1
    (one,) = deliveries(duly, reminder="visit")
    assert (one["status"], one["occurrence"], receiver.requests) == ("sent", "once", 1)


def test_what_was_due_and_not_sent_comes_anew(duly: Installation, receiver: Receiver) -> None:
    """The open delivery ends as superseded, and its occurrence comes under the next generation's label."""
    hook = receiver.url("ok")
    duly.take([reminder("visit", webhook=hook) | {"event_version": 1}])
    duly.told("tick")
    assert duly.take([reminder("visit", webhook=hook) | {"event_version": 2}])["revised"] == 1
    work(duly)
    told = {one["occurrence"]: (one["status"], one["reason"]) for one in deliveries(duly, reminder="visit")}
    assert told == {"once": ("cancelled", "superseded"), "once#2": ("sent", "accepted")}
    assert receiver.requests == 1


def test_nothing_begins_in_quiet_hours(duly: Installation, receiver: Receiver) -> None:
    """A recipient's own quiet hours put it off until they end, and the record says until when; security goes out."""
    now = datetime.now(UTC)
    window = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"
    hook = receiver.url("ok")
    rows = [
        reminder(key, webhook=hook) | {"purpose": purpose}
        for key, purpose in (("visit", "service"), ("code", "security"))
    ]
    for row in rows:
        row["to"] |= {"zone": "UTC", "quiet_hours": [window]}
    duly.take(rows)
    work(duly)
    shown = duly.ledger()
    assert (shown["visit"]["status"], shown["visit"]["reason"], shown["visit"]["attempts"]) == (
        "waiting",
        "quiet_hours",
        [],
    )
    assert shown["visit"]["next_at"][:16] == f"{now + timedelta(hours=2):%Y-%m-%dT%H:%M}"
    assert (shown["code"]["status"], receiver.requests) == ("sent", 1)
