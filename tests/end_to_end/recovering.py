"""The words in which recoveries are told: what is done to an installation, and what its ledger says afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from duly.flows.redrive import redrive
from duly.ports import Claim, ClaimOrder, Store
from duly.runtime.bootstrap import open_plant, open_store
from duly.runtime.config import Config, parse
from duly.runtime.worker import Worker
from duly.testing.receiver import Receiver
from tests.end_to_end.doomed import rejected
from tests.end_to_end.installation import ACCOUNT, Installation, Shown, attempts

__all__ = [
    "ACCEPTED",
    "LOST",
    "RATE_LIMITED",
    "ask_store",
    "asked",
    "hand_each_claim_over_again",
    "leases_end",
    "messages",
    "opt_out",
    "promises_nothing",
    "redrive_all",
    "redriven",
    "seconds_between_attempts",
    "story",
    "work",
]

T = TypeVar("T")
Copies = defaultdict[str, deque[Claim]]  # by provider

ACCEPTED: Final = ("accepted", None)
LOST: Final = ("unknown", "worker_lost")
RATE_LIMITED: Final = ("refused", "rate_limited")
PATIENCE_SECONDS: Final = 60.0


# --- what is done --------------------------------------------------------------------------------


def promises_nothing(duly: Installation, url: str) -> str:
    """Declare a receiver that drops no repeats; returns its URL."""
    duly.settings |= {"DULY_ENDPOINTS__SHY__URL": url, "DULY_ENDPOINTS__SHY__DEDUPLICATES": "false"}
    return url


def work(duly: Installation) -> dict[str, Shown]:
    """Tick and work until nothing is left to do; the ledger by the reminders' keys."""
    duly.run("up", "--until-idle")
    return duly.ledger()


def leases_end(duly: Installation) -> None:
    """Let every lease end now, so that nobody has to wait for it."""
    duly.change("update work set lease_until = due_at where lease_until is not null")


def redrive_all(duly: Installation) -> int:
    """Return every rejected delivery to work; how many there were."""

    async def act(store: Store) -> int:
        return await redrive(store, await rejected(store), "the address was mended", "tests")

    return ask_store(duly, act)


def opt_out(duly: Installation, webhook: str) -> None:
    """Let whoever is reached there want nothing any more."""
    duly.run("consent", "opt-out", webhook, "--account", ACCOUNT, "--why", "asked to")


def hand_each_claim_over_again(duly: Installation) -> dict[str, int]:
    """Tick, and let two workers work while a queue hands each claim to its own worker twice, and to the other as well.

    Returns their tallies, added up.
    """

    async def act(config: Config) -> dict[str, int]:
        async with open_plant(config, freeze_garbage=False) as one, open_plant(config, freeze_garbage=False) as two:
            copies: tuple[Copies, Copies] = (defaultdict(deque), defaultdict(deque))
            workers = [
                Worker(replace(plant, store=cast("Store", _Again(plant.store, ours, copies))), name, ticks=True)
                for plant, ours, name in zip((one, two), copies, ("one", "two"), strict=True)
            ]
            tallies = await asyncio.gather(*(worker.run(idle_after=PATIENCE_SECONDS) for worker in workers))
            return dict(sum(map(Counter, tallies), Counter()))

    return _here(duly, act)


class _Again:
    """A store that hands each claim over again, to everybody."""

    def __init__(self, store: Store, ours: Copies, everybodys: Iterable[Copies]) -> None:
        self._store, self._ours, self._everybodys = store, ours, everybodys

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, order: ClaimOrder) -> Claim:
        """A copy that is due to us, else a claim of which everybody will get a copy."""
        if copies := self._ours[order.provider]:
            return copies.popleft()
        claimed = await self._store.claim(order)
        if claimed.rows:
            for copies in self._everybodys:
                copies[order.provider].append(claimed)
        return claimed


def ask_store(duly: Installation, call: Callable[[Store], Awaitable[T]]) -> T:
    """Ask the store in this program, for what no command does."""

    async def act(config: Config) -> T:
        async with open_store(config) as store:
            return await call(store)

    return _here(duly, act)


def _here(duly: Installation, act: Callable[[Config], Awaitable[T]]) -> T:
    """Do something in this program, under the installation's configuration."""

    async def done() -> T:
        return await act(parse(duly.text, duly.file, duly.settings))

    return asyncio.run(done())


# --- what came of it -----------------------------------------------------------------------------


def story(one: Shown) -> tuple[str, tuple[tuple[str | None, str | None], ...]]:
    """Where a delivery stands, and what became of each attempt: outcome and class."""
    return one["status"], tuple(attempts(one))


def asked(one: Shown) -> tuple[tuple[str | None, str | None], ...]:
    """What became of each attempt of which a request left: a busy machine may be too late for some."""
    return tuple(outcome for outcome in attempts(one) if outcome[0] != "not_sent")


def redriven(one: Shown) -> int:
    """How often a delivery went back to work."""
    return sum(event["kind"] == "redriven" for event in one["events"])


def seconds_between_attempts(one: Shown) -> float:
    """From the first attempt's answer to the second's start."""
    first, second = one["attempts"]
    return _seconds(second["started_at"]) - _seconds(first["finished_at"])


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def messages(receiver: Receiver) -> dict[str, int]:
    """What the receiver took, by id, and how often."""
    return dict(Counter(receiver.accepted))
