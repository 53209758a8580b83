"""Cases of recipients in bulk, of what is done to one of them, and of paused accounts and templates."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from duly.core import keys
from duly.core.admit import Stop, admit
from duly.core.limits import Limits
from duly.core.model import Begun, Capabilities, Channel, Claimed, Outcome, Scheduled
from duly.core.states import State
from duly.errors import NotFound
from duly.ports import RecipientChange, Upsert, Upserted
from duly.testing.builders import NAMESPACE, contact, new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene, delivery_id

ANA: Final = keys.recipient_id(NAMESPACE, "acme", "ana")


def change(ref: str = "ana", *, email: str | None = "", **fields: str | None) -> RecipientChange:
    """A row about a recipient; `email` is left out unless it is said."""
    addresses = {Channel.EMAIL: contact("acme", Channel.EMAIL, email) if email else None} if email != "" else {}
    return RecipientChange(keys.recipient_id(NAMESPACE, "acme", ref), ref, fields, addresses)


async def upsert(scene: Scene, *rows: RecipientChange) -> list[Upserted]:
    """Import rows into account acme."""
    answers: list[Upserted] = await scene.store.upsert_recipients("ana", "acme", rows)
    return answers


async def known(scene: Scene) -> list[dict[str, Any]]:
    """The recipients of account acme, without the fields in which nothing stands."""
    found = await scene.views.recipients("acme", None, 100)
    return [{name: value for name, value in row.items() if value is not None} for row in found]


async def verdict(scene: Scene, row: Claimed) -> tuple[State, str] | None:
    """Where admission sends a claimed row, and why; None if it may be sent."""
    answer = admit(row, await scene.now(), row.lease_until, Capabilities(Channel.WEBHOOK), Limits())
    return (answer.state, answer.reason) if isinstance(answer, Stop) else None


# --- import --------------------------------------------------------------------------------------


@case
async def recipients_are_created_changed_and_left_alone(scene: Scene) -> None:
    """New ones are created, differing ones changed, equal ones left as they are; the revision tells."""
    row = change(name="Ana", email="ana@example.com", zone="Europe/Berlin")
    assert [one.what for one in await upsert(scene, row, change("bob"))] == [Upsert.CREATED, Upsert.CREATED]
    assert [one.what for one in await upsert(scene, row, change("bob", name="Bob"))] == [Upsert.SAME, Upsert.CHANGED]
    assert await known(scene) == [
        {"id": "ana", "name": "Ana", "email": "ana@example.com", "zone": "Europe/Berlin"},
        {"id": "bob", "name": "Bob"},
    ]
    assert await scene.ledger.value("select revision from recipient where ref = 'ana'") == 1
    assert await scene.ledger.value("select revision from recipient where ref = 'bob'") == 2


@case
async def what_is_absent_stays_and_null_clears(scene: Scene) -> None:
    """A row changes the fields that it names, and nothing else."""
    await upsert(scene, change(name="Ana", email="ana@example.com", locale="en"))
    await upsert(scene, change(locale="de"))
    assert await known(scene) == [{"id": "ana", "name": "Ana", "email": "ana@example.com", "locale": "de"}]
    await upsert(scene, change(email=None, locale=None))
    assert await known(scene) == [{"id": "ana", "name": "Ana"}]


@case
async def quiet_hours_are_kept_and_hold_at_once(scene: Scene) -> None:
    """They are compared like other fields; who changes them raises the revision, and the next claim has them."""
    windows = ("21:00-08:00",)
    row = await scene.leased("r")
    assert row.recipient_quiet_hours == ()
    quiet = change()._replace(quiet_hours=windows)
    assert [one.what for one in await upsert(scene, quiet, quiet)] == [Upsert.CHANGED, Upsert.SAME]
    assert await scene.begin(row) == Begun({}, {})
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert (await scene.claim_one()).recipient_quiet_hours == windows
    assert (await known(scene))[0]["quiet_hours"] == list(windows)
    await upsert(scene, change(name="Ann"))
    assert (await known(scene))[0]["quiet_hours"] == list(windows)
    await upsert(scene, change()._replace(quiet_hours=()))
    assert "quiet_hours" not in (await known(scene))[0]
    await upsert(scene, change("new")._replace(quiet_hours=windows))
    assert (await known(scene))[1] == {"id": "new", "quiet_hours": list(windows)}


@case
async def one_id_twice_in_a_batch_is_taken_in_order(scene: Scene) -> None:
    """The second row about a recipient finds what the first has written."""
    answers = await upsert(scene, change(name="Ana"), change("bob"), change(name="Ann"), change(name="Ann"))
    assert [one.what for one in answers] == [Upsert.CREATED, Upsert.CREATED, Upsert.CHANGED, Upsert.SAME]
    assert (await known(scene))[0] == {"id": "ana", "name": "Ann"}


@case
async def a_changed_zone_is_named(scene: Scene) -> None:
    """Where the zone of somebody who was there changed, the answer says so; a new one has no schedules yet."""
    assert [one.zone_changed for one in await upsert(scene, change(zone="Europe/Berlin"))] == [False]
    assert await upsert(scene, change(zone="Europe/Rome")) == [Upserted(ANA, Upsert.CHANGED, zone_changed=True)]
    assert await upsert(scene, change(name="Ana")) == [Upserted(ANA, Upsert.CHANGED)]
    assert await upsert(scene, change(zone=None)) == [Upserted(ANA, Upsert.CHANGED, zone_changed=True)]


async def quiet(scene: Scene, key: str, ref: str, reason: str = "quiet_hours") -> bytes:
    """A delivery that waits for an hour, for the end of quiet hours or for another reason."""
    row = await scene.leased(key, ref=ref)
    later = await scene.now() + timedelta(hours=1)
    assert await scene.decide(row, State.LEASED, State.WAITING, reason=reason, next_at=later)
    return row.id


@case
async def who_moves_is_looked_at_again(scene: Scene) -> None:
    """What waits for the end of his quiet hours looks again where his zone or quiet hours changed, in that commit."""
    mine, other, paused = (
        await quiet(scene, "a", "ana"),
        await quiet(scene, "b", "bob"),
        await quiet(scene, "c", "ana", "reminder_paused"),
    )
    await upsert(scene, change(name="Ann", locale="de"))
    assert await scene.store.promote(10) == 0
    await upsert(scene, change(zone="Pacific/Honolulu"), change("bob", name="Bob"))
    assert await scene.store.promote(10) == 1
    assert [await scene.state(one) for one in (mine, other, paused)] == ["ready", "waiting", "waiting"]
    await upsert(scene, change("bob")._replace(quiet_hours=("21:00-08:00",)))
    assert await scene.store.promote(10) == 1
    assert await scene.state(other) == "ready"


@case
async def contacts_of_new_addresses_are_made(scene: Scene) -> None:
    """An address that an import brings has its contact, once."""
    await upsert(scene, change(email="a@example.com"), change("bob", email="a@example.com"))
    assert await scene.ledger.value("select count(*) from contact where address = 'a@example.com'") == 1


@case
async def a_change_of_a_recipient_before_begin_wins(scene: Scene) -> None:
    """What was claimed before he changed does not begin after it; the delivery keeps its contact."""
    row = await scene.leased("r")
    await upsert(scene, change(name="Ann", email="new@example.com"))
    assert await scene.begin(row) == Begun({}, {})
    await scene.store.abandon("w1", [(row.id, row.fence)])
    again = await scene.claim_one()
    assert (again.recipient_name, again.address) == ("Ann", row.address)


@case
async def a_reminder_may_name_an_imported_recipient(scene: Scene) -> None:
    """`to` as an id alone finds who was imported, at his address."""
    await upsert(scene, change(email="ana@example.com"))
    due = await scene.now()
    by_id = new_reminder("r", due, addresses=None, channels=(Channel.EMAIL,))
    assert await scene.store.schedule([by_id]) == [Scheduled.CREATED]
    await scene.tick()
    assert (await scene.claim_one(provider="mail")).address == "ana@example.com"


@case
async def recipients_come_in_pages(scene: Scene) -> None:
    """Page after page brings each recipient once, in the order of their ids, and nobody of another account."""
    await upsert(scene, *(change(f"p{number}") for number in (3, 1, 2)))
    await scene.store.upsert_recipients("ana", "other", [change("p9")])
    assert [one["id"] for one in await scene.views.recipients("acme", None, 2)] == ["p1", "p2"]
    assert [one["id"] for one in await scene.views.recipients("acme", "p2", 2)] == ["p3"]


@case
async def one_recipient_is_found_in_his_account(scene: Scene) -> None:
    """By the caller's own id, with what is known of him; nobody of another account, and nobody who was deleted."""
    await upsert(scene, change(name="Ana", email="ana@example.com", zone="Europe/Berlin"), change("bob"))
    found = await scene.views.recipient("acme", "ana")
    assert found == (await scene.views.recipients("acme", None, 1))[0]
    assert await scene.views.recipient("other", "ana") is None
    assert await scene.views.recipient("acme", "eve") is None
    await scene.store.delete_recipient("ana", "moved out", ANA)
    assert await scene.views.recipient("acme", "ana") is None


# --- a recipient ---------------------------------------------------------------------------------


@case
async def a_deleted_recipient_gets_nothing(scene: Scene) -> None:
    """Admission ends his deliveries, and each open one has an event."""
    (delivery,) = await scene.ready("r")
    assert await scene.store.delete_recipient("ana", "he asked to", ANA)
    assert not await scene.store.delete_recipient("ana", "again", ANA)
    assert await verdict(scene, await scene.claim_one()) == (State.SUPPRESSED, "recipient_deleted")
    assert await scene.events(delivery) == [("suppressed", "ready", "ready", "ana", "recipient_deleted")]
    operations = "select count(*) from operation where kind = 'recipient_deleted' and reason = 'he asked to'"
    assert await scene.ledger.value(operations) == 1


@case
async def a_deletion_before_begin_wins(scene: Scene) -> None:
    """What was claimed before the deletion does not begin after it; in doubt it stays with the ladder."""
    row = await scene.leased("r")
    await scene.store.delete_recipient("ana", "he asked to", ANA)
    assert await scene.begin(row) == Begun({}, {})


@case
async def in_doubt_a_deletion_is_a_refusal_for_good(scene: Scene) -> None:
    """A row in doubt is told that its recipient was deleted, and is not ended as if it had not been sent."""
    await scene.uncertain("r")
    await scene.store.delete_recipient("ana", "he asked to", ANA)
    assert (await scene.looked_at()).refused == "recipient_deleted"


@case
async def reminders_of_a_deleted_recipient_produce_nothing(scene: Scene) -> None:
    """A tick writes what would have been sent as skipped, with the reason."""
    await scene.schedule("r")
    await scene.store.delete_recipient("ana", "he asked to", ANA)
    await scene.tick()
    shown = await scene.show(delivery_id("r"))
    assert (shown["status"], shown["reason"]) == ("skipped", "recipient_deleted")


@case
async def under_a_guard_nobody_knows_whether_he_was_deleted_in_time(scene: Scene) -> None:
    """What was due under a restore guard may have been sent before he was deleted: it is in doubt, and not skipped."""
    await scene.schedule("r")
    await scene.store.heartbeat("w1")
    await scene.store.open_guard("ana", "restored")
    await scene.store.delete_recipient("ana", "he asked to", ANA)
    await scene.tick()
    assert await scene.state(delivery_id("r")) == State.UNCERTAIN
    assert (await scene.looked_at()).refused == "recipient_deleted"


@case
async def a_deleted_recipient_stays_deleted(scene: Scene) -> None:
    """No import brings him back, no list shows him, and nobody goes by his id any more."""
    await upsert(scene, change(email="ana@example.com"))
    await scene.store.delete_recipient("ana", "he asked to", ANA)
    assert await upsert(scene, change(name="Ana")) == [Upserted(ANA, Upsert.DELETED)]
    assert await known(scene) == []
    by_id = new_reminder("r", await scene.now(), addresses=None, channels=(Channel.EMAIL,))
    assert await scene.store.schedule([by_id]) == [Scheduled.NO_RECIPIENT]


@case
async def a_disabled_channel_is_closed_until_it_is_enabled(scene: Scene) -> None:
    """One channel of a recipient is refused, the others are not; enabled again, it is open."""
    await scene.ready("r", channels=(Channel.WEBHOOK, Channel.EMAIL))
    assert await scene.store.disable_channel("ana", "no webhooks", ANA, Channel.WEBHOOK)
    assert not await scene.store.disable_channel("ana", "no webhooks", ANA, Channel.WEBHOOK)
    row = await scene.claim_one()
    assert row.suppressed == "channel_disabled"
    assert (await scene.claim_one(provider="mail")).suppressed is None
    assert await scene.store.disable_channel("ana", "yes webhooks", ANA, Channel.WEBHOOK, disabled=False)
    assert await scene.begin(row) == Begun({}, {})
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert (await scene.claim_one()).suppressed is None
    assert [event[0] for event in await scene.events(row.id)] == ["suppressed", "allowed"]


@case
async def nobody_is_changed_who_is_not_there(scene: Scene) -> None:
    """A recipient that nobody has is not found."""
    with pytest.raises(NotFound):
        await scene.store.delete_recipient("ana", "gone", ANA)
    with pytest.raises(NotFound):
        await scene.store.disable_channel("ana", "gone", ANA, Channel.EMAIL)


# --- pauses --------------------------------------------------------------------------------------


@case
async def a_paused_account_waits(scene: Scene) -> None:
    """What was claimed before the pause does not begin; what waits for its end is ready at once after it."""
    row = await scene.leased("r")
    assert await scene.store.pause_account("ana", "a complaint", "acme")
    assert not await scene.store.pause_account("ana", "a complaint", "acme")
    assert await scene.begin(row) == Begun({}, {})
    await scene.store.abandon("w1", [(row.id, row.fence)])
    row = await scene.claim_one()
    assert await verdict(scene, row) == (State.WAITING, "account_paused")
    await scene.decide(row, State.LEASED, State.WAITING, reason="account_paused", next_at=row.lease_until)
    assert await scene.store.promote(10) == 0
    assert await scene.store.pause_account("ana", "settled", "acme", paused=False)
    assert await scene.store.promote(10) == 1
    row = await scene.claim_one()
    assert (await scene.begin(row)).numbers == {row.id: 1}
    assert [one["paused"] for one in await scene.views.accounts(10)] == [False]
    await scene.settle(row, Outcome.ACCEPTED)


@case
async def an_unknown_account_is_not_paused(scene: Scene) -> None:
    """A mistyped account is told, and not made."""
    with pytest.raises(NotFound):
        await scene.store.pause_account("ana", "a complaint", "acmee")
    assert await scene.views.accounts(10) == []


@case
async def a_paused_template_waits(scene: Scene) -> None:
    """Deliveries of a paused template wait, others do not; resumed, they may be sent."""
    await scene.ready("r1")
    assert await scene.store.pause_template("ana", "a wrong date", "note")
    assert not await scene.store.pause_template("ana", "a wrong date", "note")
    row = await scene.claim_one()
    assert await verdict(scene, row) == (State.WAITING, "template_paused")
    (paused,) = await scene.views.paused_templates(10)
    assert (paused["template"], paused["actor"], paused["reason"]) == ("note", "ana", "a wrong date")
    assert await scene.store.pause_template("ana", "mended", "note", paused=False)
    assert not await scene.store.pause_template("ana", "mended", "note", paused=False)
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await verdict(scene, await scene.claim_one()) is None
