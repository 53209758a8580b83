"""The judge: tells every checker what has happened, and ends the world at the first complaint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from duly.core.model import Outcome, Settlement
from duly.core.states import State
from duly.sim.checkers import CHECKERS
from duly.sim.ledger import Change
from duly.sim.truth import Checker, Complaint, Left, Promised, Settling, Taken, Truth, Violation

__all__ = ["Judge"]


class Judge:
    """All checkers, and the truth that they are told of. Each method raises Violation."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self._checkers: list[Checker] = [kind() for kind in CHECKERS]

    def changed(self, change: Change) -> None:
        """After a commit."""
        for _, after in change.moves:
            if after.state is State.LEASED:
                self.truth.facts.claimed_us[after.id] = change.at_us
        self._ask(lambda checker: checker.changed(change, self.truth))

    def left(self, left: Left) -> None:
        """When a message leaves."""
        self.truth.facts.now.left.add((left.delivery, left.number))
        self._ask(lambda checker: checker.left(left, self.truth))

    def taken(self, taken: Taken) -> None:
        """When a receiver has accepted a message."""
        self.truth.taken.setdefault(taken.delivery, []).append(taken)
        self._ask(lambda checker: checker.taken(taken, self.truth))

    def settling(self, settling: Settling) -> None:
        """When a worker has asked to settle, whether it was answered or not."""
        self._ask(lambda checker: checker.settling(settling, self.truth))

    def moved(self, reminder: bytes, due_at: int) -> None:
        """When somebody was told that a reminder's next occurrence was moved."""
        self.truth.promised[reminder] = Promised(self.truth.era, due_at)

    def settled(self, new: Settlement) -> None:
        """When the ledger has answered to a settlement."""
        if new.result.outcome is Outcome.ACCEPTED:
            self._ask(lambda checker: checker.accepted(new, self.truth))

    def ended(self) -> None:
        """When all is over."""
        self._ask(lambda checker: checker.ended(self.truth))

    def restored(self) -> None:
        """The ledger has another past: an era begins."""
        self.truth.era += 1
        self.truth.expect_no_revision()
        self.truth.facts.put_back()
        for checker in self._checkers:
            checker.restored()

    def _ask(self, question: Callable[[Checker], Iterator[Complaint]]) -> None:
        for checker in self._checkers:
            for complaint in question(checker):
                raise Violation(type(checker).__name__, complaint)
