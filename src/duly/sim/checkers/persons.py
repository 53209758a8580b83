"""What recipients and accounts have chosen: quiet hours, caps, consent, pauses. Each is reckoned here anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duly.core.model import Outcome
from duly.sim.clocks import SECOND_US, Time
from duly.sim.facts import Occurrence, recipient_id, reminder_id
from duly.sim.ledger import AttemptRow, Change
from duly.sim.times import ACCOUNT_ZONE, is_quiet
from duly.sim.truth import Checker, Complaint, Left, Truth

__all__ = ["CapsAreKept", "ConsentIsKept", "PausesAreKept", "QuietHoursAreKept"]


#: By how much a worker's clock may mislead it while a lease lasts.
CLOCKS_US: Final = SECOND_US


class _OfBegins(Checker):
    """Asks about each attempt as it begins."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for row in change.attempts:
            at = truth.occurrence(row.id)
            if at is not None:
                yield from (Complaint(row.id, text) for text in self.about(row, at, change, truth))

    def about(self, row: AttemptRow, at: Occurrence, change: Change, truth: Truth) -> Iterator[str]:
        """What is wrong with it."""
        raise NotImplementedError


class QuietHoursAreKept(_OfBegins):
    """No attempt begins in the recipient's quiet hours, nor in those of his account as its worker knows them.

    And the latest moment at which its request may start lies before them, as far as a worker's clock can tell.
    """

    def about(self, row: AttemptRow, at: Occurrence, change: Change, truth: Truth) -> Iterator[str]:
        """See _OfBegins."""
        for window in _quiet(at, row.worker, row.started_at, truth):
            yield f"attempt {row.number} began in quiet hours, {window}"

    def left(self, left: Left, truth: Truth) -> Iterator[Complaint]:
        """See Checker. He may have moved since it was claimed: then the hours are other ones."""
        at, row = truth.occurrence(left.delivery), truth.ledger.attempts.get((left.delivery, left.number))
        if at is None or row is None:
            return
        moved_us = truth.facts.now.moved.get(recipient_id(at.reminder), 0)
        if moved_us < truth.facts.claimed_us.get(left.delivery, 0):
            for window in _quiet(at, row.worker, left.latest_us - CLOCKS_US, truth):
                yield Complaint(left.delivery, f"attempt {left.number} might have left in quiet hours, {window}")


def _quiet(at: Occurrence, worker: str, us: int, truth: Truth) -> Iterator[str]:
    """The windows in which a moment lies, as that worker knows them."""
    one, settings = at.reminder, truth.facts.serving.get(worker)
    if one.purpose == "security" or settings is None:
        return
    zone = truth.facts.zone(one) or ACCOUNT_ZONE
    for window in (*settings.quiet.get(one.account, ()), *truth.facts.plan.person(one.recipient).quiet):
        if is_quiet(window, zone, Time.moment(us)):
            yield f"{window} in {zone}"


class CapsAreKept(_OfBegins):
    """Within the stretch of a cap no more deliveries begin than it lets, of those of which a request left.

    A repeat of what has begun takes no further place; nor does what is in doubt, which may have arrived. What began
    under no cap is not counted by a later one.
    """

    def about(self, row: AttemptRow, at: Occurrence, change: Change, truth: Truth) -> Iterator[str]:
        """See _OfBegins."""
        settings, begun = truth.facts.serving.get(row.worker), truth.facts.now.begun
        cap = None if settings is None else settings.caps.get(at.reminder.account)
        if cap is None:
            return
        since_us = row.started_at - round(cap.per.total_seconds() * SECOND_US)
        others = [one for one in begun if one != row.id and _counts(one, at, since_us, truth)]
        if len(others) >= cap.count and not _is_repeat(row, change, truth):
            yield f"attempt {row.number} began, the {len(others) + 1}th within {cap.per}; its cap lets {cap.count}"
        begun.setdefault(row.id, {})[row.number] = row.started_at


def _counts(delivery: bytes, at: Occurrence, since_us: int, truth: Truth) -> bool:
    """Whether another delivery surely has a place in that stretch."""
    moments, other = truth.facts.now.begun[delivery], truth.occurrence(delivery)
    left = any((delivery, number) in truth.facts.now.left for number in moments)
    return left and other is not None and other.whose == at.whose and min(moments.values()) > since_us


def _is_repeat(row: AttemptRow, change: Change, truth: Truth) -> bool:
    """Whether an earlier attempt of it may have a place, or it is in doubt."""
    doubt = any(before is not None and before.doubt for before, after in change.moves if after.id == row.id)
    earlier = truth.facts.now.begun.get(row.id, {})
    results = [truth.ledger.results.get((row.id, number), (None, 0))[0] for number in earlier]
    return doubt or any(outcome is not Outcome.NOT_SENT for outcome in results)


class ConsentIsKept(_OfBegins):
    """Nothing begins for an address after its opt-out of that purpose or a bounce was committed, until that is ended.

    Nor for a recipient who was deleted, or by a channel that was closed to him.
    """

    def about(self, row: AttemptRow, at: Occurrence, change: Change, truth: Truth) -> Iterator[str]:
        """See _OfBegins."""
        why = truth.facts.silenced(at)
        if why is not None:
            yield f"attempt {row.number} began although {why}"


class PausesAreKept(_OfBegins):
    """Nothing begins while its reminder or its account stands still, between the commits of pause and resume.

    Nor what was claimed after its template was paused: a pause of that binds the next admission.
    """

    def about(self, row: AttemptRow, at: Occurrence, change: Change, truth: Truth) -> Iterator[str]:
        """See _OfBegins."""
        one, stopped = at.reminder, truth.facts.now.stopped
        for what in (("account", one.account), ("reminder", reminder_id(one))):
            if what in stopped:
                yield f"attempt {row.number} began while its {what[0]} was paused"
        paused_us = stopped.get(("template", one.template))
        if paused_us is not None and truth.facts.claimed_us.get(row.id, 0) > paused_us:
            yield f"attempt {row.number} began, claimed while its template was paused"
