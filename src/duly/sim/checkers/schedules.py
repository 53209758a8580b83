"""What schedules name: each slot once, no more after an outage than was asked for, and none without a trace.

The slots are those of `times`, which shares nothing with the code that fires them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from duly.core.model import Channel
from duly.sim.clocks import SECOND_US, Time
from duly.sim.facts import recipient_id
from duly.sim.ledger import Change, Standing
from duly.sim.plan import ReminderPlan
from duly.sim.times import Slot
from duly.sim.truth import Checker, Complaint, Taken, Truth

__all__ = ["EachOccurrenceOnce", "EverySlotIsAccountedFor", "MissedAsAsked", "OnlyWhatIsNamed"]

#: How late a slot may be fired where what was missed is to be skipped: as the reference says, without a grace.
GRACE_US: Final = 5 * 60 * SECOND_US


class EachOccurrenceOnce(Checker):
    """An occurrence is accepted under one delivery only, whatever generations its reminder's revisions have opened.

    That is said within one past: a restored ledger does not know which generation was sent.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str, Channel], bytes] = {}

    def restored(self) -> None:
        """See Checker."""
        self._seen.clear()

    def taken(self, taken: Taken, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        at = truth.occurrence(taken.delivery)
        if at is None or taken.denied:
            return
        first = self._seen.setdefault((at.reminder.account, at.reminder.key, at.label, at.channel), taken.delivery)
        if first != taken.delivery:
            yield Complaint(taken.delivery, f"{at.reminder.key}, {at.label}, was accepted in another generation")


class OnlyWhatIsNamed(Checker):
    """Every delivery is of a slot that its reminder's schedule names, and due when it says.

    Where a zone was changed meanwhile, only the label is judged.
    """

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        for before, after in change.moves:
            if before is None and after.reminder in truth.facts.reminders:
                yield from self._ask(after, truth)

    def _ask(self, after: Standing, truth: Truth) -> Iterator[Complaint]:
        at = truth.facts.occurrence(after.id, after.reminder)
        if at is None:
            yield Complaint(after.id, "no schedule names it")
        elif at.reminder.course is not None and recipient_id(at.reminder) not in truth.facts.now.moved:
            due_us = next(Time.us_of(slot.due_at) for slot in truth.facts.slots(at.reminder) if slot.label == at.label)
            if after.due_at != due_us:
                yield Complaint(
                    after.id, f"{at.label} is due at {Time.moment(due_us)}; it was written for another time"
                )


class MissedAsAsked(Checker):
    """A tick fires no more slots of a rule than its policy says: the latest, the last few, or the young ones."""

    def changed(self, change: Change, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        if change.call != "materialise":
            return
        fired: dict[bytes, dict[str, Standing]] = {}
        for before, after in change.moves:
            at = truth.facts.occurrence(after.id, after.reminder)
            if before is None and at is not None and at.reminder.course is not None and at.reminder.course.repeats:
                fired.setdefault(after.reminder, {})[at.label] = after
        for reminder, rows in fired.items():
            yield from self._ask(truth.facts.reminders[reminder], rows, truth.facts.seen_us.get(change.actor, 0), truth)

    def _ask(self, one: ReminderPlan, rows: dict[str, Standing], now_us: int, truth: Truth) -> Iterator[Complaint]:
        missed = one.course.missed if one.course else ""
        most = {"latest": 1, "all:1": 1, "all:3": 3}.get(missed, len(rows))
        latest = next(reversed(rows.values()))
        if len(rows) > most:
            yield Complaint(latest.id, f"{len(rows)} slots of {one.key} were fired at once; it asks for {missed}")
        moved_us = truth.facts.now.moved.get(recipient_id(one), 0)
        for row in rows.values():
            if missed == "skip" and max(row.due_at, moved_us) < now_us - GRACE_US:
                yield Complaint(row.id, f"{one.key} asks to skip what was missed, and this slot is too old")


class EverySlotIsAccountedFor(Checker):
    """In the end every slot that a schedule names has a delivery on each channel, or was counted as missed.

    Not those that passed before a paused reminder went on; and nothing is asked of a reminder that was cancelled.
    """

    def ended(self, truth: Truth) -> Iterator[Complaint]:
        """See Checker."""
        there = {truth.occurrence(delivery) for delivery in truth.ledger.standing}
        labels = {(at.reminder.account, at.reminder.key, at.label, at.channel) for at in there if at is not None}
        for reminder, one in truth.facts.reminders.items():
            if one.course is not None and reminder in truth.facts.now.asked - truth.facts.now.cancelled:
                slots = truth.facts.slots(one)
                absent = [slot for slot in slots if not _is_whole(one, slot, labels)]
                yield from self._ask(reminder, one, slots, absent, truth)

    def _ask(
        self, reminder: bytes, one: ReminderPlan, slots: Sequence[Slot], absent: Sequence[Slot], truth: Truth
    ) -> Iterator[Complaint]:
        resumed_us = truth.facts.now.resumed.get(reminder, 0)
        order = [slot.label for slot in slots]
        counted, total = set[str](), 0
        for row in truth.ledger.events:
            if row.kind == "missed" and row.reminder == reminder:
                told = json.loads(row.evidence or "{}")
                counted.update(order[order.index(told["first"]) : order.index(told["last"]) + 1])
                total += told["skipped"]
        for slot in absent:
            if slot.label not in counted and Time.us_of(slot.due_at) > resumed_us:
                yield Complaint(None, f"nobody knows what became of {one.key}, {slot.label}")
        if not resumed_us and total != len(absent):
            yield Complaint(None, f"{len(absent)} slots of {one.key} were not fired, and {total} were counted")


def _is_whole(one: ReminderPlan, slot: Slot, labels: set[tuple[str, str, str, Channel]]) -> bool:
    return all((one.account, one.key, slot.label, channel) in labels for channel in one.channels)
