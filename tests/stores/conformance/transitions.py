"""Cases of the moves that no other case makes, so that the suite walks every arrow of the table of transitions.

Arrows that no call of the store walks stand in `NOT_WALKED`, each with its reason: an arrow that is added to
the table must be walked or excused.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from duly.core.model import Outcome
from duly.core.states import TRANSITIONS, State
from duly.testing.builders import settlement
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

S = State

#: Arrows that no call of the store walks, and why.
NOT_WALKED: Final[dict[tuple[State | None, State], str]] = {
    (S.SKIPPED, S.SENT): "nothing was sent that could be accepted",
}
ENDS_BY_DECISION: Final = (S.EXPIRED, S.SUPPRESSED, S.CANCELLED, S.SHADOWED, S.REJECTED, S.DEAD)


class FirstLease(NamedTuple):
    """What the first worker of a delivery remembers of it."""

    id: bytes
    fence: int = 1


async def evidence(scene: Scene, delivery: bytes) -> None:
    """A late acceptance of the delivery's first attempt, by its first worker."""
    accepted = settlement(FirstLease(delivery), 1, Outcome.ACCEPTED, await scene.now())
    assert (await scene.store.settle(HOOKS, [accepted], [])).moved == {delivery}
    assert await scene.state(delivery) == S.SENT


async def stands(scene: Scene, origin: State | None, target: State) -> None:
    """The delivery `r` went from origin (None: it was not written) to target in the last step."""
    assert await scene.state(delivery_id("r")) == target
    assert target in TRANSITIONS[origin]


@case
async def tick_makes_ready(scene: Scene) -> None:
    """(new) -> ready, by the tick."""
    await scene.ready("r")
    await stands(scene, None, S.READY)


@case
async def ready_is_swept_and_cancelled(scene: Scene) -> None:
    """Ready -> expired and ready -> cancelled, by the sweep and by a cancel."""
    await scene.ready("r", lasts=timedelta(seconds=30))
    await scene.ledger.pass_time(31)
    await scene.store.sweep(10, "upkeep")
    await stands(scene, S.READY, S.EXPIRED)
    (other,) = await scene.ready("other")
    await scene.store.cancel("ana", "moved out", reminder=None, delivery=other)
    assert await scene.state(other) == S.CANCELLED


@case
async def a_lease_leads_everywhere(scene: Scene) -> None:
    """Leased -> each state that admission may choose."""
    for target in (S.READY, S.WAITING, *ENDS_BY_DECISION):
        row = await scene.leased(f"to-{target}")
        assert await scene.decide(row, S.LEASED, target)
        assert await scene.state(row.id) == target
        if target is S.READY:
            await scene.store.cancel("ana", "done with it", reminder=None, delivery=row.id)


@case
async def a_lease_in_doubt_goes_back_to_reconcile(scene: Scene) -> None:
    """Leased -> uncertain, by admission."""
    await scene.ready_in_doubt("r")
    row = await scene.claim_one()
    assert await scene.decide(row, S.LEASED, S.UNCERTAIN, reason="key_window_closed")
    await stands(scene, S.LEASED, S.UNCERTAIN)


@case
async def waiting_in_doubt_is_swept_to_uncertain(scene: Scene) -> None:
    """Waiting -> uncertain, by the sweep."""
    await scene.waiting_in_doubt("r")
    await scene.ledger.pass_time(8 * 3600 + 1)
    await scene.store.sweep(10, "upkeep")
    await stands(scene, S.WAITING, S.UNCERTAIN)


@case
async def uncertain_leads_where_reconcile_decides(scene: Scene) -> None:
    """Uncertain -> sent, ready, held, unconfirmed and waiting, by reconcile."""
    for target in (S.SENT, S.HELD, S.UNCONFIRMED, S.WAITING, S.READY):
        await scene.uncertain(f"to-{target}")
        row = await scene.looked_at()
        assert await scene.decide(row, S.UNCERTAIN, target)
        assert await scene.state(row.id) == target


@case
async def uncertain_dies_of_a_late_answer(scene: Scene) -> None:
    """Uncertain -> dead, where a late answer has made every attempt definite."""
    row = await scene.sending("r")
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    await scene.settle(row, Outcome.REFUSED)
    assert await scene.decide(await scene.looked_at(), S.UNCERTAIN, S.DEAD, reason="attempts_exhausted", certain=True)
    await stands(scene, S.UNCERTAIN, S.DEAD)


@case
async def evidence_opens_every_end(scene: Scene) -> None:
    """Every final state but sent -> sent, by acceptance of an attempt of which another answer was on record."""
    for end in (S.REJECTED, S.DEAD, S.EXPIRED):
        outcome = Outcome.REJECTED if end is S.REJECTED else Outcome.REFUSED
        row = await scene.sending(f"from-{end}")
        await scene.settle(row, outcome, state=end)
        await corrected(scene, row.id, end)
    for end in (S.SUPPRESSED, S.SHADOWED, S.CANCELLED):
        await scene.waiting(f"from-{end}")
        await scene.store.promote(10)
        row = await scene.claim_one()
        assert await scene.decide(row, S.LEASED, end)
        await corrected(scene, row.id, end)


async def corrected(scene: Scene, delivery: bytes, end: State) -> None:
    """The delivery stood in `end`; evidence makes it sent, with an event, and its result stays as it was."""
    assert await scene.state(delivery) == end
    before = await scene.outcomes(delivery)
    await evidence(scene, delivery)
    assert await scene.outcomes(delivery) == before
    assert (await scene.events(delivery))[-1][:3] == ("corrected", end, "sent")


@case
async def evidence_ends_what_nobody_holds(scene: Scene) -> None:
    """ready, waiting, uncertain and held -> sent, by a late acceptance."""
    await scene.ready_in_doubt("ready")
    await evidence(scene, delivery_id("ready"))
    await scene.waiting_in_doubt("waiting")
    await evidence(scene, delivery_id("waiting"))
    await scene.uncertain("uncertain")
    await evidence(scene, delivery_id("uncertain"))
    await scene.held("held")
    await evidence(scene, delivery_id("held"))
    assert (await scene.claim()).rows == []


@case
async def evidence_ends_what_another_holds(scene: Scene) -> None:
    """Leased and sending -> sent, by a late acceptance of an earlier attempt."""
    await scene.ready_in_doubt("leased")
    row = await scene.claim_one(worker="w2")
    await evidence(scene, row.id)
    assert (await scene.begin(row, worker="w2")).numbers == {}
    await scene.ready_in_doubt("sending")
    row = await scene.claim_one(worker="w2")
    assert (await scene.begin(row, worker="w2")).numbers == {row.id: 2}
    await evidence(scene, row.id)
    assert (await scene.settle(row, Outcome.ACCEPTED, 2)).corrected == 0
