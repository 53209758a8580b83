"""What begins: attempts as they are written, and their results."""

from __future__ import annotations

from collections.abc import Iterator

from duly.core.model import Outcome
from duly.sim.checkers.doubts import unknown_before
from duly.sim.ledger import Change
from duly.sim.truth import Checker, Complaint, Truth

__all__ = ["AttemptsAreNumbered", "DoubtBindsBytes", "NoBeginWhereForbidden", "ResultsStand"]


class NoBeginWhereForbidden(Checker):
    """No attempt begins after the deadline, after a cancel or an opt-out that committed before, or under a guard."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.attempts:
            deadline = truth.ledger.standing[row.id].deadline_at
            if row.started_at >= deadline:
                yield Complaint(row.id, f"attempt {row.number} began after its deadline")
            if row.id in change.forbidden:
                yield Complaint(row.id, f"attempt {row.number} began although it was {change.forbidden[row.id]}")
            if change.guarded:
                yield Complaint(row.id, f"attempt {row.number} began while a restore guard was open")


class AttemptsAreNumbered(Checker):
    """Attempts are numbered without a gap, and no number is given twice."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.attempts:
            if row.number > 1 and (row.id, row.number - 1) not in truth.ledger.attempts:
                yield Complaint(row.id, f"attempt {row.number} was written, and none before it")
            if truth.ledger.standing[row.id].attempts != row.number:
                yield Complaint(row.id, f"attempt {row.number} was written, and its delivery does not count it")


class DoubtBindsBytes(Checker):
    """While an attempt may have been accepted, the next one repeats its bytes."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.attempts:
            doubted = next(unknown_before(row.number, row.id, truth.ledger), None)
            if doubted is not None and doubted.payload_hash != row.payload_hash:
                yield Complaint(
                    row.id, f"attempt {row.number} has other bytes than {doubted.number}, which is in doubt"
                )


class ResultsStand(Checker):
    """A result goes from none or unknown to a definite one, never otherwise."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.results:
            if row.before not in (None, Outcome.UNKNOWN) and row.before is not row.outcome:
                yield Complaint(row.id, f"attempt {row.number} went from {row.before} to {row.outcome}")
