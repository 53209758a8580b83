"""What is accepted twice: never without a grant, and never without a note."""

from __future__ import annotations

from collections.abc import Iterator

from duly.core.model import Settlement
from duly.sim.ledger import Change, Standing
from duly.sim.truth import OPERATOR, Checker, Complaint, Taken, Truth

__all__ = ["DoublesAreNoted", "NothingTwice"]


class NothingTwice(Checker):
    """No delivery is accepted a second time, unless a policy, a hold's end or an operator granted that resend.

    The receiver itself drops repeats within its key window, so a second acceptance means that we asked too
    late, or without having looked. A grant is read from the ledger: the row carried it when the attempt
    began, and a policy or an operator's event stands behind it. After a receiver's lie the next attempt needs no
    grant, for the ledger has a definite no of the one before.
    """

    def __init__(self) -> None:
        self._granted: set[tuple[int, bytes, int]] = set()

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if before and before.granted and after.attempts > before.attempts:
                self._granted.add((truth.era, after.id, after.attempts))
            if after.granted and not (before and before.granted):
                yield from self._ask_for_grant(after, change, truth)

    def _ask_for_grant(self, after: Standing, change: Change, truth: Truth) -> Iterator[Complaint]:
        by_operator = any(row.delivery == after.id and row.actor == OPERATOR for row in change.events)
        if not by_operator and not truth.may_resend(after.reminder):
            yield Complaint(after.id, f"{change.call} granted a resend that no policy and no operator allows")

    def taken(self, taken: Taken, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        if len(truth.owned(taken.delivery)) > 1 and (taken.era, taken.delivery, taken.number) not in self._granted:
            yield Complaint(taken.delivery, f"its receiver accepted it a second time, as attempt {taken.number}")


class DoublesAreNoted(Checker):
    """Two names for one delivery are noted as a double acceptance, where names name messages; and only then.

    So is the name of an acceptance that a receiver had denied, where another one made the delivery sent.
    """

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.events:
            if row.kind == "double_acceptance" and row.delivery is not None and not truth.twice(row.delivery):
                yield Complaint(row.delivery, "a double acceptance was noted; its receiver accepted it once")

    def accepted(self, new: Settlement, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing, second = truth.ledger.standing.get(new.id), new.result.request_id
        if standing is None or not new.named or second is None or standing.request_id in (None, second):
            return
        notes = [row for row in truth.ledger.events if (row.delivery, row.kind) == (new.id, "double_acceptance")]
        if not any(f'"{second}"' in (row.evidence or "") for row in notes):
            yield Complaint(new.id, f"it is sent as {standing.request_id}, and nobody noted that it is also {second}")

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        noted = {row.delivery for row in truth.ledger.events if row.kind == "double_acceptance"}
        for delivery, names in truth.ledger.accepted_names().items():
            standing = truth.ledger.standing.get(delivery)
            if standing is None or len(names) == 1 or delivery in noted:
                continue
            if truth.names_message(standing.provider):
                yield Complaint(delivery, f"it was accepted as {' and '.join(sorted(names))}, and nobody noted it")
