"""When a reminder is due, in whose zone, and until when it is of use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.intake.samples import intake, refused, row

LOCAL: Final = "2026-12-01T09:00"
BERLIN: Final = {"email": "ana@example.com", "zone": "Europe/Berlin"}
NOWHERE: Final = {"email": "ana@example.com"}
ELSEWHERE: Final = "an account without a zone"


@pytest.mark.parametrize(
    ("changes", "zone", "hour"),
    [
        ({"notify_at": "2026-12-01T09:00Z"}, None, 9),
        ({"notify_at": "2026-12-01T09:00-05:00", "to": BERLIN}, None, 14),
        ({"notify_at": "2026-12-01T09:00Z", "zone": "Asia/Tokyo"}, "Asia/Tokyo", 9),
        ({"notify_at": "2026-12-01T09:00Z", "zone": "recipient", "to": BERLIN}, "Europe/Berlin", 9),
        ({"notify_at": "2026-12-01T09:00Z", "zone": "recipient", "account": ELSEWHERE}, None, 9),
        ({"zone": "Asia/Tokyo", "to": BERLIN}, "Asia/Tokyo", 0),
        ({"to": BERLIN}, "America/New_York", 14),
        ({"to": BERLIN, "account": ELSEWHERE}, "Europe/Berlin", 8),
        ({"zone": "recipient", "to": BERLIN}, "Europe/Berlin", 8),
        ({"zone": "recipient", "to": NOWHERE}, "America/New_York", 14),
    ],
)
def test_in_whose_zone_a_time_is_read(changes: dict[str, Any], zone: str | None, hour: int) -> None:
    """An offset decides; else the named zone, the account's, the recipient's, in the order that was asked for."""
    made = intake().accept(row(**{"notify_at": LOCAL, **changes}))
    assert (made.zone, made.next_due_at) == (zone, datetime(2026, 12, 1, hour, tzinfo=UTC))


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"account": ELSEWHERE, "to": NOWHERE}, "notify_at", "add an offset to it, or give zone or to.zone"),
        ({"account": ELSEWHERE, "to": NOWHERE, "zone": "recipient"}, "zone", "the recipient has no zone; give to.zone"),
        ({"account": ELSEWHERE, "to": {"id": "r"}, "zone": "recipient"}, "zone", "the recipient has no zone"),
        ({"zone": "America/NewYork"}, "zone", 'no such time zone; did you mean "America/New_York"?'),
        ({"zone": "xyzzy"}, "zone", "no such time zone; write one like America/New_York"),
        ({"zone": "america/new_york"}, "zone", "no such time zone"),
        ({"zone": "America"}, "zone", "no such time zone"),
        ({"zone": "../../etc/passwd"}, "zone", "no such time zone"),
        ({"zone": "/etc/localtime"}, "zone", "no such time zone"),
        ({"zone": "localtime"}, "zone", "no such time zone"),
        ({"zone": "tzdata.zi"}, "zone", "no such time zone"),
        ({"zone": "z" * 65}, "zone", "longer than 64"),
        ({"zone": -5}, "zone", "must be text, not a number"),
        ({"notify_at": "2026-12-01T09:00Z", "zone": "Mars"}, "zone", "no such time zone"),
        ({"notify_at": "2026-13-45"}, "notify_at", "it is not a time; write a time like"),
        ({"notify_at": "tomorrow"}, "notify_at", "it is not a time"),
        ({"notify_at": 1_764_579_600}, "notify_at", "must be text, not a number"),
        ({"notify_at": "2026-12-01T09:00" * 99}, "notify_at", "longer than 64"),
        ({"deadline": "8 hours"}, "deadline", "it is not a time"),
        ({"deadline": "-PT8H"}, "deadline", "it is not a duration"),
        ({"deadline": "P1M"}, "deadline", "no fixed length"),
        ({"deadline": "PT0S"}, "deadline", "zero"),
        ({"deadline": 8}, "deadline", "must be text"),
        ({"deadline": "2026-12-02T09:00"}, "deadline", "is a local time; add an offset"),
        ({"deadline": "2026-12-01T14:00Z"}, "deadline", "is not after the due time"),
        ({"deadline": "2020-01-01T00:00Z"}, "deadline", "is not after the due time"),
    ],
)
def test_times_that_mean_nothing(changes: dict[str, Any], field: str, words: str) -> None:
    """A time that cannot be placed is refused with what would place it."""
    where, reason = refused(**{"notify_at": LOCAL, "channels": ["email"], **changes})
    assert where == field
    assert words in reason


@pytest.mark.parametrize(
    ("deadline", "after_due"),
    [
        (None, timedelta(hours=24)),
        ("", timedelta(hours=24)),
        ("PT8H", timedelta(hours=8)),
        ("p2d", timedelta(days=2)),
        ("2026-12-01T15:00:00+01:00", timedelta(seconds=1) * 3_600 * 5),
    ],
)
def test_until_when_it_is_of_use(deadline: str | None, after_due: timedelta) -> None:
    """A duration counts from the due time, an instant stands for itself, and a day is the default."""
    made = intake().accept(row(deadline=deadline))
    assert made.deadline == (deadline or None)
    assert made.deadline_at - made.next_due_at == after_due


def test_a_skipped_local_time_comes_after_the_gap() -> None:
    """02:30 on the night when clocks go forward is due at 03:30."""
    made = intake().accept(row(notify_at="2026-03-08T02:30", zone="America/New_York"))
    assert made.next_due_at == datetime(2026, 3, 8, 7, 30, tzinfo=UTC)
