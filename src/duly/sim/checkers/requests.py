"""What leaves: requests need their attempt, their lease, and in doubt a key; their answers are not dropped."""

from __future__ import annotations

from collections.abc import Iterator

from duly.core.model import Outcome
from duly.core.states import State
from duly.sim.checkers.doubts import unknown_before
from duly.sim.ledger import Ledger, Standing
from duly.sim.truth import Checker, Complaint, Heard, Left, Settling, Truth

__all__ = ["NoAnswerIsDropped", "NoRepeatWithoutAKey", "NoRequestWithoutAttempt", "StartsWithinItsLease"]


class NoRequestWithoutAttempt(Checker):
    """A message leaves only for an attempt that is on record, with its bytes, once, and while its lease lasts.

    Two things may come between its begin and its leaving, and do not stop it: evidence of acceptance, and a
    guard that is opened while workers run (a restore stops them first).
    """

    def __init__(self) -> None:
        self._seen: set[tuple[bytes, int]] = set()

    def restored(self) -> None:
        """See Checker."""
        self._seen.clear()

    def left(self, left: Left, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        at = (left.delivery, left.number)
        row = truth.ledger.attempts.get(at)
        if row is None:
            yield Complaint(left.delivery, f"a request left as attempt {left.number}, which is not on record")
        elif row.payload_hash != left.body_hash:
            yield Complaint(left.delivery, f"a request left as attempt {left.number} with other bytes than recorded")
        if at in self._seen:
            yield Complaint(left.delivery, f"two requests left as attempt {left.number}")
        self._seen.add(at)
        yield from self._ask_for_lease(left, truth.ledger)

    def _ask_for_lease(self, left: Left, ledger: Ledger) -> Iterator[Complaint]:
        standing = ledger.standing.get(left.delivery)
        if standing is None or ledger.guarded or standing.state is State.SENT:
            return
        if standing.state is not State.SENDING or standing.attempts != left.number:
            yield Complaint(left.delivery, f"a request left as attempt {left.number} when its lease was over")


class StartsWithinItsLease(Checker):
    """The latest moment at which a request may start leaves it time to end before its lease does.

    The moment is its worker's `start_before`, as its worker's clock tells it: what is judged is not only the
    request that leaves too late, but every one that might have. Without a lease of its own it is for
    NoRequestWithoutAttempt.
    """

    def left(self, left: Left, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing = truth.ledger.standing.get(left.delivery)
        if standing is None or standing.state is not State.SENDING or standing.attempts != left.number:
            return
        if left.ends_us > (standing.lease_until or 0):
            yield Complaint(left.delivery, f"attempt {left.number} might have left when its lease was over")


class NoRepeatWithoutAKey(Checker):
    """While an earlier attempt may have been accepted, another leaves only where its receiver drops repeats still.

    Or where a policy, a hold's end or an operator granted it. The receiver's window begins no later than the first
    attempt in doubt; the attempts of a past that a restore made forgotten began no later than the due time. A guard
    that is opened while a request is about to leave does not stop it: see NoRequestWithoutAttempt.
    """

    def left(self, left: Left, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing = truth.ledger.standing.get(left.delivery)
        if standing is None or standing.state is not State.SENDING or standing.granted or truth.ledger.guarded:
            return
        since_us = _doubted_since(left, standing, truth.ledger)
        if since_us is not None:
            yield from self._ask_for_key(left, since_us, truth.keyed_for_us(standing.provider))

    def _ask_for_key(self, left: Left, since_us: int, kept_us: int | None) -> Iterator[Complaint]:
        if kept_us is None:
            yield Complaint(left.delivery, f"attempt {left.number} leaves in doubt, and no key makes it a repeat")
        elif left.ends_us > since_us + kept_us:
            yield Complaint(left.delivery, f"attempt {left.number} might arrive when its key is forgotten")


def _doubted_since(left: Left, standing: Standing, ledger: Ledger) -> int | None:
    """When the first of the earlier attempts began that may have been accepted; None if there is none."""
    doubted = unknown_before(left.number, left.delivery, ledger)
    moments = [row.started_at for row in doubted]
    return min(moments + [standing.due_at] * bool(standing.restored), default=None)


class NoAnswerIsDropped(Checker):
    """A definite answer that a worker has heard is on record in the end, if that worker lived to the end.

    And before: a worker settles answers in the order in which it heard them, so of two different batches that it
    settles after an answer one has to hold it. (One may have been picked before; a repetition is the same batch.)
    """

    def __init__(self) -> None:
        self._without: dict[tuple[bytes, int], frozenset[tuple[bytes, int]]] = {}

    def restored(self) -> None:
        """See Checker."""
        self._without.clear()

    def settling(self, settling: Settling, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        batch = frozenset((row.id, row.number) for row in settling.rows)
        for heard in truth.heard:
            if heard.by is not settling.by or heard.era != truth.era or not _is_of(heard, settling.provider, truth):
                continue
            at = (heard.delivery, heard.number)
            outcome, _ = truth.ledger.results.get(at, (Outcome.UNKNOWN, 0))
            if outcome is not Outcome.UNKNOWN or at in batch:
                self._without.pop(at, None)
            elif self._without.setdefault(at, batch) != batch:
                yield Complaint(heard.delivery, f"the answer to attempt {heard.number} was dropped")

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for heard in truth.unrecorded():
            yield Complaint(heard.delivery, f"the answer to attempt {heard.number} was dropped")


def _is_of(heard: Heard, provider: str, truth: Truth) -> bool:
    """Whether the answer came from that provider."""
    standing = truth.ledger.standing.get(heard.delivery)
    return standing is not None and standing.provider == provider
