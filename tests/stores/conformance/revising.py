"""Cases of standing and revise: a newer version is written where nothing has changed since the reminder was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from duly.core import keys
from duly.core.model import Channel, NewReminder, Outcome, Scheduled
from duly.core.revising import Revised, Standing, Whom
from duly.core.states import State
from duly.errors import NotFound
from duly.flows.revise import Wish, revise_reminder
from duly.intake import zones
from duly.ports import Revision
from duly.testing.builders import ADDRESSES, NAMESPACE, new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene
from tests.stores.conformance.ticking import daily

REMINDER = keys.reminder_id(NAMESPACE, "acme", "r")
AGAIN = keys.delivery_id(NAMESPACE, "acme", "r", "once#2", Channel.WEBHOOK)


async def newer(scene: Scene, due_in: float = -1.0, **more: Any) -> NewReminder:
    """Version 2 of the reminder `r`."""
    due = await scene.now() + timedelta(seconds=due_in)
    return new_reminder("r", due, data={"unit": "5C"}, event_version=2, **more)


async def standing(scene: Scene) -> Standing:
    """How `r` stands."""
    stands: Standing = await scene.store.standing(REMINDER, ["once"])
    return stands


async def revise(scene: Scene, new: NewReminder, *call_off: bytes, **more: Any) -> bool:
    """Bring it in force, where it stands now."""
    stands = await standing(scene)
    seen = {"seen": stands.revision, "seen_due": stands.next_due_at}
    wanted = {"reminder": new, **seen, "generation": 1, "call_off": call_off, "keep_body": False}
    revised: bool = await scene.store.revise("ana", "the visit was moved", Revision(**{**wanted, **more}))
    return revised


@case
async def standing_tells_what_became_of_occurrences(scene: Scene) -> None:
    """A reminder's revision, status, version and generation, and the deliveries of the labels that were asked for."""
    await scene.ready("r", event_version=1)
    row = await scene.claim_one()
    stands = await standing(scene)
    assert (stands.revision, stands.status, stands.event_version, stands.generation) == (1, "done", 1, 1)
    assert not stands.covered
    ((delivery, occurrence, state, doubt),) = stands.fates
    assert (delivery, occurrence, state, doubt) == (row.id, "once", State.LEASED, False)
    assert [fate.id for fate in (await scene.store.standing(REMINDER, [])).fates] == [row.id]  # whatever is open
    await scene.store.cancel("ana", "moved out", reminder=None, delivery=row.id)
    assert (await scene.store.standing(REMINDER, ["-PT1H"])).fates == []


@case
async def standing_tells_doubt(scene: Scene) -> None:
    """A delivery that may have been accepted is told as such, and one of another generation with its label."""
    row = await scene.uncertain("r")
    await scene.ledger.change("update delivery set occurrence = 'once#3'")
    ((delivery, occurrence, state, doubt),) = (await standing(scene)).fates
    assert (delivery, occurrence, state, doubt) == (row.id, "once#3", State.UNCERTAIN, True)


@case
async def standing_of_nobody_is_not_found(scene: Scene) -> None:
    """A reminder that nobody has is not found."""
    with pytest.raises(NotFound):
        await standing(scene)


@case
async def a_guard_covers_what_was_due(scene: Scene) -> None:
    """Where the next occurrence may have been sent before a restore, standing says so."""
    await scene.store.heartbeat("w1")
    await scene.schedule("r", due_in=-1)
    assert not (await standing(scene)).covered
    await scene.store.open_guard("ana", "a backup was put back")
    assert (await standing(scene)).covered


@case
async def a_revision_changes_what_is_sent(scene: Scene) -> None:
    """The newer version's data, moment, version and addresses are in force, and an event tells who said so."""
    await scene.schedule("r", due_in=3600, event_version=1)
    other = {**ADDRESSES, Channel.WEBHOOK: "https://app.example.com/moved"}
    assert await revise(scene, await newer(scene, addresses=other))
    await scene.tick()
    row = await scene.claim_one()
    assert (row.data, row.address, row.revisions.reminder) == ({"unit": "5C"}, "https://app.example.com/moved", 2)
    assert (await standing(scene)).event_version == 2
    (event,) = (await scene.views.show_reminder(REMINDER))["events"]
    assert (event["kind"], event["actor"], event["reason"]) == ("revised", "ana", "the visit was moved")


@case
async def a_stale_revision_changes_nothing(scene: Scene) -> None:
    """A reminder that was changed since it was seen, or was cancelled, is left as it is."""
    await scene.schedule("r", due_in=3600)
    new = await newer(scene)
    assert not await revise(scene, new, seen=0)
    await scene.store.cancel("ana", "moved out", reminder=REMINDER, delivery=None)
    assert not await revise(scene, new)
    assert (await scene.views.show_reminder(REMINDER))["status"] == "cancelled"


@case
async def standing_tells_what_is_next_and_whom_it_is_for(scene: Scene) -> None:
    """When the next occurrence is due, by what schedule, and the recipient with his addresses and channels."""
    (new,) = await scene.schedule("r", due_in=3600, channels=(Channel.WEBHOOK, Channel.EMAIL), zone="Europe/Berlin")
    stands = await standing(scene)
    assert (stands.next_due_at, stands.next_label, stands.schedule, stands.zone) == (
        new.next_due_at,
        None,
        None,
        "Europe/Berlin",
    )
    assert stands.whom == Whom.of(new)


@case
async def a_tick_in_between_makes_a_revision_stale(scene: Scene) -> None:
    """It does not raise the revision, and moves the next occurrence on: then nothing is written."""
    await scene.schedule("r")
    seen = (await standing(scene)).next_due_at
    await scene.tick()
    assert not await revise(scene, await newer(scene), seen_due=seen)
    assert (await scene.views.show_reminder(REMINDER))["status"] == "done"


@case
async def a_paused_reminder_stays_paused_unless_it_is_woken(scene: Scene) -> None:
    """A newer version of it is kept for when it goes on."""
    await scene.schedule("r", due_in=3600)
    await scene.ledger.change("update reminder set status = 'paused'")
    assert await revise(scene, await newer(scene))
    assert (await scene.views.show_reminder(REMINDER))["status"] == "paused"
    assert await revise(scene, await newer(scene), wake=True)
    shown = await scene.views.show_reminder(REMINDER)
    assert (shown["status"], [event["to"] for event in shown["events"]]) == ("active", ["paused", "active"])


@case
async def a_newer_version_has_to_reach_somebody(scene: Scene) -> None:
    """By an id alone it needs a recipient who is known, with an address, as a new reminder does."""
    await scene.schedule("r", due_in=3600, event_version=1)
    nobody = await newer(scene, ref="nobody", addresses=None)
    assert await scene.store.schedule([nobody]) == [Scheduled.NO_RECIPIENT]
    assert await scene.store.schedule([await newer(scene, addresses=None)]) == [Scheduled.NEWER]


@case
async def what_is_unsent_is_called_off_and_comes_anew(scene: Scene) -> None:
    """An open delivery ends cancelled and superseded; the next generation of its occurrence is another delivery."""
    (first,) = await scene.ready("r")
    assert await revise(scene, await newer(scene), first, generation=2)
    assert await scene.state(first) == State.CANCELLED
    assert (await scene.views.show_delivery(first))["reason"] == "superseded"
    assert (await scene.tick()).created == 1
    row = await scene.claim_one()
    assert (row.id, row.occurrence, row.data) == (AGAIN, "once#2", {"unit": "5C"})


@case
async def what_was_claimed_is_called_off(scene: Scene) -> None:
    """A worker that holds the delivery cannot begin it any more."""
    row = await scene.leased("r")
    assert await revise(scene, await newer(scene, 3600), row.id, generation=2)
    assert (await scene.begin(row)).numbers == {}
    assert await scene.state(row.id) == State.CANCELLED


@case
async def what_has_begun_is_not_called_off(scene: Scene) -> None:
    """If one of the deliveries is being sent, was sent, or is in doubt, nothing of the revision is written."""
    row = await scene.sending("r")
    new = await newer(scene)
    assert not await revise(scene, new, row.id, generation=2)
    await scene.settle(row, Outcome.UNKNOWN)
    assert not await revise(scene, new, row.id, generation=2)
    await scene.settle(row, Outcome.ACCEPTED)
    assert not await revise(scene, new, row.id, generation=2)
    shown = await scene.views.show_reminder(REMINDER)
    assert (shown["status"], shown["events"]) == ("done", [])


@case
async def the_body_on_record_may_stay(scene: Scene) -> None:
    """With `keep_body` the first submission is still the one that a repeated import is compared with."""
    (old,) = await scene.schedule("r", due_in=3600)
    new = await newer(scene, 7200)
    moved = replace(new, event_version=None)
    assert await revise(scene, moved, keep_body=True)
    assert await scene.store.schedule([old]) == [Scheduled.ALREADY]
    assert await scene.store.schedule([moved]) == [Scheduled.CONFLICT]
    assert await revise(scene, new)
    assert await scene.store.schedule([new]) == [Scheduled.ALREADY]
    assert await scene.store.schedule([old]) == [Scheduled.CONFLICT]


@case
async def versions_are_compared(scene: Scene) -> None:
    """Another body is newer, older, or without a version a conflict."""
    (first,) = await scene.schedule("r", due_in=3600, event_version=3)
    other = replace(first, body_hash=b"o" * 32)
    answers = [(await scene.store.schedule([replace(other, event_version=version)]))[0] for version in (4, 3, 2, None)]
    assert answers == [Scheduled.NEWER, Scheduled.OLDER, Scheduled.OLDER, Scheduled.CONFLICT]
    assert await scene.store.schedule([first]) == [Scheduled.ALREADY]


# --- one after the other -------------------------------------------------------------------------


async def turned(scene: Scene, new: NewReminder, version: int) -> Revised:
    """Bring that version in force, as an import does."""
    newer = replace(new, event_version=version, body_hash=bytes([version]) * 32)
    plan = await revise_reminder(scene.store, zones.known, Wish(newer, "ana", "it was moved", newer_only=True))
    return plan.answer


async def begun_rule(scene: Scene) -> NewReminder:
    """A rule whose first occurrence was sent a minute ago."""
    rule = daily(await scene.now() - timedelta(minutes=1), event_version=1)
    await scene.store.schedule([rule])
    await scene.tick()
    await scene.again(Outcome.ACCEPTED, 1)
    return rule


async def goes_on(scene: Scene, rule: NewReminder, **ended: State) -> None:
    """Tomorrow's occurrence is next, nothing fires at once, and besides it these deliveries are there."""
    assert (await scene.tick()).created == 0
    shown = await scene.views.show_reminder(REMINDER)
    tomorrow = rule.next_due_at + timedelta(days=1)
    assert datetime.fromisoformat(shown["next_due_at"]) == tomorrow
    assert shown["next_label"].startswith(f"{tomorrow:%Y-%m-%dT%H:%M}")
    found = {one["occurrence"]: one["status"] for one in shown["deliveries"]}
    assert found == {rule.next_label: State.SENT} | {label.replace("_", "#"): state for label, state in ended.items()}


@case
async def a_rule_comes_back_where_it_was(scene: Scene) -> None:
    """A rule, then once, then once at another time, then the rule again: what it had sent stays sent, once."""
    rule = await begun_rule(scene)
    assert await turned(scene, await newer(scene, 3600), 2) is Revised.MOVED
    assert await turned(scene, await newer(scene, 7200), 3) is Revised.MOVED
    assert await turned(scene, rule, 4) is Revised.MOVED
    await goes_on(scene, rule)


@case
async def a_rule_comes_back_behind_what_was_sent_once(scene: Scene) -> None:
    """What was sent once in between is not sent a second time, and the rule goes on all the same."""
    rule = await begun_rule(scene)
    assert await turned(scene, await newer(scene), 2) is Revised.MOVED
    await scene.tick()
    await scene.again(Outcome.ACCEPTED, 1)
    assert await turned(scene, await newer(scene, 7200), 3) is Revised.ALREADY_SENT
    assert await turned(scene, rule, 4) is Revised.MOVED
    await goes_on(scene, rule, once=State.SENT)


@case
async def a_rule_comes_back_behind_what_was_called_off(scene: Scene) -> None:
    """What was due once and not sent yet ends with each change, and comes anew only where it is wanted."""
    rule = await begun_rule(scene)
    assert await turned(scene, await newer(scene), 2) is Revised.MOVED
    await scene.tick()
    assert await turned(scene, await newer(scene), 3) is Revised.MOVED
    await scene.tick()
    assert await turned(scene, rule, 4) is Revised.MOVED
    await goes_on(scene, rule, once=State.CANCELLED, once_2=State.CANCELLED)
    assert (await scene.claim()).rows == []
