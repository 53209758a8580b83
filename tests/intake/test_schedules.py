"""The fields of a schedule: how it goes on, in whose zone, what is missed, and until when it is of use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from duly.core.schedule import Schedule, Slot
from duly.intake import Rejection, When, read_schedule
from tests.intake.samples import intake, row

NOW: Final = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
WALL: Final = datetime(2026, 3, 6, 9)  # noqa: DTZ001 - wall time
BERLIN: Final = {"to": {"zone": "Europe/Berlin"}}
HOUR: Final = timedelta(hours=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def when(account: str | None = None, **fields: Any) -> When:
    """What is read of these fields."""
    return read_schedule({"notify_at": "2026-03-06T09:00", "zone": "America/New_York", **fields}, account, NOW)


def reason(account: str | None = None, **fields: Any) -> str:
    """Why they are not taken."""
    with pytest.raises(Rejection) as caught:
        when(account, **fields)
    return str(caught.value)


def test_a_reminder_that_fires_once() -> None:
    """It is what it was before there were others."""
    made = when()
    assert (made.schedule, made.first) == (Schedule(WALL), Slot("once", utc(2026, 3, 6, 14)))
    assert (made.zone, made.follows_recipient, made.missed, made.grace) == ("America/New_York", False, None, None)
    assert (made.notify_at, made.deadline_at) == ("2026-03-06T09:00", utc(2026, 3, 7, 14))


def test_a_reminder_that_repeats() -> None:
    """The rule is kept in its canonical text, and each occurrence is of use until the next one."""
    made = when(repeat="freq=weekly;byday=mo,fr", missed="all:3", grace="P1D")
    assert made.schedule == Schedule(WALL, "RRULE:FREQ=WEEKLY;BYDAY=MO,FR")
    assert made.first == Slot("2026-03-06T09:00", utc(2026, 3, 6, 14))
    assert (made.missed, made.grace, made.deadline_at) == ("all:3", "P1D", utc(2026, 3, 9, 13))
    assert when(repeat="FREQ=WEEKLY", deadline="PT2H").deadline_at == utc(2026, 3, 6, 16)
    assert when(repeat="FREQ=WEEKLY;COUNT=1").deadline_at == utc(2026, 3, 7, 14)


def test_a_rule_may_have_several_lines() -> None:
    """A set comes as it stands in a calendar."""
    made = when(repeat="RRULE:FREQ=DAILY\r\nEXDATE:20260306T090000\r\n")
    assert made.first.label == "2026-03-07T09:00"


def test_the_deadline_is_never_the_due_time_itself() -> None:
    """Where two occurrences share an instant, the one behind them ends the first."""
    made = when(notify_at="2026-03-08T02:00", repeat="FREQ=DAILY;BYHOUR=2,3")
    assert (made.first.label, made.first.due_at) == ("2026-03-08T02:00", utc(2026, 3, 8, 7))
    assert made.deadline_at == utc(2026, 3, 9, 6)


def test_a_cron_expression_may_count_from_now() -> None:
    """Without notify_at it begins with the import, to the second."""
    made = when(notify_at=None, repeat="0 9 * * *")
    assert (made.schedule, made.notify_at) == (Schedule(utc(2026, 3, 1, 12), "0 9 * * *"), "2026-03-01T12:00Z")
    assert made.first == Slot("2026-03-01T09:00", utc(2026, 3, 1, 14))
    with pytest.raises(Rejection, match="notify_at: is missing"):
        intake().accept(row(notify_at=..., repeat="0 9 * * *"))
    assert intake().accept(row(notify_at=..., repeat="0 9 * * *"), NOW).next_label == "2026-03-01T09:00"


def test_offsets_before_an_anchor() -> None:
    """They are taken in any order, and each is of use until the next."""
    made = when(notify_at=None, starts_at="2026-03-08T09:00", before=["PT1H", "P1D", "P7D"])
    assert made.schedule == Schedule(datetime(2026, 3, 8, 9), before=(168 * HOUR, 24 * HOUR, HOUR))  # noqa: DTZ001
    assert (made.first, made.notify_at) == (Slot("-P7D", utc(2026, 3, 1, 13)), "2026-03-08T09:00")
    assert made.deadline_at == utc(2026, 3, 7, 13)


@pytest.mark.parametrize(
    ("account", "fields", "zone", "follows", "due_hour"),
    [
        (None, {}, "America/New_York", False, 14),
        ("Asia/Tokyo", {"zone": None}, "Asia/Tokyo", False, 0),
        (None, {"zone": None, **BERLIN}, "Europe/Berlin", True, 8),
        ("Asia/Tokyo", {"zone": None, **BERLIN}, "Asia/Tokyo", False, 0),
        ("Asia/Tokyo", {"zone": "recipient", **BERLIN}, "Europe/Berlin", True, 8),
        ("Asia/Tokyo", {"zone": "recipient"}, "Asia/Tokyo", True, 0),
        ("Asia/Tokyo", {"zone": None, "notify_at": "2026-03-06T09:00Z"}, None, False, 9),
        ("Asia/Tokyo", {"zone": None, "notify_at": "2026-03-06T09:00Z", "repeat": "FREQ=DAILY"}, None, False, 9),
        (
            "Asia/Tokyo",
            {"zone": None, "notify_at": "2026-03-06T09:00Z", "repeat": "0 18 * * *"},
            "Asia/Tokyo",
            False,
            9,
        ),
        (
            None,
            {"zone": None, "notify_at": "2026-03-06T08:00Z", "repeat": "0 9 * * *", **BERLIN},
            "Europe/Berlin",
            True,
            8,
        ),
        (None, {"zone": "Eastern Standard Time"}, "America/New_York", False, 14),
    ],
)
def test_in_whose_zone(
    account: str | None, fields: dict[str, Any], zone: str | None, follows: bool, due_hour: int
) -> None:
    """The named one, the account's, the recipient's; and it is known whether it changes with the recipient."""
    made = when(account, **fields)
    assert (made.zone, made.follows_recipient, made.first.due_at.hour) == (zone, follows, due_hour)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"repeat": "FREQ=DAILY;COUNT=0"}, "repeat: COUNT=0 is wrong; write 1 to 10,000"),
        ({"repeat": 7}, "repeat: must be text, not a number"),
        ({"repeat": "FREQ=DAILY", "notify_at": None}, "notify_at: is missing"),
        (
            {"repeat": "RRULE:FREQ=DAILY;COUNT=1\nEXDATE:20260306T090000"},
            "repeat: it never fires; change it, or its start",
        ),
        (
            {"repeat": "0 9 * * *", "notify_at": None, "zone": None},
            "repeat: is a cron expression without a zone; give zone",
        ),
        ({"repeat": "0 9 * * *", "zone": None}, "notify_at: is a local time without a zone"),
        ({"repeat": "0 9 * * *", "zone": "recipient"}, "zone: the recipient has no zone"),
        ({"missed": "latest"}, "missed: is about reminders that repeat; leave it out, or give repeat"),
        ({"grace": "PT1H"}, "grace: is about reminders that repeat"),
        ({"repeat": "FREQ=DAILY", "missed": "some"}, "missed: it must be latest, skip, or all:5"),
        ({"repeat": "FREQ=DAILY", "grace": "1 hour"}, "grace: it is not a duration"),
        (
            {"repeat": "FREQ=DAILY", "deadline": "2027-01-01T00:00Z"},
            "deadline: must be a duration like PT8H where there",
        ),
        ({"starts_at": "2026-03-08T09:00"}, "before: is missing beside starts_at"),
        ({"before": ["PT1H"]}, "starts_at: is missing; give it beside before"),
        ({"starts_at": "2026-03-08T09:00", "before": ["PT1H"]}, "notify_at: stands beside starts_at and before"),
        (
            {"starts_at": "2026-03-08T09:00", "before": ["PT1H"], "notify_at": None, "repeat": "FREQ=DAILY"},
            "repeat: stands beside starts_at and before",
        ),
        ({"starts_at": "soon", "before": ["PT1H"], "notify_at": None}, "starts_at: it is not a time"),
        ({"starts_at": "2026-03-08T09:00", "before": "PT1H", "notify_at": None}, "before: must be a list like"),
        ({"starts_at": "2026-03-08T09:00", "before": [], "notify_at": None}, "before: must name one to 20 offsets"),
        (
            {"starts_at": "2026-03-08T09:00", "before": [1], "notify_at": None},
            "before: must be durations like PT24H, not",
        ),
        (
            {"starts_at": "2026-03-08T09:00", "before": ["P1M"], "notify_at": None},
            "before: months and years have no fixed",
        ),
        (
            {"starts_at": "2026-03-08T09:00", "before": ["P1D", "PT24H"], "notify_at": None},
            "before: names an offset twice",
        ),
        (
            {"starts_at": "2026-03-08T09:00", "before": ["P1D"], "notify_at": None, "deadline": "2027-01-01T00:00Z"},
            "deadline: must be a duration",
        ),
        (
            {"starts_at": "2026-03-08T09:00", "before": ["P1D"], "notify_at": None, "zone": None},
            "starts_at: is a local time",
        ),
        ({"repaet": "FREQ=DAILY"}, 'there is no such field; did you mean "repeat"?'),
        ({"to": []}, "to: must be an object"),
        ({"to": {"zone": "Mars"}}, "to.zone: there is no such time zone"),
    ],
)
def test_what_contradicts_itself(fields: dict[str, Any], words: str) -> None:
    """It is refused by the field that is wrong, with what to do."""
    assert words in reason(**fields)
