"""Errands of people: who wants to hear what, what stands still for a while, who moves away.

Each is asked for by the call or the flow that the product ships for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from duly.core.consent import ALL, EVERYTHING, Kind, Said
from duly.core.model import NewReminder
from duly.core.moments import write_time
from duly.core.schedule import Schedule, read_repeat
from duly.flows.resume import resume_reminder
from duly.flows.rezone import Change, rezone
from duly.intake import zones
from duly.ports import NewConsent, RecipientChange, Store
from duly.sim.asking import APPLICATION, Ask, if_there
from duly.sim.chance import Chance
from duly.sim.clocks import Time
from duly.sim.plan import Plan
from duly.sim.times import ZONES, Course, cron_of, slots_of, wall_start, zone_named
from duly.sim.turns import Turn

__all__ = ["Errands", "going_on"]

WHY: Final = "asked to"
#: What is said about an address, and what ends it.
ENDED_BY: Final = {Kind.OPT_OUT: Kind.OPT_IN, Kind.BOUNCE: Kind.LIFT}


@dataclass(slots=True)
class Errands:
    """Things that an application does about the persons and times of a reminder."""

    plan: Plan
    store: Store
    time: Time
    chance: Chance
    ask: Callable[[Ask], Awaitable[None]]
    is_calm: Callable[[], bool]

    async def _a_while(self) -> None:
        """Not longer than faults last: what waits for it looks again every minute."""
        seconds = self.chance.spread(1.0, self.plan.horizon_seconds)
        await Turn("later", self.time.after(seconds), self.is_calm)

    async def speak(self, reminder: NewReminder) -> None:
        """Opt out of its purpose or of all of them, or let its address bounce; half of that is ended later."""
        kind = self.chance.pick((Kind.OPT_OUT, Kind.OPT_OUT, Kind.BOUNCE))
        scope = EVERYTHING if kind is Kind.BOUNCE else self.chance.pick((reminder.purpose, ALL))
        contact = self.chance.pick(reminder.contacts)

        def told(word: Kind) -> Ask:
            rows = [NewConsent(contact, Said(word, scope, None, APPLICATION, WHY))]
            return lambda: self.store.record_consent(APPLICATION, reminder.account, rows)

        await self.ask(told(kind))
        if self.chance.happens(0.5):
            await self._a_while()
            await self.ask(told(ENDED_BY[kind]))

    async def pause(self, reminder: NewReminder) -> None:
        """Let it stand still, or its account, or its template; and go on again."""
        store, who = self.store, (APPLICATION, WHY)
        account, template = (*who, reminder.account), (*who, reminder.template)
        back = (store, zones.known, zones.version(), *who, reminder.id)
        ways: tuple[tuple[Ask, Ask], ...] = (
            (lambda: store.pause_reminder(*who, reminder.id), lambda: resume_reminder(*back)),
            (lambda: store.pause_account(*account), lambda: store.pause_account(*account, paused=False)),
            (lambda: store.pause_template(*template), lambda: store.pause_template(*template, paused=False)),
        )
        stop, go_on = self.chance.pick((ways[0], *ways))
        await self.ask(lambda: if_there(stop()))
        await self._a_while()
        await self.ask(lambda: if_there(go_on()))

    async def change(self, reminder: NewReminder) -> None:
        """Its recipient moves to another zone, closes a channel, or is deleted."""
        whom, channel, zone = reminder.recipient, self.chance.pick(reminder.channels), self.chance.pick(ZONES[1:])

        async def move() -> object:
            rows = [RecipientChange(whom, reminder.recipient_ref, {"zone": zone}, {})]
            await self.store.upsert_recipients(APPLICATION, reminder.account, rows)
            return await rezone(self.store, zones.known, Change(zones.version(), APPLICATION, [whom]))

        wish: Ask = self.chance.pick(
            (
                move,
                move,
                lambda: self.store.disable_channel(APPLICATION, WHY, whom, channel),
                lambda: self.store.delete_recipient(APPLICATION, WHY, whom),
            )
        )
        await self.ask(lambda: if_there(wish()))


def going_on(once: NewReminder, course: Course, home: str | None, lasts_seconds: int) -> NewReminder:
    """A reminder as intake makes it of one that goes on."""
    first = slots_of(course, home, home)[0]
    schedule = _schedule(course, home)
    return replace(
        once,
        schedule=schedule.to_text(),
        next_label=first.label,
        notify_at=write_time(schedule.start),
        zone=zone_named(home).key if course.in_zone else None,
        follows_recipient=course.in_zone and course.follows_recipient and home is not None,
        zone_data=zones.version() if course.in_zone else None,
        missed=course.missed if course.repeats else None,
        next_due_at=first.due_at,
        deadline=f"PT{lasts_seconds}S",
        deadline_at=first.due_at + timedelta(seconds=lasts_seconds),
    )


def _schedule(course: Course, home: str | None) -> Schedule:
    zone = zone_named(home)
    if course.before_minutes:
        return Schedule(course.start, None, tuple(timedelta(minutes=number) for number in course.before_minutes))
    start = wall_start(course, zone) if course.in_zone else course.start
    if course.cron:
        return Schedule(start, read_repeat(cron_of(course, zone), start))
    rule = "FREQ=DAILY" if course.days else f"FREQ=MINUTELY;INTERVAL={course.step_minutes}"
    return Schedule(start, read_repeat(f"{rule};COUNT={course.times}", start))
