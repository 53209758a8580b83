"""Cancelling: whoever commits first wins, and what may already be out is said, not hidden.

One story per database: each reminder is cancelled at another point of its way.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import (
    ACCOUNT,
    DIALECTS,
    Installation,
    Shown,
    attempts,
    reminder,
    settle_in,
    tell_on_both,
    wait_until,
)
from tests.end_to_end.recovering import promises_nothing

#: Long enough for a program to start and to cancel meanwhile, also on a busy machine.
SLOW_SECONDS: Final = 8.0
#: when a reminder is cancelled -> how its receiver behaves.
MOODS: Final = {
    "before-tick": "ok",
    "before-begin": "ok",
    "while-sending": "slow",
    "while-waiting": "denied",
    "in-doubt": "lost",
    "after-end": "ok",
}
COUNTS: Final = {"cancelled": 0, "sending": 0, "in_doubt": 0, "final": 0, "sent": 0, "stopped": 0, "before": 0}


class Cancelled(NamedTuple):
    """What each cancel answered, and what the ledger and the receiver say in the end."""

    answers: dict[str, dict[str, Any]]
    requests: int
    before_tick: Shown
    ledger: dict[str, Shown]
    receiver: Receiver


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Cancelled]]:
    """Every reminder is cancelled once, and the worker looks at them once more."""
    return tell_on_both(_cancelled, tmp_path_factory.mktemp("cancelled"))


@pytest.fixture(params=DIALECTS)
def cancelled(request: pytest.FixtureRequest, stories: dict[str, Future[Cancelled]]) -> Cancelled:
    """The story on each database in turn."""
    return stories[request.param].result()


def _cancelled(dialect: str, folder: Path) -> Cancelled:
    with beside(Receiver(slow_seconds=SLOW_SECONDS)) as receiver, settle_in(dialect, folder) as duly:
        duly.settings |= {
            "DULY_LEASE_SECONDS": "30",
            "DULY_PROVIDERS__HOOKS__TIMEOUT_SECONDS": str(SLOW_SECONDS + 1),
        }
        promises_nothing(duly, receiver.url("lost", "in-doubt"))
        duly.take(reminder(key, webhook=receiver.url(mood, key)) for key, mood in MOODS.items())
        answers, requests = _cancel_all(duly, receiver), receiver.requests
        duly.run("up", "--until-idle")
        before_tick = duly.told("show", "before-tick", "--account", ACCOUNT)
        return Cancelled(answers, requests, before_tick, duly.ledger(), receiver)


def _cancel_all(duly: Installation, receiver: Receiver) -> dict[str, dict[str, Any]]:
    def cancel(key: str) -> dict[str, Any]:
        code = 1 if key == "after-end" else 0
        return dict(duly.told("cancel", key, "--account", ACCOUNT, "--why", "moved out", code=code))

    answers = {"before-tick": cancel("before-tick")}
    duly.told("tick")
    answers["before-begin"] = cancel("before-begin")
    with duly.running("work", "--until-idle") as work:
        wait_until(lambda: receiver.count("slow", "while-sending"), "the slow request")
        answers["while-sending"] = cancel("while-sending")
        assert work.end().code == 0
    late = ("while-waiting", "in-doubt", "after-end")
    with ThreadPoolExecutor(len(late)) as pool:
        return answers | dict(zip(late, pool.map(cancel, late), strict=True))


def test_before_the_tick_it_prevents_everything(cancelled: Cancelled) -> None:
    """A reminder cancelled before a tick found it becomes no delivery."""
    assert cancelled.answers["before-tick"] == COUNTS | {"answer": "cancelled", "stopped": 1}
    assert cancelled.before_tick["status"] == "cancelled"
    assert "before-tick" not in cancelled.ledger


def test_before_begin_it_wins(cancelled: Cancelled) -> None:
    """A delivery cancelled before it began is never sent, and the record says who cancelled it and why."""
    assert cancelled.answers["before-begin"] == COUNTS | {"answer": "cancelled", "cancelled": 1}
    one = cancelled.ledger["before-begin"]
    assert (one["status"], one["attempts"]) == ("cancelled", [])
    event = one["events"][-1]
    assert (event["from"], event["to"], event["reason"]) == ("ready", "cancelled", "moved out")
    assert "@" in event["actor"]
    assert cancelled.receiver.count("ok", "before-begin") == 0


def test_while_sending_it_says_so(cancelled: Cancelled) -> None:
    """What is under way cannot be called back: the cancel says so, and the ledger shows what came of it."""
    assert cancelled.answers["while-sending"] == COUNTS | {"answer": "already_sending", "sending": 1}
    one = cancelled.ledger["while-sending"]
    assert (one["status"], attempts(one)) == ("sent", [("accepted", None)])


def test_while_waiting_it_wins(cancelled: Cancelled) -> None:
    """A delivery that was refused for now is cancelled: the receiver has not taken it."""
    assert cancelled.answers["while-waiting"] == COUNTS | {"answer": "cancelled", "cancelled": 1}
    assert cancelled.ledger["while-waiting"]["status"] == "cancelled"


def test_nothing_is_sent_afterwards(cancelled: Cancelled) -> None:
    """Once all are cancelled, a worker that looks again sends nothing."""
    assert cancelled.receiver.requests == cancelled.requests


def test_in_doubt_it_is_not_written_down_as_unsent(cancelled: Cancelled) -> None:
    """A delivery that may have been accepted does not become cancelled, and is not sent again either."""
    assert cancelled.answers["in-doubt"] == COUNTS | {"answer": "already_sending", "in_doubt": 1}
    assert cancelled.ledger["in-doubt"]["status"] == "held"
    assert cancelled.receiver.count("lost", "in-doubt") == 1


def test_after_the_end_it_changes_nothing(cancelled: Cancelled) -> None:
    """What was sent stays sent, and the cancel says so: it is refused."""
    assert cancelled.answers["after-end"] == COUNTS | {"answer": "already_sent", "final": 1, "sent": 1}
    assert cancelled.ledger["after-end"]["status"] == "sent"
