"""Cases of frequency caps: what begins is counted by the transaction that begins it, and exactly."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from duly.core.caps import FREQUENCY_CAP, PER_DAYS_MAX, Cap
from duly.core.model import Begun, Claimed, Outcome, Signal, SignalKind
from duly.core.moments import instant
from duly.core.states import State
from duly.testing.builders import start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

DAY: Final = timedelta(days=1)
DAY_SECONDS: Final = 86_400.0
ONCE: Final = Cap(1, DAY)


async def leased(scene: Scene, *keys: str, **more: object) -> list[Claimed]:
    """Deliveries to one recipient, claimed, in the order of their keys."""
    await scene.ready(*keys, **more)
    rows = {row.reminder_key: row for row in (await scene.claim()).rows}
    return [rows[key] for key in keys]


async def counted(scene: Scene) -> int:
    """How many deliveries count towards caps."""
    found: int = await scene.ledger.value("select count(*) from capped")
    return found


async def is_full(scene: Scene, cap: Cap = ONCE, key: str = "probe", **more: object) -> bool:
    """Whether a new delivery to the same recipient is put off by the cap; it is called off afterwards."""
    (row,) = await leased(scene, key, **more)
    begun = await scene.begin(row, cap=cap)
    if begun.numbers:
        await scene.settle(row, Outcome.NOT_SENT)
    await scene.store.cancel("somebody", "was a probe", reminder=None, delivery=row.id)
    return row.id in begun.put_off


def waits(begun: Begun, row: Claimed) -> datetime:
    """Until when a cap puts the row off."""
    until, reason = begun.put_off[row.id]
    assert reason == FREQUENCY_CAP
    return until


@case
async def a_cap_puts_off_what_has_no_room(scene: Scene) -> None:
    """Of one batch as many begin as the cap allows, in their order, and the rest waits until a place is free."""
    first, second, third, fourth = await leased(scene, "a", "b", "c", "d")
    before = await scene.now()
    begun = await scene.begin(first, second, third, fourth, cap=Cap(2, DAY))
    assert begun.numbers == {first.id: 1, second.id: 1}
    assert begun.put_off.keys() == {third.id, fourth.id}
    assert before + DAY <= waits(begun, third) <= await scene.now() + DAY
    shown = await scene.show(third.id)
    assert (shown["status"], shown["reason"], shown["attempts"]) == (State.WAITING, FREQUENCY_CAP, [])
    assert await counted(scene) == 2
    (event,) = shown["events"]
    assert (event["kind"], event["from"], event["to"], event["reason"]) == (
        "decided",
        "leased",
        "waiting",
        FREQUENCY_CAP,
    )
    assert event["evidence"] == {"cap": "2/P1D", "until": instant(waits(begun, third))}


@case
async def a_place_is_free_when_its_time_has_passed(scene: Scene) -> None:
    """What began longer ago than the cap looks back does not count."""
    (row,) = await leased(scene, "a")
    await scene.begin(row, cap=ONCE)
    await scene.settle(row, Outcome.ACCEPTED)
    await scene.ledger.pass_time(DAY_SECONDS - 60)
    assert await is_full(scene)
    await scene.ledger.pass_time(70)
    assert not await is_full(scene, key="later")


@case
async def a_delivery_counts_once(scene: Scene) -> None:
    """However often it is attempted, a delivery has one place, from its first begin, and its repeats need none."""
    (row,) = await leased(scene, "a")
    await scene.begin(row, cap=ONCE)
    await scene.settle(row, Outcome.REFUSED)
    await scene.store.promote(100)
    again = await scene.claim_one()
    assert (await scene.begin(again, cap=ONCE)).numbers == {row.id: 2}
    assert await counted(scene) == 1


@case
async def what_may_have_left_counts(scene: Scene) -> None:
    """Accepted, rejected, refused or unknown: each of them counts."""
    for outcome in (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.REFUSED, Outcome.UNKNOWN):
        (row,) = await leased(scene, f"a-{outcome}", ref=outcome)
        await scene.begin(row, cap=ONCE)
        await scene.settle(row, outcome)
        assert await is_full(scene, key=f"probe-{outcome}", ref=outcome), outcome


@case
async def what_never_left_does_not_count(scene: Scene) -> None:
    """A delivery of which no attempt was sent gives its place back when that is recorded, whatever becomes of it."""
    (row,) = await leased(scene, "a")
    await scene.begin(row, cap=ONCE)
    assert await counted(scene) == 1
    await scene.settle(row, Outcome.NOT_SENT)
    assert await counted(scene) == 0
    await scene.store.promote(100)
    again = await scene.claim_one()
    await scene.begin(again, cap=ONCE)
    await scene.settle(again, Outcome.NOT_SENT, 2, state=State.DEAD)
    assert not await is_full(scene)


@case
async def one_that_left_before_keeps_its_place(scene: Scene) -> None:
    """An attempt that was not sent gives nothing back where an earlier one had left."""
    (row,) = await leased(scene, "a")
    await scene.begin(row, cap=ONCE)
    await scene.settle(row, Outcome.REFUSED)
    await scene.again(Outcome.NOT_SENT)
    assert await counted(scene) == 1


@case
async def a_late_answer_gives_a_place_back(scene: Scene) -> None:
    """Where a late answer proves that nothing left, the decision that ends the doubt ends the count."""
    (row,) = await leased(scene, "a")
    await scene.begin(row, cap=ONCE)
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    await scene.settle(row, Outcome.NOT_SENT)
    assert await counted(scene) == 1
    assert await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.WAITING, certain=True)
    assert await counted(scene) == 0


@case
async def a_begin_that_was_abandoned_does_not_count(scene: Scene) -> None:
    """A begin whose reply was lost is given back with its place; one of which an attempt had left keeps it."""
    (row,) = await leased(scene, "a")
    await scene.begin(row, cap=ONCE)
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await counted(scene) == 0
    await scene.store.promote(100)
    again = await scene.claim_one()
    await scene.begin(again, cap=ONCE)
    await scene.settle(again, Outcome.REFUSED, 2)
    await scene.store.promote(100)
    third = await scene.claim_one()
    await scene.begin(third, cap=ONCE)
    await scene.store.abandon("w1", [(third.id, third.fence)])
    assert await counted(scene) == 1


@case
async def one_in_doubt_is_not_asked(scene: Scene) -> None:
    """What may have arrived is repeated although the cap is full, and counts from then on."""
    delivery = await scene.ready_in_doubt("a")
    row = await scene.claim_one()
    (other,) = await leased(scene, "b")
    await scene.begin(other, cap=ONCE)
    assert (await scene.begin(row, cap=ONCE)).numbers == {delivery: 2}
    assert await counted(scene) == 2


@case
async def a_cap_is_of_recipient_channel_and_purpose(scene: Scene) -> None:
    """What went to somebody else, or was for something else, takes no place."""
    (row,) = await leased(scene, "a", purpose="marketing")
    await scene.begin(row, cap=ONCE)
    await scene.settle(row, Outcome.ACCEPTED)
    assert await is_full(scene, purpose="marketing")
    assert not await is_full(scene, key="service", purpose="service")
    assert not await is_full(scene, key="bo", purpose="marketing", ref="bo")


@case
async def a_row_without_a_cap_is_not_counted(scene: Scene) -> None:
    """A delivery that no cap is about leaves nothing, and is held up by nobody."""
    capped, plain = await leased(scene, "a", "b")
    assert len((await scene.begin(capped, cap=ONCE)).numbers) == 1
    assert len((await scene.begin(plain)).numbers) == 1
    assert await counted(scene) == 1


@case
async def a_cap_costs_no_token(scene: Scene) -> None:
    """What a cap puts off leaves the budget to those behind it."""
    first, second, other = await leased(scene, "a", "b", "c")
    await scene.begin(first, cap=ONCE)
    starts = [start(second, rate=1.0, cap=ONCE), start(other, rate=1.0)]
    begun = await scene.store.begin(HOOKS, "w1", starts)
    assert begun.numbers == {other.id: 1}
    assert waits(begun, second)


@case
async def a_place_that_was_not_taken_is_free(scene: Scene) -> None:
    """One that had room and was put off by its budget keeps nobody waiting: the next may ask again at once."""
    first, second = await leased(scene, "a", "b")
    shut = Signal(first.endpoint, SignalKind.BLOCK, "retry_after", 30.0)
    await scene.store.settle(HOOKS, [], [shut])
    starts = [start(first, cap=ONCE), start(second, cap=ONCE)._replace(endpoint=b"e" * 16)]
    begun = await scene.store.begin(HOOKS, "w1", starts)
    assert begun.numbers == {}
    assert begun.put_off.keys() == {first.id}
    assert begun.put_off[first.id][1] == "retry_after"
    assert len((await scene.store.begin(HOOKS, "w1", starts[1:])).numbers) == 1


@case
async def what_no_cap_looks_back_to_is_forgotten(scene: Scene) -> None:
    """Records of what began go when no cap can look back so far, oldest first, a batch at a time."""
    rows = await leased(scene, "a", "b", "c")
    await scene.begin(*rows[:2], cap=Cap(9, DAY))
    await scene.ledger.pass_time(10.0)
    await scene.begin(rows[2], cap=Cap(9, DAY))
    await scene.ledger.pass_time(PER_DAYS_MAX * DAY_SECONDS - 5.0)
    assert await scene.store.forget_places(1) == 1
    assert await scene.store.forget_places(100) == 1
    assert await scene.store.forget_places(100) == 0
    assert await counted(scene) == 1
