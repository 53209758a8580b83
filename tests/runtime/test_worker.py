"""The worker: its loops find their way through work, bugs, outages and stops, and leave nothing of their own behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from duly.core.model import Attempt, Capabilities, Frozen
from duly.errors import StoreError, StoreUnavailable
from duly.ports import Answer, HttpRequest
from duly.providers.webhook import WebhookProvider
from duly.runtime.worker import TALLY_WORDS, Worker
from duly.testing.clock import SimulatedDice
from duly.testing.transport import ACCEPT, NOT_SENT, REFUSE, REJECT, SILENT, UNKNOWN
from tests.flows.scene import HOOKS, provider
from tests.runtime.world import World, play, until
from tests.stores.ledgers import raw

A = "https://a.example/in"
B = "https://b.example/in"
IDLE_AFTER = 60.0  # as `--patience`: longer than the lease's end is away when a batch has been claimed


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """What is logged."""
    with capture_logs() as captured:
        yield captured


def told(lines: list[Any]) -> list[str]:
    """The events, in order."""
    return [line["event"] for line in lines]


def keys_sent(made: World) -> list[str]:
    """The `webhook-id` of each request that left."""
    contents = [request.content for request in made.transport.left]
    return [dict(content.headers)["webhook-id"] for content in contents if isinstance(content, HttpRequest)]


# --- until idle ----------------------------------------------------------------------------------


def test_it_works_until_nothing_is_left_to_do(tmp_path: Path, lines: list[Any]) -> None:
    """Every ready delivery is sent once, and the worker leaves, with its tally."""

    async def story(made: World) -> None:
        await made.ready(*(f"r{number}" for number in range(30)))
        done = await made.worker().run(idle_after=IDLE_AFTER)
        assert done == {**dict.fromkeys(TALLY_WORDS, 0), "claimed": 30, "sent": 30}
        assert await made.states() == {"sent": 30}
        assert made.transport.closed

    made = play(tmp_path, story)
    assert len(keys_sent(made)) == len(set(keys_sent(made))) == 30
    assert told(lines) == ["worker_started", "worker_stopped"]
    assert lines[0]["providers"] == [HOOKS]
    assert lines[1]["sent"] == 30


def test_an_empty_ledger_is_left_at_once(tmp_path: Path) -> None:
    """Nothing to do is done soon, and is all zeros."""

    async def story(made: World) -> None:
        assert set((await made.worker().run(idle_after=IDLE_AFTER)).values()) == {0}

    assert play(tmp_path, story).transport.left == []


def test_it_ticks_where_it_is_told_to(tmp_path: Path) -> None:
    """In `up`, reminders that are due become deliveries in the same process."""

    async def story(made: World) -> None:
        await made.schedule("a", "b")
        worker = made.worker(ticks=True)
        assert (await worker.run(idle_after=IDLE_AFTER))["sent"] == 2
        assert worker.ticked == {"due": 2, "created": 2, "already": 0}

    assert len(play(tmp_path, story).transport.left) == 2


def test_it_waits_for_a_reminder_that_is_due_soon(tmp_path: Path) -> None:
    """`up --until-idle` does not leave a moment before there is something to do, nor wait for the next day."""

    async def story(made: World) -> None:
        await made.schedule("soon", due_in=20.0)
        await made.schedule("tomorrow", due_in=86_400.0)
        assert (await made.worker(ticks=True).run(idle_after=IDLE_AFTER))["sent"] == 1

    play(tmp_path, story)


def test_other_hours_bind_what_waits(tmp_path: Path) -> None:
    """What waits for quiet hours that are others now goes when a worker starts, not at the moment of before."""

    async def story(made: World) -> None:
        await made.ready("a")
        hours = "update work set state = 'waiting', reason = 'quiet_hours', next_at = next_at + 7200000000"
        with raw(made.path) as database:
            database.execute(hours)
        assert (await made.worker().run(idle_after=IDLE_AFTER))["sent"] == 1
        await made.ready("b")
        with raw(made.path) as database:
            database.execute(hours)
        assert (await made.worker().run(idle_after=IDLE_AFTER))["sent"] == 0

    play(tmp_path, story)


def test_it_does_not_tick_where_it_is_not(tmp_path: Path) -> None:
    """In `work`, discovery is cron's part."""

    async def story(made: World) -> None:
        await made.schedule("a")
        await made.worker().run(idle_after=IDLE_AFTER)
        assert await made.states() == {}

    assert play(tmp_path, story).transport.left == []


def test_it_retries_reconciles_and_sees_each_delivery_to_its_end(tmp_path: Path) -> None:
    """Refused, not sent, rejected, in doubt: each goes its way within one run, and the tally says which."""

    async def story(made: World) -> None:
        for number, answers in enumerate(([REFUSE, ACCEPT], [NOT_SENT, ACCEPT], [REJECT], [UNKNOWN, ACCEPT])):
            url = f"https://{number}.example/in"
            made.transport.plan(url, *answers)
            await made.ready(f"r{number}", url=url)
        done = await made.worker().run(idle_after=IDLE_AFTER)
        words = ("claimed", "sent", "retried", "rejected", "uncertain")
        assert [done[word] for word in words] == [7, 3, 2, 1, 1]
        assert await made.states() == {"rejected": 1, "sent": 3}

    assert len(play(tmp_path, story).transport.left) == 7


def test_what_nobody_can_send_expires_and_is_counted(tmp_path: Path) -> None:
    """Upkeep's part is in the tally too."""

    async def story(made: World) -> None:
        await made.ready("a", lasts=timedelta(seconds=3))
        made.transport.plan(A, *[REFUSE] * 20)
        made.dice = SimulatedDice(0.9)
        done = await made.worker().run(idle_after=IDLE_AFTER)
        assert done["expired"] == 1
        assert await made.states() == {"expired": 1}

    assert play(tmp_path, story).transport.left


def test_a_step_that_is_far_away_is_not_waited_for(tmp_path: Path) -> None:
    """A delivery whose next try is beyond the patience keeps nobody."""

    async def story(made: World) -> None:
        await made.ready("a")
        made.transport.plan(A, Answer(status=429, headers={"retry-after": "600"}))
        done = await made.worker().run(idle_after=IDLE_AFTER)
        assert done["retried"] == 1
        assert await made.states() == {"waiting": 1}

    assert len(play(tmp_path, story).transport.left) == 1


# --- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [{"per_host": 2}, {"capacity": 2}])
def test_a_stop_finishes_what_is_under_way_and_gives_the_rest_back(
    tmp_path: Path, lines: list[Any], slots: dict[str, int]
) -> None:
    """What was sent has its outcome; what was held back, or claimed ahead, is ready again and under no lease."""

    async def story(made: World) -> None:
        await made.ready(*(f"r{number}" for number in range(40)))
        worker = made.worker()
        running = asyncio.ensure_future(worker.run())
        await until(lambda: len(made.transport.left) >= 6, "some requests")
        worker.stop()
        worker.stop()
        await running
        left = len(made.transport.left)
        assert await made.states() == {"ready": 40 - left, "sent": left}
        assert made.value("select count(*) from work where worker is not null") == 0
        assert made.value("select count(*) from work where attempts > 0") == 0

    play(tmp_path, story, seconds=1.0, **slots)
    assert told(lines) == ["worker_started", "worker_draining", "worker_stopped"]


def test_a_request_that_is_never_answered_is_cut_and_on_record(tmp_path: Path) -> None:
    """A drain waits as long as a provider may take, and then leaves the doubt to reconcile."""

    async def story(made: World) -> None:
        made.transport.plan(A, SILENT)
        await made.ready("a")
        worker = made.worker()
        running = asyncio.ensure_future(worker.run())
        await until(lambda: len(made.transport.left) == 1, "the request")
        worker.stop()
        began = made.clock.reading()
        await running
        assert 15.0 <= made.clock.reading() - began < 60.0
        assert await made.outcomes() == [["unknown"]]
        assert await made.states() == {"uncertain": 1}

    play(tmp_path, story)


# --- bugs ----------------------------------------------------------------------------------------


class Forgetful(WebhookProvider):
    """A webhook provider that fails over its first requests."""

    failures = 2

    def request(self, frozen: Frozen, attempt: Attempt) -> HttpRequest:
        """Fail, until it has failed often enough."""
        if self.failures:
            type(self).failures -= 1
            raise ZeroDivisionError
        return super().request(frozen, attempt)


def test_a_loop_outlives_its_bugs_and_tells_them(tmp_path: Path, lines: list[Any]) -> None:
    """Each failure is logged with its loop; the slots come back, and the work goes on."""

    async def story(made: World) -> None:
        made.provider = Forgetful(HOOKS, provider().secrets, deduplicates=True)
        await made.ready("a")
        assert (await made.worker().run(idle_after=IDLE_AFTER))["sent"] == 1
        assert await made.outcomes() == [["not_sent", "not_sent", "accepted"]]

    play(tmp_path, story, capacity=1)
    failed = [line for line in lines if line["event"] == "loop_failed"]
    assert [(line["loop"], line["error"]) for line in failed] == [(f"send {HOOKS}", "ZeroDivisionError")] * 2


# --- outages -------------------------------------------------------------------------------------


def test_a_store_that_goes_away_for_a_while_costs_nothing(tmp_path: Path, lines: list[Any]) -> None:
    """In the middle of everything it does not answer, and comes back: each delivery is sent once, each outcome kept."""

    async def story(made: World) -> None:
        await made.ready(*(f"r{number}" for number in range(40)))
        running = asyncio.ensure_future(made.worker().run(idle_after=IDLE_AFTER))
        await until(lambda: len(made.transport.left) >= 8, "some requests")
        made.unsteady.away = True
        await asyncio.sleep(0.3)
        made.unsteady.away = False
        assert (await running)["sent"] == 40
        assert await made.states() == {"sent": 40}
        assert await made.outcomes() == [["accepted"]] * 40

    made = play(tmp_path, story, per_host=4, seconds=0.5)
    assert len(keys_sent(made)) == len(set(keys_sent(made))) == 40
    assert [event for event in told(lines) if event.startswith("database")] == ["database_away", "database_back"]
    assert "loop_failed" not in told(lines)


@pytest.mark.parametrize("method", ["claim", "begin", "settle", "abandon", "promote", "doubtful", "next_step"])
def test_a_lost_reply_costs_nothing(tmp_path: Path, method: str) -> None:
    """Whichever call's reply is lost, every delivery is accepted, and none twice."""

    async def story(made: World) -> None:
        made.transport.plan(A, UNKNOWN, ACCEPT)
        made.transport.plan(B, REFUSE, ACCEPT)
        await made.ready("a", url=A)
        await made.ready("b", url=B)
        if method == "claim":
            made.unsteady.after("claim", lambda: None)  # of the urgent lane; the normal one has the rows
        if method == "abandon":
            made.unsteady.lose("begin")
        made.unsteady.lose(method)
        done = await made.worker().run(idle_after=IDLE_AFTER)
        assert await made.states() == {"sent": 2}
        assert done["sent"] == 2

    assert len(play(tmp_path, story).transport.left) == 4


def test_an_outage_of_a_claim_is_met_when_it_happens(tmp_path: Path, lines: list[Any]) -> None:
    """A claim that runs ahead is taken later: told only then, an outage that is over would be told again."""

    async def story(made: World) -> None:
        await made.ready("a")
        claims = made.worker()._routes[0].claims
        made.unsteady.refuse("claim", StoreUnavailable("away"))
        assert await claims.take(10, 1.0) is None
        batch = await claims.take(10, 1.0)
        assert batch is not None
        assert len(batch.rows) == 1

    play(tmp_path, story)
    assert told(lines) == ["database_away"]


def test_a_store_that_refuses_an_outcome_is_asked_again(tmp_path: Path, lines: list[Any]) -> None:
    """A refusal is told like an outage, and no answer is lost over it."""

    async def story(made: World) -> None:
        await made.ready("a")
        made.unsteady.refuse("settle", StoreError("permission denied"))
        assert (await made.worker().run(idle_after=IDLE_AFTER))["sent"] == 1

    assert len(play(tmp_path, story).transport.left) == 1
    assert [line["why"] for line in lines if line["event"] == "database_away"] == ["permission denied"]


def test_a_look_that_is_refused_does_not_keep_the_worker_for_ever(tmp_path: Path) -> None:
    """Whether it is idle is asked until it is answered."""

    async def story(made: World) -> None:
        made.unsteady.refuse("next_step", StoreError("permission denied"), StoreUnavailable("away"))
        await made.worker().run(idle_after=IDLE_AFTER)
        assert len(made.unsteady.called("next_step")) >= 4

    play(tmp_path, story)


def test_a_store_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    """A worker that is started before its database waits, and shows a sign of life when it comes."""

    async def story(made: World) -> None:
        await made.ready("a")
        made.unsteady.away = True
        worker: Worker = made.worker()
        running = asyncio.ensure_future(worker.run(idle_after=IDLE_AFTER))
        await until(lambda: len(made.unsteady.called("heartbeat")) >= 2, "a second question")
        made.unsteady.away = False
        assert (await running)["sent"] == 1

    play(tmp_path, story)


def test_a_stop_during_an_outage_waits_for_what_must_not_be_lost(tmp_path: Path) -> None:
    """Answers that came are recorded when the database is back, and only then does the worker leave."""

    async def story(made: World) -> None:
        await made.ready("a", "b", "c")
        worker = made.worker()
        running = asyncio.ensure_future(worker.run())
        await until(lambda: len(made.transport.left) == 3, "the requests")
        made.unsteady.away = True
        worker.stop()
        await asyncio.sleep(0.2)
        assert not running.done()
        made.unsteady.away = False
        assert (await running)["sent"] == 3
        assert await made.states() == {"sent": 3}

    play(tmp_path, story, seconds=2.0)


def test_a_stop_during_an_outage_that_lasts_ends_all_the_same(tmp_path: Path, lines: list[Any]) -> None:
    """What was sent and could not be recorded is told, stays begun in the ledger, and is reconciled after its lease."""

    async def story(made: World) -> None:
        await made.ready("a", "b", "c")
        worker = made.worker()
        running = asyncio.ensure_future(worker.run())
        await until(lambda: len(made.transport.left) == 3, "the requests")
        made.unsteady.away = True
        worker.stop()
        assert (await running)["sent"] == 0
        made.unsteady.away = False
        assert await made.states() == {"sending": 3}
        made.transport.release([A] * made.transport.taken)  # the process has ended, and its slots with it

    play(tmp_path, story, seconds=2.0)
    assert [line["requests"] for line in lines if line["event"] == "left_unrecorded"] == [3]


# --- guards, suspects and what must be told ------------------------------------------------------


def test_while_a_guard_is_open_nothing_is_sent_and_it_says_so(tmp_path: Path, lines: list[Any]) -> None:
    """It waits for the operator, and goes on when he has closed the guard."""

    async def story(made: World) -> None:
        await made.ready("a", lasts=timedelta(hours=8))
        await made.store.open_guard("operator", "restored", None)
        worker = made.worker()
        running = asyncio.ensure_future(worker.run())
        await until(lambda: "restore_guard_open" in told(lines), "a line about the guard")
        await asyncio.sleep(0.1)
        assert made.transport.left == []
        await made.store.close_guard("operator", "all is in again")
        await until(lambda: len(made.transport.left) == 1, "the request")
        await until(lambda: "restore_guard_closed" in told(lines), "a line about its end")
        worker.stop()
        await running
        assert await made.states() == {"sent": 1}

    play(tmp_path, story)
    assert told(lines).count("restore_guard_open") == 1


def test_what_three_workers_died_over_is_sent_alone(tmp_path: Path) -> None:
    """While it is claimed the process holds nothing else; the others are sent before and after."""

    async def story(made: World) -> None:
        await made.ready(*(f"r{number}" for number in range(5)))
        with raw(made.path) as database:
            database.execute("update work set suspicion = 3 where delivery_id = (select min(delivery_id) from work)")
        assert (await made.worker().run(idle_after=IDLE_AFTER))["sent"] == 5

    made = play(tmp_path, story)
    assert len(made.transport.left) == 5


class Naming(WebhookProvider):
    """A provider whose request ids name messages."""

    def capabilities(self, destination: str) -> Capabilities:
        return super().capabilities(destination)._replace(names_message=True)


def test_a_double_acceptance_is_told(tmp_path: Path, lines: list[Any]) -> None:
    """Two names for one delivery are an error that somebody must see."""

    async def story(made: World) -> None:
        await made.ready("a")
        made.transport._seconds = 15.0
        made.transport.plan(A, Answer(status=200, headers={"x-request-id": "m-1"}))
        made.provider = Naming(HOOKS, provider().secrets)
        worker = made.worker()
        running = asyncio.ensure_future(worker.run())
        await until(lambda: len(made.transport.left) == 1, "the request")
        with raw(made.path) as database:
            database.execute(
                "update delivery set status = 'sent', reason = 'accepted', request_id = 'm-0', finished_at = 1"
            )
            database.execute("delete from work")
        await until(lambda: "double_acceptance" in told(lines), "a line about it")
        worker.stop()
        await running

    with suppress(AssertionError):  # the ledger was changed behind its back
        play(tmp_path, story)
    assert told(lines).count("double_acceptance") == 1
