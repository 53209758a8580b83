"""Revising a reminder: what a newer version of it may still change, decided from what became of its occurrences.

An occurrence that was sent is not sent again because its reminder changed, and one that may have been is
not either. What is open and surely unsent is called off and comes anew, under the same label with the next
*generation*: `once#2`, `-PT1H#2`. So each firing keeps its own record, and no delivery is ever reused.
An offset that was sent stays in the schedule, where it is left out: it is told, and later changes know it.

Rules that repeat name their occurrences by local slots, which a new rule leaves as they are, and which have no
generation: a slot that was sent has its label still, whatever the reminder was in between, and no tick writes it
twice. What follows begins after the moment of the change, so that no
change fires at once; where the rule and its zone are the same, the next slot stays what it was, even if it is overdue.
An open slot goes out with the new words. If it would go to somebody else, nothing is changed until it has ended: the
one must not get what is meant for the other.

What is open and surely unsent under a label that the new version does not have is called off in any case.

`again` sends anew what was sent, by name: everything gets the next generation.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final, NamedTuple

from duly.core.model import NewReminder
from duly.core.moments import instant, write_duration
from duly.core.schedule import ONCE, Schedule, Slot, first
from duly.core.states import FINAL, State
from duly.core.upcoming import next_after, upcoming

__all__ = [
    "SUPERSEDED",
    "SURELY_UNSENT",
    "Fate",
    "Plan",
    "Revised",
    "Standing",
    "Whom",
    "base_label",
    "is_replaced",
    "labels_of",
    "left_out_of",
    "moved",
    "named",
    "revise",
]

GENERATIONS_MAX: Final = 1_000
#: It was accepted, or nobody will ever know whether it was.
AS_GOOD_AS_SENT: Final = frozenset({State.SENT, State.UNCONFIRMED})
#: Open, and nothing of it can have left.
SURELY_UNSENT: Final = frozenset({State.READY, State.WAITING, State.LEASED})
#: Why a delivery ends in whose place the new version's comes.
SUPERSEDED: Final = "superseded"


class Revised(StrEnum):
    """What became of a revision."""

    MOVED = "moved"
    ALREADY_SENT = "already_sent"
    ALREADY_SENDING = "already_sending"  # or in doubt
    NOT_NEWER = "not_newer"  # event_version went back
    CANCELLED = "cancelled"  # a cancelled reminder stays so
    UNDER_GUARD = "under_guard"  # it may have been sent before a backup was restored
    CHANGED = "changed"  # it is not the version any more that the change was made from


class Fate(NamedTuple):
    """What became of one delivery."""

    id: bytes
    occurrence: str
    state: State
    doubt: bool


class Whom(NamedTuple):
    """To whom deliveries go: the recipient, his inline addresses, and the channels."""

    recipient: bytes
    addresses: Mapping[str, str]
    channels: Sequence[str]

    @classmethod
    def of(cls, new: NewReminder) -> Whom:
        """Those of a reminder that is to be."""
        addresses = {str(contact.channel): contact.address for contact in new.contacts}
        return cls(new.recipient, addresses, sorted(map(str, new.channels)))


class Standing(NamedTuple):
    """A reminder and its deliveries, as they are on record."""

    now: datetime
    revision: int
    status: str
    event_version: int | None
    generation: int
    covered: bool  # its next occurrence lies under a restore guard
    next_due_at: datetime | None
    next_label: str | None
    schedule: str | None
    zone: str | None
    whom: Whom
    fates: Sequence[Fate]  # of the labels that were asked for, and whatever is open


class Plan(NamedTuple):
    """What to write: the reminder as it is to be, and the open deliveries that end for it. None: nothing.

    `left_out`: the labels that do not come again, because they were sent, or may have been.
    """

    answer: Revised
    reminder: NewReminder | None = None
    generation: int = 1
    call_off: tuple[bytes, ...] = ()
    left_out: tuple[str, ...] = ()


def named(label: str, generation: int) -> str:
    """An occurrence's label in its generation: `once`, `once#2`. A slot of a rule has none: it is the same for ever."""
    return label if generation == 1 or not _is_of_few(label) else f"{label}#{generation}"


def base_label(occurrence: str) -> str:
    """The label without its generation."""
    return occurrence.partition("#")[0]


def is_replaced(occurrence: str, generation: int, schedule: str | None) -> bool:
    """Whether its reminder's newer generation lets another occurrence come in the place of this one.

    `schedule` is the reminder's, as it is: an offset that was done when it was revised is left out there.
    """
    base, _, number = occurrence.partition("#")
    if int(number or 1) >= generation:
        return False
    found = None if schedule is None else Schedule.from_text(schedule)
    offsets = () if found is None else set(found.before) - set(found.left_out)
    return base == ONCE or base in map(offset_label, offsets)


def labels_of(new: NewReminder) -> tuple[str, ...]:
    """The labels of a reminder that has a few, in order; none for one that repeats."""
    if new.schedule is None:
        return (ONCE,)
    return tuple(offset_label(offset) for offset in Schedule.from_text(new.schedule).before)


def left_out_of(schedule: Schedule) -> list[str]:
    """The labels that do not come, because they were sent before the anchor moved."""
    return [offset_label(offset) for offset in schedule.left_out]


def moved(standing: Standing, plan: Plan) -> str:
    """What a revision changes, as its event keeps it (JSON text): `from, to` of the next occurrence, `left_out`."""
    to = plan.reminder and plan.reminder.next_due_at
    moments = {"from": standing.next_due_at, "to": to}
    told = {word: moment and instant(moment) for word, moment in moments.items()}
    return json.dumps({**told, "left_out": plan.left_out})


def revise(
    new: NewReminder, standing: Standing, zone: tzinfo | None, *, again: bool = False, newer_only: bool = False
) -> Plan:
    """Decide what a newer version of a reminder may change.

    `zone`: in which its local times are read. `newer_only`: its event_version has to be higher than the one on record.
    """
    if newer_only and not _is_newer(new.event_version, standing.event_version):
        return Plan(Revised.NOT_NEWER)
    if standing.status == "cancelled":
        return Plan(Revised.CANCELLED)
    if standing.covered:
        return Plan(Revised.UNDER_GUARD)
    if not newer_only and new.event_version != standing.event_version:
        return Plan(Revised.CHANGED)
    labels = labels_of(new)
    if not labels:
        return _revise_rule(new, standing, zone)
    return _revise_few(new, standing, labels, zone, again=again)


def _is_newer(version: int | None, than: int | None) -> bool:
    return version is not None and version > (-1 if than is None else than)


def _revise_rule(new: NewReminder, standing: Standing, zone: tzinfo | None) -> Plan:
    slots = [fate for fate in standing.fates if not _is_of_few(fate.occurrence)]
    if Whom.of(new) != standing.whom and any(fate.state not in FINAL for fate in slots):
        return Plan(Revised.ALREADY_SENDING)
    call_off = tuple(fate.id for fate in standing.fates if _is_of_few(fate.occurrence) and _surely_unsent(fate))
    return Plan(Revised.MOVED, _going_on(new, standing, zone), standing.generation, call_off)


def _is_of_few(label: str) -> bool:
    """Whether it is of a reminder that fires once or before an anchor: slots begin with a year."""
    return base_label(label) == ONCE or label.startswith("-")


def _going_on(new: NewReminder, standing: Standing, zone: tzinfo | None) -> NewReminder:
    """A rule with the slot that is next: the same as before where nothing about it has changed, else one behind now."""
    schedule, deadline = Schedule.from_text(new.schedule or ""), new.late_until or new.deadline
    same = (new.schedule, new.zone) == (standing.schedule, standing.zone)
    if same and standing.next_due_at is not None and standing.next_label is not None:
        told = upcoming(schedule, zone, Slot(standing.next_label, standing.next_due_at), deadline)
    else:
        behind_now = next_after(schedule, zone, standing.now, deadline)
        if behind_now is None:
            return new
        told = behind_now
    return replace(new, next_label=told.label, next_due_at=told.due_at, deadline_at=told.deadline_at)


def _revise_few(
    new: NewReminder, standing: Standing, labels: Sequence[str], zone: tzinfo | None, *, again: bool
) -> Plan:
    latest = _latest(standing.fates)
    done = {} if again else {label: answer for label in labels if (answer := _done(latest.get(label, ())))}
    left = [label for label in labels if label not in done]
    if not left:
        sending = Revised.ALREADY_SENDING in done.values()
        return Plan(Revised.ALREADY_SENDING if sending else Revised.ALREADY_SENT)
    fired = [fate for label in left for fate in latest.get(label, ())]
    generation = standing.generation + bool(fired)
    if generation > GENERATIONS_MAX:
        return Plan(Revised.ALREADY_SENT)
    gone = [fate for fate in standing.fates if base_label(fate.occurrence) not in labels]
    call_off = tuple(fate.id for fate in (*fired, *gone) if _surely_unsent(fate))
    return Plan(Revised.MOVED, _without(new, done, zone), generation, call_off, tuple(done))


def _latest(fates: Sequence[Fate]) -> dict[str, list[Fate]]:
    """By label, what became of its deliveries, in every generation."""
    found: dict[str, list[Fate]] = {}
    for fate in fates:
        found.setdefault(base_label(fate.occurrence), []).append(fate)
    return found


def _done(fates: Sequence[Fate]) -> Revised | None:
    """Whether this label is sent, or may be; None if all of it is surely unsent."""
    if any(fate.state not in FINAL and not _surely_unsent(fate) for fate in fates):
        return Revised.ALREADY_SENDING
    return Revised.ALREADY_SENT if any(fate.state in AS_GOOD_AS_SENT for fate in fates) else None


def _surely_unsent(fate: Fate) -> bool:
    return fate.state in SURELY_UNSENT and not fate.doubt


def offset_label(offset: timedelta) -> str:
    """The label of an occurrence so long before its anchor: `-PT24H`."""
    return f"-{write_duration(offset)}"


def _without(new: NewReminder, done: Container[str], zone: tzinfo | None) -> NewReminder:
    """The reminder with the offsets that are done left out."""
    if new.schedule is None:
        return new
    schedule = Schedule.from_text(new.schedule)
    left_out = tuple(offset for offset in schedule.before if offset_label(offset) in done)
    if not left_out:
        return new
    left = replace(schedule, left_out=left_out)
    told = upcoming(left, zone, first(left, zone), new.late_until or new.deadline)
    return replace(
        new, schedule=left.to_text(), next_label=told.label, next_due_at=told.due_at, deadline_at=told.deadline_at
    )
