"""An outage is told once when it begins and once when it ends, and whatever must not be lost is repeated through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from duly.core.states import State
from duly.errors import StoreError, StoreUnavailable
from duly.flows.deliver import send_some
from duly.ports import Store
from duly.runtime.outage import PAUSE_MAX_SECONDS, QUIET_SECONDS, Outage, patient
from duly.runtime.telemetry import Telemetry
from duly.testing.builders import decision
from duly.testing.clock import SimulatedClock, SimulatedDice
from duly.testing.driving import drive
from tests.flows.scene import Scene, scene_in

AWAY = StoreUnavailable("the database did not answer")


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """What is logged."""
    with capture_logs() as captured:
        yield captured


def told(lines: list[Any]) -> list[str]:
    """The events, in order."""
    return [line["event"] for line in lines]


def outage(clock: SimulatedClock, *rolls: float) -> Outage:
    """An outage that has not begun."""
    return Outage(clock, SimulatedDice(*rolls), Telemetry("w1"))


# --- waiting -------------------------------------------------------------------------------------


def test_an_outage_is_two_lines_however_often_it_is_met(lines: list[Any]) -> None:
    """One that it is away, with the reason; one that it is back, with how long that took."""
    clock = SimulatedClock()
    away = outage(clock)
    for _ in range(5):
        drive(away.wait(AWAY))
    drive(clock.sleep(QUIET_SECONDS))
    away.over()
    away.over()
    assert told(lines) == ["database_away", "database_back"]
    assert lines[0]["why"] == "the database did not answer"
    assert lines[1]["away_seconds"] == pytest.approx(sum(clock.slept), abs=0.06)
    assert {line["worker"] for line in lines} == {"w1"}


def test_the_next_outage_is_told_again(lines: list[Any]) -> None:
    """Each change is one line, and patience starts anew."""
    clock = SimulatedClock()
    away = outage(clock)
    for _ in range(2):
        drive(away.wait(AWAY))
        drive(away.wait(AWAY))
        drive(clock.sleep(QUIET_SECONDS))
        away.over()
    assert told(lines) == ["database_away", "database_back"] * 2
    assert clock.slept[:3] == pytest.approx(clock.slept[3:], rel=0.01)


def test_an_answer_between_two_failures_is_no_recovery(lines: list[Any]) -> None:
    """A full disk answers those who only read: that is told once, and the pauses grow on."""
    clock = SimulatedClock()
    away = outage(clock, 0.0)
    for _ in range(20):
        drive(away.wait(AWAY))
        away.over()
        drive(away.wait(AWAY))
    assert told(lines)[0] == "database_away"
    assert len(lines) < 20
    assert max(clock.slept) > 4 * clock.slept[0]


def test_after_its_end_nothing_is_repeated(lines: list[Any]) -> None:
    """A drain does not wait for a database that stays away: the call's own error comes out."""
    clock = SimulatedClock()
    away = outage(clock)
    away.give_up_after(3.0)

    async def refused() -> None:
        raise AWAY

    with pytest.raises(StoreUnavailable):
        drive(away.until_done(refused))
    assert 3.0 <= clock.reading() - SimulatedClock().reading() <= 3.0 + PAUSE_MAX_SECONDS
    assert told(lines) == ["database_away"]


def test_without_an_outage_nothing_is_told(lines: list[Any]) -> None:
    """A database that answers is no news."""
    outage(SimulatedClock()).over()
    assert lines == []


@pytest.mark.parametrize("roll", [0.0, 0.5, 0.999])
def test_pauses_grow_with_the_outage_up_to_a_limit(roll: float) -> None:
    """It is asked often at first, and later every few seconds."""
    clock = SimulatedClock()
    away = outage(clock, roll)
    for _ in range(40):
        drive(away.wait(AWAY))
    assert 0.05 <= clock.slept[0] <= 0.1
    assert clock.slept == sorted(clock.slept)
    assert PAUSE_MAX_SECONDS / 2 <= clock.slept[-1] <= PAUSE_MAX_SECONDS


class StandingClock(SimulatedClock):
    """A clock on which many sleep at the same moment."""

    async def sleep(self, seconds: float) -> None:
        """Note it, and let no time pass."""
        self.slept.append(seconds)


def test_many_who_wait_do_not_make_it_longer() -> None:
    """Pauses follow the time that has passed, not how many loops have met the outage in it."""
    clock = StandingClock()
    away = outage(clock, 0.999)
    drive(away.wait(AWAY))
    clock.advance(1.0)
    for _ in range(10):
        drive(away.wait(AWAY))
    assert clock.slept[1:] == pytest.approx([1.0] * 10, rel=0.01)


# --- repeating -----------------------------------------------------------------------------------


def test_a_repeatable_call_is_repeated_until_it_is_answered(lines: list[Any]) -> None:
    """Its answer comes through, after one pair of lines."""
    answers: list[Any] = [AWAY, AWAY, AWAY, 7]

    async def call() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    assert drive(outage(SimulatedClock()).until_done(call)) == 7
    assert told(lines) == ["database_away", "database_back"]


def test_a_refusal_is_not_repeated() -> None:
    """A database that answers no has answered."""

    async def call() -> int:
        raise StoreError("permission denied")

    with pytest.raises(StoreError, match="permission denied"):
        drive(outage(SimulatedClock()).until_done(call))


def patiently(scene: Scene) -> Store:
    """Let the scene's route speak to its store patiently."""
    scene.route.store = patient(scene.store, outage(scene.clock))
    return scene.route.store


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """An empty ledger, and a route over it."""
    with scene_in(tmp_path) as opened:
        yield opened


def test_an_outcome_is_recorded_through_an_outage(scene: Scene, lines: list[Any]) -> None:
    """Not answered, then done but not confirmed, then said again: recorded once, told once."""
    (delivery,) = scene.ready("a")
    patiently(scene)
    scene.send()
    scene.unsteady.refuse("settle", AWAY, AWAY)
    scene.unsteady.lose("settle")
    assert scene.settle() == 1
    assert scene.stands(delivery) == ("sent", "accepted")
    assert scene.route.tally["sent"] == 1
    assert len(scene.unsteady.called("settle")) == 4
    assert told(lines) == ["database_away", "database_back"]


def test_a_decision_is_made_through_an_outage(scene: Scene) -> None:
    """A decision whose reply was lost is said again, and stands once."""
    (delivery,) = scene.ready("a")
    store = patiently(scene)
    batch = drive(scene.claims.take(1, 0.0))
    assert batch is not None
    scene.unsteady.refuse("decide", AWAY)
    drive(store.decide("somebody", [decision(batch.rows[0], State.LEASED, State.WAITING, next_at=batch.now)]))
    assert scene.stands(delivery) == ("waiting", "operator")
    assert len(scene.unsteady.called("decide")) == 2


def test_a_begin_is_not_repeated_and_its_rows_are_given_back_through_the_outage(scene: Scene, lines: list[Any]) -> None:
    """An attempt must not be begun twice: nothing is sent, the rows go back, and the outage is told once."""
    (delivery,) = scene.ready("a")
    patiently(scene)
    scene.unsteady.lose("begin")
    scene.unsteady.refuse("abandon", AWAY, AWAY)
    assert drive(send_some(scene.route, 0.25)) == 0
    assert scene.requests() == []
    assert scene.stands(delivery) == ("waiting", "begin_unconfirmed")
    assert len(scene.unsteady.called("begin")) == 1
    assert told(lines) == ["database_away", "database_back"]


def test_a_begin_that_is_not_answered_is_told_though_the_next_call_is(scene: Scene, lines: list[Any]) -> None:
    """An outage of one call is one too, and the pause comes before the rows are given back."""
    (delivery,) = scene.ready("a")
    patiently(scene)
    scene.unsteady.refuse("begin", AWAY)
    assert drive(send_some(scene.route, 0.25)) == 0
    assert scene.stands(delivery) == ("ready", None)
    assert told(lines) == ["database_away", "database_back"]
    assert lines[1]["away_seconds"] > 0.0


def test_what_holds_nothing_in_its_hands_is_not_repeated(scene: Scene, lines: list[Any]) -> None:
    """Reading, claiming and upkeep are their loops' to start over."""
    store = patiently(scene)
    scene.unsteady.refuse("promote", AWAY)
    with pytest.raises(StoreUnavailable):
        drive(store.promote(1))
    assert drive(store.promote(1)) == 0
    assert lines == []
