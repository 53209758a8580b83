"""The right moment: what repeats, what counts from an anchor, what comes too late, what is revised, what must wait.

Each is told on both databases, by the real program and a real receiver.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from duly.core.moments import instant
from duly.core.schedule import Schedule, read_repeat
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


class Story:
    """Reminders of many kinds, imported together, and worked on once."""

    def __init__(self, duly: Installation, hook: str) -> None:
        self.duly, self.now = duly, datetime.now(UTC).replace(microsecond=0)
        self.begun, self.anchor = local(days=-400, minutes=-1), self.now + timedelta(hours=2)
        self.quiet_until = self.now + timedelta(hours=2)
        duly.take([self.old(hook), self.daily(hook), self.visit(hook), *self.in_quiet_hours(hook)])
        self.ticked = [duly.told("tick")["created"] for _ in range(2)]
        duly.told("work", "--until-idle", "--patience", "0")
        self.ledger = duly.ledger()

    def old(self, hook: str) -> dict[str, Any]:
        """Due a week ago."""
        return reminder("old", webhook=hook, due_in=-7 * 86_400)

    def daily(self, hook: str) -> dict[str, Any]:
        """Every day, since more than a year ago."""
        return reminder("daily", webhook=hook) | {"notify_at": self.begun, "zone": "UTC", "repeat": "FREQ=DAILY"}

    def visit(self, hook: str) -> dict[str, Any]:
        """A day before it, and an hour and a half."""
        offsets = {"starts_at": self.anchor.isoformat(), "before": ["PT24H", "PT90M"], "deadline": "PT1H"}
        return reminder("visit", webhook=hook) | {"notify_at": None, **offsets}

    def in_quiet_hours(self, hook: str) -> list[dict[str, Any]]:
        """It is quiet where they live, until in two hours."""
        window = f"{self.now - timedelta(hours=1):%H:%M}-{self.quiet_until:%H:%M}"
        rows = [
            reminder(key, webhook=hook) | {"purpose": purpose}
            for key, purpose in (("call", "service"), ("code", "security"))
        ]
        for row in rows:
            row["to"] |= {"zone": "UTC", "quiet_hours": [window]}
        return rows

    def shown(self, key: str) -> dict[str, Any]:
        """A reminder as `duly show` tells it."""
        found: dict[str, Any] = self.duly.told("show", key, "--account", ACCOUNT)
        return found


def test_each_is_sent_at_its_moment(duly: Installation, receiver: Receiver) -> None:
    """One-offs are always written, what repeats begins now, offsets have their records, and quiet hours are kept."""
    story = Story(duly, receiver.url("ok"))
    assert story.ticked == [5, 0]
    assert receiver.requests == 2  # the daily one, and the code
    _a_week_ago(story)
    _every_day(story)
    _before_an_anchor(story)
    _in_quiet_hours(story)


def _a_week_ago(story: Story) -> None:
    """It was written as expired, and the record says why nothing came."""
    one = story.ledger["old"]
    assert (one["status"], one["reason"], one["attempts"]) == ("expired", "deadline_passed_before_tick", [])
    text = story.duly.run("explain", one["id"]).out
    assert "its deadline had passed before its reminder came" in text
    assert "Its reminder was submitted " in text


def _every_day(story: Story) -> None:
    """It fired once for now, and its next occurrence is a day later."""
    one, shown = story.ledger["daily"], story.shown("daily")
    assert (one["status"], one["occurrence"][11:]) == ("sent", story.begun[11:])
    assert shown["status"] == "active"
    assert datetime.fromisoformat(shown["next_due_at"]) - datetime.fromisoformat(one["due_at"]) == timedelta(days=1)


def _before_an_anchor(story: Story) -> None:
    """A day before was too late; an hour and a half before is next."""
    day, shown = story.ledger["visit"], story.shown("visit")
    assert (day["occurrence"], day["status"]) == ("-PT24H", "expired")
    assert (shown["status"], shown["next_due_at"]) == ("active", instant(story.anchor - timedelta(minutes=90)))


def _in_quiet_hours(story: Story) -> None:
    """It waits until they end, and the record says until when; security goes out."""
    call, code = story.ledger["call"], story.ledger["code"]
    assert (call["status"], call["reason"], call["attempts"]) == ("waiting", "quiet_hours", [])
    assert call["next_at"][:16] == f"{story.quiet_until:%Y-%m-%dT%H:%M}"
    assert code["status"] == "sent"


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
