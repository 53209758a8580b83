"""Cases of settle: outcomes are recorded once, rows move under their fence, and acceptance always wins."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly.core.model import FailureClass, Outcome, Result, Signal, SignalKind
from duly.core.states import IllegalTransition, State
from duly.ports import Filters, Settled
from duly.testing.builders import settlement
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

NOTHING = Settled(frozenset(), 0, 0)


@case
async def acceptance_ends_a_delivery(scene: Scene) -> None:
    """An accepted delivery is sent, with the provider's request id, and nothing of it is left to do."""
    row = await scene.sending("r")
    result = Result(Outcome.ACCEPTED, http_status=200, request_id="req-1", excerpt="ok")
    settled = await scene.settle(row, Outcome.ACCEPTED, result=result)
    assert settled == Settled(frozenset({row.id}), 0, 0)
    shown = await scene.show(row.id)
    assert (shown["status"], shown["reason"], shown["request_id"]) == (State.SENT, "accepted", "req-1")
    assert shown["events"] == []
    assert await scene.ledger.value("select count(*) from work") == 0


@case
async def everything_about_an_answer_is_recorded(scene: Scene) -> None:
    """An attempt's result keeps outcome, class, status, request id, Retry-After, excerpt and time."""
    row = await scene.sending("r")
    now = await scene.now()
    result = Result(Outcome.REFUSED, FailureClass.RATE_LIMITED, 429, "req-9", 2.5, "slow down 🐢", "the header")
    await scene.store.settle(HOOKS, [settlement(row, 1, Outcome.REFUSED, now, result=result)], [])
    (attempt,) = (await scene.show(row.id))["attempts"]
    assert (attempt["outcome"], attempt["class"], attempt["http_status"]) == ("refused", "rate_limited", 429)
    assert (attempt["request_id"], attempt["retry_after"]) == ("req-9", 2.5)
    assert attempt["response_excerpt"] == "slow down 🐢"
    assert attempt["finished_at"] == now.isoformat().removesuffix("+00:00") + "Z"


@case
async def each_outcome_leads_where_it_is_told(scene: Scene) -> None:
    """A row goes where its settlement says, with the reason that every view shows."""
    for outcome, state in (
        (Outcome.REJECTED, State.REJECTED),
        (Outcome.REFUSED, State.WAITING),
        (Outcome.NOT_SENT, State.WAITING),
        (Outcome.UNKNOWN, State.UNCERTAIN),
        (Outcome.REFUSED, State.DEAD),
        (Outcome.REFUSED, State.EXPIRED),
    ):
        row = await scene.sending(f"{outcome} {state}")
        settled = await scene.settle(row, outcome, state=state, reason=f"why_{state}")
        assert settled.moved == {row.id}
        shown = await scene.show(row.id)
        assert (shown["status"], shown["reason"]) == (state, f"why_{state}")
        assert [attempt["outcome"] for attempt in shown["attempts"]] == [outcome]


@case
async def a_settle_is_repeatable(scene: Scene) -> None:
    """The same settle again changes nothing, and says again which rows stand where it says."""
    for outcome in Outcome:
        row = await scene.sending(outcome)
        now = await scene.now()
        batch = [settlement(row, 1, outcome, now, wait=timedelta(minutes=5))]
        first = await scene.store.settle(HOOKS, batch, [])
        before = await scene.show(row.id)
        assert first.moved == {row.id}
        for _ in range(2):
            assert await scene.store.settle(HOOKS, batch, []) == first
        assert await scene.show(row.id) == before


@case
async def an_empty_settle_settles_nothing(scene: Scene) -> None:
    """An empty batch is answered with nothing."""
    assert await scene.store.settle(HOOKS, [], []) == NOTHING


@case
async def an_illegal_settlement_raises(scene: Scene) -> None:
    """A settlement that the table of transitions does not allow is a bug, and moves nothing."""
    row = await scene.sending("r")
    with pytest.raises(IllegalTransition):
        await scene.settle(row, Outcome.REFUSED, state=State.HELD)
    assert await scene.state(row.id) == State.SENDING


@case
async def the_next_try_comes_at_its_moment(scene: Scene) -> None:
    """A refused row waits until its moment, and is tried again after it."""
    row = await scene.waiting("r", wait=timedelta(seconds=30))
    assert await scene.store.promote(10) == 0
    await scene.ledger.pass_time(31)
    assert await scene.store.promote(10) == 1
    again = await scene.claim_one()
    assert (again.id, again.attempts, again.doubt) == (row.id, 1, False)


@case
async def a_spared_attempt_is_counted_apart(scene: Scene) -> None:
    """An attempt that is the operator's to mend is counted, and counted as spared."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.REFUSED, spared=True)
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert (again.attempts, again.spared) == (1, 1)


# --- fences --------------------------------------------------------------------------------------


@case
async def a_refusal_needs_its_fence(scene: Scene) -> None:
    """Under another fence nothing but acceptance moves a row."""
    row = await scene.sending("r")
    now = await scene.now()
    for outcome in (Outcome.REJECTED, Outcome.REFUSED, Outcome.NOT_SENT, Outcome.UNKNOWN):
        for fence in (row.fence + 1, row.fence - 1):
            wrong = settlement(row, 1, outcome, now)._replace(fence=fence)
            assert (await scene.store.settle(HOOKS, [wrong], [])).moved == frozenset()
    assert await scene.state(row.id) == State.SENDING


@case
async def a_late_answer_is_recorded_as_stale(scene: Scene) -> None:
    """A worker that was fenced out still writes its own attempt's answer, and moves nothing."""
    old = await scene.sending("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    looked = await scene.looked_at()
    await scene.decide(looked, State.UNCERTAIN, State.READY, reason="resend_same_key")
    new = await scene.claim_one(worker="w2")
    assert (await scene.begin(new, worker="w2")).numbers == {new.id: 2}
    settled = await scene.settle(old, Outcome.REFUSED, 1)
    assert (settled.moved, settled.stale, settled.corrected) == (frozenset(), 1, 0)
    assert await scene.state(new.id) == State.SENDING
    assert await scene.outcomes(new.id) == [Outcome.REFUSED, None]
    assert (await scene.settle(new, Outcome.ACCEPTED, 2)).moved == {new.id}


@case
async def a_repeated_late_answer_counts_once(scene: Scene) -> None:
    """A stale result that is said again is neither written nor counted again."""
    old = await scene.sending("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    late = [settlement(old, 1, Outcome.REFUSED, await scene.now())]
    assert (await scene.store.settle(HOOKS, late, [])).stale == 1
    assert await scene.store.settle(HOOKS, late, []) == NOTHING


@case
async def acceptance_wins_whatever_the_fence(scene: Scene) -> None:
    """An acceptance that comes late ends the delivery wherever it stands, and no one resends it."""
    for key, move in (("uncertain", None), ("ready", State.READY), ("held", State.HELD)):
        old = await scene.sending(key)
        await scene.ledger.pass_time(61)
        await scene.store.take_back(10, "upkeep")
        if move is not None:
            await scene.decide(await scene.looked_at(), State.UNCERTAIN, move, reason="because")
        settled = await scene.settle(old, Outcome.ACCEPTED)
        assert settled == Settled(frozenset({old.id}), 0, 0)
        assert await scene.state(old.id) == State.SENT
        assert await scene.outcomes(old.id) == [Outcome.ACCEPTED]
    assert (await scene.claim()).rows == []


@case
async def acceptance_of_an_overtaken_attempt_wins(scene: Scene) -> None:
    """The first attempt's late acceptance ends the delivery under the second's hands, and both are counted."""
    old = await scene.sending("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="resend_same_key")
    new = await scene.claim_one(worker="w2")
    await scene.begin(new, worker="w2")
    assert (await scene.settle(old, Outcome.ACCEPTED, 1)).moved == {old.id}
    late = await scene.settle(new, Outcome.REFUSED, 2)
    assert (late.moved, late.stale) == (frozenset(), 1)
    assert await scene.state(new.id) == State.SENT
    assert await scene.outcomes(new.id) == [Outcome.ACCEPTED, Outcome.REFUSED]
    (line,) = await scene.views.deliveries(Filters())
    assert line["attempts"] == 2


@case
async def two_attempts_of_a_delivery_settle_together(scene: Scene) -> None:
    """A worker that lost a row and claimed it again may bring both its answers in one batch."""
    for key, second, moved in (("a", Outcome.REFUSED, State.SENT), ("b", Outcome.ACCEPTED, State.SENT)):
        old = await scene.sending(key)
        await scene.ledger.pass_time(61)
        await scene.store.take_back(10, "upkeep")
        await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="resend_same_key")
        new = await scene.claim_one()
        await scene.begin(new)
        now = await scene.now()
        batch = [settlement(old, 1, Outcome.ACCEPTED, now), settlement(new, 2, second, now)]
        assert (await scene.store.settle(HOOKS, batch, [])).moved == {new.id}
        assert await scene.state(new.id) == moved
        assert await scene.outcomes(new.id) == [Outcome.ACCEPTED, second]


@case
async def acceptance_overturns_a_final_state(scene: Scene) -> None:
    """Acceptance evidence overturns an end, once, with an event that says what it corrected."""
    row = await scene.uncertain("r")
    looked = await scene.looked_at()
    await scene.decide(looked, State.UNCERTAIN, State.UNCONFIRMED, reason="no_way_to_ask")
    evidence = [
        settlement(row, 1, Outcome.ACCEPTED, await scene.now(), result=Result(Outcome.ACCEPTED, request_id="r1"))
    ]
    assert await scene.store.settle(HOOKS, evidence, []) == Settled(frozenset({row.id}), 0, 1)
    assert await scene.store.settle(HOOKS, evidence, []) == Settled(frozenset({row.id}), 0, 0)
    shown = await scene.show(row.id)
    assert (shown["status"], shown["request_id"], shown["reason"]) == (State.SENT, "r1", "accepted")
    corrected = [event for event in await scene.events(row.id) if event[0] == "corrected"]
    assert corrected == [("corrected", "unconfirmed", "sent", "w1", "accepted")]


@case
async def a_definite_answer_is_never_replaced(scene: Scene) -> None:
    """A result goes from none or unknown to a definite one, and never otherwise."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.REFUSED)
    for outcome in (Outcome.UNKNOWN, Outcome.REJECTED, Outcome.NOT_SENT):
        settled = await scene.settle(row, outcome)
        assert settled == NOTHING
        assert await scene.outcomes(row.id) == [Outcome.REFUSED]
    assert await scene.state(row.id) == State.WAITING


@case
async def sent_stays_sent(scene: Scene) -> None:
    """Nothing moves a sent delivery, not even its own contradiction."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.ACCEPTED)
    for outcome in (Outcome.REJECTED, Outcome.REFUSED, Outcome.UNKNOWN):
        assert (await scene.settle(row, outcome)).moved == frozenset()
    assert await scene.state(row.id) == State.SENT
    assert await scene.outcomes(row.id) == [Outcome.ACCEPTED]


# --- doubt ---------------------------------------------------------------------------------------


@case
async def unknown_puts_in_doubt(scene: Scene) -> None:
    """An unknown answer puts the delivery in doubt, counted from the moment its attempt was written."""
    row = await scene.uncertain("r")
    (attempt,) = (await scene.show(row.id))["attempts"]
    looked = await scene.looked_at()
    assert (looked.unknown, looked.last_outcome) == (1, Outcome.UNKNOWN)
    assert looked.first_unknown_at is not None
    assert looked.first_unknown_at.isoformat().removesuffix("+00:00") + "Z" == attempt["started_at"]


@case
async def a_refusal_clears_no_doubt(scene: Scene) -> None:
    """A refusal answers its own attempt only: the delivery stays in doubt, from its first unknown attempt on."""
    await scene.uncertain("r")
    first = await scene.looked_at()
    await scene.decide(first, State.UNCERTAIN, State.READY, reason="resend_same_key")
    await scene.again(Outcome.REFUSED, 2)
    await scene.store.promote(10)
    row = await scene.claim_one()
    assert (row.doubt, row.first_unknown_at) == (True, first.first_unknown_at)


@case
async def the_first_unknown_attempt_counts(scene: Scene) -> None:
    """A second unknown answer does not move the moment from which the key's window counts."""
    await scene.uncertain("r")
    first = await scene.looked_at()
    await scene.decide(first, State.UNCERTAIN, State.READY, reason="resend_same_key")
    await scene.again(Outcome.UNKNOWN, 2)
    second = await scene.looked_at()
    assert (second.unknown, second.first_unknown_at) == (2, first.first_unknown_at)


@case
async def doubt_is_never_finished_by_a_settle(scene: Scene) -> None:
    """A row in doubt that is told to end as not sent is left uncertain, and the rungs that send are closed."""
    for state in (State.REJECTED, State.DEAD, State.EXPIRED):
        outcome = Outcome.REJECTED if state is State.REJECTED else Outcome.REFUSED
        await scene.ready_in_doubt(state)
        row = await scene.claim_one()
        await scene.begin(row)
        settled = await scene.settle(row, outcome, 2, state=state)
        assert settled.moved == frozenset()
        assert await scene.state(row.id) == State.UNCERTAIN
        assert await scene.outcomes(row.id) == [Outcome.UNKNOWN, outcome]
        looked = await scene.looked_at()
        assert (looked.closed, looked.unknown, looked.last_outcome) == (True, 1, outcome)


@case
async def an_unknown_answer_never_ends_a_delivery(scene: Scene) -> None:
    """The answer that brings the doubt cannot end the delivery as not sent either."""
    row = await scene.sending("r")
    settled = await scene.settle(row, Outcome.UNKNOWN, state=State.DEAD)
    assert settled.moved == frozenset()
    assert await scene.state(row.id) == State.UNCERTAIN
    assert (await scene.looked_at()).closed


@case
async def a_settlement_may_close(scene: Scene) -> None:
    """A settlement that closes the rungs that send says so for good."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.UNKNOWN, closed=True)
    assert (await scene.looked_at()).closed


@case
async def a_settlement_opens_nothing(scene: Scene) -> None:
    """A settlement that says nothing of it leaves the rungs that send closed."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    await scene.decide(row, State.LEASED, State.WAITING, reason="late_answer", closed=True)
    await scene.again(Outcome.REFUSED, 2)
    await scene.store.promote(10)
    assert (await scene.claim_one()).closed


@case
async def acceptance_ends_doubt(scene: Scene) -> None:
    """A resend that is accepted ends the delivery, and the first attempt's answer stays unknown."""
    delivery = await scene.ready_in_doubt("r")
    await scene.again(Outcome.ACCEPTED, 2)
    assert await scene.state(delivery) == State.SENT
    assert await scene.outcomes(delivery) == [Outcome.UNKNOWN, Outcome.ACCEPTED]


# --- one bad row ---------------------------------------------------------------------------------


@case
async def one_bad_row_costs_no_other_its_outcome(scene: Scene) -> None:
    """A row whose answer cannot be stored costs no other its outcome, and its own outcome is recorded too."""
    await scene.ready(*(f"r{i}" for i in range(30)))
    rows = (await scene.claim()).rows
    await scene.begin(*rows)
    now = await scene.now()
    batch = [settlement(row, 1, Outcome.ACCEPTED, now) for row in rows]
    bad = Result(Outcome.ACCEPTED, http_status=2**70, request_id="req-\ud800", excerpt="half a pair: \ud83d")
    batch[17] = batch[17]._replace(result=bad)
    settled = await scene.store.settle(HOOKS, batch, [])
    assert settled.moved == {row.id for row in rows}
    assert (await scene.views.status())["states"]["sent"]["count"] == 30


# --- what endpoints say --------------------------------------------------------------------------


@case
async def of_two_blocks_the_later_end_counts(scene: Scene) -> None:
    """A shorter Retry-After does not shorten a longer one."""
    await scene.ready("r1", "r2")
    rows = (await scene.claim()).rows
    endpoint = rows[0].endpoint
    for seconds in (60, 5):
        await scene.store.settle(HOOKS, [], [Signal(endpoint, SignalKind.BLOCK, "retry_after", seconds)])
    begun = await scene.begin(*rows)
    assert min(until for until, _ in begun.put_off.values()) > await scene.now() + timedelta(seconds=40)


@case
async def a_shut_circuit_stays_as_it_is(scene: Scene) -> None:
    """Answers that say again what opened the circuit do not lengthen it."""
    row = await scene.leased("r")
    for _ in range(5):
        await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.OPEN, "auth", 5)])
    ((until, reason),) = (await scene.begin(row)).put_off.values()
    assert reason == "circuit_open"
    assert until < await scene.now() + timedelta(seconds=7)


@case
async def a_closing_circuit_wakes_who_waits_behind_it(scene: Scene) -> None:
    """When a circuit closes, what waits behind it looks again now; what waits for another reason does not."""
    await scene.ready("r1", "r2")
    first, second = (await scene.claim()).rows
    later = await scene.now() + timedelta(minutes=10)
    await scene.store.settle(HOOKS, [], [Signal(first.endpoint, SignalKind.OPEN, "auth", 5)])
    await scene.decide(first, State.LEASED, State.WAITING, reason="circuit_open", next_at=later)
    await scene.decide(second, State.LEASED, State.WAITING, reason="account_paused", next_at=later)
    assert await scene.store.promote(10) == 0
    await scene.store.settle(HOOKS, [], [Signal(first.endpoint, SignalKind.CLOSE, "answered", 0)])
    assert await scene.store.promote(10) == 1
    assert (await scene.claim_one()).id == first.id


@case
async def an_all_clear_without_a_circuit_changes_nothing(scene: Scene) -> None:
    """An all-clear opens no door that a Retry-After closed."""
    row = await scene.leased("r")
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.BLOCK, "retry_after", 30)])
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.CLOSE, "answered", 0)])
    assert list((await scene.begin(row)).put_off) == [row.id]


@case
async def one_endpoints_trouble_is_not_anothers(scene: Scene) -> None:
    """A circuit stands before its own endpoint and provider only."""
    await scene.ready("r1", addresses={"webhook": "https://one.example.com/"})
    await scene.ready("r2", addresses={"webhook": "https://other.example.com/"})
    rows = {row.reminder_key: row for row in (await scene.claim()).rows}
    await scene.store.settle(HOOKS, [], [Signal(rows["r1"].endpoint, SignalKind.OPEN, "auth", 5)])
    await scene.store.settle("another-provider", [], [Signal(rows["r2"].endpoint, SignalKind.OPEN, "auth", 5)])
    begun = await scene.begin(*rows.values())
    assert list(begun.numbers) == [rows["r2"].id]
    assert list(begun.put_off) == [rows["r1"].id]


@case
async def signals_and_outcomes_are_one_commit(scene: Scene) -> None:
    """What an endpoint said is there as soon as the outcome is."""
    await scene.ready("r1", "r2")
    first, second = (await scene.claim()).rows
    await scene.begin(first)
    refused = settlement(first, 1, Outcome.REFUSED, await scene.now(), spared=True)
    block = Signal(first.endpoint, SignalKind.BLOCK, "retry_after", 30)
    assert (await scene.store.settle(HOOKS, [refused], [block])).moved == {first.id}
    assert list((await scene.begin(second)).put_off) == [second.id]
