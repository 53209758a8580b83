"""Shrinking: from a plan that fails to the smallest one found that fails in the same way.

One thing is left out at a time: a feature, a kind of fault, a reminder, a worker, other configurations, half
of the steps. What still breaks the same sentence of the promise is kept, and all is tried again, until
nothing more can be left out. It is greedy, and bounded in the number of worlds that it plays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from duly.sim.plan import Feature, Plan
from duly.sim.run import Ended

__all__ = ["described", "shrink", "smaller"]

PLAYED_WORLDS_MAX: Final = 300
STEPS_LEAST: Final = 20


def shrink(failed: Ended, play: Callable[[Plan], Ended], worlds_max: int = PLAYED_WORLDS_MAX) -> Ended:
    """The smallest world found that fails by the same checker; the given one if none is smaller."""
    played = 0
    while True:
        for plan in smaller(failed.plan):
            if played >= worlds_max:
                return failed
            played += 1
            ended = play(plan)
            if _fails_alike(ended, failed):
                failed = ended
                break
        else:
            return failed


def _fails_alike(ended: Ended, failed: Ended) -> bool:
    return (
        ended.violation is not None
        and failed.violation is not None
        and ended.violation.checker == failed.violation.checker
    )


def smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing less, the largest things first."""
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    if len(plan.reminders) > 1:
        half = len(plan.reminders) // 2
        yield replace(plan, reminders=plan.reminders[half:])
        yield replace(plan, reminders=plan.reminders[:half])
    for one in plan.reminders if len(plan.reminders) > 1 else ():
        yield replace(plan, reminders=tuple(other for other in plan.reminders if other is not one))
    for feature in plan.features:
        yield _without(plan, feature)
    for kind, _ in plan.faults:
        yield replace(plan, faults=tuple(pair for pair in plan.faults if pair[0] is not kind))
    if len(plan.settings) > 1:
        yield replace(plan, settings=plan.settings[:1])
    if plan.refused:
        yield replace(plan, refused=())
    if plan.steps_max > STEPS_LEAST:
        yield replace(plan, steps_max=plan.steps_max // 2)


def _without(plan: Plan, feature: Feature) -> Plan:
    """A plan without a feature, and without what was drawn for it."""
    plan = replace(plan, features=tuple(other for other in plan.features if other is not feature))
    match feature:
        case Feature.REPEATS:
            return replace(plan, reminders=tuple(replace(one, course=None) for one in plan.reminders))
        case Feature.QUIET_HOURS:
            persons = tuple(one._replace(quiet=()) for one in plan.persons)
            return replace(plan, persons=persons, settings=tuple(replace(one, quiet={}) for one in plan.settings))
        case Feature.CAPS:
            return replace(plan, settings=tuple(replace(one, caps={}) for one in plan.settings))
    return plan


def described(plan: Plan) -> str:
    """A plan in a few words."""
    faults = ", ".join(kind for kind, _ in plan.faults) or "none"
    features = ", ".join(plan.features) or "none"
    reminders = ", ".join(one.key for one in plan.reminders)
    return f"workers {plan.workers}; reminders {reminders}; features: {features}; faults: {faults}"
