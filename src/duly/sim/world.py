"""A world: one seed's ledger, workers, receivers and people, run to its end.

First come faults and wishes; then faults stop, every worker that is missing comes back, time goes on, and
everything has to come to its end: holds too, which may take days. After every call the ledger is looked at,
and every checker is asked.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from duly.core.model import OnDoubt
from duly.core.revising import named
from duly.core.schedule import ONCE
from duly.core.states import FINAL, State
from duly.ports import Revision, Settled, Store
from duly.sim.asking import APPLICATION
from duly.sim.chance import Chance
from duly.sim.clocks import Time
from duly.sim.facts import Call, Facts
from duly.sim.faults import Faults
from duly.sim.history import History
from duly.sim.judge import Judge
from duly.sim.ledger import AttemptRow, Change, Ledger
from duly.sim.messages import Messages, kept_us
from duly.sim.network import Network
from duly.sim.people import People, delivery_of
from duly.sim.plan import Feature, Plan
from duly.sim.ports import Queue, SimStore
from duly.sim.post import POSTMAN, Postman
from duly.sim.restoring import Restorer
from duly.sim.scheduler import Incarnation, Scheduler
from duly.sim.truth import Complaint, Settling, Truth, Violation
from duly.sim.turns import NEVER_US, Turn
from duly.sim.workers import Worker, clock_of
from duly.stores.sqlite import SqliteStore
from duly.testing.driving import at_once, drive

__all__ = ["World"]

AWAY_SECONDS: Final = (0.1, 120.0)
CALM_STEPS_MAX: Final = 6_000
OUTAGE_SECONDS: Final = (60.0, 7200.0)


@dataclass(slots=True)
class Tally:
    """What was exercised."""

    steps: int = 0
    calls: int = 0


class World:
    """One plan, on one ledger file that is its own. `run` raises Violation."""

    def __init__(self, plan: Plan, path: Path) -> None:
        self.plan, self.tally = plan, Tally()
        self.transitions: Counter[tuple[State | None, State]] = Counter()
        self.events: Counter[str] = Counter()
        self.history = History()
        self.time = Time()
        self.faults = Faults(plan.seed, dict(plan.faults))
        self.scheduler = Scheduler(self.time, self._chance("scheduler"), self.faults, self._due, self._life_told)
        self.ledger = Ledger(path)
        self.truth = Truth(
            self.ledger,
            Facts(plan),
            names_message=self._names_message,
            keyed_for_us=self._keyed_for_us,
            may_resend=self._may_resend,
        )
        self.judge = Judge(self.truth)
        self._path, self._backup = path, path.with_suffix(".backup")
        self._store: SqliteStore | None = None
        self._hired = 0
        self._everybody = Incarnation("everybody", mortal=False)
        self._nobody_works = False
        self._build()

    def _chance(self, stream: str) -> Chance:
        return Chance(self.plan.seed, stream)

    def _build(self) -> None:
        self._open()
        port = self._port(self._everybody)
        self.people = People(self.plan, port, self.time, self._chance("people"), self.truth, lambda: not self.faults.on)
        receipts = self.plan.has(Feature.RECEIPTS)
        self.postman = Postman(port, self.scheduler, self._everybody, self._chance("postman"), receipts)
        self.network = self._network(
            Messages(self.plan, self.time, self.faults, self.history, self.judge, self.postman)
        )
        self.queue = Queue(self.scheduler, self.faults, self._chance("queue"))
        self._start_people(port)
        for _ in range(self.plan.workers):
            self._hire()

    def _network(self, messages: Messages) -> Network:
        receivers = {one.name: messages.receiver(one) for one in self.plan.providers}
        chance = self._chance("network")
        return Network(self.scheduler, receivers, self.faults, chance, messages.left, messages.answered)

    # --- run -------------------------------------------------------------------------------------

    def run(self) -> None:
        """To the end. Raises Violation at the first sentence of the promise that does not hold."""
        try:
            self._chaos()
            self._calm()
            self._judge_end()
        finally:
            self.close()

    def _chaos(self) -> None:
        """Faults and wishes, until all that was planned has happened, or for long enough."""
        ends_us = self.time.after(self.plan.horizon_seconds)
        while self.tally.steps < self.plan.steps_max or self.time.us < ends_us:
            if self.tally.steps >= self.plan.steps_max * 4 or not self._step():
                return

    def _calm(self) -> None:
        self.faults.on = False
        self.history.add(self.time.us, "world", "faults stop")
        for _ in range(CALM_STEPS_MAX):
            if self._is_over() or not self._step():
                return

    def _step(self) -> bool:
        self.tally.steps += 1
        return self.scheduler.step()

    def _is_over(self) -> bool:
        """Whether all that was asked for is there, and final, and all that was heard is on record."""
        if self._nobody_works or self.ledger.moments.get("tick", NEVER_US) < NEVER_US:
            return False
        open_rows = any(row.state not in FINAL for row in self.ledger.standing.values())
        if open_rows or any(self.truth.absent()) or self._wishes():
            return False
        return not any(self.truth.unrecorded())  # who stands still with an answer will settle it when he goes on

    def _wishes(self) -> bool:
        """Whether somebody has still something to ask for, or to report."""
        return self.postman.corrections > 0 or any(
            actor.name in (APPLICATION, POSTMAN) for actor in self.scheduler.actors
        )

    def _judge_end(self) -> None:
        self.judge.ended()
        if self._store is not None:
            broken = [f"{name}: {count}" for name, count in drive(self._store.views().invariants()) if count]
            if broken:
                raise Violation("Invariants", Complaint(None, f"invariants of the ledger are broken: {broken}"))

    def close(self) -> None:
        """Let go of the file."""
        for actor in self.scheduler.actors:
            actor.coroutine.close()
        self.ledger.close()
        if self._store is not None:
            drive(self._store.close())

    # --- workers ---------------------------------------------------------------------------------

    def _hire(self) -> None:
        """A new incarnation, under one of the configurations."""
        if self._nobody_works:
            return
        self._hired += 1
        chance = self._chance(f"worker {self._hired}")
        life = Incarnation(f"w{self._hired}")
        settings = chance.pick(self.plan.settings) if self.plan.has(Feature.RELOADS) else self.plan.settings[0]
        self.truth.facts.serving[life.name] = settings
        Worker(
            life,
            self.plan,
            settings,
            self._port(life),
            self.scheduler,
            self.network,
            self.queue,
            chance,
            self.faults,
            clock_of(self.scheduler, chance),
        ).start()
        self.history.add(self.time.us, life.name, f"starts with {settings.template_version}")
        if self.plan.has(Feature.RELOADS):
            reload_us = self.time.after(chance.spread(1.0, self.plan.horizon_seconds * 2))
            self.scheduler.at(reload_us, lambda: self._reload(life))

    def _reload(self, life: Incarnation) -> None:
        if life.alive and self.faults.on:
            self.scheduler.kill(life, "is replaced")

    def _life_told(self, life: Incarnation, what: str) -> None:
        """A worker has died, or is frozen. Somebody starts another one."""
        self.history.add(self.time.us, life.name, what)
        if not life.alive:
            seconds = self._chance(f"after {life.name}").spread(*AWAY_SECONDS)
            self.scheduler.at(self.time.after(seconds), self._hire)

    # --- the ledger ------------------------------------------------------------------------------

    def _open(self) -> None:
        self._store = drive(SqliteStore.open(self._path, run=at_once, now=self.time.microseconds, durable=False))

    def _port(self, life: Incarnation) -> Store:
        return SimStore(
            lambda: cast("Store | None", self._store), life, self.time, self._chance(f"store {life.name}"), self
        ).port

    def called(self, life: Incarnation, call: str, arguments: tuple[Any, ...], reply: object) -> None:
        """See Watcher."""
        self.tally.calls += 1
        change = None if self._store is None else self.ledger.look(self.time.us, life.name, call, arguments)
        self.history.add(self.time.us, life.name, call, arguments, "->", reply, *([change] if change else []))
        self.truth.facts.hear(Call(self.time.us, life.name, call, arguments), reply)
        if change is not None:
            self._changed(change)
        if call == "revise" and reply is True:
            self._revised(arguments[2])
        if call == "settle":
            self.judge.settling(Settling(life, arguments[0], arguments[1]))
        if isinstance(reply, Settled):
            for row in arguments[1]:
                self.judge.settled(row)

    def _revised(self, revision: Revision) -> None:
        """What fires once comes at its new moment. What goes on is judged by its schedule."""
        if revision.reminder.schedule is not None:
            return
        new, label = revision.reminder, named(ONCE, revision.generation)
        self.judge.moved(new.id, Time.us_of(new.next_due_at))
        self.truth.expect_instead(
            new.id, {delivery_of(new, channel, label): f"{new.key}, {label}, by {channel}" for channel in new.channels}
        )

    def _changed(self, change: Change) -> None:
        for before, after in change.moves:
            origin = before.state if before else None
            if origin is not after.state:
                self.transitions[origin, after.state] += 1
        self.events.update(row.kind for row in change.events)
        for row in change.attempts:
            self._wake_holders(row)
        self.judge.changed(change)
        self.scheduler.rested()

    def _wake_holders(self, row: AttemptRow) -> None:
        """A frozen worker may wake just as another begins what it had begun: that is when its fence must hold."""
        earlier = [self.ledger.attempts.get((row.id, number)) for number in range(1, row.number)]
        holders = {one.worker for one in earlier if one is not None} - {row.worker}
        if holders:
            self.scheduler.wake(holders, self.network.chance)

    def _due(self, duty: str) -> int:
        return 0 if self.queue.is_due(duty) else self.ledger.moments.get(duty, NEVER_US)

    # --- what is promised ------------------------------------------------------------------------

    def _names_message(self, provider: str) -> bool:
        return self.network.receivers[provider].promise.names_message

    def _keyed_for_us(self, provider: str) -> int | None:
        """What was declared: Duly cannot know of a receiver that keeps less."""
        return next(kept_us(one.promise) for one in self.plan.providers if one.name == provider)

    def _may_resend(self, reminder: bytes) -> bool:
        """Whether some configuration lets deliveries of this reminder's account be sent again in doubt."""
        accounts = [one.account for identity, one in self.truth.facts.reminders.items() if identity == reminder]
        return any(
            OnDoubt.RESEND in (settings.doubts[account], settings.holds[account].then)
            for settings in self.plan.settings
            for account in accounts
        )

    # --- people ----------------------------------------------------------------------------------

    def _start_people(self, port: Store) -> None:
        for name, do in self.people.doings():
            self.scheduler.start(self._everybody, name, do())
        if self.plan.has(Feature.OUTAGES) and not self.plan.has(Feature.RESTORES):
            self.scheduler.start(self._everybody, "outage", self._outage(self._chance("outage")))
        if self.plan.has(Feature.RESTORES):
            chance = self._chance("restore")
            first = chance.between(0.0, self.plan.horizon_seconds * 0.7)
            last = first + chance.between(1.0, self.plan.horizon_seconds * 0.5)
            self.scheduler.start(self._everybody, "restorer", self._restorer(port, chance).restore(first, last))

    async def _outage(self, chance: Chance) -> None:
        """Nobody works for a while, and reminders fall due."""
        await Turn("outage", Time().after(chance.between(0.0, self.plan.horizon_seconds)))
        self._kill_everybody()
        await Turn("standstill", self.time.after(chance.spread(*OUTAGE_SECONDS)))
        self._work_again()

    def _restorer(self, port: Store, chance: Chance) -> Restorer:
        longest = max(provider.timeout_seconds for provider in self.plan.providers)
        return Restorer(
            port,
            self.time,
            chance,
            self.people,
            longest,
            self._back_up,
            self._stop,
            self._put_back,
            self._work_again,
        )

    def _kill_everybody(self) -> None:
        self.history.add(self.time.us, "operator", "stops everything")
        self._nobody_works = True
        self.queue.start_over()
        for life in {id(actor.life): actor.life for actor in self.scheduler.actors if actor.life.mortal}.values():
            self.scheduler.kill(life, "is stopped")

    def _stop(self) -> None:
        """Every worker is killed, and the database is away."""
        self._kill_everybody()
        if self._store is not None:
            drive(self._store.close())
        self._store = None
        self.ledger.close()

    def _back_up(self) -> None:
        self.ledger.back_up(self._backup)
        self.truth.facts.keep()

    def _put_back(self) -> None:
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(self._backup, self._path)
        self._open()
        self.ledger.start_over()
        self.judge.restored()
        self.history.add(self.time.us, "operator", "puts the backup back")

    def _work_again(self) -> None:
        self._nobody_works = False
        for _ in range(self.plan.workers):
            self._hire()
