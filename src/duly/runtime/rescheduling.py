"""Rescheduling: a reminder is built anew from what was submitted, at other times, and takes its own place.

It goes through intake like any submission, with the templates and the zones of now, so that what could not be taken
today is refused today. A rule begins behind now: a change does not fire at once. What was first submitted stays on
record: a repeated import is compared with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

from duly.core.model import NewReminder
from duly.core.revising import Revised
from duly.core.schedule import ONCE, Schedule, is_set, slots_since
from duly.core.upcoming import Upcoming, next_after, upcoming
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
    at_once: Sequence[str] = ()  # labels that are due already, and of use still
    expired: Sequence[str] = ()  # labels of which nothing comes, because their deadlines have passed


async def reschedule(store: Store, intake: Intake, reminder: bytes, times: NewTimes, order: Order) -> Rescheduled:
    """Move a reminder. Raises Rejection where it cannot be taken at these times, and as `revise_reminder`."""
    submitted = await store.views().submission(reminder)
    now = (await store.due(0)).now
    new = await _taken(store, intake, resubmitted(submitted, times), now)
    _refuse_what_is_over(new, now)
    wish = Wish(new, order.actor, order.reason, again=order.again, keep_body=True, wake=True)
    answer, *_, left_out = await revise_reminder(store, zones.known, wish)
    if answer is not Revised.MOVED:
        return Rescheduled(answer)
    shown, left = await store.views().show_reminder(reminder), (await store.standing(reminder, ())).schedule
    late, over = _behind_now(_occurrences(replace(new, schedule=left)), now)
    if shown["next_due_at"] is None:  # a tick was there before us
        return Rescheduled(answer, new.next_label or ONCE, new.next_due_at, new.zone, left_out, late, over)
    due_at = datetime.fromisoformat(shown["next_due_at"])
    return Rescheduled(answer, shown["next_label"], due_at, shown["zone"], left_out, late, over)


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


# --- what lies behind now ------------------------------------------------------------------------


def _occurrences(new: NewReminder) -> list[Upcoming]:
    """Those of a reminder that has a few; of one that repeats none, because it goes on behind now."""
    if new.schedule is None:
        return [Upcoming(ONCE, new.next_due_at, new.deadline_at)]
    schedule, clocks = Schedule.from_text(new.schedule), _zone(new)
    if schedule.repeat is not None:
        return []
    slots = slots_since(schedule, clocks, datetime.min.replace(tzinfo=UTC))
    return [upcoming(schedule, clocks, slot, new.late_until or new.deadline) for slot in slots]


def _behind_now(occurrences: Sequence[Upcoming], now: datetime) -> tuple[list[str], list[str]]:
    """The labels of those that are due already: of use still, and not any more."""
    due = [one for one in occurrences if one.due_at <= now]
    return [one.label for one in due if one.deadline_at > now], [one.label for one in due if one.deadline_at <= now]


def _refuse_what_is_over(new: NewReminder, now: datetime) -> None:
    """Raises Rejection where nothing would come of it: every deadline has passed."""
    few = _occurrences(new)
    if few and all(one.deadline_at <= now for one in few):
        what = "it lies" if len(few) == 1 else "they all lie"
        reason = f"nothing would come of it: {what} in the past with the deadline; give a later time, or a deadline"
        raise Rejection(reason, "starts_at" if new.schedule else "notify_at")
