"""Cases of namespace and schedule: what the application asks for is written once, and never by halves."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from duly.core.model import Channel, Lane, Scheduled
from duly.errors import SchemaError
from duly.testing.builders import NAMESPACE, contact, new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene

EMAIL, SMS, WEBHOOK = Channel.EMAIL, Channel.SMS, Channel.WEBHOOK
CREATED, ALREADY, CONFLICT = Scheduled.CREATED, Scheduled.ALREADY, Scheduled.CONFLICT

COUNT_EVERYTHING = (
    "select (select count(*) from account) + (select count(*) from recipient) + (select count(*) from contact)"
    " + (select count(*) from reminder)"
)


@case
async def the_namespace_is_the_installations(scene: Scene) -> None:
    """The namespace is the one that the database was made with."""
    assert await scene.store.namespace() == NAMESPACE


@case
async def without_a_namespace_the_schema_is_unfinished(scene: Scene) -> None:
    """A database without a namespace raises SchemaError, in one line that says what to do."""
    await scene.ledger.change("delete from installation")
    with pytest.raises(SchemaError) as error:
        await scene.store.namespace()
    assert "duly migrate apply" in str(error.value)
    assert "\n" not in str(error.value)


@case
async def a_new_reminder_is_created(scene: Scene) -> None:
    """A reminder that is not there yet is created, with its account, recipient and contacts."""
    (row,) = await scene.schedule("r", channels=(EMAIL, WEBHOOK))
    assert await scene.ledger.value("select name from account") == row.account
    assert await scene.ledger.value("select ref from recipient") == row.recipient_ref
    assert await scene.ledger.value("select count(*) from contact") == 2


@case
async def a_repeat_is_already_there(scene: Scene) -> None:
    """The same key and the same body is `already`, however often, and touches nothing."""
    rows = await scene.schedule("r1", "r2")
    before = await scene.ledger.value(COUNT_EVERYTHING)
    for _ in range(2):
        assert await scene.store.schedule(rows) == [ALREADY, ALREADY]
    assert await scene.ledger.value(COUNT_EVERYTHING) == before


@case
async def the_same_key_with_another_body_conflicts(scene: Scene) -> None:
    """The same key with another body is refused, and leaves neither a recipient nor a contact behind."""
    (row,) = await scene.schedule("r")
    before = await scene.ledger.value(COUNT_EVERYTHING)
    other = {EMAIL: "somebody.else@example.com"}
    changed = new_reminder("r", row.next_due_at, ref="ben", channels=[EMAIL], addresses=other)
    assert await scene.store.schedule([changed]) == [CONFLICT]
    assert await scene.ledger.value(COUNT_EVERYTHING) == before
    assert await scene.store.schedule([row]) == [ALREADY]


@case
async def a_key_belongs_to_its_account(scene: Scene) -> None:
    """The same key in two accounts names two reminders."""
    await scene.schedule("r", account="acme")
    await scene.schedule("r", account="harbour-lofts")
    assert await scene.ledger.value("select count(*) from reminder") == 2


@case
async def every_row_gets_its_answer_in_order(scene: Scene) -> None:
    """One answer comes back per row, in the order of the rows, whatever the answers are."""
    old, other = await scene.schedule("old", "other")
    due = old.next_due_at
    rows = [
        new_reminder("new-1", due),
        old,
        new_reminder("nobody", due, ref="nobody", addresses=None),
        new_reminder("other", due, data={"unit": "4B"}),
        new_reminder("new-2", due, account="harbour-lofts"),
        new_reminder("by-id", due, addresses=None),
        other,
    ]
    answers = await scene.store.schedule(rows)
    assert answers == [CREATED, ALREADY, Scheduled.NO_RECIPIENT, CONFLICT, CREATED, CREATED, ALREADY]


@case
async def no_rows_get_no_answers(scene: Scene) -> None:
    """An empty batch is answered with nothing."""
    assert await scene.store.schedule([]) == []


@case
async def the_same_key_twice_in_a_batch(scene: Scene) -> None:
    """Twice in one batch, the same key is created once; the second is compared with the first."""
    due = await scene.now()
    first = new_reminder("r", due)
    other = new_reminder("r", due, data={"unit": "4B"})
    assert await scene.store.schedule([first, first, other]) == [CREATED, ALREADY, CONFLICT]
    assert await scene.ledger.value("select count(*) from reminder") == 1


@case
async def a_recipient_is_written_once(scene: Scene) -> None:
    """A recipient is written by the first reminder that names it, and never changed by a later one."""
    await scene.schedule("r1", recipient_name="Ana", recipient_zone="Europe/Lisbon")
    await scene.schedule(
        "r2", recipient_name="Anna", recipient_zone="Asia/Tokyo", addresses={WEBHOOK: "https://later.example.com/"}
    )
    nothing = {"recipient_name": None, "recipient_zone": None, "recipient_locale": None}
    await scene.schedule("by-id", addresses=None, **nothing)
    await scene.tick()
    rows = {row.reminder_key: row for row in (await scene.claim()).rows}
    assert rows["by-id"].recipient_name == rows["r1"].recipient_name == "Ana"
    assert rows["by-id"].recipient_zone == rows["r1"].recipient_zone == "Europe/Lisbon"
    assert rows["by-id"].address == rows["r1"].address


@case
async def inline_addresses_belong_to_the_reminder(scene: Scene) -> None:
    """An inline address is the reminder's own, also where the recipient has another."""
    await scene.schedule("r1", addresses={WEBHOOK: "https://first.example.com/"})
    await scene.schedule("r2", addresses={WEBHOOK: "https://second.example.com/"})
    due = {row.key: row for row in (await scene.store.due(10)).rows}
    assert due["r1"].addresses == {"webhook": "https://first.example.com/"}
    assert due["r2"].addresses == {"webhook": "https://second.example.com/"}
    assert due["r1"].inline
    assert due["r2"].inline


@case
async def an_id_alone_reads_the_recipient_as_he_is_now(scene: Scene) -> None:
    """Where `to` is an id alone, the recipient's addresses count at the moment of the tick."""
    await scene.schedule("r1")
    await scene.schedule("by-id", addresses=None)
    moved = json.dumps({"webhook": "https://moved.example.com/"})
    await scene.ledger.change(f"update recipient set addresses = '{moved}'")  # noqa: S608 - a constant
    due = {row.key: row for row in (await scene.store.due(10)).rows}
    assert due["by-id"].addresses == {"webhook": "https://moved.example.com/"}
    assert not due["by-id"].inline
    assert due["r1"].addresses == {"webhook": "https://app.example.com/hooks"}


@case
async def an_id_that_nobody_has_is_refused(scene: Scene) -> None:
    """An id alone that names nobody is `no_recipient`, and writes nothing, not even the account."""
    due = await scene.now()
    row = new_reminder("r", due, account="new-here", addresses=None)
    assert await scene.store.schedule([row]) == [Scheduled.NO_RECIPIENT]
    assert await scene.ledger.value(COUNT_EVERYTHING) == 0


@case
async def a_recipient_of_another_account_is_nobody(scene: Scene) -> None:
    """A recipient is known in his own account only."""
    await scene.schedule("r", account="acme")
    due = await scene.now()
    row = new_reminder("r", due, account="harbour-lofts", addresses=None)
    assert await scene.store.schedule([row]) == [Scheduled.NO_RECIPIENT]


@case
async def an_id_without_the_channels_address_is_refused(scene: Scene) -> None:
    """An id alone whose recipient lacks an address for one of the channels is `no_address`, and writes nothing."""
    await scene.schedule("r", addresses={WEBHOOK: "https://app.example.com/hooks"})
    before = await scene.ledger.value(COUNT_EVERYTHING)
    due = await scene.now()
    row = new_reminder("by-id", due, channels=(WEBHOOK, SMS), addresses=None)
    assert await scene.store.schedule([row]) == [Scheduled.NO_ADDRESS]
    assert await scene.ledger.value(COUNT_EVERYTHING) == before


@case
async def a_recipient_may_be_introduced_and_used_in_one_batch(scene: Scene) -> None:
    """A batch may introduce a recipient in one row and name him by his id alone in a later one."""
    due = await scene.now()
    rows = [new_reminder("r", due), new_reminder("by-id", due, addresses=None)]
    assert await scene.store.schedule(rows) == [CREATED, CREATED]


@case
async def five_hundred_at_once(scene: Scene) -> None:
    """A batch of five hundred reminders is written, and found again."""
    due = await scene.now()
    rows = [new_reminder(f"r{i}", due, account=f"account-{i % 7}", ref=f"p{i % 50}") for i in range(500)]
    assert await scene.store.schedule(rows) == [CREATED] * 500
    assert await scene.store.schedule(rows) == [ALREADY] * 500
    assert await scene.ledger.value("select count(*) from account") == 7


HOSTILE = (
    "emoji 🧾 \U0001f469\u200d\U0001f467, combining e\u0301, right to left \u202e\u05e9\u05dc\u05d5\u05dd\u202c, "
    "مرحبا, quote ' \" \\ ; -- {{ }} %s $1 :name ?, tab\tand\nnew line, \u2028, \U0010ffff"
)


@case
async def hostile_text_comes_back_unchanged(scene: Scene) -> None:
    """Names, keys, addresses, templates and data of any script come back as they were given."""
    address = "https://app.example.com/" + HOSTILE
    data = {"long": "🧾" * 25_000, HOSTILE: [HOSTILE, None, True, 1.5, {"deep": [[HOSTILE]]}]}
    due = await scene.now() - timedelta(seconds=1)
    row = new_reminder(
        f"key {HOSTILE}",
        due,
        account=f"account {HOSTILE}",
        ref=f"ref {HOSTILE}",
        addresses={WEBHOOK: address},
        data=data,
        recipient_name=HOSTILE,
        recipient_locale=HOSTILE,
        template=HOSTILE,
    )
    assert await scene.store.schedule([row]) == [CREATED]
    await scene.tick()
    claimed = await scene.claim_one()
    assert (claimed.reminder_key, claimed.account, claimed.recipient_ref) == (row.key, row.account, row.recipient_ref)
    assert (claimed.recipient_name, claimed.recipient_locale, claimed.template) == (HOSTILE, HOSTILE, HOSTILE)
    assert claimed.address == address
    assert claimed.data == data


@case
async def what_was_submitted_is_kept(scene: Scene) -> None:
    """A reminder keeps what was submitted: lane, deadline, moment and zone."""
    now = await scene.now()
    row = new_reminder(
        "r", now - timedelta(seconds=1), lane=Lane.URGENT, lasts=timedelta(hours=1), notify_at="2026-12-01T09:00"
    )
    await scene.store.schedule([row])
    (due,) = (await scene.store.due(1)).rows
    assert due.lane is Lane.URGENT
    assert (due.due_at, due.deadline_at) == (row.next_due_at, row.deadline_at)
    shown = await scene.views.show_reminder(row.id)
    assert shown["schedule"] == "2026-12-01T09:00"


@case
async def contacts_are_shared_by_reminders(scene: Scene) -> None:
    """Reminders to one address share its contact, so that consent holds for all of them."""
    await scene.schedule("r1")
    await scene.schedule("r2")
    assert await scene.ledger.value("select count(*) from contact") == 1
    shared = contact("acme", WEBHOOK, "https://app.example.com/hooks")
    await scene.tick()
    assert {row.endpoint for row in (await scene.claim()).rows} == {shared.endpoint}
