"""The parts of a world: the scheduler's fates, receivers that keep their promises, and transports."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final

import pytest

from duly.core.model import Capabilities, Channel, LookKind, Settlement, Signal
from duly.errors import StoreUnavailable
from duly.ports import Answer, Batch, HttpRequest, Settled
from duly.sim.chance import Chance
from duly.sim.clocks import SECOND_US, Time, WorkerClock
from duly.sim.faults import Faults, Kind
from duly.sim.ports import Queue, SimStore
from duly.sim.post import Postman
from duly.sim.receivers import Accepted, Receiver
from duly.sim.scheduler import Deadly, Incarnation, Scheduler
from duly.sim.truth import Taken
from duly.sim.turns import NEVER_US, Fate, Turn

ALWAYS: Final = 2.0


def _scheduler(**likely: float) -> Scheduler:
    """A scheduler on which these kinds of faults always strike."""
    faults = Faults(1, {Kind(kind): probability for kind, probability in likely.items()})
    return Scheduler(Time(), Chance(1, "test"), faults, lambda _: NEVER_US, lambda _life, _why: None)


def _play(scheduler: Scheduler, life: Incarnation, *coroutines: Coroutine[Any, Any, None]) -> None:
    for coroutine in coroutines:
        scheduler.start(life, "actor", coroutine)
    while scheduler.actors and scheduler.step():
        pass


# --- the scheduler -------------------------------------------------------------------------------


def test_actors_take_turns_in_an_order_that_the_seed_decides() -> None:
    """Two actors are interleaved, and in another way under another seed."""

    def order(seed: int) -> str:
        scheduler = _scheduler()
        scheduler.chance = Chance(seed, "order")
        said: list[str] = []

        async def say(word: str) -> None:
            for _ in range(8):
                await Turn("say")
                said.append(word)

        _play(scheduler, Incarnation("w1"), say("a"), say("b"))
        return "".join(said)

    orders = {order(seed) for seed in range(5)}
    assert len(orders) > 1
    assert all(sorted(one) == ["a"] * 8 + ["b"] * 8 for one in orders)


def test_time_goes_on_to_the_next_moment_at_which_somebody_can() -> None:
    """Whoever waits for a moment is not asked before it, and nobody waits in real time."""
    scheduler = _scheduler()
    woken: list[int] = []
    start_us = scheduler.time.us

    async def wait() -> None:
        await Turn("wait", scheduler.time.after(86400.0))
        woken.append(scheduler.time.us)

    _play(scheduler, Incarnation("w1"), wait())
    assert 86400 * SECOND_US <= woken[0] - start_us < 86401 * SECOND_US


def test_a_worker_dies_as_a_whole() -> None:
    """A crash before a call closes every coroutine of that worker, and none of another."""
    scheduler = _scheduler(crash_before_call=ALWAYS)
    done: list[str] = []

    async def call(name: str) -> None:
        await Turn("call")
        done.append(name)

    mortal = Incarnation("w1")
    scheduler.start(mortal, "one", call("one"))
    scheduler.start(mortal, "two", call("two"))
    _play(scheduler, Incarnation("people", mortal=False), call("people"))
    assert done == ["people"]
    assert not mortal.alive


def test_what_is_deadly_kills_its_worker() -> None:
    """A bug that nothing catches ends the incarnation, not the world."""
    scheduler = _scheduler()
    life = Incarnation("w1")

    async def die() -> None:
        await Turn("call")
        raise Deadly("poison")

    _play(scheduler, life, die())
    assert not life.alive


def test_a_frozen_worker_goes_on_later() -> None:
    """A freeze takes time, and loses nothing."""
    scheduler = _scheduler(freeze=0.5)
    start_us = scheduler.time.us
    done: list[int] = []

    async def call() -> None:
        for _ in range(10):
            await Turn("call")
        done.append(scheduler.time.us)

    _play(scheduler, Incarnation("w1"), call())
    assert scheduler.faults.counts[Kind.FREEZE] >= 1
    assert done[0] - start_us > SECOND_US


def test_a_rest_ends_when_there_is_something_to_do() -> None:
    """Whoever rests is woken by the moment of its duty, not before."""
    scheduler = _scheduler()
    moment = scheduler.time.after(500.0)
    scheduler.due = {"tick": moment}.__getitem__
    woken: list[int] = []

    async def rest() -> None:
        await Turn("rest", duty="tick")
        woken.append(scheduler.time.us)

    _play(scheduler, Incarnation("w1"), rest())
    assert woken[0] >= moment


def test_a_frozen_worker_may_wake_when_it_matters() -> None:
    """Of the frozen ones only those that are named go on soon, at the latest after two seconds, and mostly so."""
    scheduler = _scheduler()
    lives = [Incarnation(f"w{number}", frozen_until_us=NEVER_US) for number in range(40)]

    async def stand() -> None:
        await Turn("stand")

    for life in lives:
        scheduler.start(life, life.name, stand())
    scheduler.wake({life.name for life in lives[:30]}, Chance(1, "wake"))
    soon = [life.frozen_until_us <= scheduler.time.after(2.0) for life in lives]
    assert 5 < sum(soon[:30]) < 25
    assert not any(soon[30:])
    for actor in scheduler.actors:
        actor.coroutine.close()


def _ask(scheduler: Scheduler, times: int) -> list[Fate]:
    """What becomes of so many calls of the database."""
    heard: list[Fate] = []

    async def ask() -> None:
        heard.extend([await Turn("store.ask", fragile=True) for _ in range(times)])

    _play(scheduler, Incarnation("everybody", mortal=False), ask())
    return heard


def test_a_database_that_is_away_answers_nobody_for_a_while() -> None:
    """After some calls that go unanswered the next ones do too, and then it comes back."""
    scheduler = _scheduler(store_unanswered=0.1)
    heard = _ask(scheduler, 40_000)
    assert heard.count(Fate.UNANSWERED) > 2 * scheduler.faults.counts[Kind.STORE_UNANSWERED] > 0
    assert heard.count(Fate.GOES) > 100


def test_a_database_that_is_away_comes_back_when_faults_stop() -> None:
    """Once faults are off it answers, however long it would have been away."""
    scheduler = _scheduler(store_unanswered=ALWAYS)
    assert set(_ask(scheduler, 20)) == {Fate.UNANSWERED}
    assert scheduler.faults.counts[Kind.STORE_UNANSWERED] < 20
    scheduler.faults.on = False
    assert set(_ask(scheduler, 20)) == {Fate.GOES}


# --- the queue -----------------------------------------------------------------------------------

BATCH: Final = Batch(0.0, Time().now(), [])


def _queue() -> Queue:
    scheduler = _scheduler()
    return Queue(scheduler, scheduler.faults, Chance(1, "queue"))


def _pass_a_minute(queue: Queue) -> None:
    """Somebody rests for as long as a copy may be away."""

    async def rest() -> None:
        await Turn("rest", queue.scheduler.time.after(60.0))

    _play(queue.scheduler, Incarnation("w1"), rest())


def test_a_copy_of_a_batch_comes_back_by_itself() -> None:
    """It is a reason to look for its provider's route, is handed out once, and is counted then."""
    queue = _queue()
    queue.let_stray("hooks", BATCH)
    assert not queue.is_due("send hooks")
    _pass_a_minute(queue)
    assert queue.is_due("send hooks")
    assert not queue.is_due("send smss")
    assert queue.stray("smss") is None
    assert queue.stray("hooks") is BATCH
    assert queue.stray("hooks") is None
    assert queue.faults.counts[Kind.BATCH_COPY] == 1


def test_no_copy_outlives_a_stop() -> None:
    """What was on its way back when everything was stopped does not come, nor does what had come."""
    queue = _queue()
    queue.let_stray("hooks", BATCH)
    _pass_a_minute(queue)
    queue.let_stray("hooks", BATCH)
    queue.start_over()
    _pass_a_minute(queue)
    assert queue.stray("hooks") is None


# --- the store's port ----------------------------------------------------------------------------


class _Counting:
    """A store of one method."""

    def __init__(self) -> None:
        self.made = 0

    async def promote(self, limit: int) -> int:
        self.made += 1
        return limit


class _Unwatched:
    def called(self, *_: Any) -> None:
        """Nobody looks."""


def _call(store: _Counting | None, **likely: float) -> str:
    """What a caller of `promote` hears."""
    scheduler = _scheduler(**likely)
    life, heard = Incarnation("w1"), ["nothing"]
    port: Any = SimStore(lambda: store, life, scheduler.time, Chance(1, "store"), _Unwatched())  # type: ignore[arg-type,return-value]

    async def call() -> None:
        try:
            heard.append(str(await port.promote(7)))
        except StoreUnavailable:
            heard.append("unavailable")

    _play(scheduler, life, call())
    return heard[-1]


@pytest.mark.parametrize(
    ("fault", "heard", "made"),
    [
        ({}, "7", 1),
        ({"store_unanswered": ALWAYS}, "unavailable", 0),
        ({"store_reply_lost": ALWAYS}, "unavailable", 1),
        ({"store_reply_slow": ALWAYS}, "7", 1),
        ({"crash_before_call": ALWAYS}, "nothing", 0),
        ({"crash_after_call": ALWAYS}, "nothing", 1),
    ],
)
def test_a_call_of_the_store_has_one_of_these_fates(fault: dict[str, float], heard: str, made: int) -> None:
    """It happens or not, and its caller hears of it, of nothing, or not any more."""
    store = _Counting()
    assert _call(store, **fault) == heard
    assert store.made == made


def test_a_database_that_is_away_does_not_answer() -> None:
    """During a restore every call finds nobody."""
    assert _call(None) == "unavailable"


# --- clocks --------------------------------------------------------------------------------------


def test_a_workers_clock_starts_and_runs_as_it_likes() -> None:
    """Only differences of readings mean anything, and they are nearly right."""
    time = Time()
    clock = WorkerClock(time, offset=1e6, pace=1.0005)
    before = clock.reading()
    time.us += 1000 * SECOND_US
    assert before == 1e6
    assert clock.reading() - before == pytest.approx(1000.5)


def test_a_clock_tells_when_it_shows_something() -> None:
    """The moment at which it shows a reading is the one at which it is read; an infinite one never comes."""
    time = Time()
    clock = WorkerClock(time, offset=1e6, pace=0.9995)
    time.us += 12_345_678
    assert clock.us_at(clock.reading()) == pytest.approx(time.us, abs=1)
    assert clock.us_at(math.inf) == NEVER_US


# --- receivers -----------------------------------------------------------------------------------


def _receiver(time: Time, **promise: Any) -> tuple[Receiver, list[Accepted]]:
    taken: list[Accepted] = []
    capabilities = Capabilities(Channel.SMS, **promise)
    faults = Faults(1, {})
    receiver = Receiver("texts", capabilities, time, faults, Chance(1, "texts"), lambda _, one: taken.append(one))
    return receiver, taken


def _message(body: bytes = b"hello", number: int = 1, destination: str = "ana", key: str = "a-key") -> HttpRequest:
    headers = (("idempotency-key", key), ("attempt", str(number)), ("destination", destination))
    return HttpRequest("sim://texts/messages", headers, body)


def _question(by: LookKind, value: str) -> HttpRequest:
    return HttpRequest("sim://texts/looks", (("by", by), ("value", value), ("destination", "ana")), b"", "GET")


def test_a_keyed_receiver_drops_repeats_within_its_window() -> None:
    """Within the window a repeat gets the first one's name; after it, it is another message."""
    time = Time()
    receiver, taken = _receiver(time, keyed_for=timedelta(hours=1))
    first = receiver.receive(_message()).answer
    assert receiver.receive(_message(number=2)).answer == first
    assert receiver.receive(_message(b"other")).answer.status == 409
    assert len(taken) == 1
    time.us += 3601 * SECOND_US
    assert receiver.receive(_message(number=3)).answer.status == 200
    assert len(taken) == 2


def test_a_receiver_without_keys_takes_every_repeat() -> None:
    """What was not promised is not kept."""
    receiver, taken = _receiver(Time())
    receiver.receive(_message())
    receiver.receive(_message(number=2))
    assert [one.asked.number for one in taken] == [1, 2]


@pytest.mark.parametrize("by", list(LookKind))
def test_a_look_up_finds_what_was_accepted_once_it_has_settled(by: LookKind) -> None:
    """After the settling time it is found in each of the ways, and what was never sent is not."""
    time = Time()
    receiver, taken = _receiver(time, settling=timedelta(seconds=60))
    receiver.receive(_message())
    values = {
        LookKind.KEY: "a-key",
        LookKind.REQUEST_ID: taken[0].request_id,
        LookKind.SEARCH: taken[0].asked.body_hash.hex(),
    }
    time.us += 60 * SECOND_US
    assert receiver.look(_question(by, values[by])).status == 200
    assert receiver.look(_question(by, "another")).status == 404


def test_a_refused_destination_takes_nothing() -> None:
    """A definite no is one."""
    receiver, taken = _receiver(Time())
    receiver.refuses = frozenset({"bob"})
    assert receiver.receive(_message(destination="bob")).answer == Answer(410)
    assert taken == []


@pytest.mark.parametrize(
    ("fault", "status"),
    [("too_many", 429), ("closed_for_now", 503), ("wrong_secret", 401), ("wrong_address", 404), ("rejects", 410)],
)
def test_a_mood_that_refuses_takes_nothing(fault: str, status: int) -> None:
    """Whoever refuses has not accepted, whatever the reason."""
    receiver, taken = _receiver(Time())
    receiver.faults = Faults(1, {Kind(fault): ALWAYS})
    assert receiver.receive(_message()).answer.status == status
    assert taken == []


def test_a_lie_is_a_definite_no_about_what_was_taken() -> None:
    """A receiver that lies takes the message and refuses it in one of four ways; a repeat is no new message."""
    receiver, taken = _receiver(Time(), keyed_for=timedelta(hours=1))
    receiver.faults, receiver.lies = Faults(1, {Kind.LIE: ALWAYS}), True
    answers = [receiver.receive(_message(key=f"key-{n}")).answer for n in range(40)]
    assert {answer.status for answer in answers} == {401, 410, 429, 503}
    assert all("retry-after" in answer.headers for answer in answers if answer.status == 503)
    assert [one.denied for one in taken] == [True] * 40
    assert receiver.receive(_message(key="key-1", number=2)).answer.status == 200
    assert receiver.faults.counts[Kind.LIE] == len(taken) == 40


def test_only_a_receiver_that_lies_does() -> None:
    """Without the feature there is no lie, however likely."""
    receiver, taken = _receiver(Time())
    receiver.faults = Faults(1, {Kind.LIE: ALWAYS})
    assert receiver.receive(_message()).answer.status == 200
    assert [one.denied for one in taken] == [False]


def _reported(receiver: Receiver, *, denied: bool) -> list[int]:
    """After how many seconds the report of an acceptance sets out, in a world without receipts."""
    scheduler = _scheduler()
    start_us, came_us = scheduler.time.us, []

    class Ledger:
        async def settle(self, _: str, rows: list[Settlement], signals: list[Signal]) -> Settled:
            assert not signals
            came_us.append(scheduler.time.us)
            return Settled(frozenset(row.id for row in rows), 0, 0)

    store: Any = Ledger()
    postman = Postman(store, scheduler, Incarnation("everybody", mortal=False), Chance(1, "postman"), receipts=False)
    postman.expect(receiver, Taken(bytes(16), 0, 1, "texts-1", denied))
    assert postman.corrections == int(denied)
    while scheduler.step():
        pass
    assert postman.corrections == 0
    return [(us - start_us) // SECOND_US for us in came_us]


def test_what_was_denied_is_always_reported() -> None:
    """Where nobody sends echoes or receipts, a lie is corrected all the same, and nothing else is reported."""
    receiver, _ = _receiver(Time())
    assert len(_reported(receiver, denied=True)) == 1
    assert _reported(receiver, denied=False) == []


def test_an_echo_of_what_was_denied_comes_in_its_time() -> None:
    """A receiver that echoes keys within a minute does so for a lie as well."""
    receiver, _ = _receiver(Time(), echoes_key=True, echo_within=timedelta(minutes=1))
    assert [seconds < 60 for seconds in _reported(receiver, denied=True)] == [True]


def test_a_broken_receiver_may_have_accepted() -> None:
    """A 500 proves nothing: some of them have taken the message."""
    receiver, taken = _receiver(Time())
    receiver.faults = Faults(1, {Kind.BROKEN: ALWAYS})
    answers = [receiver.receive(_message(number=number)).answer.status for number in range(1, 21)]
    assert answers == [500] * 20
    assert 0 < len(taken) < 20
