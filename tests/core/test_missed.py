"""Slots that are due together: fired, skipped, or left to the next tick; never lost and never twice."""

# ruff: noqa: DTZ001 - wall times are what this is about
from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.missed import FIRED_SLOTS_MAX, SKIP_GRACE, Caught, Policy, catch_up, read_missed
from duly.core.schedule import Schedule, Slot, slots
from tests.core.schedule.values import NEW_YORK, repeating, utc

DAILY: Final = repeating("FREQ=DAILY", datetime(2026, 3, 1, 9))
LABELS: Final = [f"2026-03-0{day}T09:00" for day in range(1, 8)]
MINUTE: Final = timedelta(minutes=1)


def caught(schedule: Schedule, label: str, now: datetime, policy: str, grace: timedelta | None = None) -> Caught:
    """What becomes of it."""
    read = read_missed(policy)
    return catch_up(schedule, NEW_YORK, label, now, read._replace(grace=grace or read.grace))


def fired(found: Caught) -> list[str]:
    return [slot.label for slot in found.fire]


def ends(found: Caught) -> tuple[int, str | None, str | None]:
    return found.skipped, found.first_skipped, found.last_skipped


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("latest", Policy(1, None)),
        ("skip", Policy(0, SKIP_GRACE)),
        ("all:1", Policy(1, None)),
        ("all:100", Policy(100, None)),
    ],
)
def test_the_policies(text: str, policy: Policy) -> None:
    """Three words, one with a number."""
    assert read_missed(text) == policy


@pytest.mark.parametrize(
    "text", ["", "Latest", "all", "all:0", "all:101", "all:-1", "all:5 ", "all:\u0661", "all:9999"]
)
def test_what_is_no_policy(text: str) -> None:
    """The complaint says what to write."""
    with pytest.raises(ValueError, match="it must be latest, skip, or all:5 with a number from 1 to 100"):
        read_missed(text)


@pytest.mark.parametrize("policy", ["latest", "all:3", "skip"])
def test_a_tick_in_time_skips_nothing(policy: str) -> None:
    """One slot is due: it fires, and the next one is known."""
    for late in (timedelta(0), SKIP_GRACE):
        found = caught(DAILY, LABELS[0], utc(2026, 3, 1, 14) + late, policy)
        assert (fired(found), ends(found)) == ([LABELS[0]], (0, None, None))
        assert found.next == Slot(LABELS[1], utc(2026, 3, 2, 14))


def test_what_is_not_due_stays() -> None:
    """It is still the next one."""
    found = caught(DAILY, LABELS[0], utc(2026, 3, 1, 13, 59), "latest")
    assert found == Caught((), 0, None, None, Slot(LABELS[0], utc(2026, 3, 1, 14)))


@pytest.mark.parametrize(
    ("policy", "grace", "wanted", "skipped"),
    [
        ("latest", None, LABELS[4:5], (4, LABELS[0], LABELS[3])),
        ("all:2", None, LABELS[3:5], (3, LABELS[0], LABELS[2])),
        ("all:5", None, LABELS[0:5], (0, None, None)),
        ("all:9", None, LABELS[0:5], (0, None, None)),
        ("skip", None, [], (5, LABELS[0], LABELS[4])),
        ("skip", timedelta(days=2), LABELS[3:5], (3, LABELS[0], LABELS[2])),
        ("skip", timedelta(days=9), LABELS[0:5], (0, None, None)),
        ("latest", timedelta(hours=1), [], (5, LABELS[0], LABELS[4])),
        ("all:3", timedelta(days=1, hours=3), LABELS[3:5], (3, LABELS[0], LABELS[2])),
    ],
)
def test_after_five_days(
    policy: str, grace: timedelta | None, wanted: list[str], skipped: tuple[int, str | None, str | None]
) -> None:
    """Each policy fires its own, oldest first, counts the others, and goes on with the sixth."""
    found = caught(DAILY, LABELS[0], utc(2026, 3, 5, 16), policy, grace)
    assert (fired(found), ends(found)) == (wanted, skipped)
    assert found.next == Slot(LABELS[5], utc(2026, 3, 6, 14))


def test_one_late_slot_alone_may_be_too_old() -> None:
    """A grace is for it too, and its age is counted to the instant."""
    assert fired(caught(DAILY, LABELS[0], utc(2026, 3, 1, 14, 5), "skip")) == [LABELS[0]]
    found = caught(DAILY, LABELS[0], utc(2026, 3, 1, 14, 5) + timedelta(microseconds=1), "skip")
    assert (fired(found), ends(found)) == ([], (1, LABELS[0], LABELS[0]))


def test_the_grace_ends_with_its_last_instant() -> None:
    """Of two that are due, one that is as old as the grace fires, and is skipped a moment later."""
    now, day = utc(2026, 3, 2, 14), timedelta(days=1)
    assert fired(caught(DAILY, LABELS[0], now, "skip", day)) == LABELS[:2]
    assert fired(caught(DAILY, LABELS[0], now + timedelta(microseconds=1), "skip", day)) == LABELS[1:2]


@pytest.mark.parametrize("rule", ["0 */12 * * *", "0 */5 1-7 * *", "FREQ=MINUTELY;BYHOUR=9;BYMINUTE=0,30"])
def test_what_is_kept_is_kept_where_slots_are_counted(rule: str) -> None:
    """However few slots a day has, as many are left as the policy wants."""
    schedule = repeating(rule, datetime(2026, 1, 1))
    due = list(takewhile(lambda slot: slot.due_at <= utc(2026, 8, 9), slots(schedule, None, "2026-01-01T00:00Z")))
    found = catch_up(schedule, None, due[0].label, utc(2026, 8, 9), read_missed("all:50"))
    assert (list(found.fire), found.skipped) == (due[-50:], len(due) - 50)


@pytest.mark.parametrize("policy", ["latest", "skip", "all:1"])
def test_what_does_not_repeat_fires_all_it_has(policy: str) -> None:
    """One-offs and offsets are judged by their deadlines, however late the tick is."""
    now = utc(2027, 1, 1)
    once = Schedule(utc(2026, 3, 1))
    assert caught(once, "once", now, policy) == Caught((Slot("once", utc(2026, 3, 1)),), 0, None, None, None)
    hour = timedelta(hours=1)
    anchored = Schedule(utc(2027, 1, 1, 5), before=(9 * hour, 7 * hour, hour))
    found = caught(anchored, "-PT9H", now, policy)
    assert (fired(found), found.skipped, found.next) == (["-PT9H", "-PT7H"], 0, Slot("-PT1H", utc(2027, 1, 1, 4)))


def test_the_last_slot_of_a_rule() -> None:
    """Nothing comes behind it."""
    schedule = repeating("FREQ=DAILY;COUNT=3", datetime(2026, 3, 1, 9))
    found = caught(schedule, LABELS[0], utc(2026, 3, 9), "latest")
    assert (fired(found), found.skipped, found.next) == ([LABELS[2]], 2, None)
    assert caught(schedule, LABELS[5], utc(2026, 3, 9), "latest") == Caught((), 0, None, None, None)


@pytest.mark.parametrize(
    ("rule", "last", "skipped"),
    [
        ("FREQ=MINUTELY;INTERVAL=7;BYHOUR=1", "2026-03-07T06:59Z", 8),
        ("FREQ=HOURLY;INTERVAL=5", "2026-03-08T01:00Z", 4),
        ("FREQ=HOURLY;INTERVAL=2;BYMINUTE=0,30", "2026-03-08T03:30Z", 23),
        ("*/20 * * * *", "2026-03-08T04:40Z", 71),
    ],
)
def test_sub_daily_rules_are_caught_up(rule: str, last: str, skipped: int) -> None:
    """Whether their slots are counted or walked, the last one of the day fires."""
    schedule = repeating(rule, datetime(2026, 3, 7))
    label = next(slots(schedule, NEW_YORK, "2026-03-01T00:00")).label
    found = caught(schedule, label, utc(2026, 3, 8, 4, 59), "latest")
    assert (fired(found), found.skipped) == ([last], skipped)


def test_a_label_that_is_gone_begins_with_the_next() -> None:
    """An edited schedule goes on behind the place where the label stood."""
    schedule = repeating("FREQ=WEEKLY", datetime(2026, 3, 1, 9))
    found = caught(schedule, "2026-03-05T12:00", utc(2026, 3, 9), "latest")
    assert (fired(found), found.skipped) == (["2026-03-08T09:00"], 0)
    with pytest.raises(ValueError, match="names no firing of this schedule"):
        caught(schedule, "once", utc(2026, 3, 9), "latest")


# --- two slots at one instant --------------------------------------------------------------------

#: In New York, on 8 March, 02:15 and 02:30 are missing: they are due with 03:15 and 03:30.
TWICE: Final = repeating("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=15,30", datetime(2026, 3, 8))


@pytest.mark.parametrize("policy", ["latest", "all:9", "skip"])
def test_two_slots_at_one_instant_fire_once(policy: str) -> None:
    """The first fires; the second is recorded as skipped, and is not left over for the next tick."""
    found = caught(TWICE, "2026-03-08T02:15", utc(2026, 3, 8, 7, 15), policy)
    assert (fired(found), ends(found)) == (["2026-03-08T02:15"], (1, "2026-03-08T03:15", "2026-03-08T03:15"))
    assert found.next == Slot("2026-03-08T02:30", utc(2026, 3, 8, 7, 30))


def test_the_last_one_kept_may_be_two() -> None:
    """A policy keeps instants, not labels."""
    found = caught(TWICE, "2026-03-08T02:15", utc(2026, 3, 8, 7, 30), "latest")
    assert (fired(found), ends(found)) == (["2026-03-08T02:30"], (3, "2026-03-08T02:15", "2026-03-08T03:30"))
    found = caught(TWICE, "2026-03-08T02:15", utc(2026, 3, 8, 7, 30), "all:2")
    assert fired(found) == ["2026-03-08T02:15", "2026-03-08T02:30"]


def test_what_shares_an_instant_with_the_last_one_fired_goes_with_it() -> None:
    """Where more than a hundred are young, the cut is not made between two slots of one instant."""
    schedule = repeating("FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=" + ",".join(map(str, range(60))), datetime(2026, 3, 8))
    now = utc(2026, 3, 8, 7, 59)
    label, fires, skipped, seen = "2026-03-08T01:01", 0, 0, 0
    while label != "2026-03-09T00:00":
        found = caught(schedule, label, now, "skip", timedelta(hours=3))
        assert found.next is not None
        assert len(found.fire) <= FIRED_SLOTS_MAX
        assert found.next.due_at > found.fire[-1].due_at
        label, seen = found.next.label, seen + 1
        fires, skipped = fires + len(found.fire), skipped + found.skipped
    assert (fires, skipped, seen) == (119, 60, 2)


# --- whatever comes together ---------------------------------------------------------------------

RULES: Final = (
    "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,20,40",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=MINUTELY;INTERVAL=90;BYHOUR=1,2,3,4",
    "RRULE:FREQ=DAILY\nRDATE:20260308T073000Z,20260308T063000\nEXDATE:20260309T000000",
    "*/30 * * * *",
    "15 */3 * * *",
    "10 2,3 * * SUN",
    "FREQ=WEEKLY;BYDAY=SU,MO;COUNT=7",
)


@given(
    st.sampled_from(RULES),
    st.lists(st.integers(0, 4_000), min_size=1, max_size=6).map(sorted),
    st.sampled_from(["latest", "skip", "all:1", "all:2", "all:7"]),
    st.none() | st.integers(1, 3_000),
)
def test_ticks_at_any_time_decide_about_every_slot_once(
    rule: str, minutes: list[int], policy: str, grace: int | None
) -> None:
    """Whenever ticks come: fired and skipped slots together are all that were due, each once, none early or too old."""
    schedule = repeating(rule, datetime(2026, 3, 7))
    here: Slot | None = next(slots(schedule, NEW_YORK, "2026-03-01T00:00"))
    first, fires, decided = here, list[Slot](), 0
    kept = None if grace is None else grace * MINUTE
    for now in [utc(2026, 3, 7, 5) + minute * MINUTE for minute in minutes]:
        while here is not None and here.due_at <= now:
            found = caught(schedule, here.label, now, policy, kept)
            assert all(kept is None or now - slot.due_at <= kept for slot in found.fire)
            fires, decided = [*fires, *found.fire], decided + len(found.fire) + found.skipped
            here = found.next
    assert first is not None
    due = list(takewhile(lambda slot: slot.due_at <= now, slots(schedule, NEW_YORK, first.label)))
    assert decided == len(due)
    assert all(slot in due for slot in fires)
    assert all(before.due_at < after.due_at for before, after in pairwise(fires))
