"""A connection that is cut in the middle of a commit, where nobody can know whether it happened.

For each commit of a delivery's way two stories are told: it happened and the reply was lost, or it never came to
pass. In each the worker goes on, the ledger says what was really asked for, the receiver that drops repeats accepts
each delivery once, and the one that promises nothing is asked once.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.stores.loader import load
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import AT_ONCE, Installation, Run, Shown, attempts, reminder, settle_on
from tests.end_to_end.recovering import ACCEPTED, asked, messages

COMMITS: Final = {
    "tick": "add_deliveries",
    "claim": "claim",
    "begin": "begin",
    "settle": "settle",
    "decide": "decide",
}
HOW: Final = {"happened": True, "did-not-happen": False}
STORIES: Final = [(commit, how) for commit in COMMITS for how in HOW]
ROWS: Final = 8
TIMEOUT: Final = ("unknown", "timeout")
NOT_SENT: Final = ("not_sent", None)


class Story(NamedTuple):
    """A run that lost one commit, and what came of it."""

    run: Run
    lost: list[str]
    ledger: dict[str, Shown]
    receiver: Receiver

    @property
    def plain(self) -> list[Shown]:
        """The deliveries of which no answer was lost."""
        return [one for key, one in self.ledger.items() if not key.startswith("lost")]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Future[Story]]:
    """All of them, some side by side."""
    pytest.importorskip("psycopg", reason="PostgreSQL is not tested: its driver is not installed")
    from tests.stores.postgres_server import postgres_or_skip  # noqa: PLC0415 - needs the driver

    folder = tmp_path_factory.mktemp("lost")
    with postgres_or_skip(), ThreadPoolExecutor(AT_ONCE) as pool:
        return {(commit, how): pool.submit(_story, commit, how, folder / f"{commit}-{how}") for commit, how in STORIES}


@pytest.fixture(params=STORIES, ids="-".join)
def told(request: pytest.FixtureRequest, stories: Mapping[tuple[str, str], Future[Story]]) -> Story:
    """Each in turn."""
    return stories[request.param].result()


def _story(commit: str, how: str, folder: Path) -> Story:
    from duly.testing.postgres_proxy import PostgresProxy  # noqa: PLC0415 - needs the driver
    from tests.stores.postgres_server import fresh_database, server  # noqa: PLC0415 - needs the driver

    folder.mkdir()
    with (
        beside(Receiver()) as receiver,
        fresh_database() as url,
        beside(PostgresProxy.before(server())) as proxy,
    ):
        duly = settle_on(proxy.url(url), folder)
        _fill(duly, receiver)
        proxy.lose_commit(load("postgres")[COMMITS[commit]], happens=HOW[how])
        run = duly.run("up", "--until-idle", "--json")
        return Story(run, proxy.lost, duly.ledger(), receiver)


def _fill(duly: Installation, receiver: Receiver) -> None:
    for mood in ("ok", "lost"):
        endpoint = f"DULY_ENDPOINTS__{mood.upper()}__"
        duly.settings |= {f"{endpoint}URL": receiver.url(mood, "shy"), f"{endpoint}DEDUPLICATES": "false"}
    duly.take(
        [
            *(reminder(f"keyed-{number}", webhook=receiver.url("ok")) for number in range(ROWS)),
            *(reminder(f"shy-{number}", webhook=receiver.url("ok", "shy")) for number in range(ROWS)),
            reminder("lost-keyed", webhook=receiver.url("lost")),
            reminder("lost-shy", webhook=receiver.url("lost", "shy")),
        ]
    )


def test_the_worker_goes_on(told: Story) -> None:
    """The commit was lost as told; that is one outage of one call, and the run ends in order."""
    assert len(told.lost) == 1
    assert told.run.code == 0
    assert len(told.run.events("database_away")) == len(told.run.events("database_back")) == 1


def test_everything_is_sent_and_nothing_twice(told: Story) -> None:
    """Each delivery ends where its answers lead, one acceptance each; without a promise nobody is asked twice."""
    assert {one["status"] for one in told.plain} == {"sent"}
    keyed, shy = told.ledger["lost-keyed"], told.ledger["lost-shy"]
    assert (keyed["status"], asked(keyed)) == ("sent", (TIMEOUT, ACCEPTED))
    assert (shy["status"], asked(shy)) == ("held", (TIMEOUT,))
    assert messages(told.receiver) == {one["id"]: 1 for one in told.ledger.values()}
    assert (told.receiver.count("ok", "shy"), told.receiver.count("lost", "shy")) == (ROWS, 1)


def test_the_ledger_tells_what_was_asked_for(told: Story) -> None:
    """There are as many requests as attempts that are not known to have sent nothing."""
    assert sum(len(asked(one)) for one in told.ledger.values()) == told.receiver.requests


def test_a_begin_of_which_nobody_heard_sent_nothing(stories: Mapping[tuple[str, str], Future[Story]]) -> None:
    """Attempts whose begin's reply was lost are on record as not sent; a begin that did not happen left no attempt."""
    happened, did_not = (stories["begin", how].result() for how in HOW)
    assert any(NOT_SENT in attempts(one) for one in happened.plain)
    assert not any(NOT_SENT in attempts(one) for one in did_not.plain)
