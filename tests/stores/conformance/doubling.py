"""Cases of double acceptance: a second name for what was accepted is told, once, where a name is a message's."""

from __future__ import annotations

from typing import Any, NamedTuple

from duly.core.model import Claimed, Outcome, Result, Settlement
from duly.core.states import State
from duly.ports import Settled
from duly.testing.builders import settlement
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene


class TwoAttempts(NamedTuple):
    """A delivery in doubt that was sent again: the first worker's row, and the second's."""

    first: Claimed
    second: Claimed


async def sent_twice(scene: Scene, key: str = "r") -> TwoAttempts:
    """One delivery whose first attempt is unanswered, and whose second is in the air."""
    first = await scene.sending(key)
    await scene.ledger.pass_time(61)
    await scene.store.take_back(10, "upkeep")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="resend_same_key")
    second = await scene.claim_one(worker="w2")
    assert (await scene.begin(second, worker="w2")).numbers == {second.id: 2}
    return TwoAttempts(first, second)


async def accepted(scene: Scene, row: Claimed, number: int, request_id: str | None, **more: Any) -> Settlement:
    """An acceptance of one attempt under a request id."""
    result = Result(Outcome.ACCEPTED, request_id=request_id)
    return settlement(row, number, Outcome.ACCEPTED, await scene.now(), result=result, **more)


async def settle(scene: Scene, *rows: Settlement) -> Settled:
    """Record acceptances in one batch."""
    settled: Settled = await scene.store.settle(HOOKS, rows, [])
    return settled


async def noted(scene: Scene, delivery: bytes) -> list[dict[str, Any]]:
    """The evidence of each double acceptance on the delivery's timeline."""
    events = (await scene.show(delivery))["events"]
    return [event["evidence"] for event in events if event["kind"] == "double_acceptance"]


@case
async def a_second_request_id_is_told(scene: Scene) -> None:
    """A delivery that was accepted under one name and again under another has an event that names both."""
    first, second = await sent_twice(scene)
    one = await settle(scene, await accepted(scene, first, 1, "a"))
    assert one == Settled(frozenset({first.id}), 0, 0, 0)
    two = await settle(scene, await accepted(scene, second, 2, "b"))
    assert two == Settled(frozenset({first.id}), 0, 0, 1)
    shown = await scene.show(first.id)
    assert (shown["status"], shown["request_id"]) == (State.SENT, "a")
    assert (await scene.events(first.id))[-1] == ("double_acceptance", "sent", "sent", "w2", "double_acceptance")
    assert await noted(scene, first.id) == [{"request_ids": ["a", "b"], "attempt": 2}]


@case
async def a_repeated_settle_doubles_nothing(scene: Scene) -> None:
    """The same acceptances again, either of them, are neither noted nor counted a second time."""
    first, second = await sent_twice(scene)
    one, two = await accepted(scene, first, 1, "a"), await accepted(scene, second, 2, "b")
    assert [(await settle(scene, row)).doubled for row in (one, two, two, one, two)] == [0, 1, 0, 0, 0]
    assert len(await noted(scene, first.id)) == 1


@case
async def two_names_in_one_batch_are_told(scene: Scene) -> None:
    """Both acceptances in one batch are a double acceptance, counted once, also if one stands there twice."""
    first, second = await sent_twice(scene)
    one, two = await accepted(scene, first, 1, "a"), await accepted(scene, second, 2, "b")
    settled = await settle(scene, one, two, two)
    assert settled == Settled(frozenset({first.id}), 0, 0, 1)
    assert await noted(scene, first.id) == [{"request_ids": ["a", "b"], "attempt": 2}]


@case
async def the_same_name_is_the_same_message(scene: Scene) -> None:
    """A receiver that answers a repeat with the first name has dropped it: nothing is told."""
    first, second = await sent_twice(scene)
    await settle(scene, await accepted(scene, first, 1, "a"))
    assert (await settle(scene, await accepted(scene, second, 2, "a"))).doubled == 0
    assert await noted(scene, first.id) == []


@case
async def a_name_of_a_request_is_no_proof(scene: Scene) -> None:
    """Where a request id names a request and not the message, two of them prove nothing."""
    first, second = await sent_twice(scene)
    await settle(scene, await accepted(scene, first, 1, "a", named=False))
    assert (await settle(scene, await accepted(scene, second, 2, "b", named=False))).doubled == 0
    assert await noted(scene, first.id) == []


@case
async def a_missing_name_is_no_proof(scene: Scene) -> None:
    """An acceptance without a request id, before or after, is no second message."""
    for key, names in (("before", (None, "b")), ("after", ("a", None))):
        first, second = await sent_twice(scene, key)
        for row, number, name in ((first, 1, names[0]), (second, 2, names[1])):
            assert (await settle(scene, await accepted(scene, row, number, name))).doubled == 0
        assert await noted(scene, first.id) == []


@case
async def each_further_name_is_told(scene: Scene) -> None:
    """A third name is one message more: it is told beside the first."""
    first, second = await sent_twice(scene)
    for row, number, name in ((first, 1, "a"), (second, 2, "b"), (second, 2, "c")):
        await settle(scene, await accepted(scene, row, number, name))
    assert [evidence["request_ids"] for evidence in await noted(scene, first.id)] == [["a", "b"], ["a", "c"]]


@case
async def a_correction_is_no_double(scene: Scene) -> None:
    """Acceptance that overturns another end is the first there is."""
    row = await scene.uncertain("r")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.UNCONFIRMED, reason="no_way_to_ask")
    settled = await settle(scene, await accepted(scene, row, 1, "a"))
    assert (settled.corrected, settled.doubled) == (1, 0)
    assert await noted(scene, row.id) == []


@case
async def one_double_costs_no_other_its_outcome(scene: Scene) -> None:
    """A batch with a double acceptance, and with a name that cannot be stored, records every other outcome."""
    first, second = await sent_twice(scene, "doubled")
    await settle(scene, await accepted(scene, first, 1, "a"))
    other = await scene.sending("other")
    bad = await accepted(scene, second, 2, "b-\ud800")
    settled = await settle(scene, bad, await accepted(scene, other, 1, "x"))
    assert settled == Settled(frozenset({first.id, other.id}), 0, 0, 1)
    assert [evidence["request_ids"] for evidence in await noted(scene, first.id)] == [["a", "b-"]]


@case
async def two_names_after_an_operator_said_sent_are_compared(scene: Scene) -> None:
    """The first name that comes is the delivery's own; the second is another one."""
    first, second = await sent_twice(scene)
    await scene.settle(second, Outcome.UNKNOWN, 2)
    row = await scene.looked_at()
    assert await scene.decide(row, State.UNCERTAIN, State.HELD, reason="no_way_to_ask")
    assert await scene.decide(row, State.HELD, State.SENT, reason="called them")
    assert (await settle(scene, await accepted(scene, first, 1, "a"))).doubled == 0
    assert (await scene.show(first.id))["request_id"] == "a"
    assert (await settle(scene, await accepted(scene, second, 2, "b"))).doubled == 1
    assert await noted(scene, first.id) == [{"request_ids": ["a", "b"], "attempt": 2}]
