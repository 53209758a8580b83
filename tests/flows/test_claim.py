"""Claim: lanes in order, accounts in turn, and trust that is counted from before the question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from duly.core.limits import MOST_SUSPECT
from duly.core.model import Lane
from duly.errors import StoreUnavailable
from duly.flows.claim import COMPANY, Cursors, claim, claim_alone
from duly.ports import Batch, Claim, ClaimOrder, Store
from duly.testing.driving import drive
from duly.testing.transport import REFUSE
from tests.flows.scene import HOOKS, LEASE_SECONDS, WORKER, Scene


def claimed(scene: Scene, limit: int = 100, cursors: Cursors | None = None, store: Store | None = None) -> Batch | None:
    """One claim."""
    flow = claim(store or scene.store, scene.clock, cursors or Cursors(), HOOKS, limit, WORKER, LEASE_SECONDS)
    return drive(flow)


def names(batch: Batch | None) -> list[str]:
    """The reminders of a batch, in order."""
    return [row.reminder_key for row in batch.rows] if batch else []


def firsts(batch: Batch | None) -> list[str]:
    """Their first letters, which say the account or the lane."""
    return sorted(name[0] for name in names(batch))


def spread(scene: Scene, accounts: Sequence[str], each: int) -> None:
    """So many ready deliveries for each account."""
    for account in accounts:
        scene.ready(*(f"{account}{number}" for number in range(each)), account=account)


def test_nothing_ready_is_no_batch(scene: Scene) -> None:
    """An empty ledger gives None, not an empty batch."""
    assert claimed(scene) is None


def test_urgent_lanes_come_first(scene: Scene) -> None:
    """A claim fills up with urgent rows, then normal, then bulk ones, as far as its limit goes."""
    for lane in (Lane.BULK, Lane.NORMAL, Lane.URGENT):
        scene.ready(f"{lane}-1", f"{lane}-2", lane=lane)
    assert firsts(claimed(scene, 3)) == ["n", "u", "u"]
    assert firsts(claimed(scene, 3)) == ["b", "b", "n"]


def test_accounts_take_turns(scene: Scene) -> None:
    """A claim takes an even share of each account, and the next one goes on behind the last that was served."""
    spread(scene, "abc", 2)
    cursors = Cursors()
    assert [firsts(claimed(scene, 2, cursors)) for _ in range(3)] == [["a", "b"], ["c", "c"], ["a", "b"]]


def test_behind_the_last_account_a_claim_starts_over_at_once(scene: Scene) -> None:
    """A lane is not taken for empty because no account behind the cursor has work."""
    spread(scene, "ab", 2)
    cursors = Cursors()
    assert [firsts(claimed(scene, 2, cursors)) for _ in range(2)] == [["a", "b"], ["a", "b"]]


def test_each_lane_has_its_own_turn(scene: Scene) -> None:
    """Where one lane's claims stand says nothing about another's."""
    spread(scene, "ab", 2)
    scene.ready("urgent", account="b", lane=Lane.URGENT)
    cursors = Cursors()
    assert firsts(claimed(scene, 2, cursors)) == ["a", "u"]
    assert firsts(claimed(scene, 1, cursors)) == ["b"]


def test_trust_is_counted_from_before_the_question(scene: Scene) -> None:
    """However long the database takes, the batch carries the reading from before the first lane was asked."""
    scene.ready("a", "b")
    asked_at = scene.clock.reading()

    class Slow:
        """A store that takes a second for every claim."""

        suspects = scene.store.suspects

        async def claim(self, order: ClaimOrder) -> Claim:
            scene.clock.advance(1.0)
            return await scene.store.claim(order)

    batch = claimed(scene, store=cast("Store", Slow()))
    assert batch is not None
    assert batch.asked_at == asked_at
    assert batch.now == scene.clock.now()


def test_an_empty_lane_is_not_asked_again_at_once(scene: Scene) -> None:
    """A lane that was found empty is left in peace for a moment, and asked again after it."""
    cursors = Cursors()
    scene.ready("a")
    claimed(scene, cursors=cursors)
    scene.unsteady.calls.clear()
    scene.ready("b", lane=Lane.URGENT)
    assert claimed(scene, cursors=cursors) is None
    scene.clock.advance(0.1)
    assert names(claimed(scene, cursors=cursors)) == ["b"]


def test_rows_that_are_leased_are_kept_though_a_later_lane_does_not_answer(scene: Scene) -> None:
    """What one lane gave is worked on, though the database goes away before the next lane was asked."""
    scene.ready("a", lane=Lane.URGENT)
    assert names(claimed(scene, store=cast("Store", AwayAfter(scene, 1)))) == ["a"]


def test_a_claim_that_is_not_answered_is_told(scene: Scene) -> None:
    """With nothing in hand, the outage is the caller's to wait for."""
    with pytest.raises(StoreUnavailable):
        claimed(scene, store=cast("Store", AwayAfter(scene, 0)))


# --- suspects ------------------------------------------------------------------------------------


def suspect(scene: Scene, *names: str, of: int) -> None:
    """Ready rows that were in the hands of so many workers when those died."""
    rows = scene.ready(*names)
    for row in rows:
        scene.change(f"update work set suspicion = {of} where delivery_id = x'{row.hex()}'")  # noqa: S608 - our own


def test_suspects_come_first_and_in_small_company(scene: Scene) -> None:
    """Fifty of the first kind, five of the second, and none of the third: those are claimed alone."""
    suspect(scene, *(f"x{number}" for number in range(60)), of=1)
    suspect(scene, *(f"y{number}" for number in range(8)), of=2)
    suspect(scene, "z", of=MOST_SUSPECT)
    scene.ready("a")
    counted = Counter(firsts(claimed(scene, 100)))
    assert counted == {"x": COMPANY[1], "y": COMPANY[2], "a": 1}


def test_what_suspects_leave_goes_to_the_lanes(scene: Scene) -> None:
    """The limit of a claim holds for all of it."""
    suspect(scene, "x1", "x2", of=1)
    suspect(scene, "y1", of=2)
    scene.ready("a", "b")
    assert firsts(claimed(scene, 2)) == ["x", "x"]
    assert firsts(claimed(scene, 10)) == ["a", "b", "y"]


def test_suspects_are_looked_for_now_and_then(scene: Scene) -> None:
    """A busy worker asks no further question for each claim; while there are suspects, it goes on."""
    cursors = Cursors()
    claimed(scene, cursors=cursors)
    suspect(scene, *(f"x{number}" for number in range(60)), of=1)
    assert claimed(scene, cursors=cursors) is None
    scene.clock.advance(0.5)
    assert len(names(claimed(scene, cursors=cursors))) == COMPANY[1]
    assert len(names(claimed(scene, cursors=cursors))) == 60 - COMPANY[1]


def test_the_last_suspects_are_claimed_alone(scene: Scene) -> None:
    """One row at a time, by who asks for it; whoever is no such suspect stays."""
    suspect(scene, "z1", "z2", of=MOST_SUSPECT)
    suspect(scene, "x", of=1)
    flow = claim_alone(scene.store, scene.clock, HOOKS, WORKER, LEASE_SECONDS)
    first = drive(flow)
    second = drive(claim_alone(scene.store, scene.clock, HOOKS, WORKER, LEASE_SECONDS))
    assert sorted([*names(first), *names(second)]) == ["z1", "z2"]
    assert drive(claim_alone(scene.store, scene.clock, HOOKS, WORKER, LEASE_SECONDS)) is None


def test_a_suspect_that_was_answered_is_none_any_more(scene: Scene) -> None:
    """It was rendered, sent and settled, and its worker lives."""
    suspect(scene, "x", of=2)
    scene.transport.plan("https://app.example.com/hooks", REFUSE)
    scene.deliver()
    assert scene.value("select suspicion + deaths from work") == 0


class AwayAfter:
    """A store that answers so many claims, and then none."""

    def __init__(self, scene: Scene, claims: int) -> None:
        self._scene, self._left = scene, claims
        self.suspects = scene.store.suspects

    async def claim(self, order: ClaimOrder) -> Any:
        """See Store.claim."""
        self._left -= 1
        if self._left < 0:
            self._scene.unsteady.away = True
        return await self._scene.store.claim(order)
