"""Cases of rezoning: next occurrences are told anew by compare-and-set, and paused reminders go on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from duly.core import keys
from duly.core.firing import fire
from duly.core.model import NewReminder
from duly.core.rezoning import Retiming
from duly.core.states import State
from duly.core.upcoming import Resumption, Timing
from duly.errors import NotFound
from duly.ports import Materialised
from duly.testing.builders import NAMESPACE, PROVIDERS
from tests.stores.conformance import case
from tests.stores.conformance.peopling import ANA, change, upsert
from tests.stores.conformance.scene import Scene, delivery_id

REMINDER: Final = keys.reminder_id(NAMESPACE, "acme", "r")
FIRST: Final = bytes(16)
EVIDENCE: Final = '{"from": "2026-12-01T14:00:00Z", "to": "2026-12-01T08:00:00Z"}'
HOUR: Final = timedelta(hours=1)


async def zoned(scene: Scene, *keys_: str, due_in: float = 3600, **more: Any) -> list[NewReminder]:
    """Reminders whose moment the data 2026a told."""
    how = {"zone": "Europe/Berlin", "zone_data": "2026a", "notify_at": "2026-12-01T09:00", **more}
    return await scene.schedule(*(keys_ or ("r",)), due_in=due_in, **how)


async def page(scene: Scene, after: bytes = FIRST, limit: int = 100, version: str = "2026b") -> list[Timing]:
    """A page of those whose moment another version told."""
    rows: list[Timing] = (await scene.store.zoned(after, limit, version)).rows
    return rows


async def followers(scene: Scene, *recipients: bytes) -> dict[str, str | None]:
    """The zones of the reminders that follow these recipients, by their keys."""
    found = await scene.store.zoned(FIRST, 100, "2026a", list(recipients))
    return {row.key: row.zone for row in found.rows}


def told(row: Timing, due_at: datetime, **changes: Any) -> Retiming:
    """The row's occurrence at another moment, by the data 2026b."""
    evidence = None if due_at == row.due_at else EVIDENCE
    new = Retiming(row.reminder, row.revision, row.due_at, due_at, due_at + HOUR, row.label, "2026b", evidence)
    return new._replace(**changes)


async def retime(scene: Scene, *rows: Retiming) -> frozenset[bytes]:
    """Write them."""
    written: frozenset[bytes] = await scene.store.retime("ana", "zone_data_changed", rows)
    return written


async def retimed(scene: Scene) -> list[dict[str, Any]]:
    """The events of the reminder `r`."""
    events: list[dict[str, Any]] = (await scene.views.show_reminder(REMINDER))["events"]
    return events


# --- which ---------------------------------------------------------------------------------------


@case
async def a_timing_holds_what_a_moment_is_told_from(scene: Scene) -> None:
    """Text, schedule, label, zone, deadline and version, with the revision and the moment as they stand."""
    (new,) = await zoned(scene, schedule='{"start":"2026-12-01T09:00"}', next_label="-PT1H", late_until="P1D")
    (row,) = await page(scene)
    assert row == Timing(
        new.id, "acme", "r", 1, new.next_due_at, new.deadline_at, "2026-12-01T09:00", '{"start":"2026-12-01T09:00"}',
        "-PT1H", "Europe/Berlin", "P1D", "2026a",
    )  # fmt: skip
    batch = await scene.store.zoned(FIRST, 1, "2026b")
    assert abs(batch.now - await scene.now()) < HOUR


@case
async def only_what_other_zone_data_told_is_zoned(scene: Scene) -> None:
    """Instants, what this version told, what is done, and what is not active are none of it."""
    await zoned(scene, "r")
    await zoned(scene, "same", zone_data="2026b")
    await scene.schedule("instant", due_in=3600)
    await zoned(scene, "done", due_in=-1)
    await scene.tick()
    (paused,) = await zoned(scene, "paused")
    await scene.store.pause_reminder("ana", "wait", paused.id)
    assert [row.key for row in await page(scene)] == ["r"]


@case
async def zoned_comes_in_pages(scene: Scene) -> None:
    """Page after page in the order of ids brings each once, also where the pages before were written meanwhile."""
    new = await zoned(scene, *(f"r{number}" for number in range(5)))
    first = await page(scene, limit=2)
    await retime(scene, *(told(row, row.due_at) for row in first))
    rest = await page(scene, first[-1].reminder)
    assert [row.reminder for row in (*first, *rest)] == sorted(row.id for row in new)


@case
async def followers_are_found_by_their_recipient(scene: Scene) -> None:
    """Those that follow him, in the zone that he has now, whichever data told them; no others."""
    await zoned(scene, "follows", follows_recipient=True, recipient_zone="Europe/Berlin")
    await zoned(scene, "fixed")
    await zoned(scene, "of-ben", ref="ben", follows_recipient=True)
    assert await followers(scene, ANA, ANA) == {"follows": "Europe/Berlin"}
    await upsert(scene, change(zone="Asia/Tokyo"))
    assert await followers(scene, ANA) == {"follows": "Asia/Tokyo"}
    assert {row.zone for row in await page(scene) if row.key == "follows"} == {"Asia/Tokyo"}
    await upsert(scene, change(zone=None))
    assert await followers(scene, ANA) == {"follows": "Europe/Berlin"}
    assert await followers(scene, bytes(15) + b"x") == {}
    assert await followers(scene) == {}


@case
async def zones_of_recipients_are_read_at_once(scene: Scene) -> None:
    """By the caller's ids, of this account, of those who are there; null where somebody has none."""
    await upsert(scene, change("ana", zone="Asia/Tokyo"), change("ben"), change("gone", zone="Asia/Tokyo"))
    await scene.store.delete_recipient("ana", "he asked to", keys.recipient_id(NAMESPACE, "acme", "gone"))
    asked = ["ana", "ana", "ben", "gone", "nobody", "🧾 '\u2028"]
    assert await scene.store.recipient_zones("acme", asked) == {"ana": "Asia/Tokyo", "ben": None}
    assert await scene.store.recipient_zones("other", asked) == {}
    assert await scene.store.recipient_zones("acme", []) == {}


# --- told anew -----------------------------------------------------------------------------------


@case
async def a_moment_that_moves_is_written_and_told(scene: Scene) -> None:
    """Moment, deadline, label and version are written, the revision rises, and an event has the evidence."""
    await zoned(scene)
    (row,) = await page(scene)
    sooner = await scene.now() - timedelta(seconds=1)
    assert await retime(scene, told(row, sooner, label="2026-12-01T09:00")) == {row.reminder}
    assert await page(scene) == []
    (now,) = await page(scene, version="2026c")
    assert (now.due_at, now.deadline_at, now.label) == (sooner, sooner + HOUR, "2026-12-01T09:00")
    assert (now.zone_data, now.revision) == ("2026b", row.revision + 1)
    (event,) = await retimed(scene)
    assert (event["kind"], event["from"], event["to"]) == ("retimed", "active", "active")
    assert (event["actor"], event["reason"]) == ("ana", "zone_data_changed")
    assert event["evidence"] == {"from": "2026-12-01T14:00:00Z", "to": "2026-12-01T08:00:00Z"}
    assert await scene.tick() == Materialised(1, 0, 0)


@case
async def a_moment_that_stays_has_the_new_version_only(scene: Scene) -> None:
    """Nobody's admission is void because of it, and no event tells of it."""
    await zoned(scene)
    (row,) = await page(scene)
    assert await retime(scene, told(row, row.due_at)) == {row.reminder}
    (now,) = await page(scene, version="2026c")
    assert (now.zone_data, now.revision, now.due_at) == ("2026b", row.revision, row.due_at)
    assert await retimed(scene) == []


@case
async def what_has_changed_meanwhile_is_left_alone(scene: Scene) -> None:
    """Another revision, another moment, or no occurrence any more: nothing is written, the others of the batch are."""
    await zoned(scene, "r", "other")
    rows = {row.key: row for row in await page(scene)}
    row, other = rows["r"], rows["other"]
    later = row.due_at + HOUR
    stale = [told(row, later, revision=7), told(row, later, expected_due=later)]
    assert await retime(scene, stale[0], told(other, later)) == {other.reminder}
    assert await retime(scene, stale[1]) == frozenset()
    await scene.store.cancel("ana", "moved out", reminder=REMINDER, delivery=None)
    assert await retime(scene, told(row, later)) == frozenset()
    assert await retime(scene) == frozenset()
    assert [event["kind"] for event in await retimed(scene)] == ["cancelled"]


@case
async def a_tick_that_read_before_is_stale(scene: Scene) -> None:
    """What a tick has seen before the move is not fired at the old moment."""
    await zoned(scene, due_in=-1)
    batch = await scene.store.due(10)
    (row,) = await page(scene)
    await retime(scene, told(row, row.due_at + HOUR))
    fired = [fire(one, batch.now, NAMESPACE, PROVIDERS) for one in batch.rows]
    assert await scene.store.materialise(fired) == Materialised(0, 0, 1)
    assert (await scene.tick()).created == 0


@case
async def a_retiming_after_the_tick_is_stale(scene: Scene) -> None:
    """What has become a delivery is not touched: the label has moved on."""
    await zoned(scene, due_in=-1)
    (row,) = await page(scene)
    await scene.tick()
    assert await retime(scene, told(row, row.due_at + HOUR)) == frozenset()
    assert await scene.state(delivery_id("r")) == State.READY


@case
async def nothing_is_moved_out_of_a_guard(scene: Scene) -> None:
    """What was due under a restore guard may have been sent, and is left to the tick."""
    await scene.store.heartbeat("w1")
    await zoned(scene, "r", due_in=-1)
    await zoned(scene, "later")
    await scene.store.open_guard("ana", "a backup was put back")
    rows = {row.key: row for row in await page(scene)}
    wanted = [told(row, row.due_at + HOUR) for row in rows.values()]
    assert await retime(scene, *wanted) == {rows["later"].reminder}


# --- pauses --------------------------------------------------------------------------------------


def going_on(row: Timing, due_at: datetime | None, **changes: Any) -> Resumption:
    """How the row goes on."""
    return Resumption(row.reminder, row.revision, due_at, row.deadline_at, row.label, row.zone_data)._replace(**changes)


@case
async def a_paused_reminder_stands_still_until_it_is_resumed(scene: Scene) -> None:
    """No tick finds it; resumed it is due at the moment, under the label, that it was given."""
    await scene.schedule("r")
    assert await scene.store.pause_reminder("ana", "a complaint", REMINDER)
    assert not await scene.store.pause_reminder("ana", "a complaint", REMINDER)
    assert (await scene.tick()).created == 0
    _, row = await scene.store.paused_reminder(REMINDER)
    soon = await scene.now() + HOUR
    how = going_on(row, soon, label="2026-12-01T09:00", zone_data="2026b", deadline_at=soon + HOUR)
    assert await scene.store.resume_reminder("ben", "settled", how)
    assert not await scene.store.resume_reminder("ben", "settled", how)
    shown = await scene.views.show_reminder(REMINDER)
    assert (shown["status"], shown["next_label"]) == ("active", "2026-12-01T09:00")
    assert [(event["kind"], event["from"], event["to"], event["actor"]) for event in shown["events"]] == [
        ("paused", "active", "paused", "ana"),
        ("resumed", "paused", "active", "ben"),
    ]
    await scene.ledger.pass_time(3601)
    assert (await scene.store.due(10)).rows[0].deadline_at - (await scene.store.due(10)).rows[0].due_at == HOUR


@case
async def a_pause_binds_what_is_open(scene: Scene) -> None:
    """What was claimed before it does not begin; what waits for its end is looked at at once after it."""
    await scene.schedule("r")
    batch = await scene.store.due(10)
    (one,) = [fire(row, batch.now, NAMESPACE, PROVIDERS) for row in batch.rows]
    await scene.store.materialise([one._replace(next_due=one.expected_due + 9 * HOUR)])
    row = await scene.claim_one()
    assert await scene.store.pause_reminder("ana", "a complaint", REMINDER)
    assert (await scene.begin(row)).numbers == {}
    await scene.store.abandon("w1", [(row.id, row.fence)])
    row = await scene.claim_one()
    assert row.reminder_status == "paused"
    await scene.decide(row, State.LEASED, State.WAITING, reason="reminder_paused", next_at=row.lease_until)
    assert await scene.store.promote(10) == 0
    _, paused = await scene.store.paused_reminder(REMINDER)
    assert await scene.store.resume_reminder("ana", "settled", going_on(paused, paused.due_at))
    assert await scene.store.promote(10) == 1
    assert (await scene.claim_one()).reminder_status == "active"


@case
async def a_reminder_with_nothing_left_is_done(scene: Scene) -> None:
    """Resumed without a moment it is done, and no tick finds it."""
    await scene.schedule("r")
    await scene.store.pause_reminder("ana", "wait", REMINDER)
    _, row = await scene.store.paused_reminder(REMINDER)
    assert await scene.store.resume_reminder("ana", "settled", going_on(row, None))
    shown = await scene.views.show_reminder(REMINDER)
    assert (shown["status"], shown["next_due_at"], shown["next_label"]) == ("done", None, None)


@case
async def only_what_is_active_is_paused_and_only_what_is_paused_resumed(scene: Scene) -> None:
    """What is done or cancelled is neither; what was changed since it was seen is not resumed."""
    await scene.ready("r")
    assert not await scene.store.pause_reminder("ana", "wait", REMINDER)
    with pytest.raises(NotFound):
        await scene.store.paused_reminder(REMINDER)
    (other,) = await scene.schedule("other", due_in=3600)
    await scene.store.pause_reminder("ana", "wait", other.id)
    _, row = await scene.store.paused_reminder(other.id)
    assert not await scene.store.resume_reminder("ana", "go", going_on(row, row.due_at, revision=1))
    await scene.store.cancel("ana", "moved out", reminder=other.id, delivery=None)
    assert not await scene.store.resume_reminder("ana", "go", going_on(row, row.due_at))


# --- as it was submitted, and with others --------------------------------------------------------


@case
async def a_reminder_is_told_as_it_was_submitted(scene: Scene) -> None:
    """The fields of the API, without what was not said."""
    (new,) = await scene.schedule(
        "r", due_in=3600, data={"unit": "4B"}, notify_at="2026-12-01T09:00", zone="Europe/Berlin",
        group="g", event_version=3, late="send_marked", late_until="P1D",
    )  # fmt: skip
    assert await scene.views.submission(new.id) == {
        "idempotency_key": "r",
        "account": "acme",
        "to": {
            "id": "ana",
            "email": "ana@example.com",
            "sms": "+14155550100",
            "webhook": "https://app.example.com/hooks",
        },
        "channels": ["webhook"],
        "template": "note",
        "data": {"unit": "4B"},
        "notify_at": "2026-12-01T09:00",
        "zone": "Europe/Berlin",
        "deadline": "PT8H",
        "late": "send_marked",
        "late_until": "P1D",
        "group": "g",
        "lane": "normal",
        "purpose": "service",
        "event_version": 3,
    }
    with pytest.raises(NotFound):
        await scene.views.submission(FIRST)


@case
async def a_schedule_is_told_as_it_was_submitted(scene: Scene) -> None:
    """A rule with its start, offsets with their anchor; where it follows its recipient, his zone of now."""
    rule = '{"start":"2026-12-01T09:00","repeat":"FREQ=DAILY"}'
    (daily,) = await scene.schedule("daily", due_in=3600, notify_at="a", schedule=rule, missed="skip", grace="PT1H")
    said = await scene.views.submission(daily.id)
    assert [said[word] for word in ("notify_at", "repeat", "missed", "grace")] == ["a", "FREQ=DAILY", "skip", "PT1H"]
    offsets = '{"start":"2026-12-01T09:00","before":["PT24H","PT1H"]}'
    how = {"follows_recipient": True, "zone": "Europe/Berlin"}
    (before,) = await scene.schedule("before", due_in=3600, notify_at="b", schedule=offsets, **how)
    await upsert(scene, change(zone="Asia/Tokyo"))
    said = await scene.views.submission(before.id)
    assert (said["starts_at"], said["before"], said["zone"]) == ("b", ["PT24H", "PT1H"], "recipient")
    assert said["to"]["zone"] == "Asia/Tokyo"
    assert "notify_at" not in said


@case
async def a_reminder_is_shown_with_its_schedule(scene: Scene) -> None:
    """As people read it, with what comes next, its group, and what becomes of occurrences that were missed."""
    rule = '{"start":"2026-12-01T09:00","repeat":"FREQ=DAILY"}'
    how = {"schedule": rule, "next_label": "2026-12-01T09:00", "group": "visits", "zone": "Europe/Berlin"}
    (daily,) = await scene.schedule("daily", due_in=3600, **how)
    shown = await scene.views.show_reminder(daily.id)
    assert (shown["schedule"], shown["missed"], shown["group"]) == ("FREQ=DAILY", "latest", "visits")
    assert (shown["next_label"], shown["zone"]) == ("2026-12-01T09:00", "Europe/Berlin")
    offsets = '{"start":"2026-12-01T09:00","before":["PT24H","PT1H"]}'
    (before,) = await scene.schedule("before", due_in=3600, notify_at="2026-12-01T09:00", schedule=offsets)
    shown = await scene.views.show_reminder(before.id)
    assert (shown["schedule"], shown["missed"]) == ("24 h and 1 h before 2026-12-01T09:00", None)


@case
async def a_group_comes_in_pages(scene: Scene) -> None:
    """The reminders of one group of one account, in the order of their ids, whatever became of them."""
    new = [*await scene.schedule("a", "b", "c", group="g"), *await scene.schedule("d", group="g", due_in=3600)]
    await scene.tick()
    await scene.schedule("e", group="h")
    await scene.schedule("f", group="g", account="other")
    wanted = sorted(row.id for row in new)
    assert await scene.views.group("acme", "g", FIRST, 3) == wanted[:3]
    assert await scene.views.group("acme", "g", wanted[2], 3) == wanted[3:]
    assert await scene.views.group("acme", "nobody's", FIRST, 3) == []
