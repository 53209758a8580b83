"""Schedules: when a reminder fires, in whose zone, under which labels; pure and bounded.

A schedule is an instant or a wall time; or a rule (RFC 5545) or a cron expression that goes on from a start;
or offsets before an anchor. In a zone it has *slots*, each with a label, which never changes, and an instant,
which follows the zone. A slot that becomes a delivery is an occurrence.

**Wall times.** A rule of DAILY or longer, and a cron expression with a fixed hour, name wall times. One that
the clocks skip is read with the offset before the gap (02:30 runs at 03:30; RFC 5545, 3.3.5) and never left
out; one that comes twice runs at its first pass. The label is the wall time. The order is that of the instants,
so behind a gap a skipped 02:30 stands between a real 03:15 and a real 03:45. A skipped wall time may be due at
the instant of a real one; the earlier label comes first, and the second one is not to be fired (see `missed`).

**Sub-daily.** FREQ=HOURLY and MINUTELY step on UTC from the start's instant, and their BY parts filter by wall
time. A cron expression with `*` or `*/n` for its hour is every instant whose wall time matches: both passes of a
repeated hour, nothing in a gap. The label is the instant.

**Bounded.** Nothing is stepped from the start: the first period to look at is found by a division, and every
search has a limit (`dates`, `cron`, `stepping`). COUNT is worked out once, as an UNTIL. A rule that has no slot
is refused when it is read. Answers are remembered, in bounded caches.
"""

from duly.core.schedule.courses import anchor_of
from duly.core.schedule.model import OFFSETS_MAX, ONCE, Schedule, Slot
from duly.core.schedule.sets import is_set
from duly.core.schedule.walking import (
    WALKED_SLOTS_MAX,
    Run,
    anchor,
    first,
    first_after,
    following,
    read_repeat,
    run_until,
    slot,
    slots,
    slots_since,
)

__all__ = [
    "OFFSETS_MAX",
    "ONCE",
    "WALKED_SLOTS_MAX",
    "Run",
    "Schedule",
    "Slot",
    "anchor",
    "anchor_of",
    "first",
    "first_after",
    "following",
    "is_set",
    "read_repeat",
    "run_until",
    "slot",
    "slots",
    "slots_since",
]
