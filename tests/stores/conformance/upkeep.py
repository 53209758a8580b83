"""Cases of promote, take_back, sweep, doubtful, probe_circuits and next_step: every open row is moved on."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.core.model import FailureClass, Lane, Outcome, Signal, SignalKind
from duly.core.states import State
from duly.ports import Swept, TakenBack
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

# --- promote -------------------------------------------------------------------------------------


@case
async def promote_is_bounded(scene: Scene) -> None:
    """Waiting rows become ready, no more at once than asked for, and each once."""
    await scene.ready(*(f"r{i}" for i in range(5)))
    for row in (await scene.claim()).rows:
        await scene.decide(row, State.LEASED, State.WAITING, reason="endpoint_busy")
    assert [await scene.store.promote(2) for _ in range(4)] == [2, 2, 1, 0]
    assert len((await scene.claim()).rows) == 5


@case
async def promote_leaves_the_others(scene: Scene) -> None:
    """Only waiting rows are promoted: uncertain and held ones whose time has come are not."""
    await scene.uncertain("uncertain")
    held = await scene.looked_at()
    await scene.decide(held, State.UNCERTAIN, State.HELD)
    await scene.uncertain("uncertain-2")
    assert await scene.store.promote(10) == 0


# --- take back -----------------------------------------------------------------------------------


@case
async def a_lease_that_runs_is_left_alone(scene: Scene) -> None:
    """A lease that has not ended is not taken back."""
    await scene.leased("r")
    await scene.ledger.pass_time(50)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 0)


@case
async def an_ended_lease_that_had_not_begun_is_ready(scene: Scene) -> None:
    """A row that had not begun is ready again, without an attempt, and its old holder cannot begin it."""
    row = await scene.leased("r")
    await scene.ledger.pass_time(61)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(1, 0)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 0)
    assert await scene.state(row.id) == State.READY
    assert await scene.outcomes(row.id) == []
    again = await scene.claim_one(worker="w2")
    assert again.fence > row.fence
    assert (await scene.begin(row)).numbers == {}


@case
async def an_ended_lease_that_had_begun_is_in_doubt(scene: Scene) -> None:
    """A row that had begun is uncertain, its attempt unknown for want of a worker, with an event."""
    row = await scene.sending("r")
    await scene.ledger.pass_time(61)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 1)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 0)
    shown = await scene.show(row.id)
    (attempt,) = shown["attempts"]
    assert shown["status"] == State.UNCERTAIN
    assert (attempt["outcome"], attempt["class"]) == ("unknown", "worker_lost")
    assert await scene.events(row.id) == [("lease_ended", "sending", "uncertain", "upkeep", "unknown_worker_lost")]
    looked = await scene.looked_at()
    assert (looked.unknown, looked.last_failure) == (1, FailureClass.WORKER_LOST)
    assert looked.first_unknown_at is not None
    assert looked.fence > row.fence + 1


@case
async def a_lost_resend_uses_up_its_grant(scene: Scene) -> None:
    """A granted resend whose worker was lost is not granted a second time."""
    await scene.uncertain("r")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, granted=True)
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.ledger.pass_time(61)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 1)
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY)
    assert not (await scene.claim_one()).granted


@case
async def taking_back_is_bounded(scene: Scene) -> None:
    """No more leases are taken back at once than asked for."""
    await scene.ready(*(f"r{i}" for i in range(5)))
    await scene.claim()
    await scene.ledger.pass_time(61)
    assert [(await scene.store.take_back(3, "upkeep")).ready for _ in range(3)] == [3, 2, 0]


# --- sweep ---------------------------------------------------------------------------------------


@case
async def what_passed_its_deadline_expires(scene: Scene) -> None:
    """Ready and waiting rows past their deadline expire, with reason and event, and their attempts are kept."""
    waiting = await scene.waiting("waiting", wait=timedelta(hours=9))
    (ready,) = await scene.ready("ready")
    await scene.ledger.pass_time(8 * 3600 + 1)
    assert await scene.store.sweep(10, "upkeep") == Swept(2, 0)
    assert await scene.store.sweep(10, "upkeep") == Swept(0, 0)
    for delivery, before, attempts in ((ready, "ready", 0), (waiting.id, "waiting", 1)):
        shown = await scene.show(delivery)
        assert (shown["status"], shown["reason"], len(shown["attempts"])) == ("expired", "deadline_passed", attempts)
        ((_, origin, target, actor, reason),) = await scene.events(delivery)
        assert (origin, target, actor, reason) == (before, "expired", "upkeep", "deadline_passed")


@case
async def what_it_waited_for_stays_on_record(scene: Scene) -> None:
    """Whatever expires from waiting says why it waited, and until when it would have."""
    waiting = await scene.waiting("waiting", wait=timedelta(hours=9))
    (ready,) = await scene.ready("ready")
    before = await scene.show(waiting.id)
    await scene.ledger.pass_time(8 * 3600 + 1)
    await scene.store.sweep(10, "upkeep")
    after = await scene.show(waiting.id)
    evidence = after["events"][-1]["evidence"]
    assert evidence["waited_for"] == before["reason"]
    behind = _between(after["deadline_at"], evidence["until"]) - _between(before["deadline_at"], before["next_at"])
    assert abs(behind) <= timedelta(seconds=1)
    assert (await scene.show(ready))["events"][-1]["evidence"] is None


def _between(earlier: str, later: str) -> timedelta:
    return datetime.fromisoformat(later) - datetime.fromisoformat(earlier)


@case
async def doubt_does_not_expire(scene: Scene) -> None:
    """Past its deadline, a row in doubt is uncertain and closed, not expired."""
    ready = await scene.ready_in_doubt("ready")
    await scene.ledger.pass_time(8 * 3600 + 1)
    assert await scene.store.sweep(10, "upkeep") == Swept(0, 1)
    looked = await scene.looked_at()
    assert (looked.id, looked.closed, looked.reason) == (ready, True, "deadline_passed_in_doubt")
    _, origin, target, actor, reason = (await scene.events(ready))[-1]
    assert (target, actor, reason) == ("uncertain", "upkeep", "deadline_passed_in_doubt")
    assert origin in ("ready", None)


@case
async def the_sweep_leaves_what_others_hold(scene: Scene) -> None:
    """Leased, sending and held rows are not swept."""
    leased = await scene.leased("leased", lasts=timedelta(seconds=30))
    sending = await scene.sending("sending", lasts=timedelta(seconds=30))
    held = await scene.held("held", lasts=timedelta(seconds=30))
    await scene.ledger.pass_time(40)
    assert await scene.store.sweep(10, "upkeep") == Swept(0, 0)
    states = [await scene.state(row.id) for row in (leased, sending, held)]
    assert states == [State.LEASED, State.SENDING, State.HELD]


@case
async def the_sweep_is_bounded(scene: Scene) -> None:
    """No more rows are swept at once than asked for."""
    await scene.ready(*(f"r{i}" for i in range(5)), lasts=timedelta(seconds=30))
    await scene.ledger.pass_time(40)
    assert [(await scene.store.sweep(3, "upkeep")).expired for _ in range(3)] == [3, 2, 0]


# --- doubtful ------------------------------------------------------------------------------------


@case
async def reconcile_claims_what_is_uncertain(scene: Scene) -> None:
    """An uncertain row comes with what the ladder needs, under a new fence, to one reconciler only."""
    row = await scene.uncertain("r")
    now, rows = await scene.store.doubtful([HOOKS], 10, 30.0)
    (looked,) = rows
    assert now <= await scene.now()
    assert (looked.id, looked.fence, looked.account, looked.provider) == (row.id, row.fence + 1, "acme", HOOKS)
    assert (looked.address, looked.attempts, looked.spared) == (row.address, 1, 0)
    assert (looked.unknown, looked.last_outcome, looked.last_failure) == (1, Outcome.UNKNOWN, FailureClass.TIMEOUT)
    assert (looked.deadline_at - row.deadline_at, looked.closed) == (timedelta(0), False)
    assert (looked.state, looked.reason) == (State.UNCERTAIN, "unknown_timeout")
    assert (await scene.store.doubtful([HOOKS], 10, 30.0))[1] == []


@case
async def a_reconciler_that_dies_is_succeeded(scene: Scene) -> None:
    """After reconcile's lease the row comes again, and the first reconciler's decision is refused."""
    await scene.uncertain("r")
    first = await scene.looked_at(lease_seconds=30)
    await scene.ledger.pass_time(31)
    second = await scene.looked_at(lease_seconds=30)
    assert second.fence == first.fence + 1
    assert not await scene.decide(first, State.UNCERTAIN, State.READY)
    assert await scene.decide(second, State.UNCERTAIN, State.READY)


@case
async def uncertain_rows_wait_for_their_moment(scene: Scene) -> None:
    """An uncertain row whose next look is later is not claimed."""
    row = await scene.sending("r")
    await scene.settle(row, Outcome.UNKNOWN, wait=timedelta(seconds=30))
    assert (await scene.store.doubtful([HOOKS], 10, 30.0))[1] == []
    await scene.ledger.pass_time(31)
    assert (await scene.looked_at()).id == row.id


@case
async def reconcile_claims_only_what_its_providers_can_answer_for(scene: Scene) -> None:
    """Rows of a provider that this process does not know are left to one that does."""
    row = await scene.uncertain("r")
    assert (await scene.store.doubtful(["others"], 10, 60.0))[1] == []
    assert (await scene.looked_at()).fence == row.fence + 1


@case
async def reconcile_is_bounded(scene: Scene) -> None:
    """No more uncertain rows come than asked for, and waiting ones not at all."""
    for key in ("r1", "r2", "r3"):
        await scene.uncertain(key)
    await scene.waiting("waiting")
    counts = [len((await scene.store.doubtful([HOOKS], 2, 60.0))[1]) for _ in range(3)]
    assert counts == [2, 1, 0]


@case
async def bytes_that_are_gone_are_missed(scene: Scene) -> None:
    """Where the frozen bytes are no longer kept, reconcile is told so."""
    await scene.uncertain("r")
    await scene.ledger.change("delete from frozen")
    assert (await scene.looked_at()).frozen is None


# --- circuits ------------------------------------------------------------------------------------


@case
async def a_restart_probes_open_circuits(scene: Scene) -> None:
    """A worker that starts lets the open circuits of its providers be probed now, and wakes who waits behind them."""
    row = await scene.leased("r")
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.OPEN, "auth", 30)])
    later = await scene.now() + timedelta(minutes=10)
    await scene.decide(row, State.LEASED, State.WAITING, reason="circuit_open", next_at=later)
    assert await scene.store.probe_circuits(["another"]) == 0
    assert await scene.store.promote(10) == 0
    assert await scene.store.probe_circuits(["another", HOOKS]) == 1
    assert await scene.store.promote(10) == 1
    again = await scene.claim_one()
    assert again.block is not None
    assert (again.block.circuit, again.block.until <= await scene.now()) == (True, True)
    assert (await scene.begin(again)).numbers == {again.id: 1}


@case
async def a_restart_leaves_other_doors(scene: Scene) -> None:
    """A restart does not make a Retry-After shorter."""
    row = await scene.leased("r")
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.BLOCK, "retry_after", 30)])
    assert await scene.store.probe_circuits([HOOKS]) == 0
    assert list((await scene.begin(row)).put_off) == [row.id]


# --- other hours and caps ------------------------------------------------------------------------


@case
async def other_hours_are_looked_at_once(scene: Scene) -> None:
    """Where accounts have chosen others, what waits for them looks again, so many at a time; the same wake nobody."""
    reasons = ("quiet_hours", "frequency_cap", "quiet_hours", "account_paused")
    for number, reason in enumerate(reasons):
        row = await scene.leased(f"r{number}", ref=f"p{number}")
        await scene.decide(row, State.LEASED, State.WAITING, reason=reason, next_at=row.due_at + timedelta(hours=1))
    assert [await scene.store.look_again("others", 2) for _ in range(3)] == [2, 1, 0]
    assert await scene.store.promote(10) == 3
    assert await scene.state(delivery_id("r3")) == "waiting"
    row = (await scene.claim()).rows[0]
    await scene.decide(row, State.LEASED, State.WAITING, reason="quiet_hours", next_at=row.due_at + timedelta(hours=1))
    assert await scene.store.look_again("others", 2) == 0
    assert await scene.store.look_again("others again", 2) == 1


# --- next step -----------------------------------------------------------------------------------


@case
async def an_empty_ledger_has_no_next_step(scene: Scene) -> None:
    """Where nothing is open, there is no next step; nor is one that belongs to other providers."""
    assert await scene.store.next_step([HOOKS]) is None
    await scene.ready("r")
    assert await scene.store.next_step(["mail"]) is None
    assert await scene.store.next_step([]) is None


@case
async def what_is_ready_is_overdue(scene: Scene) -> None:
    """A ready row's next step is now, in whatever lane."""
    await scene.ready("r", lane=Lane.BULK)
    assert await scene.store.next_step(["mail", HOOKS]) == 0


@case
async def a_lease_ends(scene: Scene) -> None:
    """A leased or sending row's next step is the end of its lease."""
    row = await scene.leased("r")
    for _ in range(2):
        step = await scene.store.next_step([HOOKS])
        assert step is not None
        assert 30 < step <= 60
        await scene.begin(row)
    await scene.ledger.pass_time(61)
    assert await scene.store.next_step([HOOKS]) == 0


@case
async def a_waiting_row_counts_from_its_moment(scene: Scene) -> None:
    """A waiting row's next step is its next try; the nearest of all rows counts."""
    await scene.waiting("later", wait=timedelta(seconds=300))
    await scene.waiting("sooner", wait=timedelta(seconds=100))
    step = await scene.store.next_step([HOOKS])
    assert step is not None
    assert 70 < step <= 100
    await scene.ledger.pass_time(101)
    assert await scene.store.next_step([HOOKS]) == 0


@case
async def an_uncertain_row_counts_from_its_moment(scene: Scene) -> None:
    """An uncertain row's next step is reconcile's next look."""
    await scene.uncertain("r")
    assert await scene.store.next_step([HOOKS]) == 0
    await scene.store.doubtful([HOOKS], 10, 60.0)
    step = await scene.store.next_step([HOOKS])
    assert step is not None
    assert 30 < step <= 60


@case
async def a_held_row_does_not_count(scene: Scene) -> None:
    """A held row keeps nobody waiting."""
    await scene.held("r")
    assert await scene.store.next_step([HOOKS]) is None


@case
async def rows_behind_an_open_circuit_do_not_count(scene: Scene) -> None:
    """Rows that wait behind an open circuit keep nobody waiting, whatever they were told; others do."""
    row = await scene.waiting("r", wait=timedelta(seconds=100))
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.OPEN, "auth", 5)])
    assert await scene.store.next_step([HOOKS]) is None
    other = {"webhook": "https://other.example.com/"}
    await scene.waiting("other", wait=timedelta(seconds=200), addresses=other)
    step = await scene.store.next_step([HOOKS])
    assert step is not None
    assert 170 < step <= 200
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.CLOSE, "answered", 0)])
    step = await scene.store.next_step([HOOKS])
    assert step is not None
    assert step <= 100
