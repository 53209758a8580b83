"""Rezone and resume: every page is decided and written, whoever else is at it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from duly.core import keys
from duly.core.model import Channel, NewReminder
from duly.core.moments import write_time
from duly.errors import InputError, NotFound, StoreError
from duly.flows.resume import resume_reminder
from duly.flows.rezone import LOOKS_MAX, MOVED_TOLD_ROWS_MAX, REZONE_BATCH_ROWS, Change, Moved, Rezoned, rezone
from duly.intake import zones
from duly.ports import RecipientChange
from duly.testing.builders import NAMESPACE, new_reminder
from duly.testing.driving import drive
from tests.flows.scene import Scene

ANA: Final = keys.recipient_id(NAMESPACE, "acme", "ana")
DATA: Final = Change("2026b", "ana@office")
PEOPLE: Final = Change("2026b", "ana@office", [ANA])
BERLIN: Final = "Europe/Berlin"
HOUR: Final = timedelta(hours=1)


def asked(scene: Scene, key: str, **more: Any) -> NewReminder:
    """A reminder of tomorrow's wall time, as the clocks of Berlin show it, whose instant was told an hour too late."""
    due = (scene.clock.now() + timedelta(days=1)).replace(second=0, microsecond=0)
    local = due.astimezone(zones.known(BERLIN)).replace(tzinfo=None)
    new = new_reminder(key, due + HOUR, zone=BERLIN, zone_data="2026a", notify_at=write_time(local))
    return replace(new, **more)


def scheduled(scene: Scene, *rows: NewReminder) -> list[NewReminder]:
    """Write them."""
    drive(scene.store.schedule(rows))
    return list(rows)


def run(scene: Scene, change: Change = DATA) -> Rezoned:
    """One run."""
    return drive(rezone(scene.store, zones.known, change))


def due_at(scene: Scene, row: NewReminder) -> datetime:
    """When the reminder is next due."""
    shown = drive(scene.store.views().show_reminder(row.id))
    return datetime.fromisoformat(shown["next_due_at"])


def test_every_moment_is_told_anew_and_named(scene: Scene) -> None:
    """What moved is named with its label and both moments; what did not has the new version; none comes twice."""
    moved, same = scheduled(scene, asked(scene, "moved"), asked(scene, "same"))
    scene.change("update reminder set next_due_at = next_due_at - 3600000000 where caller_key = 'same'")
    before = moved.next_due_at
    report = run(scene)
    assert report == Rezoned(2, 1, 1, told=[Moved("acme", "moved", "once", before, before - HOUR)])
    assert due_at(scene, moved) == due_at(scene, same) == before - HOUR
    assert run(scene) == Rezoned()


def test_many_go_in_pages(scene: Scene) -> None:
    """No page is longer than the store takes; of many that moved the first are named."""
    count = REZONE_BATCH_ROWS + 3
    scheduled(scene, *(asked(scene, f"r{number}") for number in range(count)))
    report = run(scene)
    assert (report.looked, report.moved, len(report.told)) == (count, count, MOVED_TOLD_ROWS_MAX)
    assert [len(rows) for _, _, rows in scene.unsteady.called("retime")] == [REZONE_BATCH_ROWS, 3]


def test_who_moved_takes_along_what_follows_him(scene: Scene) -> None:
    """Only his reminders are looked at, whichever version told them; a second run finds them as they are to be."""
    follows, other = scheduled(
        scene,
        asked(scene, "follows", follows_recipient=True, zone_data="2026b"),
        asked(scene, "other"),
    )
    drive(scene.store.upsert_recipients("ana", "acme", [RecipientChange(ANA, "ana", {"zone": "Asia/Tokyo"}, {})]))
    assert run(scene, PEOPLE).moved == 1
    assert due_at(scene, follows) == follows.next_due_at - HOUR - timedelta(hours=8)
    assert due_at(scene, other) == other.next_due_at
    assert run(scene, PEOPLE) == Rezoned(looked=1, same=1)
    (event,) = drive(scene.store.views().show_reminder(follows.id))["events"]
    assert (event["reason"], event["actor"]) == ("recipient_moved", "ana@office")


def test_what_cannot_be_told_is_counted_and_left(scene: Scene) -> None:
    """A zone that nobody knows here leaves its row as it is, and is looked at again another day."""
    (row,) = scheduled(scene, asked(scene, "r", zone="Mars/Olympus"))
    for _ in range(2):
        assert run(scene) == Rezoned(looked=1, unknown=1)
    assert due_at(scene, row) == row.next_due_at
    assert scene.unsteady.called("retime") == []


def test_what_was_changed_meanwhile_is_looked_at_again(scene: Scene) -> None:
    """Whoever was faster has changed the revision: it is read again and told from what stands there now."""
    (row,) = scheduled(scene, asked(scene, "r"))
    scene.unsteady.before("retime", lambda: scene.change("update reminder set revision = revision + 1"))
    assert run(scene).moved == 1
    assert due_at(scene, row) == row.next_due_at - HOUR


def test_two_imports_of_one_recipient_end_in_his_last_zone(scene: Scene) -> None:
    """A run that had read him at his former place is stale, and tells his reminders by the zone that he has now."""
    (row,) = scheduled(scene, asked(scene, "r", follows_recipient=True))

    def move_on() -> None:
        moved = RecipientChange(ANA, "ana", {"zone": "Asia/Tokyo"}, {})
        drive(scene.store.upsert_recipients("ana", "acme", [moved]))
        assert run(scene, PEOPLE).moved == 1

    drive(scene.store.upsert_recipients("ana", "acme", [RecipientChange(ANA, "ana", {"zone": BERLIN}, {})]))
    scene.unsteady.before("retime", move_on)
    assert run(scene, PEOPLE) == Rezoned(looked=1, same=1)
    assert due_at(scene, row) == row.next_due_at - HOUR - timedelta(hours=8)


def test_what_others_change_all_the_time_is_stale(scene: Scene) -> None:
    """After some looks it is left to them, counted, and the run ends."""
    scheduled(scene, asked(scene, "r"), asked(scene, "s"))
    for _ in range(LOOKS_MAX):
        scene.unsteady.before(
            "retime", lambda: scene.change("update reminder set revision = revision + 1 where caller_key = 'r'")
        )
    report = run(scene)
    assert (report.looked, report.moved, report.stale) == (2, 1, 1)


def test_what_a_tick_was_faster_with_is_stale(scene: Scene) -> None:
    """It has become deliveries, and there is nothing left to tell."""
    scheduled(scene, asked(scene, "r"))
    scene.unsteady.before("retime", lambda: scene.change("update reminder set next_due_at = null, status = 'done'"))
    assert run(scene) == Rezoned(looked=1, stale=1)


# --- resume --------------------------------------------------------------------------------------


def paused(scene: Scene, **more: Any) -> NewReminder:
    """A paused reminder."""
    (row,) = scheduled(scene, asked(scene, "r", **more))
    assert drive(scene.store.pause_reminder("ana", "wait", row.id))
    return row


def resumed(scene: Scene, row: NewReminder) -> datetime | None:
    """Let it go on."""
    return drive(resume_reminder(scene.store, zones.known, "2026b", "ana", "go", row.id))


def test_a_reminder_goes_on(scene: Scene) -> None:
    """What fires once keeps its moment; what is not paused is not resumed."""
    row = paused(scene, channels=(Channel.WEBHOOK,))
    assert resumed(scene, row) == row.next_due_at
    with pytest.raises(NotFound):
        resumed(scene, row)


def test_an_instant_needs_no_zone(scene: Scene) -> None:
    """A reminder without a zone goes on as well."""
    row = paused(scene, zone=None, zone_data=None)
    assert resumed(scene, row) == row.next_due_at


def test_a_reminder_whose_zone_nobody_knows_stays_paused(scene: Scene) -> None:
    """The refusal names the reminder, the zone and what to do."""
    schedule = '{"start":"2026-12-01T09:00","repeat":"RRULE:FREQ=DAILY"}'
    row = paused(scene, zone="Mars/Olympus", schedule=schedule)
    with pytest.raises(InputError, match=r"account acme, key r: it stays paused: .* Mars/Olympus; update"):
        resumed(scene, row)


def test_a_change_meanwhile_is_looked_at_again(scene: Scene) -> None:
    """Whoever was faster has changed the revision; who is faster every time ends it with an error."""
    row = paused(scene)
    touch = "update reminder set revision = revision + 1"
    scene.unsteady.before("resume_reminder", lambda: scene.change(touch))
    assert resumed(scene, row) == row.next_due_at
    assert drive(scene.store.pause_reminder("ana", "wait", row.id))
    for _ in range(20):
        scene.unsteady.before("resume_reminder", lambda: scene.change(touch))
    with pytest.raises(StoreError, match="others change this reminder all the time"):
        resumed(scene, row)
