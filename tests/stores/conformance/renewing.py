"""Cases of renew: only what is in the air, in the same hands, under a lease that still runs, is held longer."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.core.model import Outcome
from duly.core.states import State
from duly.ports import TakenBack
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene, delivery_id

NONE: frozenset[bytes] = frozenset()


async def lease_end(scene: Scene, delivery: bytes) -> datetime:
    """When the delivery's lease ends, as `show` tells it."""
    return datetime.fromisoformat((await scene.show(delivery))["lease_expires_at"])


@case
async def a_renewed_lease_ends_later(scene: Scene) -> None:
    """A begun row whose lease was renewed is not taken back at the old end, and can be settled after it."""
    row = await scene.sending("r")
    await scene.ledger.pass_time(40)
    assert await scene.store.renew("w1", [(row.id, row.fence)], 60.0) == {row.id}
    left = await lease_end(scene, row.id) - await scene.now()
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    await scene.ledger.pass_time(40)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 0)
    assert (await scene.settle(row, Outcome.ACCEPTED)).moved == {row.id}


@case
async def a_renewed_lease_ends_too(scene: Scene) -> None:
    """A renewal is a lease like another: when it ends, the row is in doubt."""
    row = await scene.sending("r")
    assert await scene.store.renew("w1", [(row.id, row.fence)], 90.0) == {row.id}
    await scene.ledger.pass_time(91)
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 1)


@case
async def a_renewal_is_repeatable(scene: Scene) -> None:
    """The same renewal again counts from its own moment, and a pair twice is one row."""
    row = await scene.sending("r")
    pair = (row.id, row.fence)
    for _ in range(3):
        await scene.ledger.pass_time(40)
        assert await scene.store.renew("w1", [pair, pair], 60.0) == {row.id}
    assert await scene.state(row.id) == State.SENDING


@case
async def what_has_not_begun_is_not_renewed(scene: Scene) -> None:
    """A row that is only claimed keeps its lease as it is."""
    row = await scene.leased("r")
    before = await lease_end(scene, row.id)
    assert await scene.store.renew("w1", [(row.id, row.fence)], 600.0) == NONE
    assert await lease_end(scene, row.id) == before


@case
async def a_renewal_needs_its_fence_and_worker(scene: Scene) -> None:
    """Under another fence, or by another worker, nothing is renewed."""
    row = await scene.sending("r")
    before = await lease_end(scene, row.id)
    for worker, fence in (("w1", row.fence + 1), ("w1", row.fence - 1), ("w2", row.fence)):
        assert await scene.store.renew(worker, [(row.id, fence)], 600.0) == NONE
    assert await lease_end(scene, row.id) == before


@case
async def an_ended_lease_is_not_renewed(scene: Scene) -> None:
    """A lease that has ended is somebody else's to take back, whether he has done so or not."""
    row = await scene.sending("r")
    await scene.ledger.pass_time(61)
    assert await scene.store.renew("w1", [(row.id, row.fence)], 60.0) == NONE
    assert await scene.store.take_back(10, "upkeep") == TakenBack(0, 1)
    assert await scene.store.renew("w1", [(row.id, row.fence)], 60.0) == NONE


@case
async def each_row_is_renewed_for_itself(scene: Scene) -> None:
    """Of a batch, those are renewed that may be, and only those are told."""
    await scene.ready("r1", "r2", "r3")
    first, second, third = (await scene.claim()).rows
    await scene.begin(first, second)
    await scene.settle(second, Outcome.ACCEPTED)
    pairs = [(row.id, row.fence) for row in (first, second, third)]
    nobody = (delivery_id("nobody"), 1)
    assert await scene.store.renew("w1", [*pairs, nobody], 60.0) == {first.id}
    assert await scene.store.renew("w1", [], 60.0) == NONE
