"""Shrinking finds the smallest plan that fails in the same way, and stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.sim.history import History
from duly.sim.plan import Feature, Plan, draw
from duly.sim.report import play_all
from duly.sim.run import Ended
from duly.sim.shrink import described, shrink, smaller
from duly.sim.truth import Complaint, Violation


def _full(seed: int = 1) -> Plan:
    return replace(draw(seed), features=tuple(Feature), workers=3)


def _ended(plan: Plan, checker: str | None) -> Ended:
    violation = Violation(checker, Complaint(None, "it broke")) if checker else None
    return Ended(plan, 1, 1, {}, {}, {}, History(), violation)


def test_what_does_not_matter_is_left_out() -> None:
    """Of all features, faults and reminders only those stay without which nothing fails."""
    plan = _full()
    guilty = plan.reminders[-1].key

    def play(plan: Plan) -> Ended:
        fails = plan.has(Feature.CANCELS) and any(one.key == guilty for one in plan.reminders)
        return _ended(plan, "NothingTwice" if fails else None)

    small = shrink(play(plan), play).plan
    assert (small.features, [one.key for one in small.reminders]) == ((Feature.CANCELS,), [guilty])
    assert (small.workers, small.faults, len(small.settings)) == (1, (), 1)


def test_another_failure_is_not_taken_for_the_same() -> None:
    """A smaller world that breaks another sentence of the promise is no smaller case of this one."""
    plan = _full()

    def play(plan: Plan) -> Ended:
        return _ended(plan, "NothingTwice" if plan.has(Feature.CANCELS) else "NothingIsLost")

    assert shrink(play(plan), play).plan.has(Feature.CANCELS)


def test_shrinking_is_bounded() -> None:
    """It plays no more worlds than it may."""
    played: list[Plan] = []

    def play(plan: Plan) -> Ended:
        played.append(plan)
        return _ended(plan, None)

    failed = _ended(_full(), "NothingTwice")
    assert shrink(failed, play, worlds_max=5) is failed
    assert len(played) == 5


@pytest.mark.parametrize("shrinks", [True, False])
def test_shrinking_may_be_left_out(shrinks: bool) -> None:
    """Of many seeds the first that fails ends the run; worlds are played after it only to find a smaller one."""
    played: list[Plan] = []

    def play(plan: Plan) -> Ended:
        played.append(plan)
        return _ended(plan, "NothingTwice" if plan.seed > 1 else None)

    report = play_all(range(1, 10), play, shrinks=shrinks)
    assert report.seeds == 2
    assert report.failed is not None
    assert report.failed.plan == draw(2)
    assert (report.smallest is not report.failed, len(played) > 2) == (shrinks, shrinks)


def test_every_smaller_plan_has_something_less() -> None:
    """No plan is offered twice, and none is the plan itself."""
    plan = _full()
    offered = list(smaller(plan))
    assert plan not in offered
    assert len(
        {described(one) + str(one.steps_max) + str(len(one.settings)) + str(one.refused) for one in offered}
    ) == len(offered)
