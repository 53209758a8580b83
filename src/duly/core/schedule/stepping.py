"""Sub-daily slots: they step on UTC, and what else a rule or an expression says filters them by wall time.

Without a filter a slot is a multiplication. With one, the time from an instant on is cut where the clocks
change and where a wall day ends. In such a piece the wall time is the instant plus one number, so the minutes
of the day that match are instants at once, and can be counted without being looked at.

A search ends with the days, or where none of 50,000 minutes that were looked at fits (a day counts as ten more).
That is six years of days, and as many steps of a rule whose steps are longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import Final, NamedTuple

from duly.core.moments import write_time
from duly.core.schedule.clocks import Stretch, stretches
from duly.core.schedule.courses import END, place_in_time
from duly.core.schedule.model import Slot

__all__ = ["Days", "Filtered", "Grid", "Stepping"]

SEARCH_LOOKS_MAX: Final = 50_000
PIECE_LOOKS: Final = 10  # what finding a piece costs, in minutes that are looked at
LEAP_PIECES_MAX: Final = 4_000

_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
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


class Days(NamedTuple):
    """Days that match."""

    since: Callable[[date], Iterator[date]]  # from a day on, in order
    holds: Callable[[date], bool]


class Grid(NamedTuple):
    """The instants that a rule steps on: whole numbers of `step` from `origin`, and the `block` behind each."""

    origin: datetime  # naive, UTC
    step: timedelta
    block: timedelta = _MINUTE

    def holds(self, instant: datetime) -> bool:
        """Whether a naive instant of UTC stands on it."""
        return (instant - self.origin) % self.step < self.block

    def points(self, begins: datetime, ends: datetime) -> Iterator[datetime]:
        """The whole numbers of `step` between two naive instants."""
        point = self.first_from(begins)
        while point < ends:
            yield point
            point += self.step

    def first_from(self, begins: datetime) -> datetime:
        """The first whole number of `step` that is not before a naive instant."""
        return self.origin + -((self.origin - begins) // self.step) * self.step


class _Piece(NamedTuple):
    """A wall day within one stretch, and which of the minutes that match are in it."""

    begins: datetime  # naive, UTC
    ends: datetime
    midnight: datetime  # of that day, in UTC by the offset of the stretch
    low: int  # of the minutes that match, the first one
    high: int  # ... and the one behind the last


@dataclass(frozen=True, slots=True)
class Filtered:
    """The instants whose wall time is on a day and at a minute that match, and that stand on a grid."""

    zone: tzinfo
    begins: datetime
    until: datetime
    minutes_of_day: tuple[int, ...]  # ascending
    days: Days | None = None  # None: every day
    seconds: timedelta = timedelta(0)  # behind the minute
    grid: Grid | None = None  # None: every minute

    def since(self, moment: datetime) -> Iterator[Slot]:
        """As in `Course`."""
        until, looks = _naive(self.until), 0
        for piece in self._pieces(_naive(max(moment, self.begins)), _LATEST):
            looks += PIECE_LOOKS
            if piece.begins > until or looks > SEARCH_LOOKS_MAX:
                return
            for due_at, fits in self._looked_at(piece):
                looks += 1
                if due_at > until:
                    return
                if fits:
                    looks = 0
                    yield _slot(due_at.replace(tzinfo=UTC))

    def place(self, label: str) -> Slot:
        """As in `Course`."""
        return place_in_time(label, self.zone)

    def leap(self, slot: Slot, moment: datetime, leave_slots: int) -> tuple[Slot, int]:
        """As in `Course`: pieces are counted, where no grid takes minutes out of them."""
        if self.grid is not None:
            return slot, 0
        ends = _naive(min(moment, self.until)) + _SMALLEST
        pieces = list(islice(self._pieces(_naive(slot.due_at), ends), LEAP_PIECES_MAX))
        left = 0
        while pieces and left < leave_slots:
            last = pieces.pop()
            left += last.high - last.low
        number = sum(piece.high - piece.low for piece in pieces)
        return (_slot(self._instant(last, last.low).replace(tzinfo=UTC)), number) if number else (slot, 0)

    def _looked_at(self, piece: _Piece) -> Iterator[tuple[datetime, bool]]:
        """Instants of a piece, and whether they fit: by the grid or by the minutes, whichever are fewer."""
        grid = self.grid
        if grid and grid.block == _MINUTE and _DAY // grid.step < len(self.minutes_of_day):
            allowed = frozenset(self.minutes_of_day[piece.low : piece.high])
            for due_at in grid.points(piece.begins, piece.ends):
                yield due_at, (due_at - piece.midnight) // _MINUTE in allowed
        else:
            for number in range(piece.low, piece.high):
                due_at = self._instant(piece, number)
                yield due_at, grid is None or grid.holds(due_at)

    def _instant(self, piece: _Piece, number: int) -> datetime:
        return piece.midnight + self.minutes_of_day[number] * _MINUTE + self.seconds

    def _pieces(self, begins: datetime, ends: datetime) -> Iterator[_Piece]:
        """The pieces that hold a minute that matches. Time without a day that matches is passed over."""
        while (begins := self._next(begins)) < ends:
            until = min(begins + _DAY, ends)
            for stretch in stretches(self.zone, begins, until):
                yield from self._pieces_of(stretch)
            begins = until

    def _next(self, begins: datetime) -> datetime:
        """From when on there may be something: on the grid, and no sooner than a clock shows a day that matches."""
        if self.grid is not None and self.grid.block == _MINUTE:
            begins = self.grid.first_from(begins)
        if self.days is None:
            return begins
        day = next(self.days.since(begins.date() - _DAY), None)
        return _LATEST if day is None else max(begins, datetime.combine(day, time()) - _DAY)

    def _pieces_of(self, stretch: Stretch) -> Iterator[_Piece]:
        day, last = (stretch.begins + stretch.offset).date(), (stretch.ends + stretch.offset - _SMALLEST).date()
        while day <= last:
            if self.days is None or self.days.holds(day):
                midnight = datetime.combine(day, time()) - stretch.offset
                low, high = self._number(stretch.begins - midnight), self._number(stretch.ends - midnight)
                if low < high:
                    yield _Piece(stretch.begins, min(stretch.ends, midnight + _DAY), midnight, low, high)
            day += _DAY

    def _number(self, time_of_day: timedelta) -> int:
        """How many of the minutes that match come before this time of a day."""
        return bisect_left(self.minutes_of_day, -((self.seconds - time_of_day) // _MINUTE))


def _naive(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


def _slot(due_at: datetime) -> Slot:
    return Slot(write_time(due_at), due_at)
