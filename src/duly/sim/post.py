"""The post: what receivers report by themselves, echoes and receipts, and who brings it.

An echo comes within its promised time, a receipt as it likes, and sometimes not at all. But what a receiver
has denied it always reports: without that nobody could know better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from duly.flows.evidence import Acceptance, accept
from duly.ports import Settled, Store
from duly.sim.asking import until_answered
from duly.sim.chance import Chance
from duly.sim.receivers import Receiver
from duly.sim.scheduler import Incarnation, Scheduler
from duly.sim.truth import Taken
from duly.sim.turns import Turn

__all__ = ["POSTMAN", "Postman"]

POSTMAN: Final = "postman"
ECHO_PART: Final = 0.9
RECEIPT_SECONDS: Final = (1.0, 86400.0)
LETTER_SECONDS: Final = (1.0, 3600.0)
DELIVERIES_OF_LETTER_MAX: Final = 5


@dataclass(slots=True)
class Postman:
    """Brings what receivers report.

    A report is brought until it is recorded. One about a delivery that is not there is brought again later, a
    few times, as providers do with what is not answered well: after a restore it may come before its delivery.
    """

    store: Store
    scheduler: Scheduler
    life: Incarnation
    chance: Chance
    receipts: bool  # whether receivers send any
    corrections: int = 0  # reports of what was denied, which have yet to set out

    def expect(self, receiver: Receiver, taken: Taken) -> None:
        """Let a receiver report what it has taken, some time from now, if it does."""
        seconds = self._after(receiver, taken)
        if seconds is not None:
            self.corrections += taken.denied
            self.scheduler.at(self.scheduler.time.after(seconds), lambda: self._set_out(receiver, taken))

    def _after(self, receiver: Receiver, taken: Taken) -> float | None:
        """In how many seconds the report comes; None if there is none."""
        chance, promise = receiver.chance, receiver.promise
        if promise.echoes_key and promise.echo_within is not None:
            return promise.echo_within.total_seconds() * chance.between(0.0, ECHO_PART)
        if taken.denied or (self.receipts and chance.happens(0.5)):
            return chance.spread(*RECEIPT_SECONDS)
        return None

    def _set_out(self, receiver: Receiver, taken: Taken) -> None:
        self.corrections -= taken.denied
        named, now = receiver.promise.names_message, self.scheduler.time.now()
        letter = Acceptance(taken.delivery, taken.number, now, "reported", taken.request_id, named)
        self.scheduler.start(self.life, POSTMAN, self._deliver(receiver.name, letter))

    async def _deliver(self, provider: str, letter: Acceptance) -> None:
        for _ in range(DELIVERIES_OF_LETTER_MAX):
            if await self._bring(provider, letter):
                return
            await Turn("again", self.scheduler.time.after(self.chance.spread(*LETTER_SECONDS)))

    async def _bring(self, provider: str, letter: Acceptance) -> bool:
        """Whether it was recorded."""
        said: list[Settled] = []

        async def wish() -> None:
            said.append(await accept(self.store, provider, [letter]))

        await until_answered(self.scheduler.time, self.chance, wish)
        return letter.delivery in said[-1].moved
