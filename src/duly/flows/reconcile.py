"""Reconcile: find out what became of deliveries of which nobody knows. It only looks and decides.

Uncertain rows, and held ones whose alarm or end has come, are claimed under a fence of their own. The
ladder says what may be done with each: a decision at once, a look-up, or a later look. Look-ups leave
through a transport of their own, so they never take a slot from a send; they change nothing at the
provider, so they may be repeated. What is found is recorded as accepted, what is decided in one commit:
what may be sent again goes back to ready, and no request that could deliver anything leaves from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.core.ladder import Ask, Doubts, Stay, Step, climb, learn
from duly.core.limits import Limits
from duly.core.model import Capabilities, Decision, Doubtful, Look, Looked, LookKind
from duly.flows.evidence import Acceptance, accept
from duly.ports import Answer, Clock, Completion, Dice, HttpRequest, Policies, Provider, Request, Store, Transport

__all__ = ["Desk", "reconcile"]

RECONCILE_BATCH_ROWS: Final = 500
LOOK_WAIT_SECONDS: Final = 1.0
FOUND: Final = "found_by_look_up"


@dataclass(slots=True)
class Desk:
    """What reconcile works with. Mappings go by the provider's name; rows of other providers are left alone.

    `lookers` are the transports of look-ups; a provider that declares none needs none. A lease must outlast
    a look-up's timeout.
    """

    store: Store
    providers: Mapping[str, Provider]
    lookers: Mapping[str, Transport]
    limits: Mapping[str, Limits]
    policies: Policies
    clock: Clock
    dice: Dice
    actor: str
    lease_seconds: float
    last_token: int = 0


class Question(NamedTuple):
    """A look-up that is to be made for a row."""

    row: Doubtful
    by: LookKind
    content: HttpRequest


class Found(NamedTuple):
    """An acceptance that a look-up has shown."""

    row: Doubtful
    request_id: str | None
    at: datetime


@dataclass(slots=True)
class Round:
    """One batch: the two clocks of its claim, and what it has come to."""

    asked_at: float
    now: datetime
    decisions: list[tuple[Doubtful, Step]] = field(default_factory=list)
    stays: list[Looked] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    unanswered: int = 0

    def database_time(self, reading: float) -> datetime:
        """The database's time at a reading of our clock, or a little later."""
        return self.now + timedelta(seconds=reading - self.asked_at)

    def take(self, row: Doubtful, verdict: Step | Stay) -> None:
        """Sort a verdict in."""
        if isinstance(verdict, Step):
            self.decisions.append((row, verdict))
        else:
            self.stays.append(
                Looked(row.id, row.fence, verdict.next_at, verdict.misses, verdict.missed, verdict.alarmed)
            )


async def reconcile(desk: Desk) -> Counter[str]:
    """One batch of uncertain and held deliveries; returns how many went to each state.

    Counted too: `hold_alarm`, and `unanswered` look-ups, which proved nothing. What needs no look-up is recorded
    before the first one is made: a receiver that takes its time keeps nobody else waiting.
    """
    asked_at = desk.clock.reading()
    now, rows = await desk.store.doubtful(list(desk.providers), RECONCILE_BATCH_ROWS, desk.lease_seconds)
    batch = Round(asked_at, now)
    questions = list(_climb_all(desk, rows, batch))
    seated = [question for asked in _by_provider(questions) for question in _seat(desk, asked, batch)]
    answered = Round(asked_at, now)
    try:
        counts = await _record(desk, batch)
        for asked in _by_provider(seated):
            await _ask(desk, desk.lookers[asked[0].row.provider], asked, answered)
    finally:
        _unseat(desk, seated)
    return counts + await _record(desk, answered)


def _climb_all(desk: Desk, rows: Iterable[Doubtful], batch: Round) -> Iterator[Question]:
    """Sort in what is decided at once; yield what must be asked first."""
    for row in rows:
        doubts = Doubts(desk.policies.on_doubt(row.account), desk.policies.hold(row.account))
        verdict = climb(row, batch.now, desk.dice.roll(), _promise(desk, row), doubts, desk.limits[row.provider])
        if isinstance(verdict, Ask):
            yield Question(row, verdict.by, desk.providers[row.provider].look(row, verdict.by, batch.now))
        else:
            batch.take(row, verdict)


def _promise(desk: Desk, row: Doubtful) -> Capabilities:
    """What the receiver promises to whom the bytes went."""
    return desk.providers[row.provider].capabilities(row.frozen.destination if row.frozen else row.address)


def _by_provider(questions: Iterable[Question]) -> Iterable[list[Question]]:
    grouped: dict[str, list[Question]] = {}
    for question in questions:
        grouped.setdefault(question.row.provider, []).append(question)
    return grouped.values()


# --- look-ups ------------------------------------------------------------------------------------


def _seat(desk: Desk, questions: Sequence[Question], batch: Round) -> list[Question]:
    """Those of one provider's questions for which there are slots, addresses in turn. The rest has its turn later."""
    questions = _in_turn(questions)
    seats = desk.lookers[questions[0].row.provider].reserve([question.content.url for question in questions])
    for question, seat in zip(questions, seats, strict=True):
        if not seat:
            batch.take(question.row, Stay(batch.now, question.row.misses))
    return [question for question, seat in zip(questions, seats, strict=True) if seat]


def _in_turn(questions: Iterable[Question]) -> list[Question]:
    """The first of each address, then the second of each: one that does not answer takes no seat of another."""
    seen: Counter[str] = Counter()
    places: list[tuple[int, Question]] = []
    for question in questions:
        places.append((seen[question.row.address], question))
        seen[question.row.address] += 1
    return [question for _, question in sorted(places, key=lambda one: one[0])]


def _unseat(desk: Desk, seated: Sequence[Question]) -> None:
    """Give the slots back, whatever happened."""
    for question in seated:
        desk.lookers[question.row.provider].release([question.content.url])


async def _ask(desk: Desk, looker: Transport, questions: Sequence[Question], batch: Round) -> None:
    """Every request that was started completes, at the latest by the transport's own timeout."""
    asked: dict[int, Question] = {}
    for question in questions:
        desk.last_token += 1
        asked[desk.last_token] = question
    start_before = batch.asked_at + desk.lease_seconds
    await looker.start([Request(token, question.content, start_before) for token, question in asked.items()])
    while asked:
        for done in await looker.completed(len(asked), LOOK_WAIT_SECONDS):
            if done.token in asked:  # else an answer to a round that was cut
                _hear(desk, asked.pop(done.token), done, batch)


def _hear(desk: Desk, question: Question, done: Completion, batch: Round) -> None:
    row, by, _ = question
    now = batch.database_time(done.finished)
    look = _seen(desk.providers[row.provider], row, by, done.answer, now)
    if look.found:
        batch.found.append(Found(row, look.request_id, now))
    else:
        batch.unanswered += look.found is None
        batch.take(row, learn(row, look, now, desk.dice.roll(), _promise(desk, row), desk.limits[row.provider]))


def _seen(provider: Provider, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:
    """An adapter that fails over an answer has proved nothing."""
    try:
        return provider.seen(row, by, answer, now)
    except Exception:  # noqa: BLE001 - see above
        return Look(None)


# --- what is recorded ----------------------------------------------------------------------------


async def _record(desk: Desk, batch: Round) -> Counter[str]:
    """Acceptances first: they need no fence, and nothing may come before them."""
    counts: Counter[str] = Counter(unanswered=batch.unanswered)
    for name in sorted({found.row.provider for found in batch.found}):
        settled = await accept(
            desk.store, name, [_acceptance(desk, one) for one in batch.found if one.row.provider == name]
        )
        counts["sent"] += len(settled.moved)
    if batch.decisions:
        moved = await desk.store.decide(desk.actor, [_decision(row, step) for row, step in batch.decisions])
        counts.update(str(step.state) for row, step in batch.decisions if row.id in moved)
    if batch.stays:
        stayed = await desk.store.looked(desk.actor, batch.stays)
        counts["hold_alarm"] += sum(stay.alarmed for stay in batch.stays if stay.id in stayed)
    return counts


def _acceptance(desk: Desk, found: Found) -> Acceptance:
    row = found.row
    named = _promise(desk, row).names_message
    return Acceptance(row.id, row.last_unknown or 0, found.at, FOUND, found.request_id, named)


def _decision(row: Doubtful, step: Step) -> Decision:
    return Decision(
        row.id,
        row.fence,
        row.state,
        step.state,
        step.reason,
        step.next_at,
        granted=step.granted,
        certain=step.certain,
        covered=step.covered,
    )
