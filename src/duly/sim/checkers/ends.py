"""What there is when all is over."""

from __future__ import annotations

from collections.abc import Iterator

from duly.core import keys
from duly.core.states import FINAL
from duly.sim.truth import Checker, Complaint, Truth

__all__ = ["NothingIsLost"]


class NothingIsLost(Checker):
    """Every occurrence that was due has its delivery, and every delivery has come to its end."""

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for delivery, wanted in truth.absent():
            yield Complaint(delivery, f"there is no delivery for {wanted.why}")
        stuck = [row for row in truth.ledger.standing.values() if row.state not in FINAL]
        if stuck:
            rows = ", ".join(f"{keys.show(row.id)} {row.state} ({row.reason})" for row in stuck)
            yield Complaint(stuck[0].id, f"not everything came to its end: {rows}")
