"""Which rows of the table of transitions a simulation can reach, and why it cannot reach the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from duly.core.states import TRANSITIONS, State

__all__ = ["NOT_MADE", "Step", "missing", "shown"]

Step = tuple[State | None, State]
S = State

_NO_SUMMARIES: Final = "no simulated reminder asks for summaries"
_NO_SHADOWS: Final = "this version has no shadow mode"
_NEVER_TRIED: Final = (
    "nothing was ever asked of a receiver, so none has an acceptance to report; the way out is for evidence of a past"
    " in which it was not skipped"
)

#: Rows that no simulation of this version takes, and why.
NOT_MADE: Final[dict[Step, str]] = {
    (None, S.WAITING): _NO_SUMMARIES,
    (S.LEASED, S.FOLDED): _NO_SUMMARIES,
    (S.FOLDED, S.SENT): _NO_SUMMARIES,
    (S.FOLDED, S.UNCONFIRMED): _NO_SUMMARIES,
    (S.FOLDED, S.READY): _NO_SUMMARIES,
    (S.FOLDED, S.CANCELLED): _NO_SUMMARIES,
    (S.LEASED, S.SHADOWED): _NO_SHADOWS,
    (S.SHADOWED, S.SENT): _NO_SHADOWS,
    (S.SKIPPED, S.SENT): _NEVER_TRIED,
}


def shown(step: Step) -> str:
    """A row of the table as text."""
    return f"{step[0] or '(new)'} -> {step[1]}"


def missing(exercised: Iterable[Step]) -> list[Step]:
    """Rows that could have been taken and were not, in the table's order."""
    taken = set(exercised)
    rows = ((origin, target) for origin, targets in TRANSITIONS.items() for target in targets)
    return [row for row in rows if row not in taken and row not in NOT_MADE]
