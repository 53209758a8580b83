"""Rescheduling: a reminder is built anew from what was submitted, at other times, and takes its own place.

It goes through intake like any submission, with the templates and the zones of now, so that what could not be taken
today is refused today. A rule begins behind now: a change does not fire at once. What was first submitted stays on
record: a repeated import is compared with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Final, NamedTuple

from duly.core.model import NewReminder
from duly.core.revising import Revised
from duly.core.schedule import ONCE, Schedule, is_set
from duly.core.upcoming import next_after
from duly.flows.revise import Wish, revise_reminder
from duly.intake import Intake, Rejection, zones
from duly.ports import Store
from duly.runtime.recipient_zones import KnownZones

__all__ = ["NewTimes", "Order", "Rescheduled", "reschedule", "resubmitted"]

#: The fields of a submission that say when: those that go where they are not said anew.
_OF_RULES: Final = ("repeat", "missed", "grace")
_OF_ANCHORS: Final = ("starts_at", "before")


class NewTimes(NamedTuple):
    """When a reminder is to fire from now on. There is `at`, `repeat` (with or without `at`), or `starts_at`."""

    at: str | None = None
    zone: str | None = None
    repeat: str | None = None
    starts_at: str | None = None
    before: Sequence[str] = ()
    deadline: str | None = None


class Order(NamedTuple):
    """Who wants it, and why. `again`: what was sent is sent once more, by name."""

    actor: str
    reason: str
    again: bool = False


class Rescheduled(NamedTuple):
    """What became of it: where it moved, its next occurrence."""

    answer: Revised
    label: str | None = None
    due_at: datetime | None = None
    zone: str | None = None
    left_out: tuple[str, ...] = ()  # labels that were sent, or may have been: they do not come again


async def reschedule(store: Store, intake: Intake, reminder: bytes, times: NewTimes, order: Order) -> Rescheduled:
    """Move a reminder. Raises Rejection where it cannot be taken at these times, and as `revise_reminder`."""
    submitted = await store.views().submission(reminder)
    now = (await store.due(0)).now
    new = await _taken(store, intake, resubmitted(submitted, times), now)
    wish = Wish(new, order.actor, order.reason, again=order.again, keep_body=True, wake=True)
    answer, *_, left_out = await revise_reminder(store, zones.known, wish)
    if answer is not Revised.MOVED:
        return Rescheduled(answer)
    shown = await store.views().show_reminder(reminder)
    if shown["next_due_at"] is None:  # a tick was there before us
        return Rescheduled(answer, new.next_label or ONCE, new.next_due_at, new.zone, left_out)
    due_at = datetime.fromisoformat(shown["next_due_at"])
    return Rescheduled(answer, shown["next_label"], due_at, shown["zone"], left_out)


async def _taken(store: Store, intake: Intake, raw: Mapping[str, Any], now: datetime) -> NewReminder:
    known, asked = KnownZones(), intake.asks_zone(raw)
    await known.look_up(store, [asked] if asked else [])
    return _behind(intake.accept(raw, now, known), now)


def resubmitted(submitted: Mapping[str, Any], times: NewTimes) -> dict[str, Any]:
    """The submission at its new times: what says when it fired before is gone, unless it still means something."""
    said = dict(submitted) | {
        word: value for word, value in (("zone", times.zone), ("deadline", times.deadline)) if value is not None
    }
    if times.starts_at is not None:
        before = list(times.before) or said.get("before")
        return _without(said, ("notify_at", *_OF_RULES)) | {"starts_at": times.starts_at, "before": before}
    if times.repeat is not None:
        return _without(said, _OF_ANCHORS) | {"repeat": times.repeat, "notify_at": _start(said, times)}
    return _without(said, (*_OF_ANCHORS, *_OF_RULES)) | {"notify_at": times.at}


def _start(said: Mapping[str, Any], times: NewTimes) -> Any:
    """From when a rule counts: a recurrence set from where the reminder did, a cron expression from now."""
    if times.at is not None or times.repeat is None or not is_set(times.repeat):
        return times.at
    return said.get("notify_at") or said.get("starts_at")


def _without(said: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    return {word: value for word, value in said.items() if word not in words}


def _behind(new: NewReminder, now: datetime) -> NewReminder:
    """A rule whose first occurrence lies behind now."""
    schedule = None if new.schedule is None else Schedule.from_text(new.schedule)
    if schedule is None or schedule.repeat is None or new.next_due_at > now:
        return new
    found = next_after(schedule, _zone(new), now, new.late_until or new.deadline)
    if found is None:
        raise Rejection("has no occurrence that is still to come; its last one is past", "repeat")
    return replace(new, next_label=found.label, next_due_at=found.due_at, deadline_at=found.deadline_at)


def _zone(new: NewReminder) -> tzinfo | None:
    return None if new.zone is None else zones.find(new.zone, "zone")
