"""Chance, all of it from one seed.

Each part of a world draws from a stream of its own, named after it. So a world that is made smaller keeps
what it does not touch: a receiver's moods do not change because a worker is gone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Chance"]

T = TypeVar("T")


class Chance:
    """A stream of chance; also ports.Dice. Seeded by a text, so no order of hashes comes into it."""

    def __init__(self, seed: int, stream: str) -> None:
        self._random = random.Random(f"{seed}/{stream}")
        self.roll = self._random.random  #: a number in [0, 1)

    def happens(self, probability: float) -> bool:
        """Whether it happens this time."""
        return self.roll() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, each as likely as the others."""
        return choices[int(self.roll() * len(choices))]

    def some(self, choices: Sequence[T], probability: float) -> list[T]:
        """Each of the choices with that probability, in their order."""
        return [one for one in choices if self.happens(probability)]

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.roll() * (high - low + 1))

    def between(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + self.roll() * (high - low)

    def spread(self, low: float, high: float) -> float:
        """A number in [low, high) of which every magnitude is as likely: milliseconds as well as hours."""
        return float(low * (high / low) ** self.roll())
