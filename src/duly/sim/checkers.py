"""The promise, as code that can say no. Each checker judges one sentence of it.

Where DESIGN promises less than one might wish, the checker's own words say so. What a receiver lied about
(see Truth) excuses exactly that acceptance; every other one, of the same delivery too, is judged in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duly.core import keys
from duly.core.model import Outcome, Settlement
from duly.core.states import FINAL, TRANSITIONS, State
from duly.sim.ledger import AttemptRow, Change, Ledger, Standing
from duly.sim.truth import DEFINITELY_NOT, OPERATOR, Checker, Complaint, Left, Taken, Truth

__all__ = ["CHECKERS"]

#: Ends that say: it was not sent.
NOT_SENT: Final = frozenset(FINAL - {State.SENT, State.UNCONFIRMED})


# --- moves ---------------------------------------------------------------------------------------


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


# --- attempts ------------------------------------------------------------------------------------


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
            doubted = _latest_unknown(row, truth.ledger)
            if doubted is not None and doubted.payload_hash != row.payload_hash:
                yield Complaint(
                    row.id, f"attempt {row.number} has other bytes than {doubted.number}, which is in doubt"
                )


def _latest_unknown(row: AttemptRow, ledger: Ledger) -> AttemptRow | None:
    """The latest earlier attempt of which nobody knows what became of it."""
    for number in range(row.number - 1, 0, -1):
        outcome, covered = ledger.results.get((row.id, number), (Outcome.UNKNOWN, 0))
        if outcome is Outcome.UNKNOWN and not covered and (row.id, number) in ledger.attempts:
            return ledger.attempts[row.id, number]
    return None


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


class ResultsStand(Checker):
    """A result goes from none or unknown to a definite one, never otherwise."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.results:
            if row.before not in (None, Outcome.UNKNOWN) and row.before is not row.outcome:
                yield Complaint(row.id, f"attempt {row.number} went from {row.before} to {row.outcome}")


# --- truth ---------------------------------------------------------------------------------------


class SentIsTrue(Checker):
    """Sent means that the receiver accepted it, or that an operator said so."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if after.state is not State.SENT or (before and before.state is State.SENT) or truth.of(after.id):
                continue
            if not any(row.delivery == after.id and row.actor == OPERATOR for row in change.events):
                yield Complaint(after.id, f"{change.call} says that it was sent, and its receiver never accepted it")


class NotSentIsTrue(Checker):
    """What was accepted is never said not to have been.

    Neither by a result of the attempt (rejected, refused, not sent, or covered by look-ups in vain), nor by
    the delivery's end. It may be sent, held, or unconfirmed. A delivery that was cancelled before it was
    due in the restored past has no row at all: nothing false is said about it. Where the receiver lied, its no
    is on record as it was given, and may end the delivery, until evidence comes: see AcceptanceWins.
    """

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.results:
            said = row.outcome if row.outcome in DEFINITELY_NOT else "not accepted" if row.covered else None
            if said is not None and row.outcome is not Outcome.ACCEPTED and truth.taken_as(row.id, row.number):
                yield Complaint(row.id, f"{change.call} says that attempt {row.number} was {said}; it was accepted")
        for _, after in change.moves:
            if after.state in NOT_SENT and truth.owned(after.id):
                yield Complaint(after.id, f"{change.call} ended it {after.state}; its receiver had accepted it")

    def taken(self, taken: Taken, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing = truth.ledger.standing.get(taken.delivery)
        if standing is not None and standing.state in NOT_SENT:
            yield Complaint(taken.delivery, f"its receiver accepted it after it had ended {standing.state}")

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in truth.ledger.standing.values():
            if row.state in NOT_SENT and truth.owned(row.id):
                yield Complaint(row.id, f"it ended {row.state}, and its receiver had accepted it")


class AcceptanceWins(Checker):
    """Once the ledger was told of an acceptance, the delivery is sent, if it is there, whatever it was before.

    So what a receiver has lied about is corrected as soon as it reports the acceptance. How that is told is
    for EveryMoveIsExplained and FinalIsFinal.
    """

    def accepted(self, new: Settlement, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        standing = truth.ledger.standing.get(new.id)
        if standing is not None and standing.state is not State.SENT:
            yield Complaint(new.id, f"the ledger was told that it was accepted, and left it {standing.state}")


class DoubtIsNotForgotten(Checker):
    """A delivery does not end as not sent while an attempt of it is unknown and not covered."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if after.state not in NOT_SENT or (before and before.state in NOT_SENT):
                continue
            for number in range(1, after.attempts + 1):
                outcome, covered = truth.ledger.results.get((after.id, number), (Outcome.UNKNOWN, 0))
                if outcome is Outcome.UNKNOWN and not covered:
                    yield Complaint(after.id, f"{change.call} ended it {after.state}; attempt {number} is unknown")


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


# --- the end -------------------------------------------------------------------------------------


class NothingIsLost(Checker):
    """Every occurrence that was due has its delivery, and every delivery has come to its end."""

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for delivery, why in truth.expected.items():
            if delivery not in truth.ledger.standing:
                yield Complaint(delivery, f"there is no delivery for {why}")
        stuck = [row for row in truth.ledger.standing.values() if row.state not in FINAL]
        if stuck:
            rows = ", ".join(f"{keys.show(row.id)} {row.state} ({row.reason})" for row in stuck)
            yield Complaint(stuck[0].id, f"not everything came to its end: {rows}")


CHECKERS: Final[tuple[type[Checker], ...]] = (
    EveryMoveIsInTheTable,
    EveryMoveIsExplained,
    FinalIsFinal,
    NoBeginWhereForbidden,
    AttemptsAreNumbered,
    DoubtBindsBytes,
    NoRequestWithoutAttempt,
    ResultsStand,
    SentIsTrue,
    NotSentIsTrue,
    AcceptanceWins,
    DoubtIsNotForgotten,
    NothingTwice,
    DoublesAreNoted,
    NothingIsLost,
)
