"""Frequency caps: so many deliveries to one recipient on one channel, within so long.

A cap is written "3/P1D": three within any 24 hours. The time looked at slides: what began at an instant
counts until `per` has passed since then, and not at that instant itself.

What counts is decided by whoever counts, and must be this:

- a delivery counts once, from its first begin, however often it is attempted;
- one in doubt counts, because it may have arrived, and so does one that was sent, rejected or refused;
- one of which every attempt was `not_sent` does not count: nothing of it ever left;
- counted are the deliveries of the same account, recipient, channel and purpose;
- the delivery that asks is not among them: once it counts, a repeat of it takes no further place.

The cap is a promise about what begins, so counting and beginning belong into one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from duly.core.moments import parse_duration

__all__ = ["COUNT_DELIVERIES_MAX", "PER_DAYS_MAX", "Cap", "read_cap", "room", "written"]

COUNT_DELIVERIES_MAX: Final = 1_000
PER_DAYS_MAX: Final = 366
TEXT_CHARACTERS_MAX: Final = 64

_CAP: Final = re.compile(r"(?P<count>[0-9]{1,6})/(?P<per>P.*)", re.IGNORECASE)
_WANTED: Final = "write one like 3/P1D, which is three within a day"


@dataclass(frozen=True, slots=True)
class Cap:
    """At most `count` deliveries within any stretch of time as long as `per`."""

    count: int
    per: timedelta


def read_cap(text: str) -> Cap:
    """A cap of 1 to 1,000 deliveries within at most 366 days. Raises ValueError, whose text says what to write."""
    found = _CAP.fullmatch(text) if len(text) <= TEXT_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"it is not a cap; {_WANTED}")
    count, per = int(found["count"]), parse_duration(found["per"])
    if not 1 <= count <= COUNT_DELIVERIES_MAX:
        raise ValueError(f"its number is not between 1 and {COUNT_DELIVERIES_MAX:,}; {_WANTED}")
    if per > timedelta(days=PER_DAYS_MAX):
        raise ValueError(f"it looks back over {PER_DAYS_MAX} days; {_WANTED}")
    return Cap(count, per)


def written(cap: Cap) -> str:
    """The cap as `read_cap` takes it, in one form for each."""
    minutes, seconds = divmod(cap.per.seconds, 60)
    parts = ((minutes // 60, "H"), (minutes % 60, "M"), (seconds, "S"))
    clock = "".join(f"{number}{unit}" for number, unit in parts if number)
    days = f"{cap.per.days}D" if cap.per.days else ""
    return f"{cap.count}/P{days}{'T' if clock else ''}{clock}"


def room(cap: Cap, taken: Sequence[datetime], now: datetime) -> datetime | None:
    """When one more may begin: None for now, else the instant at which enough have ceased to count.

    `taken` are the first begins of what counts (see above), in UTC and any order; the `count` latest of them
    are enough, and older ones do no harm. One that lies in the future counts.
    """
    counting = sorted(began for began in taken if began + cap.per > now)
    return counting[-cap.count] + cap.per if len(counting) >= cap.count else None
