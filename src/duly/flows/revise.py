"""Revise: a newer version of a reminder takes the place of the one on record, as far as that was not sent.

What became of its occurrences is read first, and the plan is written only if nothing has changed since: the
reminder's revision is compared, and each delivery that is to be called off has to be unsent still. Otherwise
one looks again. Every begin waits for the reminder's row, so none slips in between.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from duly.core.model import NewReminder
from duly.core.revising import Plan, labels_of, moved, revise
from duly.errors import StoreError
from duly.ports import Revision, Store, Zones

__all__ = ["Wish", "revise_reminder"]

#: Somebody else has to win each of these before we give up.
LOOKS_MAX: Final = 20


class Wish(NamedTuple):
    """What is to be in force from now on, who says so, and why."""

    reminder: NewReminder
    actor: str
    reason: str
    again: bool = False  # what was sent is sent once more, by name
    newer_only: bool = False  # its event_version has to be higher than the one on record
    keep_body: bool = False  # a repeated import is compared with what was first submitted
    wake: bool = False  # a paused one goes on


async def revise_reminder(store: Store, zones: Zones, wish: Wish) -> Plan:
    """Bring a reminder's newer version in force; returns the plan that was written, or that says why nothing was.

    Raises NotFound, and StoreError if others change the reminder all the time.
    """
    new = wish.reminder
    zone = None if new.zone is None else zones(new.zone)
    for _ in range(LOOKS_MAX):
        standing = await store.standing(new.id, labels_of(new))
        plan = revise(new, standing, zone, again=wish.again, newer_only=wish.newer_only)
        if plan.reminder is None:
            return plan
        seen = (standing.revision, standing.next_due_at)
        revision = Revision(plan.reminder, *seen, plan.generation, plan.call_off, wish.keep_body, wish.wake)
        revision = revision._replace(evidence=moved(standing, plan))
        if await store.revise(wish.actor, wish.reason, revision):
            return plan
    raise StoreError(f"account {new.account}, key {new.key}: others change this reminder all the time; try again")
