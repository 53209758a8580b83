"""Cases of begin and abandon: nothing is sent that is not on record, and nothing begins that should not."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.core import keys
from duly.core.model import Begun, Claimed, Outcome, Revisions, Signal, SignalKind
from duly.core.states import State
from duly.testing.builders import frozen, start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

NOTHING = Begun({}, {})


@case
async def a_begin_writes_the_attempt_first(scene: Scene) -> None:
    """A row that begins has its attempt on record, with worker, time and hash, and no answer yet."""
    row = await scene.leased("r", worker="w7")
    begun = await scene.begin(row, worker="w7", frozen=frozen(row, b"bytes"))
    assert begun == Begun({row.id: 1}, {})
    shown = await scene.show(row.id)
    (attempt,) = shown["attempts"]
    assert (shown["status"], attempt["number"], attempt["worker"]) == (State.SENDING, 1, "w7")
    assert (attempt["outcome"], attempt["finished_at"]) == (None, None)
    assert attempt["payload_hash"] == shown["payload_hash"] == keys.payload_hash(b"bytes").hex()
    assert attempt["started_at"] is not None
    assert shown["template_version"] == "v1"


@case
async def attempts_are_numbered(scene: Scene) -> None:
    """Each attempt has the next number."""
    await scene.waiting("r")
    await scene.again(number=2)
    row = await scene.again(number=3)
    assert [attempt["number"] for attempt in (await scene.show(row.id))["attempts"]] == [1, 2, 3]


@case
async def a_begin_is_not_repeated(scene: Scene) -> None:
    """A row that has begun does not begin again under the same fence."""
    row = await scene.sending("r")
    assert await scene.begin(row) == NOTHING
    assert len(await scene.outcomes(row.id)) == 1


@case
async def twice_in_one_begin_is_one_attempt(scene: Scene) -> None:
    """The same row twice in one batch begins once."""
    row = await scene.leased("r")
    assert (await scene.begin(row, row)).numbers == {row.id: 1}
    assert len(await scene.outcomes(row.id)) == 1


@case
async def an_empty_begin_begins_nothing(scene: Scene) -> None:
    """An empty batch is answered with nothing."""
    assert await scene.begin() == NOTHING


async def does_not_begin(scene: Scene, row: Claimed, **how: object) -> None:
    """Nothing begins, nothing moves, nothing is written, no token is spent."""
    before = await scene.state(row.id)
    assert await scene.begin(row, **how) == NOTHING  # type: ignore[arg-type]
    assert await scene.state(row.id) == before
    assert await scene.outcomes(row.id) == []
    assert await scene.ledger.value("select count(*) from frozen") == 0


@case
async def a_wrong_fence_does_not_begin(scene: Scene) -> None:
    """A row whose fence is another does not begin."""
    row = await scene.leased("r")
    await does_not_begin(scene, row, fence=row.fence + 1)
    await does_not_begin(scene, row, fence=row.fence - 1)


@case
async def another_worker_does_not_begin(scene: Scene) -> None:
    """A row under another worker's lease does not begin."""
    row = await scene.leased("r", worker="w1")
    await does_not_begin(scene, row, worker="w2")


@case
async def good_until_is_asked_of_the_database(scene: Scene) -> None:
    """A row does not begin once the database's clock has reached `good_until`."""
    row = await scene.leased("r")
    await does_not_begin(scene, row, good_until=await scene.now())


@case
async def nothing_begins_after_the_deadline(scene: Scene) -> None:
    """A row past its deadline does not begin, whatever `good_until` says."""
    row = await scene.leased("r", lasts=timedelta(seconds=30))
    await scene.ledger.pass_time(40)
    await does_not_begin(scene, row, good_until=await scene.now() + timedelta(hours=1))


@case
async def nothing_begins_after_the_lease(scene: Scene) -> None:
    """A row whose lease has ended does not begin, also if nobody has taken it back."""
    row = await scene.leased("r")
    await scene.ledger.pass_time(61)
    await does_not_begin(scene, row, good_until=await scene.now() + timedelta(hours=1))


REVISED = ("account", "reminder", "recipient", "contact")


@case
async def each_revision_is_compared(scene: Scene) -> None:
    """A change of the account, the reminder, the recipient or the contact after admission stops the begin."""
    row = await scene.leased("r")
    for table in REVISED:
        await scene.ledger.change(f"update {table} set revision = revision + 1")  # noqa: S608 - a constant
        await does_not_begin(scene, row)
        await scene.ledger.change(f"update {table} set revision = revision - 1")  # noqa: S608 - a constant
    seen = row.revisions._asdict()
    for table in REVISED:
        await does_not_begin(scene, row, revisions=Revisions(**{**seen, table: seen[table] - 1}))
    assert (await scene.begin(row)).numbers == {row.id: 1}


@case
async def a_cancel_before_the_begin_wins(scene: Scene) -> None:
    """A cancel that commits before the begin leaves nothing to begin."""
    row = await scene.leased("r")
    await scene.store.cancel("ana", "moved out", reminder=row.reminder, delivery=None)
    await does_not_begin(scene, row)
    assert await scene.state(row.id) == State.CANCELLED


@case
async def what_may_begin_begins_beside_what_may_not(scene: Scene) -> None:
    """One row that may not begin keeps no other from it."""
    await scene.ready("r1", "r2", "r3")
    first, second, third = (await scene.claim()).rows
    rows = [start(first), start(second, fence=9), start(third)]
    begun = await scene.store.begin(HOOKS, "w1", rows)
    assert begun == Begun({first.id: 1, third.id: 1}, {})
    assert await scene.state(second.id) == State.LEASED


# --- budgets -------------------------------------------------------------------------------------


def moments(begun: Begun) -> list[datetime]:
    """Until when rows were put off, in order."""
    return sorted(until for until, _ in begun.put_off.values())


@case
async def a_rate_puts_rows_off(scene: Scene) -> None:
    """Without a token a row waits for its own moment, with the reason, and costs no attempt."""
    await scene.ready(*(f"r{i}" for i in range(5)))
    claim = await scene.claim()
    begun = await scene.begin(*claim.rows, rate=2.0)
    assert len(begun.numbers) == 2
    assert {reason for _, reason in begun.put_off.values()} == {"rate_limited"}
    first, second, third = moments(begun)
    assert claim.now < first < second < third
    for delivery, (until, reason) in begun.put_off.items():
        shown = await scene.show(delivery)
        assert (shown["status"], shown["reason"], shown["attempts"]) == (State.WAITING, reason, [])
        assert shown["next_at"] == until.isoformat().removesuffix("+00:00") + "Z"


@case
async def tokens_come_back_with_time(scene: Scene) -> None:
    """An endpoint's tokens return at its rate, up to one second's worth."""
    await scene.ready(*(f"r{i}" for i in range(10)))
    rows = (await scene.claim()).rows
    assert len((await scene.begin(*rows[:3], rate=1.0)).numbers) == 1
    await scene.ledger.pass_time(30)
    assert len((await scene.begin(*rows[3:], rate=1.0)).numbers) == 1


@case
async def a_budget_is_shared_by_all_workers(scene: Scene) -> None:
    """Two workers draw on the same tokens."""
    await scene.ready(*(f"r{i}" for i in range(6)))
    ours, theirs = (await scene.claim(3, worker="w1")).rows, (await scene.claim(3, worker="w2")).rows
    first = await scene.begin(*ours, worker="w1", rate=4.0)
    second = await scene.begin(*theirs, worker="w2", rate=4.0)
    assert len(first.numbers) == 3
    assert len(second.numbers) <= 2
    assert len(second.put_off) >= 1


@case
async def each_endpoint_has_its_own_budget(scene: Scene) -> None:
    """One endpoint's empty budget puts off nobody else."""
    one, other = {"webhook": "https://one.example.com/"}, {"webhook": "https://other.example.com/"}
    await scene.ready("a1", "a2", addresses=one)
    await scene.ready("b1", "b2", addresses=other)
    rows = (await scene.claim()).rows
    begun = await scene.begin(*rows, rate=1.0)
    assert len(begun.numbers) == len(begun.put_off) == 2
    addresses = {row.id: row.address for row in rows}
    assert len({addresses[delivery] for delivery in begun.numbers}) == 2


@case
async def a_row_that_does_not_begin_spends_no_token(scene: Scene) -> None:
    """A token that was granted to a row that then does not begin is there for the next."""
    await scene.ready("r1", "r2")
    first, second = (await scene.claim()).rows
    assert await scene.begin(first, rate=1.0, revisions=Revisions(9, 9, 9, 9)) == NOTHING
    assert (await scene.begin(second, rate=1.0)).numbers == {second.id: 1}


@case
async def without_a_rate_all_may_go(scene: Scene) -> None:
    """An endpoint without a rate has no limit."""
    await scene.ready(*(f"r{i}" for i in range(50)))
    assert len((await scene.begin(*(await scene.claim()).rows)).numbers) == 50


async def hear(scene: Scene, row: Claimed, kind: SignalKind, reason: str, seconds: float) -> None:
    """Let the row's endpoint say something."""
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, kind, reason, seconds)])


@case
async def a_closed_door_stops_the_begin(scene: Scene) -> None:
    """A Retry-After that came after admission puts the rows off until it has passed, with or without a rate."""
    for key, rate in (("r1", None), ("r2", 100.0)):
        row = await scene.leased(key)
        await hear(scene, row, SignalKind.BLOCK, "retry_after", 30)
        begun = await scene.begin(row, rate=rate)
        ((until, reason),) = begun.put_off.values()
        assert (begun.numbers, reason) == ({}, "retry_after")
        assert until > await scene.now() + timedelta(seconds=20)
    await scene.ledger.pass_time(45)
    assert await scene.store.promote(10) == 2
    assert len((await scene.begin(*(await scene.claim()).rows)).numbers) == 2


@case
async def one_delivery_probes_an_open_circuit(scene: Scene) -> None:
    """Behind an open circuit nobody begins until its moment; then one does, and the others wait for its answer."""
    await scene.ready("r1", "r2", "r3", "r4")
    rows = (await scene.claim()).rows
    await hear(scene, rows[0], SignalKind.OPEN, "auth", 5)
    begun = await scene.begin(rows[0])
    assert (begun.numbers, [reason for _, reason in begun.put_off.values()]) == ({}, ["circuit_open"])
    await scene.ledger.pass_time(6)
    begun = await scene.begin(*rows[1:])
    assert begun.numbers == {rows[1].id: 1}
    assert {reason for _, reason in begun.put_off.values()} == {"circuit_open"}
    assert min(moments(begun)) > await scene.now() + timedelta(seconds=1)


@case
async def a_probe_that_does_not_begin_is_no_probe(scene: Scene) -> None:
    """A probe is spent only by a row that begins: the next one may probe instead."""
    await scene.ready("r1", "r2")
    first, second = (await scene.claim()).rows
    await hear(scene, first, SignalKind.OPEN, "auth", 5)
    await scene.ledger.pass_time(6)
    assert await scene.begin(first, revisions=Revisions(9, 9, 9, 9)) == NOTHING
    assert (await scene.begin(second)).numbers == {second.id: 1}


@case
async def a_failing_probe_makes_the_next_wait_longer(scene: Scene) -> None:
    """Each probe in a row that fails makes the others wait longer, up to a minute."""
    waits = []
    await scene.ready(*(f"r{i}" for i in range(16)))
    rows = (await scene.claim(lease_seconds=3600)).rows
    await hear(scene, rows[0], SignalKind.OPEN, "auth", 5)
    await scene.ledger.pass_time(6)
    for probe, other in zip(rows[::2], rows[1::2], strict=True):
        now = await scene.now()
        begun = await scene.begin(probe, other)
        assert begun.numbers == {probe.id: 1}
        waits.append(round((begun.put_off[other.id][0] - now).total_seconds()))
        await hear(scene, probe, SignalKind.OPEN, "auth", 5)
        await scene.ledger.pass_time(waits[-1] + 1)
    assert waits == sorted(waits)
    assert waits[0] < waits[1]
    assert waits[-1] == 60


# --- abandon -------------------------------------------------------------------------------------


@case
async def what_has_not_begun_is_given_back(scene: Scene) -> None:
    """A leased row is given back as ready at once, without an attempt, and may be claimed by another."""
    row = await scene.leased("r")
    for _ in range(2):
        await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await scene.state(row.id) == State.READY
    assert await scene.outcomes(row.id) == []
    again = await scene.claim_one(worker="w2")
    assert again.fence > row.fence


@case
async def a_begin_without_an_answer_is_taken_back(scene: Scene) -> None:
    """A row whose begin was recorded but not confirmed is settled as not sent, and waits, without doubt."""
    row = await scene.sending("r")
    for _ in range(2):
        await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await scene.state(row.id) == State.WAITING
    assert await scene.outcomes(row.id) == [Outcome.NOT_SENT]
    assert await scene.store.promote(10) == 1
    again = await scene.claim_one()
    assert (again.doubt, again.attempts) == (False, 1)


@case
async def abandoning_keeps_doubt(scene: Scene) -> None:
    """A row that was in doubt before is still in doubt when it is given back, begun or not."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    await scene.store.abandon("w1", [(row.id, row.fence)])
    row = await scene.claim_one()
    assert (await scene.begin(row)).numbers == {row.id: 2}
    await scene.store.abandon("w1", [(row.id, row.fence)])
    await scene.store.promote(10)
    row = await scene.claim_one()
    assert row.doubt
    assert await scene.outcomes(row.id) == [Outcome.UNKNOWN, Outcome.NOT_SENT]


@case
async def only_the_holder_gives_back(scene: Scene) -> None:
    """Another worker, or another fence, gives back nothing."""
    row = await scene.leased("r")
    await scene.store.abandon("w2", [(row.id, row.fence)])
    await scene.store.abandon("w1", [(row.id, row.fence + 1), (row.id, row.fence - 1)])
    assert await scene.state(row.id) == State.LEASED


@case
async def a_settled_row_is_not_abandoned(scene: Scene) -> None:
    """What was settled before is left as it stands, with its outcome."""
    row = await scene.uncertain("r")
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await scene.state(row.id) == State.UNCERTAIN
    assert await scene.outcomes(row.id) == [Outcome.UNKNOWN]
