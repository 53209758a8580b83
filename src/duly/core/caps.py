"""Frequency caps: so many deliveries to one recipient on one channel, within so long.

A cap is written "3/P1D": three within any 24 hours. The time looked at slides: what began at an instant
counts until `per` has passed since then, and not at that instant itself.

What counts is decided by whoever counts, and must be this:

- a delivery counts once, from its first begin, however often it is attempted;
- one in doubt counts, because it may have arrived, and so does one that was sent, rejected or refused. It
  may be repeated, whatever has begun since;
- one of which every attempt was `not_sent` does not count: nothing of it ever left;
- counted are the deliveries of the same account, recipient, channel and purpose;
- the delivery that asks is not among them: once it counts, a repeat of it takes no further place.

The cap is a promise about what begins, so counting and beginning belong into one transaction.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.core.moments import instant, parse_duration

__all__ = [
    "COUNT_DELIVERIES_MAX",
    "FREQUENCY_CAP",
    "PER_DAYS_MAX",
    "Ask",
    "Cap",
    "evidence",
    "passing",
    "read_cap",
    "room",
    "uncapped",
    "waiting",
    "written",
]

COUNT_DELIVERIES_MAX: Final = 1_000
PER_DAYS_MAX: Final = 366
TEXT_CHARACTERS_MAX: Final = 64

#: Why a delivery waits that a cap puts off.
FREQUENCY_CAP: Final = "frequency_cap"

_CAP: Final = re.compile(r"(?P<count>[0-9]{1,6})/(?P<per>P.*)", re.IGNORECASE)
_WANTED: Final = "write one like 3/P1D, which is three within a day"


@dataclass(frozen=True, slots=True)
class Cap:
    """At most `count` deliveries within any stretch of time as long as `per`."""

    count: int
    per: timedelta


class Ask(NamedTuple):
    """A delivery that would begin under a cap. `whose`: recipient, channel and purpose, which are counted together."""

    whose: tuple[bytes, str, str]
    cap: Cap
    taken: Sequence[datetime]  # as `room` takes them
    has_place: bool  # it counts already
    in_doubt: bool  # it may have arrived, so it counts, and is not asked


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


def evidence(cap: Cap, until: datetime) -> str:
    """What a deferral by a cap keeps as JSON text: the cap as it was then, and from when on there is room."""
    return json.dumps({"cap": written(cap), "until": instant(until)})


def room(cap: Cap, taken: Sequence[datetime], now: datetime) -> datetime | None:
    """When one more may begin: None for now, else the instant at which enough have ceased to count.

    `taken` are the first begins of what counts (see above), in UTC and any order; the `count` latest of them
    are enough, and older ones do no harm. One that lies in the future counts.
    """
    counting = sorted(began for began in taken if began + cap.per > now)
    return counting[-cap.count] + cap.per if len(counting) >= cap.count else None


def uncapped(account: str, purpose: str) -> Cap | None:  # noqa: ARG001 - as Policies.cap
    """Nobody has chosen a cap."""
    return None


# --- several at once -----------------------------------------------------------------------------


def passing(asks: Mapping[bytes, Ask], now: datetime) -> frozenset[bytes]:
    """The deliveries that may begin now. They ask in their order, and one that may takes its place before the next."""
    given: defaultdict[tuple[bytes, str, str], list[datetime]] = defaultdict(list)
    passed: list[bytes] = []
    for delivery, ask in asks.items():
        mine = given[ask.whose]
        if ask.has_place or ask.in_doubt or room(ask.cap, [*ask.taken, *mine], now) is None:
            passed.append(delivery)
            mine += [now] * (not ask.has_place)
    return frozenset(passed)


def waiting(
    asks: Mapping[bytes, Ask], passed: Collection[bytes], begun: Collection[bytes], now: datetime
) -> dict[bytes, datetime]:
    """Until when those wait that did not pass, now that these have begun.

    One for whom there is room after all, because another that passed did not begin, is not named: it may ask again.
    """
    places = Counter(ask.whose for delivery, ask in asks.items() if delivery in begun and not ask.has_place)
    found = {
        delivery: room(ask.cap, [*ask.taken, *[now] * places[ask.whose]], now)
        for delivery, ask in asks.items()
        if delivery not in passed
    }
    return {delivery: until for delivery, until in found.items() if until is not None}
