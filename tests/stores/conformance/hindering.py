"""Cases of what the views tell of what stands in the way, of its cause, and of when things were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from duly.core import keys
from duly.core.consent import EVERYTHING, Kind
from duly.core.model import Channel, Outcome
from duly.core.states import State
from duly.ports import Revision
from duly.testing.builders import NAMESPACE, new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.consenting import said, tell
from tests.stores.conformance.revising import standing
from tests.stores.conformance.scene import Scene, delivery_id

ANA: Final = keys.recipient_id(NAMESPACE, "acme", "ana")
REMINDER: Final = keys.reminder_id(NAMESPACE, "acme", "r")

Change = Callable[[Scene], Awaitable[Any]]

#: The code -> what brings it about, in the order in which admission asks.
CHANGES: Final[dict[str, Change]] = {
    "recipient_deleted": lambda scene: scene.store.delete_recipient("ana", "x", ANA),
    "channel_disabled": lambda scene: scene.store.disable_channel("ana", "x", ANA, Channel.WEBHOOK),
    "suppressed": lambda scene: tell(scene, said(Kind.MANUAL, EVERYTHING)),
    "opted_out_of_service": lambda scene: tell(scene, said(Kind.OPT_OUT, "service")),
    "opted_out": lambda scene: tell(scene, said(Kind.OPT_OUT)),
    "account_paused": lambda scene: scene.store.pause_account("ana", "x", "acme"),
    "template_paused": lambda scene: scene.store.pause_template("ana", "x", "note"),
}


async def obstacles(scene: Scene) -> list[tuple[str | None, str]]:
    """What stands in the way of the reminder to come."""
    return [(one["channel"], one["reason"]) for one in (await scene.views.show_reminder(REMINDER))["obstacles"]]


@case
async def what_stands_in_the_way_of_a_delivery_is_shown(scene: Scene) -> None:
    """Each change shows by the code that admission would give, the first of them, as long as the delivery is open."""
    await scene.waiting("r", wait=timedelta(hours=1))
    assert (await scene.show(delivery_id("r")))["obstacle"] is None
    for code, change in reversed(CHANGES.items()):
        await change(scene)
        assert (await scene.show(delivery_id("r")))["obstacle"] == code
    await scene.store.cancel("ana", "moved out", reminder=REMINDER, delivery=None)
    assert (await scene.show(delivery_id("r")))["obstacle"] is None


@case
async def a_cancel_and_a_pause_of_what_is_open_are_shown(scene: Scene) -> None:
    """A delivery in the air whose reminder was cancelled, one that was called off, and one whose reminder is paused."""
    await scene.sending("a")
    await scene.store.cancel("ana", "x", reminder=keys.reminder_id(NAMESPACE, "acme", "a"), delivery=None)
    await scene.sending("b")
    await scene.store.cancel("ana", "x", reminder=None, delivery=delivery_id("b"))
    await scene.waiting("c", wait=timedelta(hours=1))
    await scene.ledger.change("update reminder set status = 'paused' where caller_key = 'c'")
    found = [(await scene.show(delivery_id(key)))["obstacle"] for key in ("a", "b", "c")]
    assert found == ["reminder_cancelled", "called_off", "reminder_paused"]


@case
async def what_stands_in_the_way_of_a_reminder_is_shown(scene: Scene) -> None:
    """By its channels, with its pauses; of one that nothing more comes of, nothing."""
    await scene.schedule("r", due_in=3600, channels=(Channel.WEBHOOK, Channel.EMAIL))
    assert await obstacles(scene) == []
    for code in ("template_paused", "account_paused"):
        await CHANGES[code](scene)
    paused = [(None, "account_paused"), (None, "template_paused")]
    assert await obstacles(scene) == paused
    for code in ("suppressed", "channel_disabled"):
        await CHANGES[code](scene)
        assert await obstacles(scene) == [("webhook", code), *paused]
    await CHANGES["recipient_deleted"](scene)
    assert await obstacles(scene) == [(None, "recipient_deleted"), *paused]
    await scene.store.cancel("ana", "x", reminder=REMINDER, delivery=None)
    assert await obstacles(scene) == []


@case
async def a_reminder_without_an_address_says_so(scene: Scene) -> None:
    """Where `to` is an id alone, his address for a channel may be gone by now."""
    await scene.schedule("other", due_in=3600)
    await scene.schedule("r", due_in=3600, addresses={})
    assert await obstacles(scene) == []
    await scene.ledger.change("update recipient set addresses = '{}'")
    assert await obstacles(scene) == [("webhook", "no_address")]


@case
async def the_statement_behind_a_silence_is_shown(scene: Scene) -> None:
    """While it stands in the way, and after the delivery has ended for it, though something else was said since."""
    row = await scene.leased("r")
    assert (await scene.show(row.id))["consent"] == []
    await tell(scene, said(Kind.OPT_OUT, "service", source="import list.csv"))
    (one,) = (await scene.show(row.id))["consent"]
    words = ("kind", "purpose", "source", "reason", "actor")
    assert [one[word] for word in words] == ["opt_out", "service", "import list.csv", "asked to", "ana"]
    assert await scene.decide(row, State.LEASED, State.SUPPRESSED, reason="opted_out_of_service")
    await scene.ledger.pass_time(60)
    await tell(scene, said(Kind.OPT_IN, "service"))
    await tell(scene, said(Kind.OPT_OUT, "service", source="somebody else"))
    shown = await scene.show(row.id)
    assert shown["obstacle"] is None
    assert [[told[word] for word in words] for told in shown["consent"]] == [[one[word] for word in words]]


@case
async def a_delivery_is_shown_with_its_moments(scene: Scene) -> None:
    """When its reminder came and was changed last before it, since when it stands there, and when it ended."""
    (new,) = await scene.schedule("r", due_in=3600, purpose="marketing", recipient_zone="Asia/Tokyo")
    await scene.ledger.pass_time(60)
    moved, stands = replace(new, next_due_at=await scene.now() - timedelta(seconds=1)), await standing(scene)
    revision = Revision(moved, stands.revision, stands.next_due_at, 1, (), keep_body=False)
    assert await scene.store.revise("ana", "x", revision)
    await scene.tick()
    open_ = await scene.show(delivery_id("r"))
    assert open_["submitted_at"] < open_["revised_at"] <= open_["since"]
    assert (open_["finished_at"], open_["purpose"], open_["recipient_zone"]) == (None, "marketing", "Asia/Tokyo")
    row = await scene.claim_one()
    await scene.begin(row)
    await scene.settle(row, Outcome.ACCEPTED)
    ended = await scene.show(delivery_id("r"))
    assert (ended["since"], ended["finished_at"] >= ended["attempts"][0]["started_at"]) == (None, True)


@case
async def a_revision_keeps_what_it_moved(scene: Scene) -> None:
    """Its event has the evidence that came with it."""
    (new,) = await scene.schedule("r", due_in=3600)
    revision = Revision(
        new, 1, new.next_due_at, 1, (), keep_body=False, evidence='{"from": null, "left_out": ["-PT1H"]}'
    )
    assert await scene.store.revise("ana", "x", revision)
    (event,) = (await scene.views.show_reminder(REMINDER))["events"]
    assert event["evidence"] == {"from": None, "left_out": ["-PT1H"]}


@case
async def a_reminder_is_shown_with_its_purpose_and_its_ends(scene: Scene) -> None:
    """Its purpose, deadline and what becomes of it late, as they were submitted."""
    new = new_reminder("r", await scene.now() + timedelta(hours=1), purpose="marketing", deadline="PT1H")
    await scene.store.schedule([replace(new, late="send_marked", late_until="PT6H")])
    shown = await scene.views.show_reminder(REMINDER)
    words = ("purpose", "deadline", "late", "late_until", "left_out")
    assert [shown[word] for word in words] == ["marketing", "PT1H", "send_marked", "PT6H", []]
