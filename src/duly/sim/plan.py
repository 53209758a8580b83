"""A plan: all that one seed draws before anything happens.

Every seed is another world: which features are used and which faults strike, how often, how many workers,
accounts and reminders there are, what receivers promise and what accounts have chosen. Leaving most of it
out of most worlds finds more than having a little of everything in each (A. Groce et al., "Swarm Testing",
ISSTA 2012). A plan is a value, so that a failing one can be made smaller and run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from duly.core.caps import Cap
from duly.core.limits import DEATHS_MAX, LEASE_MARGIN_SECONDS, Limits
from duly.core.model import Capabilities, Channel, HoldPolicy, Lane, OnDoubt
from duly.sim.chance import Chance
from duly.sim.faults import Kind
from duly.sim.times import ACCOUNT_ZONE, ZONES, Course, draw_course, draw_window, slots_of

__all__ = ["ACCOUNTS", "Ask", "Feature", "Person", "Plan", "ProviderPlan", "ReminderPlan", "Settings", "draw"]

ACCOUNTS: Final = ("acme", "harbour", "zenith")
CHANNELS: Final = (Channel.EMAIL, Channel.SMS, Channel.WEBHOOK)


class Feature(StrEnum):
    """What happens in a world, besides that reminders are submitted and sent."""

    CANCELS = "cancels"
    OPT_OUTS = "opt_outs"
    RESCHEDULES = "reschedules"
    REDRIVES = "redrives"
    DECISIONS = "decisions"  # an operator decides holds before they end by themselves
    RELOADS = "reloads"
    RESTORES = "restores"
    RECEIPTS = "receipts"
    SUBMITTED_TWICE = "submitted_twice"
    REPEATS = "repeats"  # reminders go on, by rules and before anchors
    QUIET_HOURS = "quiet_hours"
    CAPS = "caps"
    CONSENTS = "consents"  # people opt out of a purpose, and in again; addresses bounce
    PAUSES = "pauses"  # reminders, accounts and templates stand still for a while
    PERSONS = "persons"  # recipients move to another zone, close a channel, and are deleted
    OUTAGES = "outages"  # nobody works for a while
    LIES = "lies"  # receivers refuse now and then what they have accepted, and report it later


class Ask(StrEnum):
    """A way to find out what a receiver has."""

    KEYED = "keyed"
    BY_ID = "by_id"
    BY_KEY = "by_key"
    ECHO = "echo"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class ProviderPlan:
    """A provider and its receiver."""

    name: str
    channel: Channel
    promise: Capabilities
    timeout_seconds: float
    rate: float | None
    keeps: Capabilities | None = None  # what the receiver really keeps, where that is not what it promises


@dataclass(frozen=True, slots=True)
class Settings:
    """One configuration. A reload brings another one."""

    limits: Limits
    deaths_max: int
    lease_seconds: float
    capacity: int
    per_host: int
    template_version: str
    doubts: dict[str, OnDoubt]
    holds: dict[str, HoldPolicy]
    quiet: dict[str, tuple[str, ...]] = field(default_factory=dict)  # windows of each account; security has none
    caps: dict[str, Cap] = field(default_factory=dict)  # of each account, for every purpose


@dataclass(frozen=True, slots=True)
class ReminderPlan:
    """A reminder that the application will submit, in seconds from the start."""

    key: str
    account: str
    recipient: str
    channels: tuple[Channel, ...]
    submitted_at: float
    due_at: float
    lasts: float
    lane: Lane
    poison: bool
    unrenderable: bool
    purpose: str = "service"
    template: str = "note"
    course: Course | None = None  # how it goes on


class Person(NamedTuple):
    """A recipient: where he lives, and his own quiet hours."""

    recipient: str
    zone: str | None = None
    quiet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed has drawn. Probabilities of faults are per opportunity."""

    seed: int
    horizon_seconds: float
    steps_max: int
    workers: int
    features: tuple[Feature, ...]
    faults: tuple[tuple[Kind, float], ...]
    providers: tuple[ProviderPlan, ...]
    reminders: tuple[ReminderPlan, ...]
    settings: tuple[Settings, ...]
    refused: tuple[str, ...]  # recipients whose addresses are rejected
    persons: tuple[Person, ...] = ()

    def person(self, recipient: str) -> Person:
        """A recipient, as he comes with his reminders."""
        return next((one for one in self.persons if one.recipient == recipient), Person(recipient))

    def has(self, feature: Feature) -> bool:
        """Whether that is used in this world."""
        return feature in self.features


#: How likely each fault is where it is on at all, at most, per opportunity.
MOST_LIKELY: Final[dict[Kind, float]] = {
    Kind.CRASH_BEFORE_CALL: 0.02,
    Kind.CRASH_AFTER_CALL: 0.02,
    Kind.CRASH_WHILE_SENDING: 0.10,
    Kind.FREEZE: 0.02,
    Kind.FREEZE_BEFORE_SENDING: 0.20,
    Kind.POISON: 0.25,  # per reminder
    Kind.STORE_UNANSWERED: 0.06,
    Kind.STORE_REPLY_LOST: 0.06,
    Kind.STORE_REPLY_SLOW: 0.03,
    Kind.BATCH_TWICE: 0.60,
    Kind.BATCH_COPY: 0.30,
    Kind.BATCH_LATE: 0.30,
    Kind.NOT_CONNECTED: 0.15,
    Kind.REQUEST_LOST: 0.20,
    Kind.REPLY_LOST: 0.40,
    Kind.REPLY_LATE: 0.30,
    Kind.CUT_AFTER_ACCEPTING: 0.30,
    Kind.TOO_MANY: 0.15,
    Kind.CLOSED_FOR_NOW: 0.15,
    Kind.BROKEN: 0.30,
    Kind.WRONG_SECRET: 0.08,
    Kind.WRONG_ADDRESS: 0.05,
    Kind.REJECTS: 0.10,
    Kind.LOOK_FAILS: 0.40,
    Kind.LEAP: 0.05,
}


#: Lies spoil what can be said about their deliveries, so most worlds have none.
LIES_PART: Final = 1 / 8
LIE_LIKELY: Final = (0.05, 0.5)
#: What an application does with time and persons: in half of the worlds, so that the others stay simple.
OF_PERSONS: Final = (
    Feature.REPEATS,
    Feature.QUIET_HOURS,
    Feature.CAPS,
    Feature.CONSENTS,
    Feature.PAUSES,
    Feature.PERSONS,
    Feature.OUTAGES,
)
OF_PERSONS_PART: Final = 1 / 2
HONEST: Final = tuple(feature for feature in Feature if feature is not Feature.LIES and feature not in OF_PERSONS)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    chance = Chance(seed, "plan")
    lies = _lies(Chance(seed, "lies"))
    horizon = chance.spread(60.0, 6 * 3600.0)
    faults = tuple((kind, most * chance.spread(0.1, 1.0)) for kind, most in MOST_LIKELY.items() if chance.happens(0.5))
    providers = tuple(_providers(chance))
    likely = dict(faults)
    plain = Plan(
        seed=seed,
        horizon_seconds=horizon,
        steps_max=chance.number(200, 500),
        workers=chance.number(1, 3),
        features=(*chance.some(HONEST, 0.4), *([Feature.LIES] if lies else [])),
        faults=faults + lies,
        providers=providers,
        reminders=tuple(_reminders(chance, horizon, providers, likely.get(Kind.POISON, 0.0))),
        settings=tuple(_settings(chance, providers, number) for number in range(3)),
        refused=tuple(chance.some([_recipient(n) for n in range(RECIPIENTS)], 0.1)),
    )
    return _with_persons(plain, Chance(seed, "persons"))


RECIPIENTS: Final = 4


def _recipient(number: int) -> str:
    return f"person-{number}"


# --- receivers -----------------------------------------------------------------------------------


def _lies(chance: Chance) -> tuple[tuple[Kind, float], ...]:
    """How likely receivers deny an acceptance; nothing in an honest world."""
    return ((Kind.LIE, chance.spread(*LIE_LIKELY)),) if chance.happens(LIES_PART) else ()


def _providers(chance: Chance) -> list[ProviderPlan]:
    channels = chance.some(CHANNELS, 0.5) or [chance.pick(CHANNELS)]
    return [
        ProviderPlan(
            f"{channel}s",
            channel,
            _promise(chance, channel),
            timeout_seconds=chance.spread(2.0, 20.0),
            rate=chance.spread(0.1, 50.0) if chance.happens(0.3) else None,
        )
        for channel in channels
    ]


def _key_window(chance: Chance) -> timedelta:
    """Short in half of the cases: otherwise nobody would still be asking when it ends."""
    return timedelta(seconds=chance.spread(62.0, chance.pick((300.0, 2 * 86400.0))))


def _promise(chance: Chance, channel: Channel) -> Capabilities:
    """Mostly one way to ask, sometimes two, sometimes none."""
    ways = {chance.pick((*Ask, Ask.KEYED, Ask.KEYED)) for _ in range(chance.pick((0, 1, 1, 1, 2)))}
    looks = ways & {Ask.BY_ID, Ask.BY_KEY, Ask.SEARCH}
    return Capabilities(
        channel,
        keyed_for=_key_window(chance) if Ask.KEYED in ways else None,
        lookup_by_id=Ask.BY_ID in ways,
        lookup_by_key=Ask.BY_KEY in ways,
        echoes_key=Ask.ECHO in ways,
        echo_within=timedelta(seconds=chance.spread(10.0, 3600.0)) if Ask.ECHO in ways else None,
        searchable=Ask.SEARCH in ways,
        settling=timedelta(seconds=chance.spread(1.0, 900.0)) if looks else None,
        names_message=chance.happens(0.5) or channel is not Channel.WEBHOOK or Ask.BY_ID in ways,
    )


# --- configurations ------------------------------------------------------------------------------


def _settings(chance: Chance, providers: Sequence[ProviderPlan], number: int) -> Settings:
    longest = max(provider.timeout_seconds for provider in providers)
    return Settings(
        limits=Limits(
            attempts_max=chance.pick((2, 4, 100)),
            backoff_first_seconds=chance.spread(0.5, 30.0),
            backoff_ceiling_seconds=chance.spread(10.0, 900.0),
            retry_after_ceiling_seconds=chance.spread(60.0, 3600.0),
            looking_longest=timedelta(seconds=chance.spread(600.0, 86400.0)),
            key_window_margin=timedelta(seconds=chance.spread(longest + LEASE_MARGIN_SECONDS, 60.0)),
        ),
        deaths_max=chance.number(1, DEATHS_MAX),
        lease_seconds=longest + LEASE_MARGIN_SECONDS + chance.spread(2.0, 60.0),
        capacity=chance.pick((1, 2, 8, 64)),
        per_host=chance.pick((1, 8)),
        template_version=f"v{number}",
        doubts={account: chance.pick(list(OnDoubt)) for account in ACCOUNTS},
        holds={account: _hold(chance) for account in ACCOUNTS},
    )


def _hold(chance: Chance) -> HoldPolicy:
    ends = chance.spread(600.0, 7 * 86400.0)
    then = chance.pick((OnDoubt.CLOSE, OnDoubt.RESEND))
    return HoldPolicy(timedelta(seconds=ends * chance.between(0.1, 1.2)), timedelta(seconds=ends), then)


# --- reminders -----------------------------------------------------------------------------------


def _reminders(chance: Chance, horizon: float, providers: Sequence[ProviderPlan], poison: float) -> list[ReminderPlan]:
    channels = [provider.channel for provider in providers]
    accounts = ACCOUNTS[: chance.number(1, len(ACCOUNTS))]
    return [_reminder(chance, number, horizon, channels, accounts, poison) for number in range(chance.number(4, 12))]


def _reminder(
    chance: Chance,
    number: int,
    horizon: float,
    channels: Sequence[Channel],
    accounts: Sequence[str],
    poison: float,
) -> ReminderPlan:
    submitted_at = chance.between(0.0, horizon * 0.5)
    wanted = chance.some(channels, 0.6) or [chance.pick(channels)]
    if chance.happens(0.05):  # one that nobody is configured for
        wanted = list(dict.fromkeys([*wanted, chance.pick(CHANNELS)]))
    return ReminderPlan(
        key=f"r{number}",
        account=chance.pick(accounts),
        recipient=_recipient(chance.number(0, RECIPIENTS - 1)),
        channels=tuple(wanted),
        submitted_at=submitted_at,
        due_at=submitted_at + chance.between(-10.0, horizon * 0.4),
        lasts=chance.spread(60.0, 2 * 86400.0),
        lane=chance.pick(list(Lane)),
        poison=chance.happens(poison),
        unrenderable=chance.happens(0.03),
    )


# --- time and persons ----------------------------------------------------------------------------


def _with_persons(plan: Plan, chance: Chance) -> Plan:
    """The same plan with what its recipients and accounts have chosen; nothing of it where no feature asks for it."""
    if not chance.happens(OF_PERSONS_PART):
        return plan
    features = chance.some(OF_PERSONS, 0.4)
    persons = tuple(_person(chance, _recipient(number), plan.horizon_seconds) for number in range(RECIPIENTS))
    return replace(
        plan,
        features=(*plan.features, *features),
        reminders=tuple(_going_on(chance, one, plan.horizon_seconds, features, persons) for one in plan.reminders),
        settings=tuple(_considerate(chance, one, plan.horizon_seconds, features) for one in plan.settings),
        persons=persons if Feature.QUIET_HOURS in features else tuple(one._replace(quiet=()) for one in persons),
    )


def _person(chance: Chance, recipient: str, horizon: float) -> Person:
    zone = chance.pick(ZONES)
    return Person(recipient, zone, _windows(chance, zone or ACCOUNT_ZONE, horizon) if chance.happens(0.4) else ())


def _windows(chance: Chance, zone: str, horizon: float) -> tuple[str, ...]:
    """One window of hours, or many of minutes: what matters is what is under way when they begin."""
    if chance.happens(0.4):
        return (draw_window(chance, zone, horizon, 600.0),)
    return tuple([draw_window(chance, zone, horizon, 5.0) for _ in range(chance.number(4, 20))])


def _going_on(
    chance: Chance, one: ReminderPlan, horizon: float, features: Sequence[Feature], persons: Sequence[Person]
) -> ReminderPlan:
    if Feature.CAPS in features and chance.happens(0.7):  # where there are caps, one of them gets most of it
        one = replace(one, recipient=_recipient(0))
    home = next(person.zone for person in persons if person.recipient == one.recipient)
    course = draw_course(chance, one.due_at, horizon)
    goes_on = Feature.REPEATS in features and chance.happens(0.5) and bool(slots_of(course, home, home))
    purpose = chance.pick(("service", "marketing", "security")) if Feature.CONSENTS in features else one.purpose
    return replace(one, purpose=purpose, template=chance.pick(("note", "notice")), course=course if goes_on else None)


def _considerate(chance: Chance, one: Settings, horizon: float, features: Sequence[Feature]) -> Settings:
    quiet = {account: _windows(chance, ACCOUNT_ZONE, horizon) for account in chance.some(ACCOUNTS, 0.6)}
    caps = {account: _cap(chance) for account in chance.some(ACCOUNTS, 0.7)}
    return replace(
        one, quiet=quiet if Feature.QUIET_HOURS in features else {}, caps=caps if Feature.CAPS in features else {}
    )


def _cap(chance: Chance) -> Cap:
    return Cap(chance.pick((1, 1, 2, 3)), timedelta(seconds=round(chance.spread(300.0, 86400.0))))
