"""Many seeds: what was exercised in all of them, and the first one that failed."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from duly.sim.faults import Kind
from duly.sim.plan import Plan, draw
from duly.sim.run import Ended, ground
from duly.sim.shrink import described, shrink
from duly.sim.transitions import NOT_MADE, Step, missing, shown

__all__ = ["Report", "play_all", "simulate"]


@dataclass(slots=True)
class Report:
    """The sum of the worlds that were played. `smallest` is what shrinking made of `failed`."""

    seeds: int = 0
    steps: int = 0
    calls: list[int] = field(default_factory=list)
    faults: Counter[Kind] = field(default_factory=Counter)
    transitions: Counter[Step] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    failed: Ended | None = None
    smallest: Ended | None = None

    def add(self, ended: Ended) -> None:
        """One more world."""
        self.seeds += 1
        self.steps += ended.steps
        self.calls.append(ended.calls)
        self.faults.update(ended.faults)
        self.transitions.update(ended.transitions)
        self.events.update(ended.events)

    def document(self) -> dict[str, Any]:
        """As `duly simulate --json` gives it, without the seconds."""
        return {
            "seeds": self.seeds,
            "violations": int(self.failed is not None),
            "steps": self.steps,
            "calls_median": statistics.median(self.calls) if self.calls else 0,
            "faults": {str(kind): self.faults[kind] for kind in Kind},
            "transitions": {shown(step): count for step, count in sorted(self.transitions.items(), key=_name)},
            "events": dict(sorted(self.events.items())),
            "transitions_missing": [shown(step) for step in missing(self.transitions)],
            "transitions_not_made": {shown(step): why for step, why in NOT_MADE.items()},
            "failing_seed": self.failed.plan.seed if self.failed else None,
            "violation": str(self.failed.violation) if self.failed else None,
            "smallest": described(self.smallest.plan) if self.smallest else None,
        }

    def told(self) -> list[str]:
        """What failed, as lines for people: the seed, the story of its delivery, and the smallest world found."""
        if self.failed is None or self.failed.violation is None:
            return []
        small = self.smallest or self.failed
        violation = small.violation or self.failed.violation
        return [
            f"seed {self.failed.plan.seed}: {self.failed.violation}",
            f"smallest world found: {described(small.plan)}",
            f"there, {violation}:",
            *small.story(),
        ]


def _name(item: tuple[Step, int]) -> str:
    return shown(item[0])


def simulate(seeds: Iterable[int], played: Callable[[Ended], None] | None = None, *, shrinks: bool = True) -> Report:
    """Play seeds in order, up to the first that fails. `played` hears of each world.

    Shrinking plays some hundred worlds more; without it `smallest` is the world that failed.
    """
    with ground() as place:
        return play_all(seeds, place.play, played, shrinks=shrinks)


def play_all(
    seeds: Iterable[int],
    play: Callable[[Plan], Ended],
    played: Callable[[Ended], None] | None = None,
    *,
    shrinks: bool = True,
) -> Report:
    """The same with worlds of the caller's: `play` runs a plan to its end."""
    report = Report()
    for seed in seeds:
        ended = play(draw(seed))
        report.add(ended)
        if played is not None:
            played(ended)
        if ended.violation is not None:
            report.failed = ended
            report.smallest = shrink(ended, play) if shrinks else ended
            break
    return report
