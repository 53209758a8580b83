"""The checkers of time and persons say no to what they are about, and to nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from duly.core import keys
from duly.core.caps import Cap
from duly.core.consent import ALL, EVERYTHING, Kind, Said
from duly.core.model import Channel, Outcome
from duly.core.states import State
from duly.ports import NewConsent
from duly.sim.checkers import (
    CapsAreKept,
    ConsentIsKept,
    EachOccurrenceOnce,
    EverySlotIsAccountedFor,
    MissedAsAsked,
    OnlyWhatIsNamed,
    PausesAreKept,
    QuietHoursAreKept,
)
from duly.sim.clocks import SECOND_US, START, START_US
from duly.sim.facts import NAMESPACE, Call, Facts, recipient_id, reminder_id
from duly.sim.ledger import AttemptRow, Change, EventRow, Ledger, Move, Standing
from duly.sim.plan import Person, Plan, ReminderPlan, draw
from duly.sim.run import ground
from duly.sim.times import Course, slots_of
from duly.sim.truth import Checker, Left, Taken, Truth
from duly.testing.builders import contact

EMAIL: Final = Channel.EMAIL
BERLIN: Final = "Europe/Berlin"  # where it is ten o'clock when a world begins
COURSE: Final = Course(START, "latest", step_minutes=10, times=3)


def _reminder(key: str, **more: Any) -> ReminderPlan:
    base = draw(1).reminders[0]
    fields = {"account": "acme", "recipient": "ana", "channels": (EMAIL,), "purpose": "marketing", "course": None}
    return replace(base, key=key, **{**fields, **more})


def _plan() -> Plan:
    plain = draw(1)
    reminders = (_reminder("once"), _reminder("other"), _reminder("often", course=COURSE))
    settings = replace(plain.settings[0], quiet={"acme": ("10:00-10:05",)}, caps={"acme": Cap(1, timedelta(hours=1))})
    return replace(plain, reminders=reminders, settings=(settings,), persons=(Person("ana", BERLIN),))


def delivery(key: str, label: str = "once") -> bytes:
    """The id of an occurrence by email."""
    return keys.delivery_id(NAMESPACE, "acme", key, label, EMAIL)


class Scene:
    """An empty ledger, and the facts of three reminders of one person."""

    def __init__(self, ledger: Ledger) -> None:
        plan = _plan()
        self.truth = Truth(ledger, Facts(plan))
        self.facts = self.truth.facts
        self.facts.serving["w1"] = plan.settings[0]
        self.facts.now.asked = set(self.facts.reminders)

    def stands(self, key: str, label: str = "once", **more: Any) -> Standing:
        """A delivery as the mirror knows it."""
        fields: dict[str, Any] = dict.fromkeys(Standing._fields, 0)
        reminder = next(reminder_id(one) for one in self.facts.plan.reminders if one.key == key)
        names = {"id": delivery(key, label), "state": State.SENDING, "reminder": reminder, "worker": "w1"}
        standing = Standing(**{**fields, **names, **more})
        self.truth.ledger.standing[standing.id] = standing
        return standing

    def begins(self, key: str, label: str = "once", at_us: int = START_US + 600 * SECOND_US, **more: Any) -> Change:
        """An attempt begins; ten minutes after the start, where nothing else is said."""
        standing = self.stands(key, label, **more)
        row = AttemptRow(standing.id, 1, at_us, "w1", b"")
        self.truth.ledger.attempts[row.id, 1] = row
        return _change(Move(standing, standing), attempts=(row,))

    def leaves(self, key: str) -> None:
        """A request of its first attempt leaves."""
        self.facts.now.left.add((delivery(key), 1))

    def hears(self, name: str, *said: Any, reply: object = True) -> None:
        """A call was answered."""
        self.facts.hear(Call(START_US, "w1", name, said), reply)

    def says(self, kind: Kind, scope: str, purpose_of: str = "ana") -> None:
        """Somebody says something about an address."""
        about = contact("acme", EMAIL, f"{purpose_of}@email")
        self.hears("record_consent", "us", "acme", [NewConsent(about, Said(kind, scope, None, "us", "why"))], reply=[])


def _change(*moves: Move, call: str = "call", **more: Any) -> Change:
    fields = {"attempts": (), "results": (), "events": (), "guarded": False, "forbidden": {}, "arguments": ()}
    return Change(START_US, "w1", call, moves, **{**fields, **more})


def told(kind: type[Checker], *changes: Change, scene: Scene) -> str:
    """What a checker says of some commits."""
    checker = kind()
    return "; ".join(complaint.text for change in changes for complaint in checker.changed(change, scene.truth))


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A scene on an empty ledger."""
    with ground() as place:
        path = place.folder / "ledger.db"
        path.write_bytes(place.template.read_bytes())
        ledger = Ledger(path)
        yield Scene(ledger)
        ledger.close()


# --- persons -------------------------------------------------------------------------------------


def test_a_begin_in_quiet_hours_is_complained_of(scene: Scene) -> None:
    """By the clocks where the recipient lives; security has no quiet hours."""
    quiet, loud = START_US + 299 * SECOND_US, START_US + 300 * SECOND_US
    assert "10:00-10:05 in Europe/Berlin" in told(QuietHoursAreKept, scene.begins("once", at_us=quiet), scene=scene)
    assert told(QuietHoursAreKept, scene.begins("once", at_us=loud), scene=scene) == ""
    scene.facts.now.zones[recipient_id(_reminder("once"))] = "Asia/Kolkata"
    assert told(QuietHoursAreKept, scene.begins("once", at_us=quiet), scene=scene) == ""


def test_a_request_that_might_leave_in_quiet_hours_is_complained_of(scene: Scene) -> None:
    """What counts is the last moment at which it may start; not where he has moved since the claim."""
    scene.begins("once")
    scene.facts.claimed_us[delivery("once")] = 1
    left = Left(delivery("once"), 1, b"", START_US + 299 * SECOND_US, 0)
    assert [one.text for one in QuietHoursAreKept().left(left, scene.truth)] != []
    assert [*QuietHoursAreKept().left(left._replace(latest_us=START_US), scene.truth)] == []
    scene.facts.now.moved[recipient_id(_reminder("once"))] = 2
    assert [*QuietHoursAreKept().left(left, scene.truth)] == []


def test_a_begin_over_the_cap_is_complained_of(scene: Scene) -> None:
    """A second delivery within the hour is one too many, if a request of the first has left."""
    first, second = scene.begins("once"), scene.begins("other")
    assert told(CapsAreKept, first, second, scene=scene) == ""
    scene.leaves("once")
    scene.facts.now.begun.pop(delivery("other"))
    assert "the 2th within" in told(CapsAreKept, second, scene=scene)
    assert told(CapsAreKept, first, scene=scene) == ""  # a repeat


def test_what_is_in_doubt_takes_no_place(scene: Scene) -> None:
    """It may have arrived; and what was surely not sent asks again."""
    scene.leaves("once")
    told(CapsAreKept, scene.begins("once"), scene=scene)
    assert told(CapsAreKept, scene.begins("other", doubt=1), scene=scene) == ""
    scene.truth.ledger.results[delivery("other"), 1] = (Outcome.NOT_SENT, 0)
    assert "its cap lets 1" in told(CapsAreKept, scene.begins("other"), scene=scene)


@pytest.mark.parametrize(
    ("kind", "scope", "ended_by"),
    [(Kind.OPT_OUT, "marketing", Kind.OPT_IN), (Kind.OPT_OUT, ALL, Kind.OPT_IN), (Kind.BOUNCE, EVERYTHING, Kind.LIFT)],
)
def test_a_begin_against_consent_is_complained_of(scene: Scene, kind: Kind, scope: str, ended_by: Kind) -> None:
    """Until what was said is ended."""
    scene.says(kind, scope)
    assert f"a {kind} of {scope}" in told(ConsentIsKept, scene.begins("once"), scene=scene)
    scene.says(ended_by, scope)
    assert told(ConsentIsKept, scene.begins("once"), scene=scene) == ""


def test_other_consent_is_no_trouble(scene: Scene) -> None:
    """Another purpose, and another address; and an opt-in does not end a bounce."""
    scene.says(Kind.OPT_OUT, "service")
    scene.says(Kind.BOUNCE, EVERYTHING, "ben")
    assert told(ConsentIsKept, scene.begins("once"), scene=scene) == ""
    scene.says(Kind.BOUNCE, EVERYTHING)
    scene.says(Kind.OPT_OUT, ALL)
    scene.says(Kind.OPT_IN, ALL)
    assert "a bounce of" in told(ConsentIsKept, scene.begins("once"), scene=scene)


@pytest.mark.parametrize(("call", "more"), [("delete_recipient", ()), ("disable_channel", (EMAIL,))])
def test_a_begin_for_who_is_gone_is_complained_of(scene: Scene, call: str, more: tuple[Any, ...]) -> None:
    """He was deleted, or has closed the channel; not where the ledger says that nothing was changed."""
    whom = recipient_id(_reminder("once"))
    scene.hears(call, "us", "why", whom, *more, reply=False)
    assert told(ConsentIsKept, scene.begins("once"), scene=scene) == ""
    scene.hears(call, "us", "why", whom, *more)
    assert "began although" in told(ConsentIsKept, scene.begins("once"), scene=scene)


@pytest.mark.parametrize(("what", "name"), [("account", "acme"), ("reminder", reminder_id(_reminder("once")))])
def test_a_begin_in_a_pause_is_complained_of(scene: Scene, what: str, name: str | bytes) -> None:
    """Of its account or its reminder, until that is resumed."""
    scene.hears(f"pause_{what}", "us", "why", name)
    assert f"its {what} was paused" in told(PausesAreKept, scene.begins("once"), scene=scene)
    scene.hears(f"pause_{what}", "us", "why", name, False)
    assert told(PausesAreKept, scene.begins("once"), scene=scene) == ""


def test_a_pause_of_a_template_binds_the_next_claim(scene: Scene) -> None:
    """What was claimed before it may begin."""
    scene.hears("pause_template", "us", "why", "note")
    assert told(PausesAreKept, scene.begins("once"), scene=scene) == ""
    scene.facts.claimed_us[delivery("once")] = START_US + 1
    assert "while its template was paused" in told(PausesAreKept, scene.begins("once"), scene=scene)


def test_facts_go_back_with_a_backup(scene: Scene) -> None:
    """What was said after it is forgotten, as the ledger has it."""
    scene.facts.keep()
    scene.says(Kind.OPT_OUT, ALL)
    scene.facts.put_back()
    assert told(ConsentIsKept, scene.begins("once"), scene=scene) == ""


# --- schedules -----------------------------------------------------------------------------------

SLOTS: Final = slots_of(COURSE, BERLIN, BERLIN)


def written(scene: Scene, *numbers: int, **more: Any) -> Change:
    """A tick writes slots of the reminder that goes on."""
    due = [round(SLOTS[number].due_at.timestamp() * SECOND_US) for number in numbers]
    rows = [
        scene.stands("often", SLOTS[number].label, due_at=at, **more) for number, at in zip(numbers, due, strict=True)
    ]
    return _change(*[Move(None, row) for row in rows], call="materialise")


def test_what_no_schedule_names_is_complained_of(scene: Scene) -> None:
    """A label that is none of its slots; and one of them at another moment."""
    fine, strange = written(scene, 1), scene.stands("often", "2026-12-01T09:01Z")
    assert told(OnlyWhatIsNamed, fine, scene=scene) == ""
    assert told(OnlyWhatIsNamed, _change(Move(None, strange)), scene=scene) == "no schedule names it"
    late = fine.moves[0].after._replace(due_at=1)
    assert "it was written for another time" in told(OnlyWhatIsNamed, _change(Move(None, late)), scene=scene)


def test_too_many_slots_at_once_are_complained_of(scene: Scene) -> None:
    """Of what was missed, the latest one was asked for."""
    assert told(MissedAsAsked, written(scene, 2), scene=scene) == ""
    assert "2 slots of often were fired at once" in told(MissedAsAsked, written(scene, 1, 2), scene=scene)


def test_an_occurrence_in_two_generations_is_complained_of(scene: Scene) -> None:
    """It was accepted under one; in another past that is not known."""
    checker = EachOccurrenceOnce()
    taken = [Taken(scene.stands("once", label).id, 0, 1, "name") for label in ("once", "once#2")]
    assert [*checker.taken(taken[0], scene.truth)] == []
    assert len([*checker.taken(taken[1], scene.truth)]) == 1
    checker.restored()
    assert [*checker.taken(taken[1], scene.truth)] == []


def ends(scene: Scene) -> str:
    """What is said of slots in the end."""
    return "; ".join(complaint.text for complaint in EverySlotIsAccountedFor().ended(scene.truth))


def test_a_slot_of_which_nobody_knows_is_complained_of(scene: Scene) -> None:
    """It has a delivery, or was counted as missed, or passed in a pause, or its reminder was cancelled."""
    written(scene, 0, 2)
    assert "nobody knows what became of often, 2026-12-01T09:10Z" in ends(scene)
    evidence = json.dumps({"skipped": 1, "first": SLOTS[1].label, "last": SLOTS[1].label})
    reminder = reminder_id(_reminder("often"))
    scene.truth.ledger.events.append(EventRow(None, "missed", None, None, "tick", "why", evidence, reminder))
    assert ends(scene) == ""
    scene.truth.ledger.events *= 2
    assert ends(scene) == "1 slots of often were not fired, and 2 were counted"
    scene.truth.ledger.events.clear()
    scene.facts.now.resumed[reminder] = round(SLOTS[1].due_at.timestamp() * SECOND_US)
    assert ends(scene) == ""
