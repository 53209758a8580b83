"""Cases of due, materialise and due_remain: a schedule moves on once, and each occurrence is written once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from duly.core import keys
from duly.core.firing import fire
from duly.core.model import Channel, Fired, NewReminder, Scheduled
from duly.core.moments import instant
from duly.core.schedule import Schedule, read_repeat
from duly.core.states import State
from duly.ports import Materialised
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene, delivery_id

DAY = timedelta(days=1)
EMAIL, WEBHOOK = Channel.EMAIL, Channel.WEBHOOK


async def fired(scene: Scene, limit: int = 2000) -> list[Fired]:
    """What is due, as what it becomes."""
    batch = await scene.store.due(limit)
    return [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]


@case
async def due_reads_the_oldest_first(scene: Scene) -> None:
    """Due reminders come oldest first, no more than asked for, with the database's time."""
    now = await scene.now()
    rows = [new_reminder(f"r{i}", now - timedelta(minutes=i)) for i in range(1, 6)]
    await scene.store.schedule(rows)
    batch = await scene.store.due(3)
    assert [row.key for row in batch.rows] == ["r5", "r4", "r3"]
    assert now <= batch.now <= now + timedelta(minutes=1)


@case
async def due_tells_all_that_a_tick_needs(scene: Scene) -> None:
    """A due reminder comes with its account, recipient, revision, channels, addresses and times."""
    (row,) = await scene.schedule("r", channels=(EMAIL, WEBHOOK))
    (due,) = (await scene.store.due(10)).rows
    assert (due.reminder, due.account, due.key, due.recipient) == (row.id, "acme", "r", row.recipient)
    assert (due.revision, due.due_at, due.deadline_at) == (1, row.next_due_at, row.deadline_at)
    assert due.channels == (EMAIL, WEBHOOK)
    assert due.addresses == {"email": "ana@example.com", "webhook": "https://app.example.com/hooks"}
    assert due.account_id == await scene.ledger.value("select id from account")


@case
async def what_is_not_due_yet_stays(scene: Scene) -> None:
    """A reminder of later is not due, and becomes due when its time comes."""
    await scene.schedule("later", due_in=60)
    assert (await scene.store.due(10)).rows == []
    assert await scene.store.due_remain() is False
    assert await scene.store.due_remain(30) is False
    assert await scene.store.due_remain(90) is True
    await scene.ledger.pass_time(61)
    assert [row.key for row in (await scene.store.due(10)).rows] == ["later"]
    assert await scene.store.due_remain() is True


@case
async def a_due_reminder_becomes_its_deliveries(scene: Scene) -> None:
    """Materialise writes one delivery per channel, ready, and the reminder is done."""
    (row,) = await scene.schedule("r", channels=(EMAIL, WEBHOOK))
    assert await scene.store.materialise(await fired(scene)) == Materialised(2, 0, 0)
    assert await scene.state(delivery_id("r", EMAIL)) == State.READY
    assert await scene.state(delivery_id("r", WEBHOOK)) == State.READY
    shown = await scene.views.show_reminder(row.id)
    assert (shown["status"], shown["next_due_at"]) == ("done", None)
    assert await scene.store.due_remain() is False


@case
async def a_repeated_tick_writes_nothing(scene: Scene) -> None:
    """The same batch again is stale: nothing is created, and no work is opened twice."""
    await scene.schedule("r1", "r2")
    batch = await fired(scene)
    assert await scene.store.materialise(batch) == Materialised(2, 0, 0)
    for _ in range(2):
        assert await scene.store.materialise(batch) == Materialised(0, 0, 2)
    assert len((await scene.claim()).rows) == 2


@case
async def an_empty_tick_writes_nothing(scene: Scene) -> None:
    """An empty batch is answered with zeros."""
    assert await scene.store.materialise([]) == Materialised(0, 0, 0)


@case
async def a_changed_revision_makes_a_tick_stale(scene: Scene) -> None:
    """A reminder whose revision has changed since it was read does not move on."""
    await scene.schedule("r")
    batch = await fired(scene)
    await scene.ledger.change("update reminder set revision = revision + 1")
    assert await scene.store.materialise(batch) == Materialised(0, 0, 1)
    assert await scene.tick() == Materialised(1, 0, 0)


@case
async def a_changed_due_time_makes_a_tick_stale(scene: Scene) -> None:
    """A reminder that is due at another time than was read does not move on."""
    await scene.schedule("r")
    (one,) = await fired(scene)
    late = one._replace(expected_due=one.expected_due - timedelta(seconds=1))
    assert await scene.store.materialise([late]) == Materialised(0, 0, 1)


@case
async def a_cancelled_reminder_does_not_fire(scene: Scene) -> None:
    """A cancel between the reading and the writing of a tick wins."""
    (row,) = await scene.schedule("r")
    batch = await fired(scene)
    await scene.store.cancel("ana", "moved out", reminder=row.id, delivery=None)
    assert await scene.store.materialise(batch) == Materialised(0, 0, 1)
    assert await scene.store.due_remain() is False


@case
async def a_paused_reminder_does_not_fire(scene: Scene) -> None:
    """A reminder that is paused is not due, nor does a tick fire that read it before."""
    await scene.schedule("r")
    batch = await fired(scene)
    await scene.ledger.change("update reminder set status = 'paused'")
    assert (await scene.store.due(10)).rows == []
    assert await scene.store.due_remain() is False
    assert await scene.store.materialise(batch) == Materialised(0, 0, 1)


@case
async def a_restored_cursor_creates_nothing_again(scene: Scene) -> None:
    """A due time that was set back fires again, finds its delivery there, and opens no second work."""
    await scene.ready("r")
    await scene.ledger.change(
        "update reminder set status = 'active', next_due_at = deadline_at, deadline_at = deadline_at"
    )
    await scene.ledger.pass_time(9 * 3600)
    (one,) = await fired(scene)
    delivery = one.deliveries[0]._replace(state=State.READY, reason=None)
    assert await scene.store.materialise([one._replace(deliveries=(delivery,))]) == Materialised(0, 1, 0)
    assert len((await scene.claim()).rows) == 1


@case
async def a_repeating_reminder_moves_on(scene: Scene) -> None:
    """A reminder with a next due time stays active and becomes due again then."""
    (row,) = await scene.schedule("r")
    (one,) = await fired(scene)
    following = one.expected_due + timedelta(hours=1)
    assert await scene.store.materialise([one._replace(next_due=following)]) == Materialised(1, 0, 0)
    shown = await scene.views.show_reminder(row.id)
    assert shown["status"] == "active"
    assert shown["next_due_at"] is not None
    assert await scene.store.due_remain() is False
    await scene.ledger.pass_time(3600)
    assert await scene.store.due_remain() is True


@case
async def what_is_too_late_is_written_as_evidence(scene: Scene) -> None:
    """A delivery that is past its deadline is written as expired, with its reason and an event, and no work."""
    await scene.schedule("r", due_in=-7200, lasts=timedelta(hours=1))
    assert await scene.tick() == Materialised(1, 0, 0)
    shown = await scene.show(delivery_id("r"))
    assert (shown["status"], shown["reason"]) == (State.EXPIRED, "deadline_passed_before_tick")
    assert [(e["from"], e["to"], e["actor"], e["reason"]) for e in shown["events"]] == [
        (None, "expired", "tick", "deadline_passed_before_tick")
    ]
    assert (await scene.claim()).rows == []


@case
async def what_has_nowhere_to_go_is_skipped(scene: Scene) -> None:
    """A delivery without a provider is written as skipped, with its reason and an event, and no work."""
    await scene.schedule("r")
    batch = await scene.store.due(10)
    await scene.store.materialise([fire(row, batch.now, NAMESPACE, {}) for row in batch.rows])
    shown = await scene.show(delivery_id("r"))
    assert (shown["status"], shown["reason"], shown["attempts"]) == (State.SKIPPED, "no_provider", [])
    assert [(e["from"], e["to"], e["actor"]) for e in shown["events"]] == [(None, "skipped", "tick")]


@case
async def an_id_alone_brings_its_contact_with_the_tick(scene: Scene) -> None:
    """Where `to` is an id alone, the tick writes the contact of the address that counted then."""
    await scene.schedule("r")
    await scene.schedule("by-id", addresses=None)
    await scene.ledger.change("""update recipient set addresses = '{"webhook": "https://moved.example.com/"}'""")
    await scene.tick()
    addresses = {row.reminder_key: row.address for row in (await scene.claim()).rows}
    assert addresses["by-id"] == "https://moved.example.com/"
    assert await scene.ledger.value("select count(*) from contact") == 2


@case
async def two_thousand_at_once(scene: Scene) -> None:
    """A tick of two thousand reminders is one batch."""
    await scene.schedule(*(f"r{i}" for i in range(2000)))
    assert await scene.tick() == Materialised(2000, 0, 0)
    assert await scene.ledger.value("select count(*) from work") == 2000


@case
async def a_delivery_keeps_its_key(scene: Scene) -> None:
    """A delivery's id is derived, and is shown as its idempotency key."""
    (delivery,) = await scene.ready("r")
    shown = await scene.show(delivery)
    assert shown["id"] == shown["idempotency_key"] == keys.show(delivery)


# --- schedules -----------------------------------------------------------------------------------


def daily(start_at: datetime, rule: str = "FREQ=DAILY", **more: Any) -> NewReminder:
    """The reminder `r`, for every day at that moment in UTC."""
    local = start_at.replace(tzinfo=None, microsecond=0)
    schedule = Schedule(local, read_repeat(rule, local))
    return new_reminder(
        "r",
        local.replace(tzinfo=UTC),
        schedule=schedule.to_text(),
        next_label=f"{local:%Y-%m-%dT%H:%M}" if not local.second else f"{local:%Y-%m-%dT%H:%M:%S}",
        zone="UTC",
        zone_data="2026a",
        **more,
    )


@case
async def a_schedule_moves_on(scene: Scene) -> None:
    """The due occurrence becomes a delivery under its label, and the reminder stays, with its next one and deadline."""
    new = daily(await scene.now() - timedelta(seconds=5))
    assert await scene.store.schedule([new]) == [Scheduled.CREATED]
    assert await scene.tick() == Materialised(1, 0, 0)
    row = await scene.claim_one()
    assert (row.occurrence, row.due_at, row.deadline_at) == (new.next_label, new.next_due_at, new.deadline_at)
    shown = await scene.views.show_reminder(new.id)
    assert shown["status"] == "active"
    assert shown["next_due_at"] == instant(new.next_due_at + DAY)
    assert await scene.store.due_remain(86_400) is True
    await scene.ledger.change("update reminder set next_due_at = created_at")
    (due,) = (await scene.store.due(10)).rows
    assert due.deadline_at == new.deadline_at + DAY
    assert (due.label, due.schedule) == (f"{new.next_due_at + DAY:%Y-%m-%d}{(new.next_label or '')[10:]}", new.schedule)
    assert (due.zone, due.generation) == ("UTC", 1)


@case
async def what_was_missed_leaves_one_event(scene: Scene) -> None:
    """After days without a tick the last occurrence is written, and one event of the reminder tells of the others."""
    new = daily(await scene.now() - timedelta(days=3, seconds=5))
    await scene.store.schedule([new])
    assert await scene.tick() == Materialised(1, 0, 0)
    (event,) = (await scene.views.show_reminder(new.id))["events"]
    assert (event["kind"], event["reason"], event["actor"]) == ("missed", "occurrences_missed", "tick")
    assert (event["evidence"]["skipped"], event["evidence"]["first"]) == (3, new.next_label)


@case
async def a_schedule_ends(scene: Scene) -> None:
    """Behind its last occurrence the reminder is done."""
    new = daily(await scene.now() - timedelta(seconds=5), "FREQ=DAILY;COUNT=1")
    await scene.store.schedule([new])
    assert await scene.tick() == Materialised(1, 0, 0)
    assert (await scene.views.show_reminder(new.id))["status"] == "done"
    assert await scene.store.due_remain(10 * 86_400) is False


@case
async def a_reminder_that_cannot_be_read_is_paused(scene: Scene) -> None:
    """It writes nothing, says why, and is in nobody's way."""
    new = daily(await scene.now() - timedelta(seconds=5), missed="now and then")
    await scene.store.schedule([new])
    assert await scene.tick() == Materialised(0, 0, 0)
    shown = await scene.views.show_reminder(new.id)
    (event,) = shown["events"]
    assert (shown["status"], event["kind"], event["to"]) == ("paused", "paused", "paused")
    assert event["reason"] == "schedule_cannot_be_read"
    assert (await scene.store.due(10)).rows == []


@case
async def local_times_are_the_recipients(scene: Scene) -> None:
    """A reminder that follows its recipient comes with the zone that he has now; another with the one it named."""
    now = await scene.now() - timedelta(seconds=5)
    await scene.store.schedule([daily(now, follows_recipient=True)])
    assert [row.zone for row in (await scene.store.due(10)).rows] == ["America/New_York"]
    await scene.ledger.change("update reminder set follows_recipient = false")
    assert [row.zone for row in (await scene.store.due(10)).rows] == ["UTC"]


@case
async def what_is_sent_late_comes_with_its_policy(scene: Scene) -> None:
    """A claim brings the purpose, the deadline of what may be late, and the recipient's own quiet hours."""
    more = {
        "purpose": "marketing",
        "late": "send_marked",
        "late_until": "P1D",
        "recipient_quiet_hours": ("21:00-08:00",),
    }
    row = await scene.leased("r", **more)
    assert (row.purpose, row.late_after, row.recipient_quiet_hours, row.late) == (
        "marketing",
        "PT8H",
        ("21:00-08:00",),
        None,
    )


@case
async def quiet_hours_that_came_with_a_reminder_are_its_own(scene: Scene) -> None:
    """They are kept for that reminder; one that brings none takes those with which its recipient was first named."""
    first, own = ("21:00-08:00",), ("12:00-13:00",)
    for key, brought in (("first", first), ("own", own), ("none", ())):
        await scene.ready(key, recipient_quiet_hours=brought)
    kept = {row.reminder_key: row.recipient_quiet_hours for row in (await scene.claim()).rows}
    assert kept == {"first": first, "own": own, "none": first}
