"""A turn alone: what may have killed its workers is claimed by a process that holds nothing else, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from duly.runtime.alone import BETWEEN_TURNS_SECONDS, TURN_SECONDS, Turns
from duly.testing.clock import SimulatedClock


class YieldingClock(SimulatedClock):
    """Each sleep lets the others have their turn."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        await super().sleep(seconds)


class Plant:
    """A process with something in hand, and suspects in its ledger."""

    def __init__(self, alone: dict[str, int], busy: int = 0) -> None:
        self.alone, self.busy = alone, busy
        self.leaving = False
        self.claimed: list[str] = []
        self.seen_open: list[bool] = []
        self.clock = YieldingClock()
        self.turns = Turns(self.clock, self.idle, lambda: self.leaving)

    def idle(self) -> bool:
        """Each look finishes one thing that was in hand; then a provider whose turn it is claims."""
        self.seen_open.append(not self.turns.closed)
        if self.busy:
            self.busy -= 1
            return False
        return True

    def claim(self, provider: str) -> None:
        if self.turns.take(provider):
            self.claimed.append(provider)
            self.alone[provider] -= 1
            self.busy = 3

    async def suspects(self) -> Sequence[tuple[str, int]]:
        return [("mail", 1), *((provider, 3) for provider, rows in self.alone.items() if rows)]

    def run(self) -> float:
        async def both() -> float:
            turn = asyncio.ensure_future(self.turns.run(self.suspects))
            while not turn.done():
                for provider in self.alone:
                    self.claim(provider)
                await asyncio.sleep(0)
            return await turn

        return asyncio.run(both())


def test_without_suspects_nothing_is_closed() -> None:
    """Nor is anything asked of the process."""
    plant = Plant({"hooks": 0})
    assert plant.run() == BETWEEN_TURNS_SECONDS
    assert plant.seen_open == []


def test_each_suspect_is_claimed_once_while_nothing_else_is() -> None:
    """What was in hand is finished first; afterwards everybody may claim again."""
    plant = Plant({"hooks": 2, "mail": 1}, busy=5)
    plant.run()
    assert sorted(plant.claimed) == ["hooks", "hooks", "mail"]
    assert not any(plant.seen_open)
    assert not plant.turns.closed
    assert not plant.turns.take("hooks")


def test_a_turn_ends_although_suspects_remain() -> None:
    """The pause after it is as long as the turn was, so half of the time is everybody's."""
    plant = Plant({"hooks": 100_000})
    pause = plant.run()
    assert TURN_SECONDS <= pause < TURN_SECONDS + 1.0
    assert plant.alone["hooks"] > 0


def test_a_worker_that_leaves_waits_for_no_turn() -> None:
    """A stop ends the turn, and opens the doors again."""
    plant = Plant({"hooks": 5}, busy=1_000)
    plant.leaving = True
    plant.run()
    assert plant.claimed == []
    assert not plant.turns.closed
