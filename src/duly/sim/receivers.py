"""Receivers: they keep exactly what they declare, and are bad company in everything else.

A receiver remembers what it was asked and what it accepted: what it *truly* did, which the ledger has to
find out. It drops a repeat within its key window, shows what it accepted to look-ups once its settling time
is over (or before, as it likes), reports each acceptance where it echoes keys, and never says no to what it
has taken, except by an answer that proves nothing. In worlds with lies it breaks that last promise now and
then: it takes a message, and its answer is a definite no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from duly.core.keys import payload_hash
from duly.core.model import Capabilities, LookKind
from duly.ports import Answer, HttpRequest
from duly.sim.chance import Chance
from duly.sim.clocks import SECOND_US, Time
from duly.sim.faults import Faults, Kind

__all__ = ["STORM_PART", "STORM_SECONDS", "Accepted", "Asked", "Receiver", "Visit"]

STORM_SECONDS: Final = (1.0, 600.0)
#: How often a trouble stays for a while.
STORM_PART: Final = 0.3
RETRY_AFTER_SECONDS: Final = (1.0, 900.0)

MOODS: Final = (
    Kind.TOO_MANY,
    Kind.CLOSED_FOR_NOW,
    Kind.BROKEN,
    Kind.WRONG_SECRET,
    Kind.WRONG_ADDRESS,
    Kind.REJECTS,
    Kind.CUT_AFTER_ACCEPTING,
)
#: The words of a lie: each is a definite no.
DENIALS: Final = (Kind.REJECTS, Kind.TOO_MANY, Kind.WRONG_SECRET, Kind.CLOSED_FOR_NOW)
#: Moods that refuse, and how they answer.
_STATUS: Final = {
    Kind.TOO_MANY: 429,
    Kind.CLOSED_FOR_NOW: 503,
    Kind.WRONG_SECRET: 401,
    Kind.WRONG_ADDRESS: 404,
    Kind.REJECTS: 410,
}


class Asked(NamedTuple):
    """A request that reached the receiver."""

    key: str
    number: int  # of the attempt, as our own header says
    body_hash: bytes
    destination: str


class Accepted(NamedTuple):
    """A message that it took. A repeat that it dropped is none."""

    at_us: int
    seen_us: int  # from when on look-ups show it
    asked: Asked
    request_id: str
    denied: bool = False  # its answer is a lie


class Visit(NamedTuple):
    """What came of one request: the answer, whether the line is cut instead, and what was taken."""

    answer: Answer
    cut: bool = False
    accepted: Accepted | None = None


@dataclass(slots=True)
class Receiver:
    """One provider's other side. `told` hears of each acceptance."""

    name: str
    promise: Capabilities
    time: Time
    faults: Faults
    chance: Chance
    told: Callable[[Receiver, Accepted], None]
    refuses: frozenset[str] = frozenset()  # destinations that it rejects for good
    lies: bool = False
    accepted: list[Accepted] = field(default_factory=list)
    storm: Kind | None = None
    storm_until_us: int = 0

    def of(self, key: str) -> list[Accepted]:
        """What it accepted under a key, in order."""
        return [one for one in self.accepted if one.asked.key == key]

    # --- messages --------------------------------------------------------------------------------

    def receive(self, request: HttpRequest) -> Visit:
        """Take a message, or do not."""
        headers = dict(request.headers)
        asked = Asked(
            headers["idempotency-key"], int(headers["attempt"]), payload_hash(request.body), headers["destination"]
        )
        mood = self._mood()
        refusal = self._refusal(mood, asked)
        if refusal is not None:
            return Visit(refusal)
        if mood is Kind.BROKEN and self.chance.happens(0.5):
            return Visit(self._broken(None))
        return self._take(asked, mood)

    def _take(self, asked: Asked, mood: Kind | None) -> Visit:
        before = self._repeated(asked)
        if before is None:
            denied = self.lies and self.faults.strikes(Kind.LIE)
            taken = self._accept(asked, denied=denied)
        elif before.asked.body_hash != asked.body_hash:
            return Visit(Answer(409, body=b"same key, other body"))
        else:
            taken = before
        new = taken if before is None else None
        if new is not None and new.denied:
            return Visit(self._no(self.chance.pick(DENIALS)), accepted=new)
        if mood is Kind.BROKEN:
            return Visit(self._broken(taken), accepted=new)
        return Visit(Answer(200, self._name(taken)), mood is Kind.CUT_AFTER_ACCEPTING, new)

    def _repeated(self, asked: Asked) -> Accepted | None:
        """The acceptance that makes this a repeat, as far back as it promises to remember."""
        if self.promise.keyed_for is None:
            return None
        oldest = self.time.us - self.promise.keyed_for.total_seconds() * SECOND_US
        return next((one for one in reversed(self.of(asked.key)) if one.at_us >= oldest), None)

    def _accept(self, asked: Asked, *, denied: bool) -> Accepted:
        settling = self.promise.settling.total_seconds() if self.promise.settling else 0.0
        seen_us = self.time.after(settling * self.chance.roll())
        taken = Accepted(self.time.us, seen_us, asked, f"{self.name}-{len(self.accepted) + 1}", denied)
        self.accepted.append(taken)
        self.told(self, taken)
        return taken

    def _name(self, taken: Accepted) -> Mapping[str, str]:
        """Its name for the message; where ids name requests only, a new one each time."""
        if self.promise.names_message:
            return {"x-request-id": taken.request_id}
        return {"x-request-id": f"request-{self.chance.number(1, 1_000_000)}"}

    # --- moods -----------------------------------------------------------------------------------

    def _mood(self) -> Kind | None:
        if self.faults.on and self.storm is not None and self.time.us < self.storm_until_us:
            self.faults.counts[self.storm] += 1
            return self.storm
        mood = self.faults.first(MOODS)
        if mood is not None and mood is not Kind.REJECTS and self.chance.happens(STORM_PART):
            self.storm, self.storm_until_us = mood, self.time.after(self.chance.spread(*STORM_SECONDS))
        return mood

    def _refusal(self, mood: Kind | None, asked: Asked) -> Answer | None:
        """A definite no: it has not taken this request, whatever it may have taken before."""
        if asked.destination in self.refuses:
            return Answer(410)
        return self._no(mood) if mood in _STATUS else None

    def _no(self, mood: Kind) -> Answer:
        waits = mood is Kind.CLOSED_FOR_NOW or (mood is Kind.TOO_MANY and self.chance.happens(0.5))
        return Answer(_STATUS[mood], self._retry_after() if waits else {})

    def _retry_after(self) -> Mapping[str, str]:
        return {"retry-after": str(round(self.chance.spread(*RETRY_AFTER_SECONDS)))}

    def _broken(self, taken: Accepted | None) -> Answer:
        """An answer that proves nothing. Sometimes it brings a name all the same, also for what was not taken."""
        if not self.promise.lookup_by_id or self.chance.happens(0.3):
            return Answer(500)
        return Answer(500, {"x-request-id": taken.request_id if taken else f"{self.name}-none"})

    # --- look-ups --------------------------------------------------------------------------------

    def look(self, request: HttpRequest) -> Answer:
        """Say whether it has what it is asked for."""
        if self.faults.strikes(Kind.LOOK_FAILS):
            return Answer(self.chance.pick((500, 429, 401)))
        headers = dict(request.headers)
        by, value, destination = LookKind(headers["by"]), headers["value"], headers["destination"]
        found = next((one for one in self.accepted if self._shows(one) and _matches(one, by, value, destination)), None)
        return Answer(404) if found is None else Answer(200, self._name(found))

    def _shows(self, one: Accepted) -> bool:
        return one.seen_us <= self.time.us


def _matches(one: Accepted, by: LookKind, value: str, destination: str) -> bool:
    match by:
        case LookKind.KEY:
            return one.asked.key == value
        case LookKind.REQUEST_ID:
            return one.request_id == value
        case LookKind.SEARCH:
            return one.asked.body_hash.hex() == value and one.asked.destination == destination
