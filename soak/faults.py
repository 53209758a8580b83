"""What goes wrong, and when: drawn from the seed before anything starts."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["Fault", "FaultKind", "draw"]

TICKS_PERCENT: Final = 15
AMBUSHES_PERCENT: Final = 50
DRAINS_OF_KILLS_PERCENT: Final = 10
#: How long the database stays away, seconds.
AWAY_SECONDS: Final = (0.1, 2.0)
#: How long a worker stands still, seconds: shorter and longer than a lease.
FROZEN_SECONDS: Final = (1.0, 12.0)


class FaultKind(StrEnum):
    """What is done."""

    KILL_WORKER = "kill -9 of a worker"
    AMBUSH = "kill -9 of every worker, as soon as requests are under way"
    KILL_TICK = "kill -9 of a tick"
    DRAIN_WORKER = "SIGTERM to a worker"
    FREEZE_WORKER = "SIGSTOP to a worker"
    CRASH = "database stopped at once"
    DISCONNECT = "database stopped, all disconnected"


class Fault(NamedTuple):
    """One of them. `at`: seconds from the beginning; `choice`: 0 to 1, which of several it meets."""

    at: float
    kind: FaultKind
    choice: float = 0.0
    lasts: float = 0.0  # seconds until it is mended: the database starts, the worker goes on


def draw(dice: random.Random, seconds: float, kills: int, restarts: int, freezes: int = 0) -> list[Fault]:
    """A schedule, in order. Stops of the database alternate."""
    faults = [_kill(dice, seconds) for _ in range(kills)]
    drains = -(-kills * DRAINS_OF_KILLS_PERCENT // 100)
    faults += [Fault(dice.uniform(0, seconds), FaultKind.DRAIN_WORKER, dice.random()) for _ in range(drains)]
    for _ in range(freezes):
        faults.append(_freeze(dice, seconds))
    for number in range(restarts):
        faults.append(_restart(dice, seconds / restarts, number))
    return sorted(faults)


def _kill(dice: random.Random, seconds: float) -> Fault:
    roll = dice.uniform(0, 100)
    if roll < TICKS_PERCENT:
        kind = FaultKind.KILL_TICK
    else:
        kind = FaultKind.AMBUSH if roll < TICKS_PERCENT + AMBUSHES_PERCENT else FaultKind.KILL_WORKER
    return Fault(dice.uniform(0, seconds), kind, dice.random())


def _freeze(dice: random.Random, seconds: float) -> Fault:
    return Fault(dice.uniform(0, seconds), FaultKind.FREEZE_WORKER, dice.random(), dice.uniform(*FROZEN_SECONDS))


def _restart(dice: random.Random, span: float, number: int) -> Fault:
    """Stopped within its own span of the run."""
    kind = FaultKind.DISCONNECT if number % 2 else FaultKind.CRASH
    return Fault(number * span + dice.uniform(0, span), kind, lasts=dice.uniform(*AWAY_SECONDS))
