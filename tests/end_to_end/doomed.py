"""A worker that ends itself as a power cut would, at a chosen point of its work.

It is what `duly up` builds, with a double before its store or its templates that pulls the plug: SIGKILL, from
within, so that no sentence of Python comes after it. The point is one of

    before settle           at the first call of a method of the store, which does not happen
    after begin             ... which has happened, and of which nobody hears
    before requeue 2        at the second
    rendering KEY           whenever the reminder of that key is rendered
    recording KEY           whenever its outcome is to be recorded

`dies` starts it; as a program, `python doomed.py POINT [redrive]` is one of its lives. `redrive` returns every
rejected delivery to work instead of working.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from duly.core.model import Claimed, Content, Settlement, Signal
from duly.flows.redrive import redrive
from duly.ports import Claim, ClaimOrder, Filters, Settled, Store, Templates
from duly.runtime.bootstrap import open_plant, open_store, worker_name
from duly.runtime.config import Config, load
from duly.runtime.telemetry import configure
from duly.runtime.worker import Worker
from duly.testing.unsteady import UnsteadyStore

if TYPE_CHECKING:
    from tests.end_to_end.installation import Installation

__all__ = ["dies", "rejected"]

LIFE_SECONDS_MAX: Final = 180.0
PATIENCE_SECONDS: Final = 60.0
REJECTED: Final = Filters(status="rejected", limit=10_000)


def dies(duly: Installation, point: str, *what: str) -> bool:
    """Let a worker live until that point; False if it never came there, and left by itself with nothing to do."""
    life = subprocess.run(
        [sys.executable, __file__, point, *what], cwd=duly.folder, env=duly.environ(),
        capture_output=True, encoding="utf-8", timeout=LIFE_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert life.returncode in (0, -signal.SIGKILL), f"it left with {life.returncode}: {life.stderr}"
    return life.returncode != 0


# --- what pulls the plug -------------------------------------------------------------------------


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Moment:
    """Every call of a method until the one that is the last."""

    def __init__(self, when: str, method: str, call: str = "1") -> None:
        self._when, self._method, self._calls = when, method, int(call)

    def before(self, store: Store) -> Store:
        """The store with the plug in it."""
        unsteady = UnsteadyStore(store)
        plug: Callable[[str, Callable[[], object]], None] = getattr(unsteady, self._when)
        for _ in range(self._calls - 1):
            plug(self._method, lambda: None)
        plug(self._method, _die)
        return cast("Store", unsteady)


class _FatalText:
    """Templates, one of whose readers takes the worker with him."""

    def __init__(self, templates: Templates, key: str) -> None:
        self._templates, self._key = templates, key

    def render(self, row: Claimed) -> Content:
        """See Templates.render."""
        if row.reminder_key == self._key:
            _die()
        return self._templates.render(row)


class _FatalOutcome:
    """A store that takes the worker with it over one delivery's outcome."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key
        self._fatal: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, order: ClaimOrder) -> Claim:
        """See Store.claim."""
        claimed = await self._store.claim(order)
        self._fatal |= {row.id for row in claimed.rows if row.reminder_key == self._key}
        return claimed

    async def settle(self, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
        """See Store.settle."""
        if any(row.id in self._fatal for row in rows):
            _die()
        return await self._store.settle(provider, rows, signals)


# --- one life ------------------------------------------------------------------------------------


async def _live(config: Config, point: str) -> None:
    async with open_plant(config) as plant:
        match point.split():
            case ["rendering", key]:
                doomed = replace(plant, templates=_FatalText(plant.templates, key))
            case ["recording", key]:
                doomed = replace(plant, store=cast("Store", _FatalOutcome(plant.store, key)))
            case moment:
                doomed = replace(plant, store=_Moment(*moment).before(plant.store))
        await Worker(doomed, worker_name(), ticks=True).run(idle_after=PATIENCE_SECONDS)


async def _redrive(config: Config, point: str) -> None:
    async with open_store(config) as store:
        found = await rejected(store)
        await redrive(_Moment(*point.split()).before(store), found, "the address was mended", "tests")


async def rejected(store: Store) -> list[bytes]:
    """The ids of all rejected deliveries."""
    rows = await store.views().deliveries(REJECTED)
    return [(await store.views().find(row["id"], None))[1] for row in rows]


def main() -> None:
    """Live, until the point that the command line names."""
    configure()
    config = load(Path("duly.toml"), os.environ)
    deed = _redrive if sys.argv[2:] == ["redrive"] else _live
    asyncio.run(deed(config, sys.argv[1]))


if __name__ == "__main__":
    main()
