"""What a due reminder becomes."""

from __future__ import annotations

from duly.core import keys
from duly.core.model import Channel
from duly.core.schedule import fire
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


def test_a_deleted_recipient_is_written_as_skipped() -> None:
    """What would have been sent to him is not, and the record says why."""
    (delivery,) = fire(due(refused="recipient_deleted"), NOW, "ns", PROVIDERS).deliveries
    assert (delivery.state, delivery.reason) == (State.SKIPPED, "recipient_deleted")


def test_only_an_address_that_is_read_now_is_written_with_the_delivery() -> None:
    """Inline addresses were written when the reminder was."""
    (inline,) = fire(due(), NOW, "ns", PROVIDERS).deliveries
    (read_now,) = fire(due(inline=False), NOW, "ns", PROVIDERS).deliveries
    assert (inline.address, read_now.address) == (None, "https://a.example/in")
