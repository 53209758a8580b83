"""Slots that are due together: which of them are fired, which are skipped, and what comes next.

A tick that was missed, or an outage, leaves several slots of a reminder due. What becomes of them is its policy:

    latest   only the last one (the default)
    all:5    the last five
    skip     none that is older than a grace (5 minutes unless it says another): a tick that is a little late
             skips nothing

With `latest` and `all` a grace may be given too: what is older than it is skipped. A schedule that does not
repeat fires all it has, however late; each is judged by its own deadline.

A slot may have become due later than its own instant, where a zone was changed (see `rezoning`): its age counts from
then, because before nobody could have fired it.

Slots that share an instant (see `schedule`) are one firing: the first fires, the others count as skipped.

One call walks 10,000 slots and fires 100 at most. Where more is due, `next` is still due, and the next tick goes
on from there; what a policy keeps is chosen when the end is in sight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, tzinfo
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import Final, NamedTuple

from duly.core.schedule import Schedule, Slot, following, run_until, slot, slots

__all__ = ["FIRED_SLOTS_MAX", "SKIP_GRACE", "Caught", "Policy", "catch_up", "read_missed"]

FIRED_SLOTS_MAX: Final = 100
SKIP_GRACE: Final = timedelta(minutes=5)
#: At one instant: a wall time that is skipped, one that is not, and an instant that was added.
SHARED_SLOTS_MAX: Final = 3

_ALL: Final = re.compile(r"all:([0-9]{1,3})")
_SMALLEST: Final = timedelta(microseconds=1)
_due_at: Final = attrgetter("due_at")


class Policy(NamedTuple):
    """How many of the last slots are kept (0: all that are within the grace), and how old they may be."""

    keep: int
    grace: timedelta | None


class Caught(NamedTuple):
    """What becomes of the slots that are due by now. `next` is due later, or none, or (see above) still due."""

    fire: tuple[Slot, ...]  # oldest first
    skipped: int
    first_skipped: str | None  # labels
    last_skipped: str | None
    next: Slot | None


def read_missed(text: str) -> Policy:
    """`latest`, `skip` or `all:5` as a policy. Raises ValueError, which says what to write."""
    found = _ALL.fullmatch(text)
    if text == "latest":
        return Policy(1, None)
    if text == "skip":
        return Policy(0, SKIP_GRACE)
    if found is None or not 1 <= int(found[1]) <= FIRED_SLOTS_MAX:
        raise ValueError(f"it must be latest, skip, or all:5 with a number from 1 to {FIRED_SLOTS_MAX}")
    return Policy(int(found[1]), None)


def catch_up(
    schedule: Schedule,
    zone: tzinfo | None,
    label: str,
    now: datetime,
    policy: Policy,
    due_since: datetime | None = None,
) -> Caught:
    """Decide about every slot from `label` on that is due by now. Raises ValueError for a foreign label.

    `due_since`: when the slot of `label` became due, where that is not its own instant.
    """
    here, behind = slot(schedule, zone, label), following(schedule, zone, label)
    if here is None:
        here, behind = behind, following(schedule, zone, behind.label) if behind else None
    if here is None or here.due_at > now:
        return Caught((), 0, None, None, here)
    if due_since is not None and here.label == label:
        here = here._replace(due_at=max(here.due_at, due_since))
    if schedule.repeat is None:
        return _everything(schedule, zone, here, now)
    if behind is None or behind.due_at > now:
        return _judged((here,), lambda heads: heads, now, policy.grace, behind)
    if policy.keep:
        return _last_ones(schedule, zone, here, now, policy)
    return _young_ones(schedule, zone, here, now, policy.grace or SKIP_GRACE)


def _everything(schedule: Schedule, zone: tzinfo | None, here: Slot, now: datetime) -> Caught:
    """What does not repeat."""
    found = [here, *islice(slots(schedule, zone, here.label), 1, None)]
    due = tuple([slot for slot in found if slot.due_at <= now])
    return Caught(due, 0, None, None, found[len(due)] if len(due) < len(found) else None)


def _last_ones(schedule: Schedule, zone: tzinfo | None, here: Slot, now: datetime, policy: Policy) -> Caught:
    run = run_until(schedule, zone, here.label, now, SHARED_SLOTS_MAX * (policy.keep + 1) + 1)
    if run.behind is not None and run.behind.due_at <= now:
        return _put_off(run.tail, here, run.total)
    caught = _judged(run.tail, lambda heads: heads[-policy.keep :], now, policy.grace, run.behind)
    return _with_evicted(caught, here, run.total - len(run.tail))


def _young_ones(schedule: Schedule, zone: tzinfo | None, here: Slot, now: datetime, grace: timedelta) -> Caught:
    run = run_until(schedule, zone, here.label, now - grace - _SMALLEST, 1)
    old = Caught((), run.total, *_ends(run.tail), run.behind)
    if run.behind is not None and now - grace <= run.behind.due_at <= now:
        rest = slots(schedule, zone, run.behind.label)
        young = tuple(islice(takewhile(lambda slot: slot.due_at <= now, rest), FIRED_SLOTS_MAX))
        young, rest_begins = _whole_instants(schedule, zone, young)
        fresh = _judged(young, lambda heads: heads, now, None, rest_begins)
        old = fresh._replace(
            skipped=old.skipped + fresh.skipped,
            first_skipped=old.first_skipped or fresh.first_skipped,
            last_skipped=fresh.last_skipped or old.last_skipped,
        )
    return old._replace(first_skipped=here.label) if run.total else old


def _whole_instants(
    schedule: Schedule, zone: tzinfo | None, young: tuple[Slot, ...]
) -> tuple[tuple[Slot, ...], Slot | None]:
    """The slots with all others at the last one's instant, and the slot behind them."""
    behind = following(schedule, zone, young[-1].label)
    while behind is not None and behind.due_at == young[-1].due_at:
        young = (*young, behind)
        behind = following(schedule, zone, behind.label)
    return young, behind


def _judged(
    due: tuple[Slot, ...],
    chosen: Callable[[tuple[Slot, ...]], tuple[Slot, ...]],
    now: datetime,
    grace: timedelta | None,
    behind: Slot | None,
) -> Caught:
    """Fire what is chosen among the first slots of each instant, unless it is older than the grace."""
    heads = tuple([next(group) for _, group in groupby(due, _due_at)])
    fire = tuple([slot for slot in chosen(heads) if grace is None or now - slot.due_at <= grace])
    skipped = [slot for slot in due if slot not in fire]
    return Caught(fire, len(skipped), *_ends(skipped), behind)


def _put_off(tail: tuple[Slot, ...], here: Slot, count: int) -> Caught:
    """More is due than may be walked: all is skipped but what the policy may want to keep, which is next."""
    later = [slot for slot in tail if slot.due_at > tail[0].due_at]
    skipped = count - len(later)
    return Caught((), skipped, here.label, tail[-len(later) - 1].label, later[0])


def _with_evicted(caught: Caught, here: Slot, evicted: int) -> Caught:
    """Those that left the tail were skipped before all others."""
    if not evicted:
        return caught
    return caught._replace(skipped=caught.skipped + evicted, first_skipped=here.label)


def _ends(skipped: Iterable[Slot]) -> tuple[str | None, str | None]:
    labels = [slot.label for slot in skipped]
    return (labels[0], labels[-1]) if labels else (None, None)
