"""The run: everything starts, things go wrong for a while, then they stop going wrong, and everything drains.

One thread looks at every part in turn, some fifty times a second: nothing here waits for a program except
the restart of the database, which is what everybody else waits for too. Whatever happens, every program that
was started is ended, and the database's files go.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from soak import journal, ledger, verdict
from soak.databases import Database, open_database
from soak.faults import Fault, FaultKind, draw
from soak.installation import Installation
from soak.programs import Failed, Kept, Once, Place, Receivers, complaints, stub
from soak.submitting import Canceller, Submitter

__all__ = ["Plan", "soak"]

WORKERS: Final = 2
STRETCH: Final = 2.0  # how much longer than planned things may go wrong
LOOK_SECONDS: Final = 0.02
TICK_PAUSE_SECONDS: Final = 0.4
STATUS_PAUSE_SECONDS: Final = 1.0
AMBUSH_SECONDS_MAX: Final = 10.0
AMBUSH_JOURNAL_BYTES: Final = 800  # a few requests
COMMAND_SECONDS_MAX: Final = 60.0
TELL_SECONDS: Final = 15.0


class Plan(NamedTuple):
    """What to do. `seconds`: for how long things go wrong; `drain_seconds`: how long everything may drain after."""

    database: str
    seconds: float
    seed: int
    kills: int
    restarts: int
    per_second: float
    drain_seconds: float = 180.0
    freezes: int = 0
    keep: Path | None = None  # an empty folder, for the journal and what the programs said; None: one that goes


def soak(plan: Plan) -> dict[str, Any]:
    """Run it. Returns the figures and the violations. Raises Failed where the soak itself could not go on."""
    with ExitStack() as stack:
        folder = plan.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-soak-")))
        database = stack.enter_context(open_database(plan.database, folder))
        receivers = stack.enter_context(stub(folder / "journal", plan.seed, Installation.promises))
        run = _Run(plan, Installation(folder, database.url, receivers.port), database, folder / "journal")
        stack.callback(run.place.kill)
        run.prepare()
        run.under_fire()
        run.drain(receivers)
        return run.judged()


# --- the run -------------------------------------------------------------------------------------


class _Kill(NamedTuple):
    """Workers are to be killed when the journal has grown beyond `journal_bytes`, or at `latest`."""

    choice: float
    journal_bytes: int
    latest: float
    every: bool = False  # not only the chosen one


class _Run:
    """One soak, from the empty database to the figures."""

    def __init__(self, plan: Plan, installation: Installation, database: Database, file: Path) -> None:
        dice = random.Random(plan.seed)
        self._plan, self._installation, self._database = plan, installation, database
        self._journal = file
        self.place = Place(installation.folder, installation.environment)
        restarts = plan.restarts if database.is_a_server else 0
        self._faults = draw(dice, plan.seconds, plan.kills, restarts, plan.freezes)
        self._workers = [
            Kept(self.place, f"worker-{number}", installation.command("work")) for number in range(WORKERS)
        ]
        self._submitter = Submitter(installation, self.place, dice, plan.per_second)
        self._canceller = Canceller(installation, self.place, dice)
        self._counts: Counter[str] = Counter()
        self._moving: Counter[str] = Counter()  # in the drain: how many are in which state that is no rest
        self._kills: list[_Kill] = []  # while one waits for its moment, nothing else goes wrong
        self._mends: list[tuple[float, Callable[[], object]]] = []
        self._tick: Once | None = None
        self._tick_at = 0.0
        self._started = time.monotonic()
        self._told_at = 0.0
        self._doctor: dict[str, Any] = {}

    def prepare(self) -> None:
        """Make the tables."""
        self._told("migrate", "apply")

    def under_fire(self) -> None:
        """Reminders come in, and things go wrong on schedule; on a slow machine, which is behind it, for longer."""
        self._started = time.monotonic()
        latest = self._plan.seconds * STRETCH
        while self._now < self._plan.seconds or (self._now < latest and (self._faults or self._kills)):
            while self._faults and self._faults[0].at <= self._now and not self._kills:
                self._inflict(self._faults.pop(0))
            self._step(more=True)
        for fault in self._faults:
            self._inflict(fault)
        while self._kills:
            self._kill_workers(self._kills.pop())
        while self._mends:
            self._mends.pop()[1]()

    def drain(self, receivers: Receivers) -> None:
        """Nothing goes wrong any more, and nothing new comes; wait until every delivery is at rest, then stop all."""
        receivers.behave()
        give_up = self._now + self._plan.drain_seconds
        while self._now < give_up and not self._is_at_rest():
            pause_until = self._now + STATUS_PAUSE_SECONDS
            while self._now < pause_until:
                self._step(more=False)
        self._counts["drain seconds"] = round(self._now - give_up + self._plan.drain_seconds)
        for worker in self._workers:
            worker.stop()
        if self._tick is not None:
            self._tick.wait(COMMAND_SECONDS_MAX)
        self._doctor = self._told("doctor", may_fail=True)

    def judged(self) -> dict[str, Any]:
        """The figures and what was not kept."""
        submitted = self._submitter.submitted
        evidence = verdict.Evidence(submitted, journal.read(self._journal), ledger.read(self._installation, submitted))
        violations = [*verdict.judge(evidence), *self._violations_of_programs()]
        return {
            "database": self._plan.database,
            "seed": self._plan.seed,
            "seconds": round(self._now),
            "counts": self._all_counts(),
            "receivers": verdict.figures(evidence),
            "doctor": self._doctor,
            "violations": [
                {**violation._asdict(), "history": verdict.history(evidence, violation.id)} for violation in violations
            ],
        }

    # --- one look --------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    def _step(self, *, more: bool) -> None:
        """Every part goes on."""
        for worker in self._workers:
            worker.step()
        self._step_mends()
        self._step_kills()
        self._canceller.choose(self._now, self._submitter.step(self._now, more=more))
        self._canceller.step(self._now, more=more)
        self._step_tick()
        self._tell()
        time.sleep(LOOK_SECONDS)

    def _step_tick(self) -> None:
        code = self._tick.code if self._tick is not None else 0
        if code is None:
            return
        if self._tick is not None:
            self._counts["ticks"] += code == 0
            self._counts["ticks that failed"] += code > 0
            self._tick, self._tick_at = None, self._now + TICK_PAUSE_SECONDS
        if self._now >= self._tick_at:
            self._tick = Once(self.place, "tick", self._installation.command("tick", "--json"))

    def _inflict(self, fault: Fault) -> None:
        chosen = self._workers[self._chosen(fault.choice)]
        match fault.kind:
            case FaultKind.KILL_TICK if self._tick is not None and self._tick.kill():
                self._counts["ticks killed"] += 1
            case FaultKind.KILL_WORKER | FaultKind.KILL_TICK:  # no tick ran: a worker instead
                self._kills.append(_Kill(fault.choice, 0, self._now))
            case FaultKind.AMBUSH:
                beyond = self._journal_bytes() + AMBUSH_JOURNAL_BYTES
                self._kills.append(_Kill(fault.choice, beyond, self._now + AMBUSH_SECONDS_MAX, every=True))
            case FaultKind.DRAIN_WORKER:
                self._counts["workers drained"] += chosen.signal(signal.SIGTERM)
            case FaultKind.FREEZE_WORKER:
                self._counts["workers frozen"] += chosen.signal(signal.SIGSTOP)
                self._mends.append((self._now + fault.lasts, partial(chosen.signal, signal.SIGCONT)))
            case FaultKind.CRASH | FaultKind.DISCONNECT:
                crash = fault.kind is FaultKind.CRASH
                self._database.stop(signal.SIGQUIT if crash else signal.SIGINT)
                self._counts["databases crashed" if crash else "databases restarted"] += 1
                self._mends.append((self._now + fault.lasts, self._database.start))

    def _step_mends(self) -> None:
        due = [mend for mend in self._mends if mend[0] <= self._now]
        self._mends = [mend for mend in self._mends if mend not in due]
        for _, mend in due:
            mend()

    def _step_kills(self) -> None:
        """Kill where the moment has come; where no worker runs just now, the next one that does."""
        written = self._journal_bytes()
        ripe = [kill for kill in self._kills if written > kill.journal_bytes or self._now >= kill.latest]
        self._kills = [kill for kill in self._kills if kill not in ripe or not self._kill_workers(kill)]

    def _kill_workers(self, kill: _Kill) -> int:
        """Kill one that runs, the chosen one if it does, or every one. Returns how many ran."""
        first, killed = self._chosen(kill.choice), 0
        for worker in (*self._workers[first:], *self._workers[:first]):
            if kill.every or not killed:
                killed += worker.kill()
        self._counts["workers killed"] += killed
        return killed

    def _chosen(self, choice: float) -> int:
        return int(choice * len(self._workers))

    def _journal_bytes(self) -> int:
        return self._journal.stat().st_size

    def _tell(self) -> None:
        """A line of progress now and then."""
        if self._now >= self._told_at:
            self._told_at = self._now + TELL_SECONDS
            figures = _line(self._moving or self._counts)
            print(f"{self._now:6.0f} s  {len(self._submitter.submitted)} reminders  {figures}", file=sys.stderr)

    # --- the end ---------------------------------------------------------------------------------

    def _is_at_rest(self) -> bool:
        if not (self._submitter.idle and self._canceller.idle):
            return False
        told = self._told("status")
        states = {state: one["count"] for state, one in told["states"].items() if state not in verdict.AT_REST}
        self._moving = Counter(states) + Counter({"not due": told["reminders"]["count"]})
        return not self._moving

    def _told(self, *arguments: str, may_fail: bool = False) -> Any:
        """Run a command to its end; the JSON document that it prints. Raises Failed."""
        once = Once(self.place, arguments[0], self._installation.command(*arguments, "--json"))
        code = once.wait(COMMAND_SECONDS_MAX)
        document = once.document()
        if document is None or (code and not may_fail):
            raise Failed(f"duly {' '.join(arguments)} left with {code}: {self._last_words(arguments[0])}")
        return document

    def _last_words(self, name: str) -> str:
        lines = (self.place.folder / f"{name}.err").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _violations_of_programs(self) -> Iterator[verdict.Violation]:
        for name, line in complaints(self.place.folder):
            yield verdict.Violation("no program loses its head", name, line[:500])
        for surprise in self._submitter.surprises:
            yield verdict.Violation("an import takes each reminder once", "import", surprise)
        for check in self._doctor.get("checks", ()):
            if check["found"]:
                yield verdict.Violation("the doctor is content", "doctor", f"{check['check']}: {check['found']} rows")

    def _all_counts(self) -> dict[str, int]:
        left = sum(worker.left_by_itself for worker in self._workers)
        own = Counter({"workers that left by themselves": left})
        return dict(self._counts + self._submitter.counts + self._canceller.counts + own)


def _line(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()) if count)
