"""Cases of suspicion: what was in a dead worker's hands comes in ever smaller company, and at last is left alone."""

from __future__ import annotations

from datetime import timedelta

from duly.core.limits import MOST_SUSPECT
from duly.core.model import Claimed, Lane, Outcome
from duly.core.states import State
from duly.ports import Swept, TakenBack
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

ALONE = MOST_SUSPECT
READY_AGAIN = TakenBack(1, 0)


async def worker_dies(scene: Scene, deaths_max: int = 3) -> TakenBack:
    """Nobody is heard of until the leases have ended, and they are taken back."""
    await scene.ledger.pass_time(61)
    taken: TakenBack = await scene.store.take_back(100, "upkeep", deaths_max)
    return taken


async def suspected(scene: Scene, suspicion: int, key: str = "r") -> None:
    """A ready delivery that so many workers died with, not yet begun."""
    await scene.ready(key)
    await become_suspect(scene, suspicion)


async def become_suspect(scene: Scene, suspicion: int) -> None:
    """The only ready row, of which nobody thinks anything, is in the hands of so many workers when they die."""
    for level in range(suspicion):
        assert len((await scene.claim(suspicion=level)).rows) == 1
        assert await worker_dies(scene) == READY_AGAIN


async def alone(scene: Scene) -> Claimed:
    """The only suspect, claimed alone."""
    (row,) = (await scene.claim(1, suspicion=ALONE)).rows
    return row


async def in_doubt_and_alone(scene: Scene) -> Claimed:
    """A delivery whose only attempt is unknown, claimed alone for the next one."""
    await scene.ready_in_doubt("r")
    await become_suspect(scene, ALONE)
    return await alone(scene)


# --- rising --------------------------------------------------------------------------------------


@case
async def a_death_makes_suspect(scene: Scene) -> None:
    """Each lease that ends makes its row one step more suspect, to the highest, and it is claimed only as that."""
    await scene.ready("r")
    for level in (0, 1, 2, ALONE, ALONE):
        assert await scene.store.suspects([HOOKS]) == ([(HOOKS, level)] if level else [])
        others = [other for other in range(4) if other != level]
        assert [(await scene.claim(suspicion=other)).rows for other in others] == [[], [], []]
        assert len((await scene.claim(suspicion=level)).rows) == 1
        assert await worker_dies(scene) == READY_AGAIN


@case
async def what_had_begun_is_suspect_too(scene: Scene) -> None:
    """A row that had begun when its worker died is uncertain first, and a suspect when it is sent again."""
    row = await scene.sending("r")
    assert await worker_dies(scene) == TakenBack(0, 1)
    assert await scene.store.suspects([HOOKS]) == []
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="resend_same_key")
    assert (await scene.claim()).rows == []
    assert await scene.store.suspects([HOOKS]) == [(HOOKS, 1)]
    (again,) = (await scene.claim(suspicion=1)).rows
    assert (again.id, again.doubt, again.attempts) == (row.id, True, 1)
    assert again.frozen is not None


@case
async def suspects_come_whatever_their_lane_and_account(scene: Scene) -> None:
    """Suspects are claimed across lanes and accounts, oldest first, no more than asked for, and need no cursor."""
    await scene.ready("newest", due_in=-1, lane=Lane.URGENT)
    await scene.ready("oldest", due_in=-30, lane=Lane.BULK, account="other")
    await scene.ready("middle", due_in=-10, account="third")
    for lane in Lane:
        await scene.claim(lane=lane)
    assert await worker_dies(scene) == TakenBack(3, 0)
    first = await scene.claim(2, suspicion=1, after=1_000)
    assert ([row.reminder_key for row in first.rows], first.next_account) == (["oldest", "middle"], 0)
    assert [(row.lane, row.account) for row in first.rows] == [(Lane.BULK, "other"), (Lane.NORMAL, "third")]
    second = await scene.claim(2, suspicion=1)
    assert ([row.reminder_key for row in second.rows], second.next_account) == (["newest"], 0)
    assert (await scene.claim(2, suspicion=1)).rows == []


@case
async def each_provider_has_its_own_suspects(scene: Scene) -> None:
    """Suspects are listed and claimed for the providers that are asked about."""
    await suspected(scene, 2, "two")
    await suspected(scene, 1, "one")
    assert sorted(await scene.store.suspects([HOOKS, "mail"])) == [(HOOKS, 1), (HOOKS, 2)]
    assert await scene.store.suspects(["mail"]) == []
    assert await scene.store.suspects([]) == []
    assert (await scene.claim(provider="mail", suspicion=1)).rows == []


@case
async def suspects_are_overdue_too(scene: Scene) -> None:
    """A ready suspect's next step is now; one that is leased counts from its lease."""
    await suspected(scene, 1)
    assert await scene.store.next_step([HOOKS]) == 0
    assert await scene.store.next_step(["mail"]) is None
    await scene.claim(suspicion=1)
    step = await scene.store.next_step([HOOKS])
    assert step is not None
    assert 30 < step <= 60


@case
async def suspects_expire_like_others(scene: Scene) -> None:
    """A suspect that passes its deadline is swept, and may be cancelled before."""
    await suspected(scene, 1, "expires")
    await suspected(scene, 1, "cancelled")
    (row, *_) = (await scene.claim(1, suspicion=1)).rows
    assert (await scene.store.cancel("ana", "moved out", reminder=None, delivery=row.id)).cancelled == 1
    await scene.ledger.pass_time(9 * 3600)
    assert await scene.store.sweep(10, "upkeep") == Swept(1, 0)
    assert await scene.store.suspects([HOOKS]) == []


# --- clearing ------------------------------------------------------------------------------------


@case
async def who_settles_has_lived(scene: Scene) -> None:
    """A settle under its fence clears suspicion and deaths, whatever the outcome that keeps the row open."""
    for outcome in (Outcome.REFUSED, Outcome.NOT_SENT, Outcome.UNKNOWN):
        await suspected(scene, ALONE, outcome)
        await alone(scene)
        assert await worker_dies(scene) == READY_AGAIN  # and one death
        row = await alone(scene)
        await scene.begin(row)
        await scene.settle(row, outcome)
        if outcome is Outcome.UNKNOWN:
            await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY)
        await scene.store.promote(10)
        assert await scene.store.suspects([HOOKS]) == []
        await become_suspect(scene, ALONE)
        await alone(scene)
        assert await worker_dies(scene, deaths_max=2) == READY_AGAIN
        await scene.store.cancel("ana", "done with it", reminder=None, delivery=row.id)
        if outcome is Outcome.UNKNOWN:
            await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.UNCONFIRMED)


@case
async def a_late_answer_clears_nobody(scene: Scene) -> None:
    """An answer under another fence says nothing of who holds the row now."""
    row = await scene.sending("r")
    await worker_dies(scene)
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="resend_same_key")
    assert (await scene.settle(row, Outcome.REFUSED)).stale == 1
    assert await scene.store.suspects([HOOKS]) == [(HOOKS, 1)]


@case
async def a_suspect_that_is_given_back_stays_one(scene: Scene) -> None:
    """Neither giving a row back unsent nor letting it wait proves anything for it."""
    await suspected(scene, 2)
    (row,) = (await scene.claim(suspicion=2)).rows
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await scene.store.suspects([HOOKS]) == [(HOOKS, 2)]
    (row,) = (await scene.claim(suspicion=2)).rows
    await scene.decide(row, State.LEASED, State.WAITING, reason="account_paused")
    assert await scene.store.promote(10) == 1
    assert await scene.store.suspects([HOOKS]) == [(HOOKS, 2)]


# --- deaths --------------------------------------------------------------------------------------


@case
async def only_deaths_alone_count(scene: Scene) -> None:
    """However often a row was lost in company, it takes as many deaths alone as are allowed."""
    await scene.ready("r")
    for level in (0, 1, 2):
        assert len((await scene.claim(suspicion=level)).rows) == 1
        assert await worker_dies(scene, deaths_max=1) == READY_AGAIN
    for _ in range(2):
        await alone(scene)
        assert await worker_dies(scene) == READY_AGAIN
    await alone(scene)
    assert await worker_dies(scene) == TakenBack(0, 0, 1)


@case
async def what_killed_its_workers_is_dead(scene: Scene) -> None:
    """A row that was never begun and killed too many workers ends dead, with reason and event."""
    await suspected(scene, ALONE)
    row = await alone(scene)
    assert await worker_dies(scene, deaths_max=1) == TakenBack(0, 0, 1)
    shown = await scene.show(row.id)
    assert (shown["status"], shown["reason"], shown["attempts"]) == (State.DEAD, "killed_its_workers", [])
    assert await scene.events(row.id) == [("lease_ended", "leased", "dead", "upkeep", "killed_its_workers")]
    assert await scene.store.suspects([HOOKS]) == []
    assert await worker_dies(scene, deaths_max=1) == TakenBack(0, 0)


@case
async def what_killed_its_workers_in_doubt_is_closed(scene: Scene) -> None:
    """In doubt, the killer does not die: it is uncertain, and the rungs that send are closed."""
    row = await in_doubt_and_alone(scene)
    assert await worker_dies(scene, deaths_max=1) == TakenBack(0, 1)
    reason = "killed_its_workers_in_doubt"
    assert (await scene.events(row.id))[-1] == ("lease_ended", "leased", "uncertain", "upkeep", reason)
    seen = await scene.looked_at()
    assert (seen.closed, seen.reason, seen.unknown, seen.attempts) == (True, reason, 1, 1)


@case
async def what_killed_its_workers_while_sending_is_closed(scene: Scene) -> None:
    """Begun, the killer may have been accepted: it is uncertain and closed, its attempt unknown."""
    await suspected(scene, ALONE)
    row = await alone(scene)
    assert (await scene.begin(row)).numbers == {row.id: 1}
    assert await worker_dies(scene, deaths_max=1) == TakenBack(0, 1)
    reason = "killed_its_workers_in_doubt"
    assert (await scene.events(row.id))[-1] == ("lease_ended", "sending", "uncertain", "upkeep", reason)
    assert await scene.outcomes(row.id) == [Outcome.UNKNOWN]
    seen = await scene.looked_at()
    assert (seen.closed, seen.reason, seen.unknown) == (True, reason, 1)


@case
async def a_death_short_of_the_last_leaves_it_open(scene: Scene) -> None:
    """A death alone that is not the last gives a begun row back to reconcile with its rungs open."""
    await suspected(scene, ALONE)
    row = await alone(scene)
    await scene.begin(row)
    assert await worker_dies(scene, deaths_max=2) == TakenBack(0, 1)
    seen = await scene.looked_at()
    assert (seen.closed, seen.reason) == (False, "unknown_worker_lost")
    await scene.decide(seen, State.UNCERTAIN, State.READY, reason="resend_same_key")
    await alone(scene)
    assert await worker_dies(scene, deaths_max=2) == TakenBack(0, 1)
    assert (await scene.looked_at()).closed


@case
async def one_killer_costs_no_other(scene: Scene) -> None:
    """Of many leases that end together, only the killer's row ends."""
    await suspected(scene, ALONE, "killer")
    await scene.ready("innocent", lasts=timedelta(hours=8))
    killer = await alone(scene)
    (innocent,) = (await scene.claim()).rows
    assert await worker_dies(scene, deaths_max=1) == TakenBack(1, 0, 1)
    assert [await scene.state(row.id) for row in (killer, innocent)] == [State.DEAD, State.READY]
