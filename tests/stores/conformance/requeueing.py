"""Cases of requeue: dead letters return to work as themselves, and in doubt where a backup may have forgotten them."""

from __future__ import annotations

from datetime import timedelta

from duly.core.model import Claimed, Outcome
from duly.core.states import State
from duly.ports import Revision
from duly.testing.builders import frozen, new_reminder, settlement, start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

BODY = b"the first bytes"


async def ended(scene: Scene, key: str = "r", state: State = State.DEAD) -> Claimed:
    """A delivery whose only attempt was refused for good."""
    row = await scene.leased(key)
    assert (await scene.begin(row, frozen=frozen(row, BODY))).numbers == {row.id: 1}
    outcome = Outcome.REJECTED if state is State.REJECTED else Outcome.REFUSED
    await scene.settle(row, outcome, state=state, reason=f"why_{state}")
    return row


async def requeue(scene: Scene, *deliveries: bytes) -> frozenset[bytes]:
    """Return dead letters to work."""
    returned: frozenset[bytes] = await scene.store.requeue("ana", "the address was mended", deliveries)
    return returned


@case
async def dead_letters_return(scene: Scene) -> None:
    """Dead and rejected deliveries are ready again under the same id, and the timeline says who did it and why."""
    for state in (State.DEAD, State.REJECTED):
        row = await ended(scene, state, state)
        assert await requeue(scene, row.id) == {row.id}
        shown = await scene.show(row.id)
        assert (shown["status"], shown["reason"], len(shown["attempts"])) == (State.READY, None, 1)
        assert (await scene.events(row.id))[-1] == ("redriven", state, "ready", "ana", "the address was mended")
        assert (await scene.claim_one()).id == row.id


@case
async def a_dead_letter_keeps_its_bytes_and_its_past(scene: Scene) -> None:
    """Its attempts stay on record and are spared, its frozen bytes are still there, and no doubt begins."""
    await ended(scene)
    await requeue(scene, delivery_id("r"))
    row = await scene.claim_one()
    assert (row.attempts, row.spared, row.doubt, row.closed, row.granted) == (1, 1, False, False, False)
    assert row.frozen is not None
    assert (row.frozen.number, row.frozen.body) == (1, BODY)
    assert (await scene.begin(row)).numbers == {row.id: 2}
    await scene.settle(row, Outcome.ACCEPTED, 2)
    assert (await scene.show(row.id))["status"] == State.SENT
    assert await scene.outcomes(row.id) == [Outcome.REFUSED, Outcome.ACCEPTED]


@case
async def a_requeue_is_repeatable(scene: Scene) -> None:
    """The same requeue again returns nothing, and leaves one event and one row of work."""
    row = await ended(scene)
    assert await requeue(scene, row.id, row.id) == {row.id}
    before = await scene.show(row.id)
    assert await requeue(scene, row.id) == frozenset()
    assert await scene.show(row.id) == before
    assert await scene.ledger.value("select count(*) from work") == 1


@case
async def a_dead_letter_returns_again_and_again(scene: Scene) -> None:
    """One that died once more is returned once more, with all its attempts spared."""
    await ended(scene)
    for number in (2, 3):
        assert await requeue(scene, delivery_id("r")) == {delivery_id("r")}
        row = await scene.claim_one()
        assert (row.attempts, row.spared) == (number - 1, number - 1)
        assert (await scene.begin(row)).numbers == {row.id: number}
        await scene.settle(row, Outcome.REFUSED, number, state=State.DEAD)


@case
async def only_dead_letters_return(scene: Scene) -> None:
    """Whatever is open, or ended in any other way, stays where it is; so does what nobody knows."""
    sent = await scene.sending("sent")
    await scene.settle(sent, Outcome.ACCEPTED)
    expired = await ended(scene, "expired", State.EXPIRED)
    await scene.uncertain("unconfirmed")
    unconfirmed = await scene.looked_at()
    await scene.decide(unconfirmed, State.UNCERTAIN, State.UNCONFIRMED)
    waiting = await scene.waiting("waiting", wait=timedelta(hours=1))
    deliveries = [sent.id, expired.id, unconfirmed.id, waiting.id]
    before = [await scene.show(delivery) for delivery in deliveries]
    assert await requeue(scene, *deliveries, bytes(16)) == frozenset()
    assert [await scene.show(delivery) for delivery in deliveries] == before
    assert await requeue(scene) == frozenset()


@case
async def nobody_who_held_it_before_holds_it_again(scene: Scene) -> None:
    """The fences of its first life are worth nothing in its second."""
    row = await ended(scene)
    await requeue(scene, row.id)
    again = await scene.claim_one()
    assert again.fence > row.fence + 1
    assert (await scene.store.begin(HOOKS, "w1", [start(row)])).numbers == {}
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert not await scene.decide(row, State.LEASED, State.EXPIRED)
    assert await scene.state(row.id) == State.LEASED


@case
async def late_acceptance_ends_a_requeued_letter(scene: Scene) -> None:
    """Acceptance of an attempt whose answer is not on record ends what was requeued, and nothing is left to send."""
    row = await scene.sending("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    looked = await scene.looked_at()
    assert await scene.decide(looked, State.UNCERTAIN, State.DEAD, reason="looked_up", covered=True)
    await requeue(scene, row.id)
    accepted = settlement(row, 1, Outcome.ACCEPTED, await scene.now())
    assert (await scene.store.settle(HOOKS, [accepted], [])).moved == {row.id}
    assert await scene.state(row.id) == State.SENT
    assert await scene.ledger.value("select count(*) from work") == 0


# --- after a restore -----------------------------------------------------------------------------


async def in_doubt(scene: Scene, delivery: bytes) -> bool:
    """Whether the requeued delivery is in doubt of a restore."""
    shown = await scene.show(delivery)
    event = (await scene.events(delivery))[-1]
    assert event == ("redriven", "dead", shown["status"], "ana", "the address was mended")
    return (shown["status"], shown["reason"]) == (State.UNCERTAIN, "restored")


@case
async def a_requeue_under_a_guard_starts_in_doubt(scene: Scene) -> None:
    """While a guard is open a dead letter returns as uncertain: it may have been redriven before, and sent."""
    row = await ended(scene)
    await scene.store.heartbeat("worker")
    await scene.store.open_guard("ana", "restored")
    assert await requeue(scene, row.id) == {row.id}
    assert await in_doubt(scene, row.id)
    looked = await scene.looked_at()
    assert (looked.restored, looked.unknown, looked.attempts, looked.spared) == (True, 1, 1, 1)
    assert (looked.first_unknown_at, looked.last_outcome) == (row.due_at, Outcome.REFUSED)


@case
async def a_requeue_of_what_a_guard_covered_starts_in_doubt(scene: Scene) -> None:
    """After the closing, what was due before it returns in doubt, however old; what was due later does not."""
    older = await ended(scene, "older")
    await scene.store.heartbeat("worker")
    await scene.store.open_guard("ana", "restored")
    await scene.store.close_guard("ana", "all is in")
    await scene.ledger.pass_time(10)
    newer = await ended(scene, "newer")
    assert await requeue(scene, older.id, newer.id) == {older.id, newer.id}
    assert await in_doubt(scene, older.id)
    assert not await in_doubt(scene, newer.id)
    assert (await scene.claim_one()).id == newer.id


@case
async def a_rejected_letter_under_a_guard_starts_in_doubt(scene: Scene) -> None:
    """What was rejected returns in doubt under a guard, like what is dead."""
    row = await ended(scene, state=State.REJECTED)
    await scene.store.open_guard("ana", "restored")
    assert await requeue(scene, row.id) == {row.id}
    assert await scene.state(row.id) == State.UNCERTAIN


@case
async def what_was_replaced_does_not_return(scene: Scene) -> None:
    """A newer version of its reminder lets another delivery come in its place: the two would be one too many."""
    row = await ended(scene)
    due = await scene.now() - timedelta(seconds=1)
    newer = Revision(new_reminder("r", due, event_version=2), 1, None, 2, (), keep_body=False)
    assert await scene.store.revise("ana", "the visit was moved", newer)
    assert await requeue(scene, row.id) == frozenset()
    await scene.tick()
    assert await requeue(scene, row.id) == frozenset()
    again = await scene.claim_one()
    await scene.begin(again)
    await scene.settle(again, Outcome.REFUSED, state=State.DEAD)
    assert await requeue(scene, row.id, again.id) == {again.id}
