"""What a due reminder becomes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duly.core import keys
from duly.core.firing import fire
from duly.core.model import Channel, Due, FiredNote
from duly.core.schedule import Schedule, read_repeat
from duly.core.states import State
from tests.core.values import NOW, due, later

PROVIDERS = {"webhook": "hooks", "email": "mail"}


def test_one_delivery_per_channel_under_derived_ids() -> None:
    """The same reminder always becomes the same deliveries."""
    row = due(
        channels=(Channel.WEBHOOK, Channel.EMAIL),
        addresses={"webhook": "https://a.example/in", "email": "ana@example.com"},
    )
    fired = fire(row, NOW, "ns", PROVIDERS)
    assert fired == fire(row, later(seconds=5), "ns", PROVIDERS)
    assert (fired.reminder, fired.revision, fired.expected_due, fired.next_due) == (row.reminder, 3, NOW, None)
    hook, mail = fired.deliveries
    assert hook.id == keys.delivery_id("ns", "harbour", "inspection-1", "once", "webhook")
    assert (hook.state, hook.reason, hook.provider) == (State.READY, None, "hooks")
    assert hook.endpoint == keys.endpoint_id("ns", "https://a.example/in")
    assert mail.endpoint == keys.NO_ENDPOINT
    assert mail.contact == keys.contact_id("ns", "harbour", "email", "ana@example.com")
    assert hook.id != mail.id


def test_an_occurrence_past_its_deadline_is_written_as_expired() -> None:
    """The record must explain why nothing came."""
    (delivery,) = fire(due(deadline_at=NOW), NOW, "ns", PROVIDERS).deliveries
    assert (delivery.state, delivery.reason) == (State.EXPIRED, "deadline_passed_before_tick")


def test_a_channel_without_address_or_provider_is_written_as_skipped() -> None:
    """Neither is a reason to stop the tick."""
    (delivery,) = fire(due(addresses={}), NOW, "ns", PROVIDERS).deliveries
    assert (delivery.state, delivery.reason, delivery.endpoint) == (State.SKIPPED, "no_address", keys.NO_ENDPOINT)
    (delivery,) = fire(due(), NOW, "ns", {}).deliveries
    assert (delivery.state, delivery.reason) == (State.SKIPPED, "no_provider")


def test_only_an_address_that_is_read_now_is_written_with_the_delivery() -> None:
    """Inline addresses were written when the reminder was."""
    (inline,) = fire(due(), NOW, "ns", PROVIDERS).deliveries
    (read_now,) = fire(due(inline=False), NOW, "ns", PROVIDERS).deliveries
    assert (inline.address, read_now.address) == (None, "https://a.example/in")


def test_a_deleted_recipient_is_written_as_skipped() -> None:
    """What would have been sent to him is not, and the record says why."""
    (delivery,) = fire(due(refused="recipient_deleted"), NOW, "ns", PROVIDERS).deliveries
    assert (delivery.state, delivery.reason) == (State.SKIPPED, "recipient_deleted")


# --- schedules -----------------------------------------------------------------------------------

NEW_YORK = ZoneInfo("America/New_York")
START = datetime.fromisoformat("2026-12-01T09:00")
DAILY = Schedule(START, read_repeat("FREQ=DAILY", START))
#: 09:00 in New York on 1 December.
NINE = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def daily(**changes: Any) -> Due:
    """A reminder for nine in New York every day, of which the first is due."""
    values: dict[str, Any] = {
        "schedule": DAILY.to_text(),
        "label": "2026-12-01T09:00",
        "zone": "America/New_York",
        "due_at": NINE,
        "deadline_at": NINE + timedelta(hours=8),
        "deadline": "PT8H",
    }
    return due(**{**values, **changes})


def test_an_occurrence_has_its_label_and_the_next_one_its_deadline() -> None:
    """A reminder that repeats fires under the slot's label, and moves on to the next slot."""
    fired = fire(daily(), NINE, "ns", PROVIDERS, NEW_YORK)
    (delivery,) = fired.deliveries
    assert (delivery.occurrence, delivery.due_at, delivery.deadline_at) == (
        "2026-12-01T09:00",
        NINE,
        NINE + timedelta(hours=8),
    )
    assert delivery.id == keys.delivery_id("ns", "harbour", "inspection-1", "2026-12-01T09:00", "webhook")
    assert (fired.next_label, fired.next_due) == ("2026-12-02T09:00", NINE + DAY)
    assert (fired.next_deadline, fired.note) == (NINE + DAY + timedelta(hours=8), None)


def test_without_a_deadline_the_next_occurrence_is_one() -> None:
    """What was not sent when the next one is due comes too late; the last one has a day."""
    fired = fire(daily(deadline=None), NINE + 2 * DAY, "ns", PROVIDERS, NEW_YORK)
    assert [new.deadline_at for new in fired.deliveries] == [NINE + 3 * DAY]
    twice = Schedule(DAILY.start, read_repeat("FREQ=DAILY;COUNT=2", DAILY.start)).to_text()
    last = fire(daily(schedule=twice, deadline=None), NINE + DAY, "ns", PROVIDERS, NEW_YORK)
    assert [new.deadline_at for new in last.deliveries] == [NINE + 2 * DAY]
    assert (last.next_due, last.next_label) == (None, None)


def test_what_was_missed_is_told_in_one_event() -> None:
    """After three days without a tick only the last occurrence is fired, and the event says which were not."""
    fired = fire(daily(), NINE + 3 * DAY, "ns", PROVIDERS, NEW_YORK)
    assert [new.occurrence for new in fired.deliveries] == ["2026-12-04T09:00"]
    assert fired.note == FiredNote(
        1,
        "missed",
        "occurrences_missed",
        '{"skipped": 3, "first": "2026-12-01T09:00", "last": "2026-12-03T09:00"}',
    )
    everything = fire(daily(missed="all:10"), NINE + 3 * DAY, "ns", PROVIDERS, NEW_YORK)
    assert (len(everything.deliveries), everything.note) == (4, None)
    young = fire(daily(missed="all:10", grace="P1D"), NINE + 3 * DAY, "ns", PROVIDERS, NEW_YORK)
    assert [new.occurrence for new in young.deliveries] == ["2026-12-03T09:00", "2026-12-04T09:00"]


def test_offsets_are_all_fired_and_judged_by_their_deadlines() -> None:
    """However late a tick is, each offset before the anchor has its record."""
    anchor = Schedule(NINE, before=(timedelta(hours=24), timedelta(hours=1)))
    row = daily(schedule=anchor.to_text(), label="-PT24H", due_at=NINE - DAY, deadline_at=NINE - timedelta(hours=16))
    fired = fire(row, NINE, "ns", PROVIDERS)
    assert [(new.occurrence, new.state) for new in fired.deliveries] == [
        ("-PT24H", State.EXPIRED),
        ("-PT1H", State.READY),
    ]
    assert (fired.next_due, fired.note) == (None, None)


def test_a_generation_is_part_of_the_label() -> None:
    """A reminder that was revised fires under new labels, and so as other deliveries; a slot keeps its own."""
    (once,) = fire(due(generation=2), NOW, "ns", PROVIDERS).deliveries
    assert (once.occurrence, once.id) == (
        "once#2",
        keys.delivery_id("ns", "harbour", "inspection-1", "once#2", "webhook"),
    )
    fired = fire(daily(generation=3), NINE, "ns", PROVIDERS, NEW_YORK)
    assert (fired.deliveries[0].occurrence, fired.next_label) == ("2026-12-01T09:00", "2026-12-02T09:00")


def test_a_schedule_that_cannot_be_read_stands_still() -> None:
    """A zone that this machine does not know, or text that is no schedule, pauses the reminder with that reason."""
    for row, zone, reason in (
        (daily(), None, "zone_unknown"),
        (daily(schedule="{}"), NEW_YORK, "schedule_cannot_be_read"),
        (daily(missed="now and then"), NEW_YORK, "schedule_cannot_be_read"),
    ):
        fired = fire(row, NINE, "ns", PROVIDERS, zone)
        assert (fired.deliveries, fired.next_due, fired.next_label) == ((), NINE, "2026-12-01T09:00")
        assert fired.note == FiredNote(1, "paused", reason)
