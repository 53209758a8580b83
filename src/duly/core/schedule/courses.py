"""What every kind of schedule can do in a zone: give its slots from an instant on, in order.

The order of a schedule is that of its instants; slots at one instant are ordered by their labels. All that is
asked of a schedule follows from `since` (the slots from an instant on) and `place` (where a label stands, or
would stand).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Final, NamedTuple, Protocol

from duly.core.moments import YEAR_LAST, parse_duration, parse_time, to_utc, write_duration, write_time
from duly.core.schedule.clocks import jump_near, wall_time
from duly.core.schedule.model import ONCE, Slot

__all__ = ["END", "Course", "Listed", "Wall", "With", "anchor_of", "place_in_time"]

#: No schedule goes on behind the calendar of `moments`.
END: Final = datetime(YEAR_LAST, 12, 30, tzinfo=UTC)


class Course(Protocol):
    """A schedule in a zone."""

    def since(self, moment: datetime) -> Iterator[Slot]:
        """The slots with `due_at` from this instant on, in order."""
        ...

    def place(self, label: str) -> Slot:
        """Where this label stands, or would stand. Raises ValueError for a label of another kind of schedule."""
        ...

    def leap(self, slot: Slot, moment: datetime, leave_slots: int) -> tuple[Slot, int]:
        """A slot further on, and by how many, if it can be found without walking.

        From it until `moment` there are at least `leave_slots` slots, unless it is the slot itself.
        """
        ...


def place_in_time(label: str, zone: tzinfo) -> Slot:
    """Where the label of an instant or of a wall time stands. Raises ValueError."""
    try:
        moment = parse_time(label)
    except ValueError:
        raise ValueError(f"{label[:40]!r} names no firing of this schedule") from None
    return Slot(label, to_utc(moment, zone) if moment.tzinfo is None else moment)


# --- once, and before an anchor ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """One firing, or some before an anchor, without those that are left out."""

    anchor: datetime  # UTC
    before: tuple[timedelta, ...]
    left_out: tuple[timedelta, ...] = ()

    def since(self, moment: datetime) -> Iterator[Slot]:
        """As in `Course`."""
        return iter([slot for slot in self._slots() if slot.due_at >= moment])

    def _slots(self) -> list[Slot]:
        if not self.before:
            return [Slot(ONCE, self.anchor)]
        offsets = (offset for offset in self.before if offset not in self.left_out)
        return [Slot(f"-{write_duration(offset)}", self.anchor - offset) for offset in offsets]

    def place(self, label: str) -> Slot:
        """As in `Course`."""
        if label == ONCE:
            return Slot(ONCE, self.anchor)
        try:
            return Slot(label, self.anchor - parse_duration(label.removeprefix("-")))
        except ValueError:
            raise ValueError(f"{label[:40]!r} names no firing of this schedule") from None

    def leap(self, slot: Slot, _moment: datetime, _leave_slots: int) -> tuple[Slot, int]:
        """There are few."""
        return slot, 0


def anchor_of(slot: Slot) -> datetime | None:
    """The anchor that a slot comes before, by its label; None for a slot that has none."""
    offset = slot.label.removeprefix("-")
    return None if offset == slot.label else slot.due_at + parse_duration(offset)


# --- wall times ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wall:
    """Wall times in a zone, by the rule for gaps and repeats."""

    zone: tzinfo
    wall_times: Callable[[datetime], Iterator[datetime]]  # from a wall time on, ascending
    begins: datetime | None = None  # no slot is due before it
    until: datetime | None = None  # no slot is due behind it

    def since(self, moment: datetime) -> Iterator[Slot]:
        """As in `Course`."""
        moment = max(moment, self.begins) if self.begins else moment
        local = wall_time(moment, self.zone) - jump_near(self.zone, moment)
        until = min(self.until or END, END)
        for slot in takewhile(lambda slot: slot.due_at <= until, _by_instant(self.wall_times(local), self.zone)):
            if slot.due_at >= moment:
                yield slot

    def place(self, label: str) -> Slot:
        """As in `Course`."""
        return place_in_time(label, self.zone)

    def leap(self, slot: Slot, _moment: datetime, _leave_slots: int) -> tuple[Slot, int]:
        """Wall times are walked."""
        return slot, 0


class _Waiting(NamedTuple):
    """A slot that a later wall time may still come before: one that is not behind `overtaken_until`."""

    due_at: datetime
    label: str
    overtaken_until: datetime


def _by_instant(wall_times: Iterator[datetime], zone: tzinfo) -> Iterator[Slot]:
    """Slots in the order of their instants. Wall times have another one only behind a gap, as long as it is."""
    waiting: list[_Waiting] = []
    for local in wall_times:
        while waiting and waiting[0].overtaken_until < local:
            yield _slot(heapq.heappop(waiting))
        due_at = to_utc(local, zone)
        jump = jump_near(zone, due_at)
        if jump or waiting:
            heapq.heappush(waiting, _Waiting(due_at, write_time(local), local + jump))
        else:
            yield Slot(write_time(local), due_at)
    while waiting:
        yield _slot(heapq.heappop(waiting))


def _slot(waiting: _Waiting) -> Slot:
    return Slot(waiting.label, waiting.due_at)


# --- dates that were added and taken away --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class With:
    """Another course with RDATE and EXDATE."""

    course: Course
    added: tuple[Slot, ...]  # in order
    without: frozenset[str | datetime]  # labels, and instants

    def since(self, moment: datetime) -> Iterator[Slot]:
        """As in `Course`."""
        added = [slot for slot in self.added if slot.due_at >= moment]
        last = None
        for slot in heapq.merge(self.course.since(moment), added, key=_order):
            if slot != last and slot.label not in self.without and slot.due_at not in self.without:
                yield slot
            last = slot

    def place(self, label: str) -> Slot:
        """As in `Course`."""
        return self.course.place(label)

    def leap(self, slot: Slot, _moment: datetime, _leave_slots: int) -> tuple[Slot, int]:
        """What was added and taken away is not counted."""
        return slot, 0


def _order(slot: Slot) -> tuple[datetime, str]:
    return slot.due_at, slot.label
