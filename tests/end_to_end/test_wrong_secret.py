"""A mistyped secret: every delivery waits behind an open circuit, none is lost, and mending it is enough."""

from __future__ import annotations

import signal
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import DIALECTS, SECRET, Run, Shown, reminder, settle_in, tell_on_both, wait_until

MISTYPED: Final = "whsec_cHJ2dC13cm9uZy1wcnZ0LXdyb25nLXBydnQtd3Jvbmctcg=="
ROWS: Final = 60
HALF: Final = 30
SOON_SECONDS_MAX: Final = 30.0


class Refused(NamedTuple):
    """A run with a mistyped secret, and one with the right one."""

    seconds: float
    requests: int
    before: dict[str, Shown]
    after: dict[str, Shown]
    receiver: Receiver
    open_circuits: list[str]


class Mended(NamedTuple):
    """How many refusals there were before the mend, and how the program ended."""

    refusals: int
    receiver: Receiver
    run: Run


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Refused]]:
    """The receiver knows one secret, and the configuration at first another."""
    return tell_on_both(_refused, tmp_path_factory.mktemp("refused"))


@pytest.fixture(params=DIALECTS)
def refused(request: pytest.FixtureRequest, refusals: dict[str, Future[Refused]]) -> Refused:
    """The story on each database in turn."""
    return refusals[request.param].result()


def _refused(dialect: str, folder: Path) -> Refused:
    with beside(Receiver(secrets=[SECRET])) as receiver, settle_in(dialect, folder) as duly:
        duly.settings["HOOK_SECRET"] = MISTYPED
        duly.take(reminder(f"r-{number}", webhook=receiver.url("ok")) for number in range(ROWS))
        duly.told("tick")
        started = time.monotonic()
        duly.run("work", "--until-idle")
        seconds, requests, before = time.monotonic() - started, receiver.requests, duly.ledger()
        circuits = [budget["reason"] for budget in duly.told("status")["budgets"] if budget["circuit"]]
        duly.settings["HOOK_SECRET"] = SECRET
        duly.run("work", "--until-idle")
        return Refused(seconds, requests, before, duly.ledger(), receiver, circuits)


def test_all_wait_and_none_is_lost(refused: Refused) -> None:
    """Every delivery waits, for the credentials or for the circuit, and none is rejected or dead."""
    assert len(refused.before) == ROWS
    assert {one["status"] for one in refused.before.values()} == {"waiting"}
    assert {one["reason"] for one in refused.before.values()} <= {"refused_auth", "circuit_open"}


def test_until_idle_leaves_soon(refused: Refused) -> None:
    """Rows behind an open circuit do not keep `work --until-idle`."""
    assert refused.seconds < SOON_SECONDS_MAX


def test_the_circuit_is_open_and_says_why(refused: Refused) -> None:
    """`status` shows the endpoint's circuit as open, for its credentials."""
    assert refused.open_circuits == ["auth"]


def test_the_receiver_is_not_hammered(refused: Refused) -> None:
    """An open circuit stops further requests: the receiver sees each delivery at most once before it opens."""
    assert 1 <= refused.requests <= ROWS


def test_mended_all_are_sent(refused: Refused) -> None:
    """With the right secret the next run sends every delivery, once, and the refusals are not counted against it."""
    assert {one["status"] for one in refused.after.values()} == {"sent"}
    assert len(refused.receiver.accepted) == ROWS
    assert refused.receiver.duplicates_dropped == 0


@pytest.fixture(scope="module")
def mends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Mended]]:
    """`duly up` runs on while one of two endpoints refuses it, and is mended after a while."""
    return tell_on_both(_mended, tmp_path_factory.mktemp("mended"))


@pytest.fixture(params=DIALECTS)
def mended(request: pytest.FixtureRequest, mends: dict[str, Future[Mended]]) -> Mended:
    """The story on each database in turn."""
    return mends[request.param].result()


def _mended(dialect: str, folder: Path) -> Mended:
    with beside(Receiver()) as receiver, settle_in(dialect, folder) as duly:
        duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY_PER_HOST"] = "4"
        moods = [(mood, number) for mood in ("denied", "ok") for number in range(HALF)]
        duly.take(reminder(f"{mood}-{number}", webhook=receiver.url(mood)) for mood, number in moods)
        with duly.running("up") as up:
            wait_until(lambda: receiver.count("denied") and receiver.count("ok") == HALF, "the other endpoint is done")
            wait_until(lambda: duly.states() == {"waiting": HALF, "sent": HALF}, "the rest waits")
            before = receiver.count("denied")
            receiver.mend()
            wait_until(lambda: len(receiver.accepted) == 2 * HALF, "all are accepted")
            wait_until(lambda: duly.states() == {"sent": 2 * HALF}, "all are recorded")
            return Mended(before, receiver, up.end(signal.SIGTERM))


def test_one_endpoints_trouble_is_not_anothers(mended: Mended) -> None:
    """While one endpoint answers 401 and its circuit is open, the deliveries to another are sent."""
    assert mended.receiver.count("ok") == HALF
    assert 1 <= mended.refusals < HALF


def test_a_running_program_notices_the_mend(mended: Mended) -> None:
    """`duly up` goes on meanwhile: once the receiver is mended, a probe finds out, and everything is sent once."""
    assert mended.run.code == 0
    assert len(set(mended.receiver.accepted)) == 2 * HALF
    assert mended.receiver.duplicates_dropped == 0
