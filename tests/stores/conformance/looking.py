"""Cases of looking: looks are counted and fenced, and counted misses cover doubt."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from duly.core.consent import EVERYTHING, Kind, Said, Verdict
from duly.core.model import Doubtful, Outcome, Result
from duly.core.states import State
from duly.ports import NewConsent, Settled
from duly.testing.builders import contact, frozen, looked
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

MINUTE = timedelta(minutes=1)
#: What a decision may make of a row whose doubt has ended.
AFTER_DOUBT = (State.WAITING, State.REJECTED, State.DEAD, State.HELD, State.UNCONFIRMED, State.READY)


async def look(scene: Scene, row: Doubtful, in_: timedelta = MINUTE, **more: Any) -> bool:
    """Record a look at one row, that comes again after `in_`; whether it counted."""
    stayed = await scene.store.looked("reconcile", [looked(row, await scene.now() + in_, **more)])
    assert stayed <= {row.id}
    return row.id in stayed


async def shown_at(scene: Scene, delivery: bytes, number: int, word: str) -> datetime:
    """A moment of one attempt, as `show` tells it."""
    attempt = (await scene.show(delivery))["attempts"][number - 1]
    return datetime.fromisoformat(attempt[word])


async def covered_results(scene: Scene) -> int:
    """How many results are covered."""
    return int(await scene.ledger.value("select count(*) from attempt_result where covered"))


# --- what reconcile is told ----------------------------------------------------------------------


@case
async def a_doubtful_row_tells_of_its_attempt(scene: Scene) -> None:
    """Reconcile is told which attempt is unknown, since when, under which name, and what was sent."""
    row = await scene.sending("r")
    result = Result(Outcome.UNKNOWN, request_id="req-1")
    await scene.settle(row, Outcome.UNKNOWN, result=result)
    seen = await scene.looked_at()
    assert (seen.state, seen.unknown, seen.last_unknown, seen.request_id) == (State.UNCERTAIN, 1, 1, "req-1")
    assert seen.last_unknown_at == await shown_at(scene, row.id, 1, "finished_at")
    assert (seen.misses, seen.missed_at, seen.restored, seen.alarmed, seen.refused) == (0, None, False, False, None)
    assert abs(seen.due_at - row.due_at) < timedelta(milliseconds=1)
    assert seen.since <= await scene.now()
    sent = frozen(row)
    assert seen.frozen is not None
    assert (seen.frozen.number, seen.frozen.destination, seen.frozen.body) == (1, sent.destination, sent.body)


@case
async def the_latest_unknown_attempt_is_told(scene: Scene) -> None:
    """A refusal answers its own attempt only: the earlier one stays the latest that is unknown."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.settle(row, Outcome.REFUSED, 2, state=State.REJECTED)
    seen = await scene.looked_at()
    assert (seen.attempts, seen.unknown, seen.last_unknown, seen.last_outcome) == (2, 1, 1, Outcome.REFUSED)
    assert seen.last_unknown_at == await shown_at(scene, row.id, 1, "finished_at")


@case
async def reconcile_is_told_what_admission_would_refuse(scene: Scene) -> None:
    """A cancelled reminder and a suppressed contact are named, with the reason that admission would give."""
    (reminder,) = await scene.schedule("cancelled")
    await scene.tick()
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.settle(row, Outcome.UNKNOWN)
    await scene.store.cancel("ana", "moved out", reminder=reminder.id, delivery=None)
    seen = await scene.looked_at()
    assert (seen.refused, seen.closed) == ("reminder_cancelled", True)
    row = await scene.uncertain("suppressed")
    to = contact("acme", row.channel, row.address)
    complaint = Said(Kind.COMPLAINT, EVERYTHING, None, "us", "called it spam")
    assert await scene.store.record_consent("ana", "acme", [NewConsent(to, complaint)]) == [Verdict.RECORDED]
    assert (await scene.looked_at()).refused == "complained"


# --- looks ---------------------------------------------------------------------------------------


@case
async def a_miss_that_counts_is_recorded(scene: Scene) -> None:
    """A counted miss is kept with its time, the row comes again at its moment, and no event is left."""
    await scene.uncertain("r")
    seen = await scene.looked_at()
    before = await scene.now()
    assert await look(scene, seen, misses=1, missed=True)
    assert (await scene.store.doubtful([HOOKS], 10, 60.0))[1] == []
    await scene.ledger.pass_time(61)
    again = await scene.looked_at()
    assert (again.misses, again.state, again.since - seen.since < MINUTE) == (1, State.UNCERTAIN, True)
    assert again.missed_at is not None
    assert again.missed_at < await scene.now() - timedelta(seconds=60)
    assert again.missed_at >= before - timedelta(seconds=61)
    assert await scene.events(seen.id) == []


@case
async def a_look_that_counts_nothing_moves_only_its_moment(scene: Scene) -> None:
    """A look that proved nothing leaves the misses and their time as they were."""
    await scene.uncertain("r")
    assert await look(scene, await scene.looked_at(), timedelta(), misses=1, missed=True)
    counted = await scene.looked_at()
    await scene.ledger.pass_time(30)
    assert await look(scene, counted, timedelta(), misses=1, missed=False)
    again = await scene.looked_at()
    assert (again.misses, again.missed_at is None) == (1, False)
    assert again.missed_at is not None
    assert again.missed_at < await scene.now() - timedelta(seconds=29)


@case
async def a_look_is_fenced(scene: Scene) -> None:
    """A look by whom another reconciler has succeeded counts nothing."""
    await scene.uncertain("r")
    first = await scene.looked_at(lease_seconds=30)
    await scene.ledger.pass_time(31)
    second = await scene.looked_at(lease_seconds=30)
    assert not await look(scene, first, misses=1, missed=True)
    await scene.ledger.pass_time(31)
    assert (await scene.looked_at()).misses == 0
    assert not await look(scene, second, misses=1, missed=True)


@case
async def a_look_is_repeatable(scene: Scene) -> None:
    """The same look again says the same, counts nothing twice and moves no miss's time."""
    await scene.uncertain("r")
    seen = await scene.looked_at()
    one = looked(seen, await scene.now(), misses=1, missed=True)
    assert await scene.store.looked("reconcile", [one]) == {seen.id}
    await scene.ledger.pass_time(10)
    assert await scene.store.looked("reconcile", [one, one]) == {seen.id}
    again = await scene.looked_at()
    assert again.misses == 1
    assert again.missed_at is not None
    assert again.missed_at < await scene.now() - timedelta(seconds=9)


@case
async def a_look_holds_where_the_row_stays(scene: Scene) -> None:
    """A row that went on meanwhile is not looked at any more, also under the same fence."""
    await scene.uncertain("r")
    seen = await scene.looked_at()
    assert await scene.decide(seen, State.UNCERTAIN, State.READY, reason="resend_same_key")
    assert not await look(scene, seen, misses=1, missed=True)
    assert (await scene.claim_one()).id == seen.id
    assert await scene.store.looked("reconcile", []) == frozenset()


@case
async def misses_do_not_cover_a_later_attempt(scene: Scene) -> None:
    """Misses start anew with the next unknown attempt, whether it was answered so or its worker was lost."""
    for lost in (False, True):
        await scene.uncertain(f"lost-{lost}")
        seen = await scene.looked_at()
        assert await look(scene, seen, timedelta(), misses=1, missed=True)
        seen = await scene.looked_at()
        assert seen.misses == 1
        await scene.decide(seen, State.UNCERTAIN, State.READY, reason="resend_same_key")
        row = await scene.claim_one()
        await scene.begin(row)
        if lost:
            await scene.ledger.pass_time(61)
            await scene.store.take_back(10, "upkeep")
        else:
            await scene.settle(row, Outcome.UNKNOWN, 2)
        again = await scene.looked_at()
        assert (again.id, again.misses, again.missed_at, again.last_unknown) == (row.id, 0, None, 2)
        await scene.decide(again, State.UNCERTAIN, State.UNCONFIRMED)


@case
async def misses_outlast_a_refusal(scene: Scene) -> None:
    """A refused resend says nothing of the first attempt, and takes none of its misses away."""
    await scene.uncertain("r")
    assert await look(scene, await scene.looked_at(), timedelta(), misses=1, missed=True)
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="resend_same_key")
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.settle(row, Outcome.REFUSED, 2, state=State.DEAD)
    seen = await scene.looked_at()
    assert (seen.misses, seen.missed_at is not None, seen.last_unknown) == (1, True, 1)


# --- covered -------------------------------------------------------------------------------------


@case
async def counted_misses_end_doubt(scene: Scene) -> None:
    """A covered row is as new, goes wherever it is told, and its unknown result is marked, not replaced."""
    for number, target in enumerate(AFTER_DOUBT, start=1):
        await scene.uncertain(f"to-{target}")
        seen = await scene.looked_at()
        assert await scene.decide(seen, State.UNCERTAIN, target, reason="not_found", covered=True)
        assert await scene.state(seen.id) == target
        assert await scene.outcomes(seen.id) == [Outcome.UNKNOWN]
        assert await covered_results(scene) == number
        assert not await scene.decide(seen, State.UNCERTAIN, target, reason="not_found", covered=True)


@case
async def a_covered_row_is_like_new(scene: Scene) -> None:
    """Doubt, closing, grant, misses and the key's window are gone with the attempts that misses cover."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.UNKNOWN, closed=True)
    assert await look(scene, await scene.looked_at(), timedelta(), misses=2, missed=True)
    assert await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="not_found", covered=True)
    again = await scene.claim_one()
    assert (again.doubt, again.closed, again.granted, again.first_unknown_at) == (False, False, False, None)
    assert (await scene.begin(again)).numbers == {row.id: 2}
    await scene.settle(again, Outcome.UNKNOWN, 2)
    seen = await scene.looked_at()
    assert (seen.unknown, seen.last_unknown, seen.misses, seen.missed_at) == (1, 2, 0, None)
    assert seen.first_unknown_at == await shown_at(scene, row.id, 2, "started_at")


@case
async def a_covered_row_has_no_misses(scene: Scene) -> None:
    """The misses that covered an attempt are used up."""
    await scene.uncertain("r")
    assert await look(scene, await scene.looked_at(), timedelta(), misses=2, missed=True)
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.HELD, reason="not_found", covered=True)
    _, held = await scene.store.held(delivery_id("r"))
    assert (held.unknown, held.misses, held.missed_at, held.first_unknown_at) == (0, 0, None, None)


@case
async def covering_marks_every_kind_of_result(scene: Scene) -> None:
    """An unknown result is marked, a missing one is written as a lost worker's, and a definite one is left alone."""
    delivery = await scene.waiting_in_doubt("r")
    await scene.store.promote(10)
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.settle(row, Outcome.UNKNOWN, 3)
    await scene.ledger.change("delete from attempt_result where number = 1")
    seen = await scene.looked_at()
    assert (seen.attempts, seen.unknown, seen.last_unknown) == (3, 2, 3)
    assert await scene.decide(seen, State.UNCERTAIN, State.DEAD, reason="not_found", covered=True)
    attempts = (await scene.show(delivery))["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == [Outcome.UNKNOWN, Outcome.REFUSED, Outcome.UNKNOWN]
    assert [attempt["class"] for attempt in attempts] == ["worker_lost", "temporary", "timeout"]
    assert await covered_results(scene) == 2
    assert await scene.ledger.value("select count(*) from attempt_result where covered and number = 2") == 0


@case
async def a_covered_attempt_leaves_the_rest_certain(scene: Scene) -> None:
    """Once an attempt is covered, a later definite answer makes the row certain."""
    await scene.uncertain("r")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="not_found", covered=True)
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    await scene.settle(row, Outcome.REFUSED, 2)
    seen = await scene.looked_at()
    assert (seen.unknown, seen.last_unknown, seen.last_unknown_at, seen.request_id) == (0, None, None, None)
    assert await scene.decide(seen, State.UNCERTAIN, State.DEAD, reason="attempts_exhausted", certain=True)


@case
async def covering_may_close(scene: Scene) -> None:
    """What a decision says beside covering holds for the row after it."""
    await scene.uncertain("r")
    seen = await scene.looked_at()
    await scene.decide(seen, State.UNCERTAIN, State.WAITING, reason="not_found", covered=True, closed=True)
    await scene.store.promote(10)
    row = await scene.claim_one()
    assert (row.doubt, row.closed) == (False, True)


@case
async def late_acceptance_wins_over_a_covered_result(scene: Scene) -> None:
    """A covered result may still turn definite: acceptance ends the delivery as sent, also after its end."""
    for target in (State.READY, State.DEAD):
        row = await scene.uncertain(f"to-{target}")
        await scene.decide(await scene.looked_at(), State.UNCERTAIN, target, reason="not_found", covered=True)
        settled = await scene.settle(row, Outcome.ACCEPTED)
        assert settled == Settled(frozenset({row.id}), 0, int(target is State.DEAD))
        assert await scene.state(row.id) == State.SENT
        assert await scene.outcomes(row.id) == [Outcome.ACCEPTED]
        assert await covered_results(scene) == 0


@case
async def certain_needs_more_after_a_restore(scene: Scene) -> None:
    """After a restore no definite answer ends doubt: an attempt that nobody remembers may have been made."""
    row = await scene.waiting("r")
    await scene.store.open_guard("ana", "restored from a backup")
    seen = await scene.looked_at()
    assert (seen.id, seen.restored, seen.unknown, seen.last_unknown) == (row.id, True, 1, None)
    assert (seen.last_unknown_at, seen.last_outcome) == (seen.since, Outcome.REFUSED)
    for target in (State.DEAD, State.WAITING):
        assert not await scene.decide(seen, State.UNCERTAIN, target, certain=True)
    assert await scene.decide(seen, State.UNCERTAIN, State.WAITING, reason="not_found", covered=True)
    await scene.store.close_guard("ana", "submitted again")
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert (again.doubt, again.first_unknown_at, again.attempts) == (False, None, 1)
    assert await covered_results(scene) == 0


# --- decisions -----------------------------------------------------------------------------------


@case
async def an_operator_may_open_the_rungs_again(scene: Scene) -> None:
    """Only a decision that says so opens the rungs that send again; doubt stays."""
    for reopened in (False, True):
        row = await scene.sending(f"reopened-{reopened}")
        await scene.settle(row, Outcome.UNKNOWN, closed=True)
        seen = await scene.looked_at()
        await scene.decide(seen, State.UNCERTAIN, State.HELD, reason="sending_closed")
        _, held = await scene.store.held(seen.id)
        assert held.closed
        assert await scene.decide(held, State.HELD, State.READY, granted=True, reopened=reopened)
        again = await scene.claim_one()
        assert (again.closed, again.granted, again.doubt) == (not reopened, True, True)


@case
async def a_decision_keeps_its_evidence(scene: Scene) -> None:
    """What a decision was based on stands in its event; an event without it says null."""
    await scene.uncertain("r")
    seen = await scene.looked_at()
    evidence = '{"look": "key", "found": null, "misses": 2}'
    await scene.decide(seen, State.UNCERTAIN, State.HELD, reason="no_way_to_ask", evidence=evidence)
    _, held = await scene.store.held(seen.id)
    await scene.decide(held, State.HELD, State.UNCONFIRMED, reason="gave up")
    events = (await scene.show(seen.id))["events"]
    assert [event["evidence"] for event in events] == [{"look": "key", "found": None, "misses": 2}, None]
