"""Facts: what people have asked for and the ledger has committed, as the world itself remembers it.

Nothing of it is read from the ledger: it is written down as each call commits, whether or not its answer arrives. A
backup holds the facts of its moment, so they are kept with it, and put back with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from duly.core import keys
from duly.core.consent import ALL, EVERYTHING, Kind
from duly.core.model import Channel, NewReminder
from duly.sim.plan import Plan, ReminderPlan, Settings
from duly.sim.times import Slot, slots_of

__all__ = ["NAMESPACE", "Call", "Facts", "Occurrence", "address_of", "recipient_id", "reminder_id"]

NAMESPACE: Final = "a-simulated-installation"
ONCE: Final = "once"
GENERATIONS_MAX: Final = 60


class Occurrence(NamedTuple):
    """What a delivery is for: its reminder's plan, the label without its generation, and the channel."""

    reminder: ReminderPlan
    label: str
    channel: Channel

    @property
    def whose(self) -> tuple[str, str, Channel, str]:
        """Those among whom it is counted: account, recipient, channel, purpose."""
        return (self.reminder.account, self.reminder.recipient, self.channel, self.reminder.purpose)


@dataclass(slots=True)
class Committed:
    """What a backup holds of it."""

    said: set[tuple[str, str, str, str]] = field(default_factory=set)  # account, address, opt_out or bounce, scope
    stopped: dict[tuple[str, bytes | str], int] = field(default_factory=dict)  # what stands still, and since when
    resumed: dict[bytes, int] = field(default_factory=dict)  # reminders: when they last went on
    cancelled: set[bytes] = field(default_factory=set)
    asked: set[bytes] = field(default_factory=set)  # reminders that were taken
    deleted: set[bytes] = field(default_factory=set)
    disabled: set[tuple[bytes, Channel]] = field(default_factory=set)
    zones: dict[bytes, str | None] = field(default_factory=dict)
    moved: dict[bytes, int] = field(default_factory=dict)  # recipients: when they last moved
    own: dict[bytes, str | None] = field(default_factory=dict)  # reminders that said another zone than was known then
    begun: dict[bytes, dict[int, int]] = field(default_factory=dict)  # deliveries: when attempts under a cap began
    left: set[tuple[bytes, int]] = field(default_factory=set)  # attempts of which a request left


class Call(NamedTuple):
    """A call that was made, and with what."""

    at_us: int
    actor: str
    name: str
    said: tuple[Any, ...]


@dataclass(slots=True)
class Facts:
    """All that is remembered. `hear` is told of every call that was answered by the store."""

    plan: Plan = field(repr=False)
    now: Committed = field(default_factory=Committed)
    kept: Committed = field(default_factory=Committed)
    serving: dict[str, Settings] = field(default_factory=dict)  # workers, and by which configuration
    seen_us: dict[str, int] = field(default_factory=dict)  # when each worker last read what is due
    claimed_us: dict[bytes, int] = field(default_factory=dict)  # when each delivery was last claimed
    reminders: dict[bytes, ReminderPlan] = field(default_factory=dict)
    _occurrences: dict[bytes, Occurrence | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reminders = {reminder_id(one): one for one in self.plan.reminders}

    # --- backups ---------------------------------------------------------------------------------

    def keep(self) -> None:
        """With a backup."""
        self.kept = copy.deepcopy(self.now)

    def put_back(self) -> None:
        """With it."""
        self.now = copy.deepcopy(self.kept)

    # --- what is asked ---------------------------------------------------------------------------

    def occurrence(self, delivery: bytes, reminder: bytes) -> Occurrence | None:
        """What a delivery is for; None if no schedule names it."""
        if delivery not in self._occurrences:
            plan = self.reminders.get(reminder)
            found = None if plan is None else next((one for name, one in self._names(plan) if name == delivery), None)
            self._occurrences[delivery] = found
        return self._occurrences[delivery]

    def zone(self, one: ReminderPlan) -> str | None:
        """Where its recipient lives, or is for this reminder."""
        reminder, recipient = reminder_id(one), recipient_id(one)
        if reminder in self.now.own:
            return self.now.own[reminder]
        return self.now.zones.get(recipient, self.plan.person(one.recipient).zone)

    def slots(self, one: ReminderPlan) -> tuple[Slot, ...]:
        """All slots of a reminder that goes on, as they are told now."""
        if one.course is None:
            return ()
        home = self.plan.person(one.recipient).zone
        return slots_of(one.course, home, self.zone(one) if one.course.follows_recipient and home else home)

    def silenced(self, at: Occurrence) -> str | None:
        """Why nothing may begin for that address and purpose; None if something may."""
        one, recipient = at.reminder, recipient_id(at.reminder)
        if recipient in self.now.deleted:
            return "its recipient was deleted"
        if (recipient, at.channel) in self.now.disabled:
            return "that channel is closed to its recipient"
        scopes = [one.purpose, *([] if one.purpose == "security" else [ALL])]
        said = [(one.account, address_of(one, at.channel), "bounce", EVERYTHING)]
        said += [(one.account, address_of(one, at.channel), "opt_out", scope) for scope in scopes]
        found = next((entry for entry in said if entry in self.now.said), None)
        return None if found is None else f"there was a {found[2]} of {found[3]}"

    def _names(self, one: ReminderPlan) -> Iterator[tuple[bytes, Occurrence]]:
        """Whatever a delivery of it may be named, in every generation. A label is the same in every zone."""
        labels = [ONCE] if one.course is None else [slot.label for slot in self.slots(one)]
        for number in range(1, GENERATIONS_MAX + 1):
            for label in labels:
                name = label if number == 1 else f"{label}#{number}"
                for channel in one.channels:
                    delivery = keys.delivery_id(NAMESPACE, one.account, one.key, name, channel)
                    yield delivery, Occurrence(one, label, channel)

    # --- what is heard ---------------------------------------------------------------------------

    def hear(self, call: Call, reply: object) -> None:
        """A call was answered. What was refused, or changed nothing, is no fact."""
        if call.name == "due":
            self.seen_us[call.actor] = call.at_us
        listener = _LISTENERS.get(call.name)
        if listener is not None and not isinstance(reply, Exception | str) and reply is not False:
            listener(self.now, call)


def reminder_id(one: ReminderPlan) -> bytes:
    """Its derived id."""
    return keys.reminder_id(NAMESPACE, one.account, one.key)


def recipient_id(one: ReminderPlan) -> bytes:
    """The derived id of its recipient."""
    return keys.recipient_id(NAMESPACE, one.account, one.recipient)


def address_of(one: ReminderPlan, channel: Channel) -> str:
    """The recipient's only address on a channel."""
    return f"{one.recipient}@{channel}"


# --- listeners -----------------------------------------------------------------------------------

Listener = Callable[[Committed, Call], None]


def _consent(now: Committed, call: Call) -> None:
    account, rows = call.said[1], call.said[2]
    for contact, said in rows:
        about = (account, contact.address)
        match said.kind:
            case Kind.OPT_OUT | Kind.BOUNCE:
                now.said.add((*about, str(said.kind), said.scope))
            case Kind.OPT_IN if (*about, "bounce", EVERYTHING) not in now.said:
                now.said.discard((*about, "opt_out", said.scope))
            case Kind.LIFT:
                now.said.discard((*about, "bounce", said.scope))


def _stop(kind: str) -> Listener:
    def listen(now: Committed, call: Call) -> None:
        _, _, what, *rest = call.said  # `paused` comes last
        if rest == [False]:
            now.stopped.pop((kind, what), None)
        else:
            now.stopped.setdefault((kind, what), call.at_us)

    return listen


def _go_on(now: Committed, reminder: bytes, at_us: int) -> None:
    if now.stopped.pop(("reminder", reminder), None) is not None:
        now.resumed[reminder] = at_us


def _resume(now: Committed, call: Call) -> None:
    _go_on(now, call.said[2].reminder, call.at_us)


def _revise(now: Committed, call: Call) -> None:
    reminder = call.said[2].reminder
    now.own.pop(reminder.id, None)
    _keep_own(now, reminder)
    if call.said[2].wake:
        _go_on(now, reminder.id, call.at_us)


def _keep_own(now: Committed, reminder: NewReminder) -> None:
    """A zone that it says is its own where another one is known."""
    if now.zones.get(reminder.recipient, reminder.recipient_zone) != reminder.recipient_zone:
        now.own[reminder.id] = reminder.recipient_zone


def _cancel(now: Committed, call: Call) -> None:
    now.cancelled |= {one for one in call.said[2:] if one is not None}


def _schedule(now: Committed, call: Call) -> None:
    for row in call.said[0]:
        if row.id not in now.asked:
            _keep_own(now, row)
    now.asked |= {row.id for row in call.said[0]}


def _delete(now: Committed, call: Call) -> None:
    now.deleted.add(call.said[2])


def _disable(now: Committed, call: Call) -> None:
    now.disabled.add(call.said[2:4])


def _move(now: Committed, call: Call) -> None:
    for row in call.said[2]:
        if row.id not in now.deleted:
            now.zones[row.id] = row.fields["zone"]
            now.moved[row.id] = call.at_us


_LISTENERS: Final[Mapping[str, Listener]] = {
    "record_consent": _consent,
    "pause_account": _stop("account"),
    "pause_template": _stop("template"),
    "pause_reminder": _stop("reminder"),
    "resume_reminder": _resume,
    "revise": _revise,
    "cancel": _cancel,
    "schedule": _schedule,
    "delete_recipient": _delete,
    "disable_channel": _disable,
    "upsert_recipients": _move,
}
