"""Sub-daily slots: they step on UTC, and what else a rule or an expression says filters them by wall time.

Without a filter a slot is a multiplication. With one, time is cut where the clocks change and where a wall day
ends. In such a *piece* the wall time is the instant plus one number, so the minutes of the day that match are
instants at once. They are kept bit by bit: a grid of steps, the ends of a piece and BY parts are masks laid upon
each other, and what is left is counted without being looked at. Days without a match, and steps longer than a day,
are passed over by a division.

What is counted is *steps*: a piece is one, and so is a look at the zone, which is for three days at most, or one
step of a rule whose steps are longer. A search ends with the days, or behind 7,500 steps without a slot: 15 years of
days, or 2,500 steps of a rule. The end of a COUNT is looked for in 15,000 steps, and 20,000 are leapt over at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from duly.core.moments import write_time
from duly.core.schedule.clocks import Stretch, stretches
from duly.core.schedule.courses import END, place_in_time
from duly.core.schedule.model import Slot

__all__ = ["Days", "Filtered", "Grid", "Stepping", "mask_of"]

SEARCH_STEPS_MAX: Final = 7_500
COUNT_STEPS_MAX: Final = 15_000
LEAP_STEPS_MAX: Final = 20_000
COMBS_CACHED_MAX: Final = 1_024

_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_DAY_MINUTES: Final = 24 * 60
_SPAN: Final = timedelta(days=3)
_SMALLEST: Final = timedelta(microseconds=1)
_LATEST: Final = END.replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Stepping:
    """Every `step` from an instant on."""

    zone: tzinfo
    begins: datetime
    step: timedelta
    until: datetime

    def since(self, moment: datetime) -> Iterator[Slot]:
        """As in `Course`."""
        number = max(0, -((self.begins - moment) // self.step))
        due_at = self.begins + number * self.step
        while due_at <= self.until:
            yield _slot(due_at)
            due_at += self.step

    def place(self, label: str) -> Slot:
        """As in `Course`."""
        return place_in_time(label, self.zone)

    def leap(self, slot: Slot, moment: datetime, leave_slots: int) -> tuple[Slot, int]:
        """As in `Course`: a division."""
        number = (min(moment, self.until) - slot.due_at) // self.step + 1 - leave_slots
        return (_slot(slot.due_at + number * self.step), number) if number > 0 else (slot, 0)

    def last_of(self, total: int) -> datetime:
        """When the last of the first `total` slots is due."""
        return self.begins + min(total - 1, (self.until - self.begins) // self.step) * self.step


class Days(NamedTuple):
    """Days that match."""

    since: Callable[[date], Iterator[date]]  # from a day on, in order
    holds: Callable[[date], bool]


class Grid(NamedTuple):
    """The instants that a rule steps on: whole numbers of `step` from `origin`, and the `block` behind each."""

    origin: datetime  # naive, UTC
    step: timedelta
    block: timedelta = _MINUTE

    def first_from(self, begins: datetime) -> datetime:
        """The instant itself, or the first whole number of `step` behind it if it is in no block."""
        return begins if (begins - self.origin) % self.step < self.block else self._point_from(begins)

    def _point_from(self, begins: datetime) -> datetime:
        return self.origin + -((self.origin - begins) // self.step) * self.step

    def minutes_from(self, midnight: datetime) -> int:
        """Which minutes of the day that begins at an instant are in a block."""
        step, block = self.step // _MINUTE, self.block // _MINUTE
        begins = -((midnight - self.origin) // _MINUTE) % step
        begun = ((1 << block) - 1) >> (step - begins) if begins else 0
        return begun | _comb(step, block) << begins if begins < _DAY_MINUTES else begun


@lru_cache(COMBS_CACHED_MAX)
def _comb(step: int, block: int) -> int:
    """A day's minutes, the first `block` of every `step`."""
    return sum(((1 << block) - 1) << minute for minute in range(0, _DAY_MINUTES, step))


def mask_of(minutes_of_day: tuple[int, ...]) -> int:
    """Minutes of a day, each as the bit of its number."""
    return sum(1 << minute for minute in minutes_of_day)


class _Piece(NamedTuple):
    """A wall day within one stretch, and which of its minutes match."""

    midnight: datetime  # of that day, by the offset of the stretch, and the seconds behind the minute (naive, UTC)
    minutes: int  # bit by bit

    def slots(self) -> Iterator[Slot]:
        """A slot for each of them."""
        midnight, left = self.midnight.replace(tzinfo=UTC), self.minutes
        while left:
            lowest = left & -left
            yield _slot(midnight + (lowest.bit_length() - 1) * _MINUTE)
            left ^= lowest


@dataclass(frozen=True, slots=True)
class Filtered:
    """The instants whose wall time is on a day and at a minute that match, and that stand on a grid."""

    zone: tzinfo
    begins: datetime
    until: datetime
    minutes: int  # of a day, bit by bit
    days: Days | None = None  # None: every day
    seconds: timedelta = timedelta(0)  # behind the minute
    grid: Grid | None = None  # None: every minute

    def since(self, moment: datetime) -> Iterator[Slot]:
        """As in `Course`."""
        for piece in self._pieces(moment, self.until):
            yield from piece.slots()

    def place(self, label: str) -> Slot:
        """As in `Course`."""
        return place_in_time(label, self.zone)

    def leap(self, slot: Slot, moment: datetime, leave_slots: int) -> tuple[Slot, int]:
        """As in `Course`: pieces are counted."""
        passed, left, tail = 0, 0, deque[_Piece]()
        for piece in islice(self._pieces(slot.due_at, min(moment, self.until)), LEAP_STEPS_MAX):
            if piece.minutes:
                tail.append(piece)
                left += piece.minutes.bit_count()
            while tail and left - tail[0].minutes.bit_count() >= leave_slots:
                passed += tail[0].minutes.bit_count()
                left -= tail.popleft().minutes.bit_count()
        return (next(tail[0].slots()), passed) if passed else (slot, 0)

    def last_of(self, total: int) -> datetime | None:
        """When the last of the first `total` slots is due; None if there is none at all.

        Raises ValueError for one that lies too far ahead to be found.
        """
        last = None
        for number, piece in enumerate(self._pieces(self.begins, self.until)):
            if number == COUNT_STEPS_MAX:
                raise ValueError("its COUNT ends too far ahead to be found; write a smaller one, or UNTIL")
            if piece.minutes:
                last, total = piece, total - piece.minutes.bit_count()
            if total <= 0:
                break
        return None if last is None else [*last.slots()][min(0, total) - 1].due_at

    def _pieces(self, since: datetime, until: datetime) -> Iterator[_Piece]:
        """The pieces between two instants, also those without a minute, until too many of these follow each other."""
        without = 0
        for piece in self._cut(_naive(max(since, self.begins)), min(_naive(until) + _SMALLEST, _LATEST)):
            without = 0 if piece.minutes else without + 1
            if without > SEARCH_STEPS_MAX:
                return
            yield piece

    def _cut(self, begins: datetime, ends: datetime) -> Iterator[_Piece]:
        """All pieces, behind an empty one for each look at the zone; without time that has no day, or no grid."""
        span = _DAY if self.grid is not None and self.grid.step > _SPAN else _SPAN
        while (begins := self._next(begins)) < ends:
            until = min(begins + span, ends)
            yield _Piece(begins, 0)
            for stretch in stretches(self.zone, begins, until):
                yield from self._pieces_of(stretch)
            begins = until

    def _next(self, begins: datetime) -> datetime:
        """From when on there may be something: on the grid, and no sooner than a clock shows a day that matches."""
        if self.grid is not None:
            begins = self.grid.first_from(begins)
        today = begins.date()
        if self.days is None or any(map(self.days.holds, (today - _DAY, today, today + _DAY))):
            return begins
        day = next(self.days.since(today), None)
        return _LATEST if day is None else datetime.combine(day, time()) - _DAY

    def _pieces_of(self, stretch: Stretch) -> Iterator[_Piece]:
        day, last = (stretch.begins + stretch.offset).date(), (stretch.ends + stretch.offset - _SMALLEST).date()
        while day <= last:
            if self.days is None or self.days.holds(day):
                yield self._piece(datetime.combine(day, time()) - stretch.offset + self.seconds, stretch)
            day += _DAY

    def _piece(self, midnight: datetime, stretch: Stretch) -> _Piece:
        minutes = self.minutes
        low, high = -((midnight - stretch.begins) // _MINUTE), -((midnight - stretch.ends) // _MINUTE)
        if low > 0:
            minutes = minutes >> low << low
        if high < _DAY_MINUTES:
            minutes &= (1 << max(high, 0)) - 1
        if minutes and self.grid is not None:
            minutes &= self.grid.minutes_from(midnight)
        return _Piece(midnight, minutes)


def _naive(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


def _slot(due_at: datetime) -> Slot:
    return Slot(write_time(due_at), due_at)
