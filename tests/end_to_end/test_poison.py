"""One delivery kills every worker that touches it: the others get through, and it ends with that reason.

A worker is started again after each death, as a supervisor would. Leases end at once here, so that nobody waits. Two
poisons are told on each database: one kills before anything left, when it is rendered; the other kills when its
answer is recorded, so the receiver has been asked, and nobody will ever know what it said.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.core.limits import DEATHS_MAX
from duly.testing.receiver import Receiver
from tests.end_to_end.doomed import dies
from tests.end_to_end.doubles import OddReceiver, beside
from tests.end_to_end.installation import (
    DIALECTS,
    Installation,
    Shown,
    attempts,
    reminder,
    settle_in,
    tell_on_both,
)
from tests.end_to_end.recovering import ACCEPTED, LOST, asked, leases_end, messages, story, work

GOOD: Final = 60
POISONS: Final = ("rendering", pytest.param("recording", marks=pytest.mark.heavy))
LIVES_MAX: Final = 20
#: A company that shrinks from all to fifty, to five, to none; then alone, until it is given up.
DEATHS: Final = 3 + DEATHS_MAX


class Death(NamedTuple):
    """How often workers died, and what came of it."""

    deaths: int
    ledger: dict[str, Shown]
    receiver: Receiver

    @property
    def good(self) -> dict[str, Shown]:
        """The company."""
        return {key: one for key, one in self.ledger.items() if key != "poison"}


@pytest.fixture(scope="module", params=POISONS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Mapping[str, Future[Death]]]:
    """One poison, on both databases."""
    poison = request.param
    return poison, tell_on_both(lambda *where: _death(poison, *where), tmp_path_factory.mktemp(poison))


@pytest.fixture(params=DIALECTS)
def death(request: pytest.FixtureRequest, both: tuple[str, Mapping[str, Future[Death]]]) -> tuple[str, Death]:
    """The poison, and its story on each database in turn."""
    poison, stories = both
    return poison, stories[request.param].result()


def _death(poison: str, dialect: str, folder: Path) -> Death:
    with beside(Receiver(slow_seconds=0.05)) as receiver, settle_in(dialect, folder) as duly:
        duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY"] = "16"
        keys = [f"good-{number}" for number in range(GOOD)]
        keys.insert(GOOD // 2, "poison")
        duly.take(reminder(key, webhook=receiver.url("slow")) for key in keys)
        lives = (_life(duly, f"{poison} poison") for _ in range(LIVES_MAX))
        deaths = sum(takewhile(bool, lives))
        return Death(deaths, work(duly), receiver)


def _life(duly: Installation, point: str) -> bool:
    died = dies(duly, point)
    leases_end(duly)
    return died


def test_it_is_found_after_finite_deaths(death: tuple[str, Death]) -> None:
    """The last worker leaves by itself, with nothing to do."""
    _, told = death
    assert told.deaths == DEATHS


def test_it_ends_with_that_reason(death: tuple[str, Death]) -> None:
    """What was never sent is dead; what may have been accepted is held, and is not called unsent."""
    poison, told = death
    one = told.ledger["poison"]
    if poison == "rendering":
        assert (story(one), one["reason"]) == (("dead", ()), "killed_its_workers")
        assert one["id"] not in messages(told.receiver)
    else:
        assert (one["status"], one["reason"]) == ("held", "killed_its_workers_in_doubt")
        assert set(attempts(one)) == {LOST}
        assert messages(told.receiver)[one["id"]] == 1


def test_the_others_are_sent_once(death: tuple[str, Death]) -> None:
    """Sixty deliveries in its company are all sent, each accepted once."""
    _, told = death
    assert {one["status"] for one in told.good.values()} == {"sent"}
    assert [messages(told.receiver)[one["id"]] for one in told.good.values()] == [1] * GOOD


def test_its_company_is_not_blamed(death: tuple[str, Death]) -> None:
    """Of the others, only what was in the air at a death was ever in doubt, and each has its answer in the end."""
    _, told = death
    outcomes = [asked(one) for one in told.good.values()]
    assert {one[-1] for one in outcomes} == {ACCEPTED}
    assert {outcome for one in outcomes for outcome in one[:-1]} <= {LOST}
    assert sum(len(one) > 1 for one in outcomes) < GOOD


def test_odd_answers_cost_no_other_delivery_its_outcome(duly: Installation) -> None:
    """A NUL, a body of megabytes, an id full of controls: each is an outcome of its own, and the others have theirs."""
    with beside(OddReceiver()) as receiver:
        odd = {name: receiver.url("odd", name) for name in OddReceiver.ANSWERS}
        duly.take(reminder(f"good-{number}", webhook=receiver.url("ok")) for number in range(GOOD))
        duly.take(reminder(name, webhook=url) for name, url in odd.items())
        ledger = work(duly)
        assert {story(one) for key, one in ledger.items() if key not in odd} == {("sent", (ACCEPTED,))}
        assert {name: story(ledger[name]) for name in odd} == {
            "nul": ("rejected", (("rejected", "content_rejected"),)),
            "endless": ("sent", (ACCEPTED,)),
            "control": ("sent", (ACCEPTED,)),
        }
