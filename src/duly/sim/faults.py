"""What may go wrong, and how often: drawn for each seed, counted as it happens.

Not among them is what DESIGN calls the residual risk: a worker that freezes between its last look at the
lease and the first byte of its request. A simulated transport looks and sends in one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from duly.sim.chance import Chance

__all__ = ["Faults", "Kind"]


class Kind(StrEnum):
    """A kind of fault."""

    # of workers
    CRASH_BEFORE_CALL = "crash_before_call"
    CRASH_AFTER_CALL = "crash_after_call"
    CRASH_WHILE_SENDING = "crash_while_sending"  # some requests of a batch have left, the others have not
    FREEZE = "freeze"  # not scheduled until its leases have ended
    FREEZE_BEFORE_SENDING = "freeze_before_sending"  # begun, and not a byte has left
    POISON = "poison"  # a delivery whose rendering kills its worker
    # of the database
    STORE_UNANSWERED = "store_unanswered"
    STORE_REPLY_LOST = "store_reply_lost"
    STORE_REPLY_SLOW = "store_reply_slow"
    # of the queue
    BATCH_TWICE = "batch_twice"  # a copy of it is kept
    BATCH_COPY = "batch_copy"  # and handed out, to the same worker or another
    BATCH_LATE = "batch_late"  # what was claimed later is handed out before it
    # of the network
    NOT_CONNECTED = "not_connected"
    REQUEST_LOST = "request_lost"
    REPLY_LOST = "reply_lost"
    REPLY_LATE = "reply_late"
    CUT_AFTER_ACCEPTING = "cut_after_accepting"
    # of receivers
    TOO_MANY = "too_many"  # 429
    CLOSED_FOR_NOW = "closed_for_now"  # 503 with Retry-After
    BROKEN = "broken"  # 500, whether it has accepted or not
    WRONG_SECRET = "wrong_secret"  # 401  # noqa: S105
    WRONG_ADDRESS = "wrong_address"  # 404
    REJECTS = "rejects"  # 410
    LOOK_FAILS = "look_fails"
    LIE = "lie"  # it has accepted, and refuses all the same
    # of time
    LEAP = "leap"


class Faults:
    """Draws faults while they are on, and counts them. Each kind has a stream of its own."""

    def __init__(self, seed: int, likely: Mapping[Kind, float]) -> None:
        self.counts: Counter[Kind] = Counter()
        self.on = True
        self._drawn = {kind: (probability, Chance(seed, kind).roll) for kind, probability in likely.items()}

    def strikes(self, kind: Kind) -> bool:
        """Whether it happens now; if so it is counted."""
        drawn = self._drawn.get(kind)
        if drawn is None or not self.on or drawn[1]() >= drawn[0]:
            return False
        self.counts[kind] += 1
        return True

    def first(self, kinds: Iterable[Kind]) -> Kind | None:
        """The first of these kinds that happens now."""
        return next((kind for kind in kinds if self.strikes(kind)), None)
