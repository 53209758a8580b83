"""What checkers are told and what they answer: the ledger, the truth beside it, and complaints.

A checker hears of every commit (`changed`), of every message that leaves (`left`), of every message that a
receiver takes (`taken`), of every settle that a worker asks for (`settling`), of every acceptance that the ledger
was told (`accepted`), and of the end of the world (`ended`). It answers with complaints. It knows the truth, which
the ledger does not: what receivers really accepted, what workers heard, and what people were promised.

After a restore the ledger begins another past: attempt numbers start again where the backup stood. So what is
said about attempts is said within one *era*, and what is said about deliveries holds across all of them.

A receiver may lie. An acceptance is *lied about* once its refusal is on record as its attempt's result: then
the ledger had every right to believe it, until evidence comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from duly.core.model import Outcome, Settlement
from duly.sim.facts import Facts, Occurrence
from duly.sim.ledger import Change, Ledger
from duly.sim.plan import draw
from duly.sim.scheduler import Incarnation

__all__ = [
    "DEFINITELY_NOT",
    "OPERATOR",
    "Checker",
    "Complaint",
    "Expected",
    "Heard",
    "Left",
    "Promised",
    "Settling",
    "Taken",
    "Truth",
    "Violation",
]

#: Who decides, in the name of people.
OPERATOR: Final = "operator"
#: Results that say: it was not accepted.
DEFINITELY_NOT: Final = frozenset({Outcome.REJECTED, Outcome.REFUSED, Outcome.NOT_SENT})


class Complaint(NamedTuple):
    """What is wrong, and with which delivery (None: with the ledger as a whole)."""

    delivery: bytes | None
    text: str


class Left(NamedTuple):
    """A message that left for a receiver."""

    delivery: bytes
    number: int
    body_hash: bytes
    latest_us: int  # until when its worker would have let it start, in the database's time
    timeout_us: int  # as long as it may be under way

    @property
    def ends_us(self) -> int:
        """When it would have ended, had it started at the last moment."""
        return self.latest_us + self.timeout_us


class Heard(NamedTuple):
    """A definite answer to an attempt that has reached its worker."""

    by: Incarnation
    delivery: bytes
    era: int
    number: int


class Taken(NamedTuple):
    """A message that a receiver accepted, under the attempt `number` of an era. Repeats that it drops are none."""

    delivery: bytes
    era: int
    number: int
    request_id: str
    denied: bool = False  # the receiver answers that it has not


class Settling(NamedTuple):
    """A worker's call that records outcomes."""

    by: Incarnation
    provider: str
    rows: Sequence[Settlement]


class Promised(NamedTuple):
    """A reminder's next occurrence, as somebody was told that it was moved."""

    era: int
    due_at: int


class Expected(NamedTuple):
    """A delivery that must exist in the end: of which reminder it is, and for what."""

    reminder: bytes
    why: str
    revised: bool = False  # somebody was told that it comes in the place of another one


@dataclass(slots=True)
class Truth:
    """What really is: the ledger as it is committed, what receivers accepted, and what people asked for."""

    ledger: Ledger
    facts: Facts = field(default_factory=lambda: Facts(draw(0)))  # what was asked for and committed
    taken: dict[bytes, list[Taken]] = field(default_factory=dict)
    era: int = 0
    names_message: Callable[[str], bool] = lambda _: True
    keyed_for_us: Callable[[str], int | None] = lambda _: None  # for how long a provider drops repeats
    heard: list[Heard] = field(default_factory=list)
    promised: dict[bytes, Promised] = field(default_factory=dict)  # what reminders were last moved to
    may_resend: Callable[[bytes], bool] = lambda _: False  # whether a policy lets this delivery be sent again in doubt
    expected: dict[bytes, Expected] = field(default_factory=dict)  # deliveries that must exist in the end

    def expect_instead(self, reminder: bytes, deliveries: Mapping[bytes, str]) -> None:
        """A reminder was revised: these come in the place of what has not come yet."""
        self._forget(lambda one, wanted: wanted.reminder == reminder and one not in self.ledger.standing)
        self.expected |= {one: Expected(reminder, why, revised=True) for one, why in deliveries.items()}

    def absent(self) -> Iterator[tuple[bytes, Expected]]:
        """What must exist in the end and does not yet. Of a cancelled reminder nothing has to."""
        for delivery, wanted in self.expected.items():
            if delivery not in self.ledger.standing and wanted.reminder not in self.facts.now.cancelled:
                yield delivery, wanted

    def expect_no_revision(self) -> None:
        """What was revised may be forgotten, and is asked for again."""
        self._forget(lambda _, wanted: wanted.revised)

    def _forget(self, which: Callable[[bytes, Expected], bool]) -> None:
        self.expected = {one: wanted for one, wanted in self.expected.items() if not which(one, wanted)}

    def occurrence(self, delivery: bytes) -> Occurrence | None:
        """What a delivery is for; None if it is not there, or no schedule names it."""
        standing = self.ledger.standing.get(delivery)
        return None if standing is None else self.facts.occurrence(delivery, standing.reminder)

    def of(self, delivery: bytes) -> list[Taken]:
        """What was accepted of a delivery, whenever."""
        return self.taken.get(delivery, [])

    def owned(self, delivery: bytes) -> list[Taken]:
        """What was accepted of it and not lied about: what the ledger is to be judged by."""
        return [one for one in self.of(delivery) if not self._is_lied_about(one)]

    def _is_lied_about(self, one: Taken) -> bool:
        outcome, _ = self.ledger.results.get((one.delivery, one.number), (None, 0))
        return one.denied and outcome in DEFINITELY_NOT

    def unrecorded(self) -> Iterator[Heard]:
        """Definite answers that a worker has heard who lives, and that are not on record."""
        for one in self.heard:
            outcome, _ = self.ledger.results.get((one.delivery, one.number), (Outcome.UNKNOWN, 0))
            if one.by.alive and one.era == self.era and outcome is Outcome.UNKNOWN:
                yield one

    def twice(self, delivery: bytes) -> bool:
        """Whether it was accepted more than once."""
        return len(self.of(delivery)) > 1

    def taken_as(self, delivery: bytes, number: int) -> bool:
        """Whether that attempt of this era was accepted, and not lied about."""
        return any((one.era, one.number) == (self.era, number) for one in self.owned(delivery))


class Violation(Exception):
    """A checker has said no."""

    def __init__(self, checker: str, complaint: Complaint) -> None:
        super().__init__(f"{checker}: {complaint.text}")
        self.checker, self.complaint = checker, complaint


class Checker:
    """Base: complains about nothing."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """After a commit."""
        yield from ()

    def left(self, left: Left, truth: Truth) -> Iterator[Complaint]:
        """When a message leaves."""
        yield from ()

    def taken(self, taken: Taken, truth: Truth) -> Iterator[Complaint]:
        """When a receiver has accepted a message; `truth` holds it already."""
        yield from ()

    def accepted(self, new: Settlement, truth: Truth) -> Iterator[Complaint]:
        """When the ledger has answered to a settlement that says: accepted."""
        yield from ()

    def settling(self, settling: Settling, truth: Truth) -> Iterator[Complaint]:
        """When a worker has asked to settle, whether it was answered or not."""
        yield from ()

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """When all is over."""
        yield from ()

    def restored(self) -> None:
        """The ledger has another past."""
