"""Messages of a world: its receivers, and whoever has to hear what leaves, arrives, is answered and accepted."""

from __future__ import annotations

from dataclasses import dataclass

from duly.core import keys
from duly.core.model import Capabilities
from duly.ports import Answer, HttpRequest
from duly.sim.chance import Chance
from duly.sim.clocks import SECOND_US, Time
from duly.sim.faults import Faults
from duly.sim.history import History
from duly.sim.judge import Judge
from duly.sim.network import Bound
from duly.sim.plan import Feature, Plan, ProviderPlan
from duly.sim.post import Postman
from duly.sim.receivers import Accepted, Receiver
from duly.sim.scheduler import Incarnation
from duly.sim.truth import Heard, Left, Taken, Truth

__all__ = ["Messages", "kept_us"]

#: Answers that prove nothing: none at all, and a receiver that broke.
OPEN_ANSWERS: frozenset[int | None] = frozenset({None, 500})


@dataclass(slots=True)
class Messages:
    """Listens to the network and to receivers, and tells the history, the judge, and the postman."""

    plan: Plan
    time: Time
    faults: Faults
    history: History
    judge: Judge
    postman: Postman

    def receiver(self, one: ProviderPlan) -> Receiver:
        """A receiver that keeps what it declared, or what the plan says that it keeps."""
        refuses = frozenset(f"{recipient}@{one.channel}" for recipient in self.plan.refused)
        return Receiver(
            one.name,
            one.keeps or one.promise,
            self.time,
            self.faults,
            Chance(self.plan.seed, f"receiver {one.name}"),
            self._taken,
            refuses,
            self.plan.has(Feature.LIES),
        )

    def left(self, life: Incarnation, provider: str, content: HttpRequest, bound: Bound) -> None:
        """A message leaves."""
        delivery, number = _attempt(content)
        left = Left(delivery, number, keys.payload_hash(content.body), *bound)
        self.history.add(self.time.us, life.name, f"a request leaves for {provider}", left)
        self.judge.left(left)

    def answered(self, life: Incarnation, content: HttpRequest, answer: Answer) -> None:
        """An answer has reached its worker. In the calm after the faults the end may come before it is written."""
        self.history.add(self.time.us, life.name, "an answer arrives", content, answer)
        if content.method != "GET" and self.faults.on and answer.status not in OPEN_ANSWERS:
            delivery, number = _attempt(content)
            self._truth.heard.append(Heard(life, delivery, self._truth.era, number))

    def _taken(self, receiver: Receiver, accepted: Accepted) -> None:
        asked = accepted.asked
        taken = Taken(_delivery(asked.key), self._truth.era, asked.number, accepted.request_id, accepted.denied)
        self.history.add(self.time.us, receiver.name, "accepts it", taken)
        self.postman.expect(receiver, taken)
        self.judge.taken(taken)

    @property
    def _truth(self) -> Truth:
        return self.judge.truth


def kept_us(promise: Capabilities) -> int | None:
    """For how long the receivers of a provider drop repeats, in microseconds; None if they do not."""
    kept = promise.keyed_for
    return None if kept is None else round(kept.total_seconds() * SECOND_US)


def _attempt(content: HttpRequest) -> tuple[bytes, int]:
    headers = dict(content.headers)
    return _delivery(headers["idempotency-key"]), int(headers["attempt"])


def _delivery(key: str) -> bytes:
    found = keys.parse(key)
    if found is None:
        raise ValueError(f"{key!r} is no delivery's key")
    return found
