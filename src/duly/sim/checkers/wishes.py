"""What people have asked for, and were told that it was done."""

from __future__ import annotations

from collections.abc import Iterator

from duly.sim.ledger import Change
from duly.sim.truth import Checker, Complaint, Truth

__all__ = ["ChangesAreKept"]


class ChangesAreKept(Checker):
    """What was rescheduled becomes a delivery of its new moment: no tick that had seen the old one overwrites it."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            promised = truth.promised.get(after.reminder)
            if (
                before is None
                and promised is not None
                and promised.era == truth.era
                and after.due_at != promised.due_at
            ):
                yield Complaint(after.id, f"{change.call} wrote it for a moment from which it had been moved")
