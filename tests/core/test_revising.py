"""What a newer version of a reminder may still change."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.core.model import NewReminder
from duly.core.revising import (
    GENERATIONS_MAX,
    Fate,
    Plan,
    Revised,
    Standing,
    Whom,
    is_replaced,
    labels_of,
    left_out_of,
    moved,
    named,
    revise,
)
from duly.core.schedule import Schedule, read_repeat, slots_since
from duly.core.states import State
from duly.testing.builders import new_reminder
from tests.core.values import NOW, later

ID = b"d" * 16
ANCHOR = datetime(2026, 12, 10, 9, 0, tzinfo=UTC)


def stands(*fates: Fate, **changes: Any) -> Standing:
    """An active reminder of version 2 whose deliveries these are."""
    plan = (None, None, None, None, Whom.of(new_reminder("r", NOW)))
    return Standing(NOW, 1, "active", 2, 1, False, *plan, fates)._replace(**changes)


def fate(state: State, occurrence: str = "once", *, doubt: bool = False, identity: bytes = ID) -> Fate:
    """What became of one delivery."""
    return Fate(identity, occurrence, state, doubt)


def once(**more: Any) -> NewReminder:
    """Version 2, due in an hour."""
    return new_reminder("r", later(hours=1), event_version=2, **more)


def offsets(*hours: int, **more: Any) -> NewReminder:
    """Version 2, so many hours before its anchor."""
    schedule = Schedule(ANCHOR, before=tuple(timedelta(hours=hour) for hour in hours))
    return once(schedule=schedule.to_text(), next_label=f"-PT{hours[0]}H", **{"deadline": None, **more})


def rule(text: str = "FREQ=DAILY", **more: Any) -> NewReminder:
    """Version 2, every day at 07:00 UTC since yesterday, good for an hour."""
    start = later(hours=-26)
    schedule = Schedule(start, read_repeat(text, start)).to_text()
    return once(schedule=schedule, next_label="2026-11-30T07:00", deadline="PT1H", **more)


def test_what_has_not_fired_yet_is_simply_changed() -> None:
    """Nothing is called off, and the labels stay."""
    new = once()
    assert revise(new, stands(), None) == Plan(Revised.MOVED, new, 1, ())


@pytest.mark.parametrize("version", [None, 2, 0])
def test_versions_never_go_back(version: int | None) -> None:
    """A version that is not higher than the one on record changes nothing."""
    new = new_reminder("r", later(hours=1), event_version=version)
    assert revise(new, stands(), None, newer_only=True).answer is Revised.NOT_NEWER


@pytest.mark.parametrize("version", [None, 1, 3])
def test_a_change_is_made_from_the_version_on_record(version: int | None) -> None:
    """An operator's change that was made from another one would bring that one's words back."""
    new = new_reminder("r", later(hours=1), event_version=version)
    assert revise(new, stands(), None) == Plan(Revised.CHANGED)


def test_any_version_is_newer_than_none() -> None:
    """A reminder without a version may be given its first, 0 included."""
    new = new_reminder("r", later(hours=1), event_version=0)
    assert revise(new, stands(event_version=None), None, newer_only=True).answer is Revised.MOVED


def test_a_cancelled_reminder_stays_cancelled() -> None:
    """A version that comes after the cancel does not bring it back."""
    assert revise(once(), stands(status="cancelled"), None) == Plan(Revised.CANCELLED)


def test_what_a_guard_covers_is_not_moved_out_of_it() -> None:
    """It may have been sent before the backup was restored."""
    assert revise(once(), stands(covered=True), None) == Plan(Revised.UNDER_GUARD)


@pytest.mark.parametrize("state", [State.READY, State.WAITING, State.LEASED])
def test_what_is_surely_unsent_is_called_off_and_comes_anew(state: State) -> None:
    """The open delivery ends, and the occurrence gets its next generation."""
    new = once()
    assert revise(new, stands(fate(state)), None) == Plan(Revised.MOVED, new, 2, (ID,))


@pytest.mark.parametrize("state", [State.EXPIRED, State.CANCELLED, State.SUPPRESSED, State.DEAD, State.REJECTED])
def test_what_ended_unsent_comes_anew(state: State) -> None:
    """Nothing is called off, and the occurrence gets its next generation."""
    assert revise(once(), stands(fate(state)), None)[2:] == (2, (), ())


@pytest.mark.parametrize("state", [State.SENT, State.UNCONFIRMED])
def test_what_was_sent_is_not_sent_again(state: State) -> None:
    """Nor is what nobody will ever know about; whatever generation it was."""
    assert revise(once(), stands(fate(state)), None) == Plan(Revised.ALREADY_SENT)
    both = stands(fate(state), fate(State.CANCELLED, "once#2"), generation=2)
    assert revise(once(), both, None) == Plan(Revised.ALREADY_SENT)


@pytest.mark.parametrize("state", [State.SENDING, State.UNCERTAIN, State.HELD])
def test_what_may_be_sent_is_not_touched(state: State) -> None:
    """It is on its way, or in doubt."""
    assert revise(once(), stands(fate(state)), None) == Plan(Revised.ALREADY_SENDING)


@pytest.mark.parametrize("state", [State.READY, State.WAITING, State.LEASED])
def test_doubt_is_as_good_as_sending(state: State) -> None:
    """An open delivery of which an attempt may have been accepted is not called off."""
    assert revise(once(), stands(fate(state, doubt=True)), None) == Plan(Revised.ALREADY_SENDING)


def test_again_sends_once_more_by_name() -> None:
    """What was sent comes in the next generation; what is open is called off, unless it may have been sent."""
    new = once()
    assert revise(new, stands(fate(State.SENT)), None, again=True) == Plan(Revised.MOVED, new, 2, ())
    other = fate(State.WAITING, "once#2", identity=b"e" * 16)
    assert revise(new, stands(fate(State.UNCERTAIN), other, generation=2), None, again=True)[2:] == (
        3,
        (b"e" * 16,),
        (),
    )


def test_generations_end() -> None:
    """A reminder is not revised without end."""
    standing = stands(fate(State.CANCELLED), generation=GENERATIONS_MAX)
    assert revise(once(), standing, None) == Plan(Revised.ALREADY_SENT)


def test_an_anchor_that_moves_takes_along_what_was_not_sent() -> None:
    """What was sent is left out and stays in the schedule; the first of the others is next, with its own deadline."""
    plan = revise(offsets(24, 2, 1), stands(fate(State.SENT, "-PT24H"), fate(State.EXPIRED, "-PT2H")), None)
    assert plan.reminder is not None
    assert (plan.answer, plan.generation, plan.left_out) == (Revised.MOVED, 2, ("-PT24H",))
    assert labels_of(plan.reminder) == ("-PT24H", "-PT2H", "-PT1H")
    schedule = Schedule.from_text(plan.reminder.schedule or "")
    assert left_out_of(schedule) == ["-PT24H"]
    assert [one.label for one in slots_since(schedule, None, NOW)] == ["-PT2H", "-PT1H"]
    assert (plan.reminder.next_label, plan.reminder.next_due_at) == ("-PT2H", ANCHOR - timedelta(hours=2))
    assert plan.reminder.deadline_at == ANCHOR - timedelta(hours=1)


def test_what_was_left_out_is_known_to_later_changes() -> None:
    """Another move leaves it out once more, and `again` asks for all of it."""
    stood = stands(fate(State.SENT, "-PT24H"))
    first = revise(offsets(24, 1), stood, None).reminder
    assert first is not None
    assert revise(first, stood, None).left_out == ("-PT24H",)
    again = revise(offsets(24, 1), stood, None, again=True)
    assert again.reminder is not None
    assert (again.left_out, again.generation, again.reminder.next_label) == ((), 2, "-PT24H")


def test_a_change_is_kept_with_its_moments() -> None:
    """From when to when it moved the next occurrence, and what it left out; nothing where nothing was to come."""
    stood = stands(fate(State.SENT, "-PT24H"), next_due_at=NOW)
    plan = revise(offsets(24, 1), stood, None)
    told = {"from": "2026-12-01T09:00:00Z", "to": "2026-12-10T08:00:00Z", "left_out": ["-PT24H"]}
    assert json.loads(moved(stood, plan)) == told
    assert json.loads(moved(stands(), plan))["from"] is None


def test_what_is_left_is_sent_as_late_as_it_asks() -> None:
    """The deadline says from when it is late; until when it is sent stands in `late_until`."""
    new = offsets(48, 24, deadline="PT1H", late="send_marked", late_until="PT6H")
    plan = revise(new, stands(fate(State.SENT, "-PT48H")), None)
    assert plan.reminder is not None
    assert plan.reminder.deadline_at == ANCHOR - timedelta(hours=24) + timedelta(hours=6)


def test_an_anchor_of_which_all_was_sent_is_not_moved() -> None:
    """There is nothing left of it."""
    sent = stands(fate(State.SENT, "-PT24H"), fate(State.UNCERTAIN, "-PT1H"))
    assert revise(offsets(24, 1), sent, None).answer is Revised.ALREADY_SENDING


def test_a_rule_keeps_its_labels() -> None:
    """What repeats is named by its slots, its generation stays, and a new rule begins behind the change."""
    new = rule()
    assert labels_of(new) == ()
    plan = revise(new, stands(generation=2), None)
    assert plan.reminder is not None
    assert (plan.answer, plan.generation, plan.call_off) == (Revised.MOVED, 2, ())
    assert (plan.reminder.next_label, plan.reminder.next_due_at) == ("2026-12-02T07:00", later(hours=22))
    assert plan.reminder.deadline_at == later(hours=23)


def test_a_rule_that_is_over_stays_as_it_came() -> None:
    """The tick finds nothing behind it."""
    new = rule("FREQ=DAILY;COUNT=1")
    assert revise(new, stands(), None).reminder == new


def test_the_same_rule_goes_on_where_it_was() -> None:
    """Only its words have changed: a slot that is overdue is not lost."""
    new = rule()
    overdue = stands(schedule=new.schedule, next_label="2026-12-01T07:00", next_due_at=later(hours=-2))
    plan = revise(new, overdue, None)
    assert plan.reminder is not None
    assert (plan.reminder.next_label, plan.reminder.next_due_at) == ("2026-12-01T07:00", later(hours=-2))
    assert plan.reminder.deadline_at == later(hours=-1)


def test_an_open_slot_does_not_go_to_somebody_else() -> None:
    """With other words it goes out; for another recipient nothing is changed until it has ended."""
    slot = fate(State.WAITING, "2026-12-01T07:00")
    assert revise(rule(), stands(slot), None).answer is Revised.MOVED
    other = rule(ref="ben")
    assert revise(other, stands(slot), None) == Plan(Revised.ALREADY_SENDING)
    assert revise(other, stands(slot._replace(state=State.SENT)), None).answer is Revised.MOVED


def test_what_the_new_version_does_not_have_is_called_off() -> None:
    """An open delivery of a rule's slot, of an offset or of the one firing that is no more, unless it may have left."""
    kept = fate(State.READY, "-PT1H", doubt=True, identity=b"k" * 16)
    for label in ("2026-12-01T07:00", "-PT2H"):
        assert revise(once(), stands(fate(State.WAITING, label), kept), None)[2:] == (1, (ID,), ())
    for label in ("once", "-PT1H"):
        assert revise(rule(), stands(fate(State.WAITING, label), kept), None).call_off == (ID,)


def test_a_label_carries_its_generation() -> None:
    """The first one is not named."""
    assert (named("once", 1), named("-PT1H", 3)) == ("once", "-PT1H#3")
    assert named("2026-12-01T09:00", 3) == "2026-12-01T09:00"


@pytest.mark.parametrize(
    ("occurrence", "generation", "before", "replaced"),
    [
        ("once", 1, (), False),
        ("once", 2, (), True),
        ("once#2", 2, (), False),
        ("-PT2H", 2, (2, 1), True),
        ("-PT2H", 2, (1,), False),
        ("2026-12-10T09:00", 2, (1,), False),
    ],
)
def test_what_a_newer_generation_replaces(
    occurrence: str,
    generation: int,
    before: tuple[int, ...],
    replaced: bool,
) -> None:
    """An occurrence of an older generation whose label the reminder has still."""
    schedule = Schedule(ANCHOR, before=tuple(timedelta(hours=hours) for hours in before)).to_text() if before else None
    assert is_replaced(occurrence, generation, schedule) is replaced


def test_what_is_left_out_replaces_nothing() -> None:
    """An offset that was sent on another channel stays in the schedule and does not fire: its dead letter may go on."""
    offsets = (timedelta(hours=2), timedelta(hours=1))
    schedule = Schedule(ANCHOR, before=offsets, left_out=offsets[:1]).to_text()
    assert not is_replaced("-PT2H", 2, schedule)
    assert is_replaced("-PT1H", 2, schedule)
