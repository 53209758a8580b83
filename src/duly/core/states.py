"""The states of a delivery, and the one table of what may follow what.

A delivery is *open* while somebody has to move it on, and *final* after that. Nothing but acceptance
evidence or a recorded decision leaves a final state. The table is the contract: the stores obey it,
the diagram in the documentation is drawn from it, and a transition that is not in it raises.

`sending` is not stored: it is `leased` and begun. A row that has begun and lost its lease is exactly
what must be reconciled.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["FINAL", "NOT_DECIDED", "OPEN", "TRANSITIONS", "IllegalTransition", "State", "check"]


class State(StrEnum):
    """Where a delivery stands."""

    READY = "ready"
    LEASED = "leased"
    SENDING = "sending"
    WAITING = "waiting"
    UNCERTAIN = "uncertain"
    HELD = "held"
    FOLDED = "folded"
    SENT = "sent"
    REJECTED = "rejected"
    DEAD = "dead"
    EXPIRED = "expired"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"
    SHADOWED = "shadowed"
    SKIPPED = "skipped"
    UNCONFIRMED = "unconfirmed"


S = State
OPEN: Final = frozenset({S.READY, S.LEASED, S.SENDING, S.WAITING, S.UNCERTAIN, S.HELD, S.FOLDED})
FINAL: Final = frozenset(S) - OPEN
#: Claimed, begun and settled, folded and shared: no mere decision brings a delivery there.
NOT_DECIDED: Final = frozenset({S.LEASED, S.SENDING, S.FOLDED})

#: from -> to -> who moves it on. `None` is "not written yet".
TRANSITIONS: Final[dict[State | None, dict[State, str]]] = {
    None: {
        S.READY: "tick",
        S.EXPIRED: "tick",
        S.SKIPPED: "tick",
        S.UNCERTAIN: "restore guard",
        S.WAITING: "worker: a summary gathers",
    },
    S.READY: {S.LEASED: "claim", S.EXPIRED: "sweep", S.CANCELLED: "cancel", S.UNCERTAIN: "sweep, restore guard"},
    S.LEASED: {
        S.SENDING: "begin",
        S.READY: "worker, upkeep",
        S.WAITING: "worker",
        S.EXPIRED: "worker",
        S.SUPPRESSED: "worker",
        S.CANCELLED: "worker, cancel",
        S.FOLDED: "worker",
        S.SHADOWED: "worker",
        S.REJECTED: "worker",
        S.DEAD: "upkeep",
        S.UNCERTAIN: "worker, restore guard",
    },
    S.SENDING: {
        S.SENT: "worker",
        S.WAITING: "worker",
        S.REJECTED: "worker",
        S.DEAD: "worker",
        S.EXPIRED: "worker",
        S.UNCERTAIN: "worker, upkeep, restore guard",
    },
    S.WAITING: {S.READY: "promote", S.EXPIRED: "sweep", S.CANCELLED: "cancel", S.UNCERTAIN: "sweep, restore guard"},
    S.UNCERTAIN: {
        S.SENT: "reconcile",
        S.READY: "reconcile",
        S.HELD: "reconcile",
        S.UNCONFIRMED: "reconcile",
        S.WAITING: "reconcile",
        S.REJECTED: "reconcile",
        S.DEAD: "reconcile",
    },
    S.HELD: {
        S.SENT: "operator",
        S.READY: "operator, reconcile",
        S.UNCONFIRMED: "operator, reconcile",
        S.UNCERTAIN: "reconcile",
    },
    S.FOLDED: {S.SENT: "summary", S.UNCONFIRMED: "summary", S.READY: "summary", S.CANCELLED: "cancel"},
    S.REJECTED: {S.READY: "redrive", S.UNCERTAIN: "redrive", S.SENT: "evidence"},
    S.DEAD: {S.READY: "redrive", S.UNCERTAIN: "redrive", S.SENT: "evidence"},
    S.EXPIRED: {S.SENT: "evidence"},
    S.SUPPRESSED: {S.SENT: "evidence"},
    S.CANCELLED: {S.SENT: "evidence"},
    S.SHADOWED: {S.SENT: "evidence"},
    S.SKIPPED: {S.SENT: "evidence"},
    S.UNCONFIRMED: {S.SENT: "evidence"},
    S.SENT: {},
}
# Acceptance evidence moves every state but sent to sent.
for _state in (S.READY, S.LEASED, S.WAITING):
    TRANSITIONS[_state].setdefault(S.SENT, "evidence")


class IllegalTransition(Exception):
    """A bug: somebody tried to move a delivery where the table does not allow it."""


def check(origin: State | None, target: State) -> None:
    """Raise IllegalTransition unless the table allows `origin` to `target`."""
    if target not in TRANSITIONS[origin]:
        raise IllegalTransition(f"{origin or '(new)'} -> {target} is not in the table of transitions")
