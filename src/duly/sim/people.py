"""People: the application that submits, cancels and reschedules, and the operator who decides.

Everything they ask for is repeated until the database has answered, and kept in a book: after a restore,
what the backup does not remember is asked for once more, from the book, as an operator would have it done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from duly.core import keys
from duly.core.consent import ALL, Kind, Said
from duly.core.model import Channel, NewContact, NewReminder
from duly.core.schedule import ONCE
from duly.core.states import State
from duly.flows.holds import Verdict, decide_hold
from duly.flows.redrive import redrive
from duly.flows.revise import Wish, revise_reminder
from duly.intake import zones
from duly.ports import NewConsent, Store
from duly.sim.asking import APPLICATION, Ask, if_there, until_answered
from duly.sim.chance import Chance
from duly.sim.clocks import Time
from duly.sim.errands import Errands, going_on
from duly.sim.facts import NAMESPACE, recipient_id, reminder_id
from duly.sim.plan import Feature, Plan, ReminderPlan
from duly.sim.truth import OPERATOR, Expected, Truth
from duly.sim.turns import Turn

__all__ = ["People", "delivery_of"]

ON_ITS_WAY: Final = frozenset({State.READY, State.LEASED, State.WAITING})


class Cue(StrEnum):
    """What a wish may wait for, beside the state of its delivery."""

    JUST_DUE = "just_due"  # a tick may have seen it
    IN_DOUBT = "in_doubt"  # and on its way to be sent again


#: A wish comes at any time, or as soon as its delivery stands so.
WATCHED: Final = (None, None, State.READY, State.LEASED, State.SENDING, State.WAITING, State.UNCERTAIN, State.HELD)
#: When it matters most, for half of the wishes.
AT_WORST: Final[Mapping[Feature, Sequence[State | Cue]]] = {
    Feature.CANCELS: (State.SENDING, Cue.IN_DOUBT),
    Feature.OPT_OUTS: (State.LEASED,),
    Feature.RESCHEDULES: (Cue.JUST_DUE,),
    Feature.CONSENTS: (State.READY, State.LEASED),
    Feature.PAUSES: (State.LEASED, State.WAITING),
    Feature.PERSONS: (State.READY, State.LEASED),
}
JUST_DUE_SECONDS: Final = (0.0005, 1.0)
WISH_PART: Final = 0.5
#: Pauses matter in moments that are short, so there are more of them.
PAUSE_PART: Final = 0.9

Do = Callable[[NewReminder], Coroutine[Any, Any, None]]


class Entry(NamedTuple):
    """Something that was asked for, and when it was answered."""

    at_us: int
    wish: Ask


@dataclass(slots=True)
class Book:
    """All that was asked for, in the order in which it was answered."""

    entries: list[Entry] = field(default_factory=list)

    def since(self, us: int) -> Iterator[Entry]:
        """What was answered from a moment on, and meanwhile, while somebody reads: the last word stays the last."""
        return (entry for entry in self.entries if entry.at_us >= us)


@dataclass(slots=True)
class People:
    """Their wishes, at times that the seed has drawn."""

    plan: Plan
    store: Store
    time: Time
    chance: Chance
    truth: Truth
    is_calm: Callable[[], bool] = lambda: False  # whether faults have stopped
    book: Book = field(default_factory=Book)

    def doings(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Each thing that somebody does, by the name of who does it."""
        for reminder in self.plan.reminders:
            chance = Chance(self.plan.seed, f"wishes about {reminder.key}")
            yield APPLICATION, lambda reminder=reminder: self._submit(reminder)  # type: ignore[misc]
            for feature, do in self._later().items():
                if chance.happens(PAUSE_PART if feature is Feature.PAUSES else WISH_PART) and self.plan.has(feature):
                    yield APPLICATION, partial(self._do, reminder, feature, do)
        if self.plan.has(Feature.REDRIVES):
            yield OPERATOR, self._redrive_now_and_then
        if self.plan.has(Feature.DECISIONS):
            yield OPERATOR, self._decide_holds

    async def ask(self, wish: Ask) -> None:
        """Ask until the answer is there, and write it down."""
        await until_answered(self.time, self.chance, wish)
        self.book.entries.append(Entry(self.time.us, wish))

    # --- the application -------------------------------------------------------------------------

    def _later(self) -> dict[Feature, Do]:
        errands = Errands(self.plan, self.store, self.time, self.chance, self.ask, self.is_calm)
        return {
            Feature.CANCELS: self._cancel,
            Feature.OPT_OUTS: self._opt_out,
            Feature.RESCHEDULES: self._reschedule,
            Feature.SUBMITTED_TWICE: self._schedule,
            Feature.CONSENTS: errands.speak,
            Feature.PAUSES: errands.pause,
            Feature.PERSONS: errands.change,
        }

    async def _submit(self, wanted: ReminderPlan) -> None:
        await self._wait(wanted.submitted_at)
        await self._schedule(self._reminder(wanted))

    async def _do(self, wanted: ReminderPlan, feature: Feature, do: Do) -> None:
        """Somewhere between its submission and well after its time; or just when it matters."""
        reminder = self._reminder(wanted)
        latest = self.chance.between(wanted.submitted_at, wanted.due_at + self.plan.horizon_seconds * 0.3)
        cue = self._cue(feature)
        if cue is Cue.JUST_DUE:
            latest, cue = wanted.due_at + self.chance.spread(*JUST_DUE_SECONDS), None
        delivery = delivery_of(reminder, self.chance.pick(reminder.channels), reminder.next_label or ONCE)
        await Turn("later", Time().after(latest), None if cue is None else lambda: self._stands(delivery, cue))
        await do(reminder)

    def _cue(self, feature: Feature) -> State | Cue | None:
        """What it waits for; None: nothing."""
        if feature in AT_WORST and self.chance.happens(0.5):
            return self.chance.pick(AT_WORST[feature])
        return self.chance.pick(WATCHED)

    def _stands(self, delivery: bytes, cue: State | Cue) -> bool:
        standing = self.truth.ledger.standing.get(delivery)
        if standing is None:
            return False
        return bool(standing.doubt) and standing.state in ON_ITS_WAY if cue is Cue.IN_DOUBT else standing.state is cue

    async def _wait(self, seconds: float) -> None:
        await Turn("later", Time().after(seconds))

    async def _schedule(self, reminder: NewReminder) -> None:
        await self.ask(lambda: self.store.schedule([reminder]))
        for channel in reminder.channels:
            if reminder.schedule is None:
                wanted = Expected(reminder.id, f"{reminder.key} by {channel}")
                self.truth.expected.setdefault(delivery_of(reminder, channel), wanted)

    async def _cancel(self, reminder: NewReminder) -> None:
        """What was cancelled may never have become a delivery."""
        delivery = delivery_of(reminder, self.chance.pick(reminder.channels), reminder.next_label or ONCE)
        whole = self.chance.happens(0.5)
        target = {"reminder": reminder.id, "delivery": None} if whole else {"reminder": None, "delivery": delivery}
        await self.ask(lambda: if_there(self.store.cancel(APPLICATION, "not needed any more", **target)))

    async def _opt_out(self, reminder: NewReminder) -> None:
        said = Said(Kind.OPT_OUT, ALL, None, APPLICATION, "wants no more")
        told = [NewConsent(self.chance.pick(reminder.contacts), said)]
        await self.ask(lambda: self.store.record_consent(APPLICATION, reminder.account, told))

    async def _reschedule(self, reminder: NewReminder) -> None:
        """One that goes on has new words, and keeps its slots."""
        due = self.time.now() + timedelta(seconds=self.chance.between(-60.0, self.plan.horizon_seconds * 0.3))
        lasts = reminder.deadline_at - reminder.next_due_at
        moved = replace(reminder, notify_at=due.isoformat(), next_due_at=due, deadline_at=due + lasts)

        async def wish() -> object:
            new = moved if reminder.schedule is None else self._ahead(reminder, lasts)
            if new is None:
                return None
            wanted = Wish(new, APPLICATION, "moved", keep_body=True, wake=True)
            return await if_there(revise_reminder(self.store, zones.known, wanted))

        await self.ask(wish)

    def _ahead(self, reminder: NewReminder, lasts: timedelta) -> NewReminder | None:
        """One that goes on, with other words, from its next slot on; None if nothing is left of it."""
        slots = self.truth.facts.slots(self.truth.facts.reminders[reminder.id])
        behind = next((slot for slot in slots if slot.due_at > self.time.now()), None)
        said = replace(reminder, data=json.dumps({"text": "in other words"}))
        if behind is None or reminder.missed is None:  # what has offsets stays as it was submitted
            return None if behind is None else said
        return replace(said, next_label=behind.label, next_due_at=behind.due_at, deadline_at=behind.due_at + lasts)

    def _reminder(self, wanted: ReminderPlan) -> NewReminder:
        """The same values every time: a repeat is the same body."""
        person = self.plan.person(wanted.recipient)
        due = Time.moment(Time().after(wanted.due_at))
        contacts = tuple(_contact(wanted, channel) for channel in wanted.channels)
        data = {"text": f"for {wanted.recipient}", "poison": wanted.poison, "unrenderable": wanted.unrenderable}
        once = NewReminder(
            id=reminder_id(wanted),
            account=wanted.account,
            key=wanted.key,
            body_hash=keys.payload_hash(wanted.key.encode()),
            recipient=recipient_id(wanted),
            recipient_ref=wanted.recipient,
            recipient_name=None,
            recipient_zone=person.zone,
            recipient_locale=None,
            contacts=contacts,
            channels=wanted.channels,
            template=wanted.template,
            data=json.dumps(data),
            to=json.dumps({"id": wanted.recipient}),
            notify_at=due.isoformat(),
            zone=None,
            next_due_at=due,
            deadline=None,
            deadline_at=due + timedelta(seconds=wanted.lasts),
            late="drop",
            lane=wanted.lane,
            purpose=wanted.purpose,
            event_version=None,
            recipient_quiet_hours=person.quiet,
        )
        return once if wanted.course is None else going_on(once, wanted.course, person.zone, int(wanted.lasts))

    # --- the operator ----------------------------------------------------------------------------

    async def _redrive_now_and_then(self) -> None:
        for _ in range(self.chance.number(1, 3)):
            await self._wait(self.chance.between(0.0, self.plan.horizon_seconds))
            dead = [row.id for row in self.truth.ledger.standing.values() if row.state in (State.DEAD, State.REJECTED)]
            if dead:
                await self.ask(lambda dead=dead: redrive(self.store, dead, "looks mended", OPERATOR))  # type: ignore[misc]

    async def _decide_holds(self) -> None:
        """Not all of them: the others are left to their own end."""
        seen: set[bytes] = set()
        while True:
            turn = Turn("look at holds", self.time.after(self.chance.spread(10.0, 3600.0)), duty="decide")
            await turn
            held = [row.id for row in self.truth.ledger.standing.values() if row.state is State.HELD]
            for delivery in held:
                if delivery not in seen and self.chance.happens(0.7):
                    await self._decide(delivery)
                seen.add(delivery)

    async def _decide(self, delivery: bytes) -> None:
        """He has asked the receiver: he says sent only where that is so."""
        verdicts = [Verdict.RESEND, Verdict.CLOSE, *([Verdict.SENT] if self.truth.of(delivery) else [])]
        verdict = self.chance.pick(verdicts)

        async def wish() -> object:
            return await if_there(decide_hold(self.store, delivery, verdict, f"{verdict}_after_a_call", OPERATOR))

        await until_answered(self.time, self.chance, wish)


def delivery_of(reminder: NewReminder, channel: Channel, label: str = ONCE) -> bytes:
    """The delivery of an occurrence by a channel."""
    return keys.delivery_id(NAMESPACE, reminder.account, reminder.key, label, channel)


def _contact(wanted: ReminderPlan, channel: Channel) -> NewContact:
    address = f"{wanted.recipient}@{channel}"
    endpoint = keys.endpoint_id(NAMESPACE, address) if channel is Channel.WEBHOOK else keys.NO_ENDPOINT
    return NewContact(keys.contact_id(NAMESPACE, wanted.account, channel, address), channel, address, endpoint)
