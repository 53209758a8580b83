"""Run seeds: each on a fresh copy of one empty ledger, in memory where there is a file system for that."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duly.core.states import State
from duly.sim.facts import NAMESPACE
from duly.sim.faults import Kind
from duly.sim.history import History
from duly.sim.plan import Plan
from duly.sim.truth import Complaint, Violation
from duly.sim.world import World
from duly.stores import migrate
from duly.testing.driving import drive

__all__ = ["Ended", "Ground", "ground"]

#: A file system in memory, where there is one.
IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
TRACE_FRAMES: Final = 3


@dataclass(slots=True)
class Ended:
    """How a world ended: what was exercised, and the violation if there was one."""

    plan: Plan
    steps: int
    calls: int
    faults: dict[Kind, int]
    transitions: dict[tuple[State | None, State], int]
    events: dict[str, int]  # of the timeline, by their kind
    history: History = field(repr=False)
    violation: Violation | None = None
    kin: tuple[bytes, ...] = ()  # the violating delivery's reminder and contact

    def story(self) -> list[str]:
        """The history of the violating delivery; nothing if there is none."""
        delivery = self.violation.complaint.delivery if self.violation else None
        return [] if delivery is None else list(self.history.story(delivery, *self.kin))


@dataclass(frozen=True, slots=True)
class Ground:
    """A folder, and in it an empty ledger to copy."""

    folder: Path
    template: Path

    def play(self, plan: Plan) -> Ended:
        """Run one plan to its end."""
        path = self.folder / "ledger.db"
        self._clear()
        shutil.copyfile(self.template, path)
        world = World(plan, path)
        violation = _run(world)
        return Ended(
            plan,
            world.tally.steps,
            world.tally.calls,
            dict(world.faults.counts),
            dict(world.transitions),
            dict(world.events),
            world.history,
            violation,
            _kin(world, violation),
        )

    def _clear(self) -> None:
        for file in self.folder.glob("ledger.*"):
            file.unlink()


def _kin(world: World, violation: Violation | None) -> tuple[bytes, ...]:
    standing = world.ledger.standing.get(violation.complaint.delivery or b"") if violation else None
    return (standing.reminder, standing.contact) if standing else ()


def _run(world: World) -> Violation | None:
    try:
        world.run()
    except Violation as violation:
        return violation
    except Exception as error:  # noqa: BLE001 - a bug is a violation too
        frames = traceback.extract_tb(error.__traceback__)[-TRACE_FRAMES:]
        place = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
        return Violation("Bug", Complaint(None, f"{type(error).__name__}: {error} ({place})"))
    return None


@contextmanager
def ground() -> Iterator[Ground]:
    """A folder for as long as the block lasts."""
    parent = str(IN_MEMORY) if _usable(IN_MEMORY) else None
    with tempfile.TemporaryDirectory(prefix="duly-sim-", dir=parent) as name:
        template = Path(name) / "template.db"
        sqlite3.connect(template).close()
        drive(migrate.apply(f"sqlite:///{template}", NAMESPACE, "simulation"))
        yield Ground(Path(name), template)


def _usable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
