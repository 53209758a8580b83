"""What is said against what really is: the ledger's words, and what receivers accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duly.core.model import Outcome, Settlement
from duly.core.states import FINAL, State
from duly.sim.ledger import Change
from duly.sim.truth import DEFINITELY_NOT, OPERATOR, Checker, Complaint, Left, Taken, Truth

__all__ = ["AcceptanceWins", "DoubtIsNotForgotten", "NotSentHasNotLeft", "NotSentIsTrue", "SentIsTrue"]

#: Ends that say: it was not sent.
NOT_SENT: Final = frozenset(FINAL - {State.SENT, State.UNCONFIRMED})


class SentIsTrue(Checker):
    """Sent means that the receiver accepted it, or that an operator said so."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if after.state is not State.SENT or (before and before.state is State.SENT) or truth.of(after.id):
                continue
            if not any(row.delivery == after.id and row.actor == OPERATOR for row in change.events):
                yield Complaint(after.id, f"{change.call} says that it was sent, and its receiver never accepted it")


class NotSentIsTrue(Checker):
    """What was accepted is never said not to have been.

    Neither by a result of the attempt (rejected, refused, not sent, or covered by look-ups in vain), nor by
    the delivery's end. It may be sent, held, or unconfirmed. A delivery that was cancelled before it was
    due in the restored past has no row at all: nothing false is said about it. Where the receiver lied, its no
    is on record as it was given, and may end the delivery, until evidence comes: see AcceptanceWins.
    """

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.results:
            said = row.outcome if row.outcome in DEFINITELY_NOT else "not accepted" if row.covered else None
            if said is not None and row.outcome is not Outcome.ACCEPTED and truth.taken_as(row.id, row.number):
                yield Complaint(row.id, f"{change.call} says that attempt {row.number} was {said}; it was accepted")
        for _, after in change.moves:
            if after.state in NOT_SENT and truth.owned(after.id):
                yield Complaint(after.id, f"{change.call} ended it {after.state}; its receiver had accepted it")

    def taken(self, taken: Taken, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing = truth.ledger.standing.get(taken.delivery)
        if standing is not None and standing.state in NOT_SENT:
            yield Complaint(taken.delivery, f"its receiver accepted it after it had ended {standing.state}")

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in truth.ledger.standing.values():
            if row.state in NOT_SENT and truth.owned(row.id):
                yield Complaint(row.id, f"it ended {row.state}, and its receiver had accepted it")


class NotSentHasNotLeft(Checker):
    """What has left is never recorded as not sent, and what is recorded as not accepted is not accepted afterwards.

    NotSentIsTrue asks what was accepted by then. Here it is enough that the record might turn out wrong.
    """

    def __init__(self) -> None:
        self._left: set[tuple[bytes, int]] = set()

    def restored(self) -> None:
        """See Checker."""
        self._left.clear()

    def left(self, left: Left, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        self._left.add((left.delivery, left.number))
        yield from ()

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.results:
            if row.outcome is Outcome.NOT_SENT and (row.id, row.number) in self._left:
                yield Complaint(row.id, f"{change.call} says that attempt {row.number} was not sent; it had left")

    def taken(self, taken: Taken, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        outcome, covered = truth.ledger.results.get((taken.delivery, taken.number), (Outcome.UNKNOWN, 0))
        if outcome in DEFINITELY_NOT or (covered and outcome is Outcome.UNKNOWN):
            yield Complaint(taken.delivery, f"attempt {taken.number} was accepted; it was recorded as not accepted")


class AcceptanceWins(Checker):
    """Once the ledger was told of an acceptance, the delivery is sent, if it is there, whatever it was before.

    So what a receiver has lied about is corrected as soon as it reports the acceptance. How that is told is
    for EveryMoveIsExplained and FinalIsFinal.
    """

    def accepted(self, new: Settlement, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing = truth.ledger.standing.get(new.id)
        if standing is not None and standing.state is not State.SENT:
            yield Complaint(new.id, f"the ledger was told that it was accepted, and left it {standing.state}")


class DoubtIsNotForgotten(Checker):
    """A delivery does not end as not sent while an attempt of it is unknown and not covered."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if after.state not in NOT_SENT or (before and before.state in NOT_SENT):
                continue
            for number in range(1, after.attempts + 1):
                outcome, covered = truth.ledger.results.get((after.id, number), (Outcome.UNKNOWN, 0))
                if outcome is Outcome.UNKNOWN and not covered:
                    yield Complaint(after.id, f"{change.call} ended it {after.state}; attempt {number} is unknown")
