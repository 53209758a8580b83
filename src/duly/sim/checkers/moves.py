"""How deliveries move: by the table, with an explanation, out of a final state only by evidence, under a fence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duly.core.states import FINAL, TRANSITIONS, State
from duly.sim.ledger import Change
from duly.sim.truth import Checker, Complaint, Truth

__all__ = ["EveryMoveIsExplained", "EveryMoveIsInTheTable", "FinalIsFinal", "WritesAreFenced"]


class EveryMoveIsInTheTable(Checker):
    """Deliveries move only as the table of transitions says."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            origin = before.state if before else None
            if origin is not after.state and after.state not in TRANSITIONS[origin]:
                yield Complaint(after.id, f"{change.call} moved it from {origin or 'nothing'} to {after.state}")


class EveryMoveIsExplained(Checker):
    """A move leaves a result or an event in the same commit.

    Not so the everyday ones, which attempts and leases tell by themselves; nor a delivery that is written as
    expired or skipped, for its own row holds the reason.
    """

    EVERYDAY: Final = frozenset(
        {
            (None, State.READY),
            (None, State.EXPIRED),
            (None, State.SKIPPED),
            (State.READY, State.LEASED),
            (State.LEASED, State.SENDING),
            (State.LEASED, State.READY),
            (State.LEASED, State.WAITING),
            (State.WAITING, State.READY),
        }
    )

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            origin = before.state if before else None
            if origin is after.state:
                continue
            if (origin, after.state) not in self.EVERYDAY and not change.explained(after.id):
                yield Complaint(after.id, f"nothing tells why {change.call} moved it from {origin} to {after.state}")
            if after.state in FINAL and not after.reason:
                yield Complaint(after.id, f"{change.call} ended it {after.state} for no reason")


class FinalIsFinal(Checker):
    """Nothing but acceptance evidence or a recorded decision leaves a final state."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if before is None or before.state not in FINAL or before.state is after.state:
                continue
            kinds = {row.kind for row in change.events if row.delivery == after.id}
            wanted = "corrected" if after.state is State.SENT else "redriven"
            if wanted not in kinds:
                yield Complaint(after.id, f"{change.call} took it out of {before.state} without an event {wanted!r}")


class WritesAreFenced(Checker):
    """A call moves a delivery only under the fence that its caller names; acceptance needs none."""

    CALLS: Final = frozenset({"begin", "settle", "decide", "looked", "abandon", "renew"})

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        if change.call not in self.CALLS:
            return
        named = _named_fences(change)
        for before, after in change.moves:
            fences = named.get(after.id)
            if before is None or fences is None or after.state is State.SENT or before.fence in fences:
                continue
            yield Complaint(after.id, f"{change.call} moved it under fence {before.fence}, for {sorted(fences)}")


def _named_fences(change: Change) -> dict[bytes, set[int]]:
    """The fences that the call was given for each delivery: its rows begin with a delivery and a fence."""
    named: dict[bytes, set[int]] = {}
    for rows in change.arguments:
        for row in rows if isinstance(rows, list | tuple) else ():
            match row:
                case (bytes() as delivery, int() as fence, *_):
                    named.setdefault(delivery, set()).add(fence)
    return named
