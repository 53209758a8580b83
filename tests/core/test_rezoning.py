"""The same occurrence at its new instant: labels stay, instants follow the zone, and nothing unsent is skipped."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.firing import fire
from duly.core.model import Due, Fired
from duly.core.moments import to_utc, write_time
from duly.core.rezoning import Retiming, retime
from duly.core.schedule import Schedule, first, read_repeat
from duly.core.upcoming import Timing, next_after, resume
from tests.core.values import due

NEW_YORK: Final = ZoneInfo("America/New_York")
BERLIN: Final = ZoneInfo("Europe/Berlin")
APIA: Final = ZoneInfo("Pacific/Apia")
START: Final = datetime(2026, 12, 1, 9)  # noqa: DTZ001 - a wall time is what this is about
#: A day before it is nine in New York on 1 December.
NOW: Final = datetime(2026, 11, 30, 14, tzinfo=UTC)
NINE_IN_NEW_YORK: Final = datetime(2026, 12, 1, 14, tzinfo=UTC)
NINE_IN_BERLIN: Final = datetime(2026, 12, 1, 8, tzinfo=UTC)
DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)


def timing(schedule: Schedule | None = None, zone: str = "America/New_York", **changes: Any) -> Timing:
    """A reminder whose next occurrence was told in New York, by the data 2026a."""
    label, due_at = (None, NINE_IN_NEW_YORK) if schedule is None else first(schedule, NEW_YORK)
    text = None if schedule is None else schedule.to_text()
    row = Timing(
        b"r" * 16, "harbour", "k", 3, due_at, due_at + DAY, write_time(START), text, label, zone, None, "2026a"
    )
    return row._replace(**changes)


def repeating(rule: str) -> Schedule:
    """A rule from nine o'clock on 1 December on."""
    return Schedule(START, read_repeat(rule, START))


def moved(row: Timing, zone: tzinfo, now: datetime = NOW) -> Retiming:
    """The retiming of a row by the data 2026b."""
    found = retime(row, zone, now, "2026b")
    assert found is not None
    assert (found.reminder, found.revision, found.expected_due, found.zone_data) == (
        row.reminder,
        row.revision,
        row.due_at,
        "2026b",
    )
    return found


def test_a_local_time_has_its_instant_in_the_new_zone() -> None:
    """Nine o'clock stays nine o'clock; the deadline goes with it, and the evidence says from where to where."""
    found = moved(timing(zone="Europe/Berlin"), BERLIN)
    assert (found.due_at, found.deadline_at, found.label) == (NINE_IN_BERLIN, NINE_IN_BERLIN + DAY, None)
    assert json.loads(found.evidence or "") == {
        "from": "2026-12-01T14:00:00Z",
        "to": "2026-12-01T08:00:00Z",
        "zone": "Europe/Berlin",
        "zone_data": "2026b",
    }


def test_what_is_the_same_under_other_data_has_their_version_only() -> None:
    """No moment moves, so there is no evidence of one; and under the same data nothing is written at all."""
    found = moved(timing(), NEW_YORK)
    assert (found.due_at, found.evidence) == (NINE_IN_NEW_YORK, None)
    assert retime(timing(), NEW_YORK, NOW, "2026a") is None


@pytest.mark.parametrize("rule", ["FREQ=DAILY", "0 9 * * *", "FREQ=WEEKLY;BYDAY=TU"])
def test_a_rule_keeps_the_label_of_its_next_occurrence(rule: str) -> None:
    """The label is a wall time and stays; its deadline is the next occurrence, told in the new zone too."""
    found = moved(timing(repeating(rule)), BERLIN)
    assert (found.label, found.due_at) == ("2026-12-01T09:00", NINE_IN_BERLIN)
    assert found.deadline_at - found.due_at in (DAY, 7 * DAY)


def test_offsets_keep_their_distance_to_the_anchor() -> None:
    """24 hours before nine o'clock is 24 hours before nine o'clock there."""
    schedule = Schedule(START + DAY, before=(DAY, HOUR))
    found = moved(timing(schedule, deadline="PT8H"), BERLIN)
    assert (found.label, found.due_at) == ("-PT24H", NINE_IN_BERLIN)
    assert found.deadline_at == NINE_IN_BERLIN + timedelta(hours=8)


def test_instants_do_not_follow_a_zone() -> None:
    """An hourly rule from an instant is labelled by instants, and stays where it is."""
    schedule = Schedule(NINE_IN_NEW_YORK, read_repeat("FREQ=HOURLY", NINE_IN_NEW_YORK))
    row = timing(schedule)
    found = moved(row, BERLIN)
    assert (found.due_at, found.label, found.evidence) == (row.due_at, row.label, None)


def test_what_a_change_puts_into_the_past_is_due_now() -> None:
    """It was not sent, so it is due at once, and its deadline counts from then."""
    now = NINE_IN_BERLIN + 3 * HOUR
    for row in (timing(deadline="PT1H"), timing(repeating("FREQ=DAILY"), deadline="PT1H")):
        found = moved(row, BERLIN, now)
        assert (found.due_at, found.deadline_at) == (now, now + HOUR)


def test_what_was_due_stays_due_since_then() -> None:
    """Until a tick has found it, another look moves it neither back nor on."""
    now = NINE_IN_BERLIN + 3 * HOUR
    row = timing(due_at=now, deadline_at=now + DAY, zone_data="2026b")
    assert retime(row, BERLIN, now + HOUR, "2026b") is None


def test_what_was_due_and_comes_later_in_its_zone_waits() -> None:
    """A recipient who has moved to the west has his nine o'clock still before him."""
    row = timing(due_at=NINE_IN_BERLIN, deadline_at=NINE_IN_BERLIN + DAY)
    assert moved(row, NEW_YORK, NINE_IN_BERLIN + HOUR).due_at == NINE_IN_NEW_YORK


def test_an_occurrence_that_the_zone_does_not_have_gives_way_to_the_next() -> None:
    """A schedule that begins at an instant has no earlier slot, whatever its label was elsewhere."""
    schedule = Schedule(NINE_IN_NEW_YORK, read_repeat("0 9 * * *", NINE_IN_NEW_YORK))
    found = moved(timing(schedule), BERLIN)
    assert (found.label, found.due_at) == ("2026-12-02T09:00", NINE_IN_BERLIN + DAY)


def test_a_schedule_that_has_ended_is_left_to_the_tick() -> None:
    """Nothing of it is left in the new zone: its row stays where it is, and the tick finds nothing there."""
    schedule = repeating("FREQ=DAILY;UNTIL=20261201T140000Z")
    row = timing(schedule, deadline="PT1H")
    early = row._replace(label="2026-12-01T09:00")
    assert moved(early, APIA).label == "2026-12-01T09:00"
    behind = row._replace(label="2026-12-02T09:00")
    assert moved(behind, NEW_YORK).evidence is None


def test_what_cannot_be_told_is_refused() -> None:
    """A zone that this machine does not know, a label of another schedule and a broken text each raise ValueError."""
    for row, zone in (
        (timing(), None),
        (timing(schedule=repeating("FREQ=DAILY"), label="-PT1H"), NEW_YORK),
        (timing()._replace(schedule="{}"), NEW_YORK),
        (timing()._replace(notify_at="soon"), NEW_YORK),
    ):
        with pytest.raises(ValueError, match=r"."):
            retime(row, zone, NOW, "2026b")


ZONES: Final = st.sampled_from(["America/New_York", "Europe/Berlin", "Pacific/Apia", "Asia/Kathmandu", "Etc/GMT+12"])


@given(ZONES, ZONES, st.integers(0, 60 * 24 * 400), st.integers(-2_880, 2_880))
def test_a_move_there_and_back_is_no_move(one: str, other: str, minutes: int, now_minutes: int) -> None:
    """While neither instant is past, who moves away and back has every occurrence where it was."""
    local = START + timedelta(minutes=minutes)
    due_at = to_utc(local, ZoneInfo(one))
    now = min(due_at, to_utc(local, ZoneInfo(other))) - timedelta(minutes=abs(now_minutes) + 1)
    row = timing(due_at=due_at, deadline_at=due_at + DAY, notify_at=write_time(local))
    away = retime(row, ZoneInfo(other), now, "2026a") or row
    back = row._replace(due_at=away.due_at, deadline_at=away.deadline_at)
    home = retime(back, ZoneInfo(one), now, "2026a") or back
    assert (home.due_at, home.deadline_at) == (due_at, due_at + DAY)


# --- what the tick makes of it -------------------------------------------------------------------


def fired(row: Timing, zone: tzinfo, now: datetime, **changes: Any) -> Fired:
    """A tick of a row that was told anew."""
    values: dict[str, Any] = {
        "due_at": row.due_at,
        "deadline_at": row.deadline_at,
        "schedule": row.schedule,
        "label": row.label,
        "deadline": row.deadline,
        **changes,
    }
    reminder: Due = due(**values)
    return fire(reminder, now, "ns", {"webhook": "hooks"}, zone)


@pytest.mark.parametrize("schedule", [repeating("FREQ=DAILY"), Schedule(START + HOUR, before=(HOUR,)), None])
def test_a_tick_sends_what_was_put_into_the_past(schedule: Schedule | None) -> None:
    """However old its own instant is, and whatever the grace: it is due since the move, and so is its deadline."""
    now = NINE_IN_BERLIN + 3 * HOUR
    found = moved(timing(schedule, deadline="PT1H"), BERLIN, now)
    row = timing(schedule, deadline="PT1H", due_at=found.due_at, deadline_at=found.deadline_at)
    policy = {"missed": "skip"} if schedule is not None and schedule.repeat else {}
    (delivery,) = fired(row, BERLIN, now + timedelta(seconds=2), **policy).deliveries
    assert (delivery.state, delivery.due_at, delivery.deadline_at) == ("ready", now, now + HOUR)
    assert delivery.occurrence == (row.label or "once")


def test_an_occurrence_that_nobody_moved_is_as_old_as_its_instant() -> None:
    """Without a move a policy that skips what is late skips it."""
    row = timing(repeating("FREQ=DAILY"))
    written = fired(row, NEW_YORK, NINE_IN_NEW_YORK + HOUR, missed="skip")
    assert (written.deliveries, written.next_label) == ((), "2026-12-02T09:00")


def test_an_occurrence_that_is_none_any_more_is_not_fired() -> None:
    """Where the schedule does not have it in this zone, the tick goes on with the one behind it."""
    schedule = Schedule(NINE_IN_NEW_YORK, read_repeat("0 9 * * *", NINE_IN_NEW_YORK))
    row = timing(schedule, due_at=NINE_IN_BERLIN)
    written = fired(row, BERLIN, NINE_IN_BERLIN + HOUR)
    assert (written.deliveries, written.next_label) == ((), "2026-12-02T09:00")
    due_too = fired(row, BERLIN, NINE_IN_BERLIN + DAY + HOUR)
    assert [one.due_at for one in due_too.deliveries] == [NINE_IN_BERLIN + DAY]


def test_a_rule_from_an_instant_is_not_read_in_another_zone() -> None:
    """A zone that nobody knows here is no reason to fire by the clocks of UTC: it stands still, and says why."""
    schedule = Schedule(NOW, read_repeat("0 9 * * *", None))
    row = timing(schedule)
    unknown = {"schedule": row.schedule, "label": row.label, "zone": "Mars/Olympus", "due_at": row.due_at}
    written = fire(due(**unknown), row.due_at, "ns", {"webhook": "hooks"})
    assert written.deliveries == ()
    assert written.note is not None
    assert (written.note.kind, written.note.reason) == ("paused", "zone_unknown")


# --- going on ------------------------------------------------------------------------------------


def test_what_repeats_goes_on_behind_now() -> None:
    """What was due while it stood still does not come: the first occurrence is the next one."""
    found = resume(timing(repeating("FREQ=DAILY")), NEW_YORK, NINE_IN_NEW_YORK + 3 * DAY, "2026b")
    assert (found.label, found.due_at) == ("2026-12-05T09:00", NINE_IN_NEW_YORK + 4 * DAY)
    assert (found.deadline_at, found.zone_data) == (NINE_IN_NEW_YORK + 5 * DAY, "2026b")


def test_what_fires_once_keeps_its_moment() -> None:
    """It was asked for once, and its deadline says whether it is still of use."""
    for schedule in (None, Schedule(START + DAY, before=(DAY, HOUR))):
        row = timing(schedule)
        found = resume(row, None, NINE_IN_NEW_YORK + 3 * DAY, "2026b")
        assert (found.due_at, found.deadline_at, found.label) == (row.due_at, row.deadline_at, row.label)
        assert found.zone_data == "2026a"


def test_what_has_ended_is_done() -> None:
    """A rule that has no occurrence left has no moment any more."""
    row = timing(repeating("FREQ=DAILY;COUNT=2"), deadline="PT1H")
    found = resume(row, NEW_YORK, NINE_IN_NEW_YORK + DAY, "2026b")
    assert (found.due_at, found.label) == (None, None)


def test_an_instant_goes_on_without_a_zone() -> None:
    """Instants need no zone data, and none is written."""
    schedule = Schedule(NINE_IN_NEW_YORK, read_repeat("FREQ=HOURLY", NINE_IN_NEW_YORK))
    found = resume(timing(schedule)._replace(zone=None, zone_data=None), None, NINE_IN_NEW_YORK, "2026b")
    assert (found.due_at, found.zone_data) == (NINE_IN_NEW_YORK + HOUR, None)


def test_without_its_zone_it_stays_paused() -> None:
    """The reason names the zone, and what to update."""
    with pytest.raises(ValueError, match=r"its zone America/New_York; update the zone data"):
        resume(timing(repeating("FREQ=DAILY")), None, NOW, "2026b")


def test_the_next_after_an_instant_is_not_at_it() -> None:
    """A change does not fire at once: an occurrence that is due now is not the next one."""
    found = next_after(repeating("FREQ=DAILY"), NEW_YORK, NINE_IN_NEW_YORK, "PT8H")
    assert found is not None
    assert (found.label, found.deadline_at) == ("2026-12-02T09:00", NINE_IN_NEW_YORK + DAY + 8 * HOUR)
    assert next_after(repeating("FREQ=DAILY;COUNT=1"), NEW_YORK, NINE_IN_NEW_YORK, None) is None
