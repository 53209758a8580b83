"""Which attempts are in doubt, for the checkers that ask."""

from __future__ import annotations

from collections.abc import Iterator

from duly.core.model import Outcome
from duly.sim.ledger import AttemptRow, Ledger

__all__ = ["unknown_before"]


def unknown_before(number: int, delivery: bytes, ledger: Ledger) -> Iterator[AttemptRow]:
    """The earlier attempts of which nobody knows what became of them, the latest first."""
    for earlier in range(number - 1, 0, -1):
        outcome, covered = ledger.results.get((delivery, earlier), (Outcome.UNKNOWN, 0))
        if outcome is Outcome.UNKNOWN and not covered and (delivery, earlier) in ledger.attempts:
            yield ledger.attempts[delivery, earlier]
