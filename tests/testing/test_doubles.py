"""The doubles that stand in for a worker's world: they keep the ports' promises, and let a test decide the rest."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from duly.errors import StoreUnavailable
from duly.ports import Completion, Filters, HttpRequest, Mail, Request, Sent, Store
from duly.runtime.clock import SystemClock
from duly.stores.sqlite import SqliteStore
from duly.testing.clock import START, SimulatedClock, SimulatedDice
from duly.testing.driving import Waited, at_once, drive
from duly.testing.transport import ACCEPT, FOUND, MISS, NOT_SENT, REFUSE, SILENT, UNKNOWN, FakeTransport
from duly.testing.unsteady import UnsteadyStore
from tests.stores.ledgers import create_sqlite

A, B = "https://a.example/1", "https://b.example/1"


def request(token: int, url: str = A, start_before: float = float("inf")) -> Request:
    """A request to a URL."""
    return Request(token, HttpRequest(url, (), b"{}"), start_before)


def sent(transport: FakeTransport, *requests: Request) -> list[Completion]:
    """What came back at once."""
    drive(transport.start(requests))
    return drive(transport.completed(100, 0.0))


# --- time, chance, driving -----------------------------------------------------------------------


def test_both_clocks_move_together_and_only_when_told() -> None:
    """A sleep takes no time and that much time passes, on the worker's clock and on the database's."""
    clock = SimulatedClock()
    reading = clock.reading()
    assert (clock.now(), clock.reading()) == (START, reading)
    drive(clock.sleep(1.5))
    clock.advance(0.5)
    assert clock.reading() == pytest.approx(reading + 2.0)
    assert clock.now() == START + timedelta(seconds=2)
    assert clock.slept == [1.5]


def test_a_simulated_clock_never_steps_back_and_never_stands_still() -> None:
    """Less than nothing is refused, and the least bit of time is some."""
    clock = SimulatedClock()
    with pytest.raises(ValueError, match="never steps back"):
        clock.advance(-0.1)
    clock.advance(1e-12)
    assert clock.microseconds() == SimulatedClock().microseconds() + 1


def test_dice_roll_what_they_are_told() -> None:
    """In turn, over and over; and nothing that is no roll."""
    dice = SimulatedDice(0.1, 0.9)
    assert [dice.roll() for _ in range(3)] == [0.1, 0.9, 0.1]
    assert SimulatedDice().roll() == 0.5
    with pytest.raises(ValueError, match="a roll is in"):
        SimulatedDice(1.0)


def test_a_coroutine_that_waits_is_caught() -> None:
    """What sleeps on asyncio awaits something that is no port."""
    with pytest.raises(Waited, match="answers at once"):
        drive(asyncio.sleep(0))


def test_driving_gives_the_result_or_the_error() -> None:
    """As if the coroutine had been called."""

    async def fail() -> None:
        raise KeyError("x")

    assert drive(at_once(lambda: 7)) == 7
    with pytest.raises(KeyError):
        drive(fail())


# --- the transport -------------------------------------------------------------------------------


def test_answers_come_as_planned_and_the_last_one_stays() -> None:
    """The n-th request of a destination gets the n-th answer; what is not planned is accepted."""
    transport = FakeTransport(SimulatedClock())
    transport.plan(A, UNKNOWN, REFUSE)
    answers = [one.answer for one in sent(transport, *(request(token) for token in range(3)), request(3, B))]
    assert answers == [UNKNOWN, REFUSE, REFUSE, ACCEPT]
    transport.plan(A, NOT_SENT)
    assert [one.answer for one in sent(transport, request(4))] == [NOT_SENT]
    assert (len(transport.to(A)), len(transport.to(B))) == (4, 1)


def test_a_look_up_is_planned_by_its_own_url() -> None:
    """What it brings is planned like any answer; a look-up that nobody planned finds nothing."""
    transport = FakeTransport(SimulatedClock())
    where = "https://a.example/deliveries/1"
    looks = [Request(n, HttpRequest(where, (), b"", "GET"), float("inf")) for n in range(4)]
    assert [one.answer for one in sent(transport, looks[0])] == [MISS]
    transport.plan(where, UNKNOWN, FOUND)
    assert [one.answer for one in sent(transport, looks[1], looks[2], request(9), looks[3])] == [
        UNKNOWN,
        FOUND,
        ACCEPT,
        FOUND,
    ]
    assert transport.to(where) == [look.content for look in looks]


def test_mail_goes_by_its_recipient() -> None:
    """A destination is a URL or a mail's recipient."""
    transport = FakeTransport(SimulatedClock())
    mail = Mail("us@example.com", "ana@example.com", b"", "e1")
    transport.plan("ana@example.com", REFUSE)
    assert [one.answer for one in sent(transport, Request(1, mail, float("inf")))] == [REFUSE]
    assert transport.to("ana@example.com") == [mail]


def test_an_answer_takes_its_time() -> None:
    """It completes when it came, and whoever waits too short a time goes without."""
    clock = SimulatedClock()
    transport = FakeTransport(clock, seconds=2.0)
    started = clock.reading()
    assert sent(transport, request(1)) == []
    assert drive(transport.completed(1, 1.0)) == []
    (one,) = drive(transport.completed(1, 5.0))
    assert one.finished == pytest.approx(started + 2.0)
    assert clock.reading() == pytest.approx(started + 2.0, abs=0.01)


def test_no_more_answers_than_asked_for() -> None:
    """The rest stays for the next round."""
    transport = FakeTransport(SimulatedClock())
    drive(transport.start([request(token) for token in range(3)]))
    assert [len(drive(transport.completed(2, 0.0))) for _ in range(3)] == [2, 1, 0]


def test_silence_lasts_until_the_transport_closes() -> None:
    """Then it is cut, and may have been accepted; what comes later never leaves."""
    clock = SimulatedClock()
    transport = FakeTransport(clock)
    transport.plan(A, SILENT)
    assert sent(transport, request(1)) == []
    clock.advance(3600.0)
    drive(transport.close())
    drive(transport.close())
    (one,) = drive(transport.completed(10, 0.0))
    assert one.answer.sent is Sent.SOME
    (late,) = sent(transport, request(2, B))
    assert (late.answer.sent, transport.to(B)) == (Sent.NOTHING, [])


def test_an_answer_that_has_landed_is_not_cut() -> None:
    """Closing changes nothing about what was answered before."""
    transport = FakeTransport(SimulatedClock())
    drive(transport.start([request(1)]))
    drive(transport.close())
    assert [one.answer for one in drive(transport.completed(10, 0.0))] == [ACCEPT]


def test_a_request_past_its_time_does_not_start() -> None:
    """At the reading itself it is already too late, and nothing leaves."""
    clock = SimulatedClock()
    transport = FakeTransport(clock)
    (one,) = sent(transport, request(1, start_before=clock.reading()))
    assert (one.answer.error, one.answer.sent, transport.left) == ("too_late", Sent.NOTHING, [])


def test_slots_are_counted_in_all_and_by_host() -> None:
    """A host is what a URL's host and port say, and the whole has an end too."""
    transport = FakeTransport(SimulatedClock(), capacity=3, per_host=2)
    assert transport.reserve([A, "https://a.example/2", A, B, B]) == [True, True, False, True, False]
    assert (transport.room(), transport.taken, transport.reserved_most) == (0, 3, 3)
    transport.release([A])
    assert transport.reserve(["https://a.example/3"]) == [True]


def test_a_slot_that_nobody_holds_cannot_be_freed() -> None:
    """A caller that counts wrongly is told."""
    transport = FakeTransport(SimulatedClock())
    transport.reserve([A])
    transport.release([A])
    with pytest.raises(ValueError, match="nobody holds"):
        transport.release([A])


def test_room_is_waited_for_on_a_real_clock_too() -> None:
    """Over asyncio the double waits like any transport, and others run meanwhile."""

    async def free_soon() -> int:
        transport = FakeTransport(SystemClock(), capacity=1)
        transport.reserve([A])
        asyncio.get_running_loop().call_later(0.02, transport.release, [A])
        return await transport.wait_for_room(5.0)

    assert asyncio.run(free_soon()) == 1


# --- the store -----------------------------------------------------------------------------------


def unsteady_store(folder: Path) -> tuple[UnsteadyStore, Store]:
    """An unsteady store over an empty ledger, as itself and as a port."""
    create_sqlite(folder / "ledger.db")
    unsteady = UnsteadyStore(drive(SqliteStore.open(folder / "ledger.db", run=at_once)))
    return unsteady, cast("Store", unsteady)


def test_a_steady_moment_is_just_the_store(tmp_path: Path) -> None:
    """Calls pass, and are kept in order; the views are not calls."""
    unsteady, store = unsteady_store(tmp_path)
    assert drive(store.namespace()) == "a-namespace-for-tests"
    assert drive(store.promote(7)) == 0
    assert drive(store.views().deliveries(Filters(limit=1))) == []
    assert [call.method for call in unsteady.calls] == ["namespace", "promote"]
    assert unsteady.called("promote") == [(7,)]
    drive(store.close())


def test_away_nothing_happens_and_refused_once_is_refused_once(tmp_path: Path) -> None:
    """Both are errors of the tree, and over when they are over."""
    unsteady, store = unsteady_store(tmp_path)
    unsteady.away = True
    with pytest.raises(StoreUnavailable, match="did not answer"):
        drive(store.due_remain())
    unsteady.away = False
    unsteady.refuse("due_remain", StoreUnavailable("no"))
    with pytest.raises(StoreUnavailable, match="no"):
        drive(store.due_remain())
    assert drive(store.due_remain()) is False
    drive(store.close())


def test_a_lost_reply_is_of_a_call_that_happened(tmp_path: Path) -> None:
    """What happens just before and just after a call can be told, and the caller of a lost one cannot know."""
    unsteady, store = unsteady_store(tmp_path)
    seen: list[str] = []
    unsteady.before("promote", lambda: seen.append("before"))
    unsteady.after("promote", lambda: seen.append("after"))
    unsteady.lose("promote")
    assert drive(store.promote(1)) == 0
    with pytest.raises(StoreUnavailable):
        drive(store.promote(1))
    assert seen == ["before", "after"]
    drive(store.close())
