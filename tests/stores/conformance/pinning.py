"""Cases of pinned templates: a reminder keeps the version that it was scheduled with, until somebody moves it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from duly.core.model import Outcome, TemplateSource
from duly.core.states import State
from duly.ports import Filters, Revision, Upgrade, Upgraded
from duly.testing.builders import new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.scene import Scene

FIRST: Final = bytes(16)
LATER: Final = 3_600.0


async def upgrade(scene: Scene, template: str = "note", account: str | None = None, limit: int = 100) -> Upgraded:
    """Move one page of reminders to version v2."""
    wanted = Upgrade(template, "v2", account, FIRST, limit)
    done: Upgraded = await scene.store.upgrade_template("ana", "a mistyped word", wanted)
    return done


async def pins(scene: Scene) -> dict[tuple[str, str | None], int]:
    """How many reminders with occurrences to come are pinned to which version."""
    return {(one["template"], one["version"]): one["reminders"] for one in await scene.views.pinned_templates()}


@case
async def a_delivery_has_the_version_of_its_reminder(scene: Scene) -> None:
    """What was scheduled with a version is claimed with it, and both views tell it before anything was rendered."""
    row = await scene.leased("r", template_version="v1")
    assert (row.template, row.template_version) == ("note", "v1")
    assert (await scene.show(row.id))["template_version"] == "v1"
    shown = await scene.views.show_reminder(row.reminder)
    assert (shown["template"], shown["template_version"]) == ("note", "v1")


@case
async def a_reminder_may_be_pinned_to_none(scene: Scene) -> None:
    """Without a version there is none, and what was rendered says its own."""
    row = await scene.sending("r")
    assert row.template_version is None
    assert (await scene.show(row.id))["template_version"] == "v1"
    assert (await scene.views.show_reminder(row.reminder))["template_version"] is None


@case
async def versions_are_kept_once(scene: Scene) -> None:
    """A version is kept with its source and what it may do as SMS; the same again changes nothing."""
    old = TemplateSource("note", "v1", "Hi", "text {{ data.x }} \u00e9\u4f8b", "<p>h</p>", 3, sms_to_gsm=True)
    new = TemplateSource("note", "v2", "", "t", None, 10, sms_to_gsm=False)
    assert await scene.store.keep_templates([new, old]) == 2
    assert await scene.store.keep_templates([old, new._replace(version="v3")]) == 1
    wanted = [("note", "v1"), ("note", "v2"), ("note", "v9"), ("other", "v1")]
    assert sorted(await scene.store.template_sources(wanted)) == sorted([old, new])
    assert await scene.store.template_sources([]) == []
    assert await scene.store.keep_templates([]) == 0


@case
async def an_upgrade_moves_what_has_not_fired(scene: Scene) -> None:
    """Reminders of the template come to the version, with an event and a higher revision; others stay."""
    (old, plain) = (
        *await scene.schedule("old", due_in=LATER, template_version="v1"),
        *await scene.schedule("plain", due_in=LATER),
    )
    await scene.schedule("new", due_in=LATER, template_version="v2")
    await scene.schedule("other", due_in=LATER, template="other", template_version="v1")
    assert await pins(scene) == {("note", None): 1, ("note", "v1"): 1, ("note", "v2"): 1, ("other", "v1"): 1}
    assert await upgrade(scene) == Upgraded(2, 0, None)
    assert await pins(scene) == {("note", "v2"): 3, ("other", "v1"): 1}
    for row, was in ((old, "v1"), (plain, None)):
        (event,) = (await scene.views.show_reminder(row.id))["events"]
        told = (event["kind"], event["from"], event["to"], event["actor"], event["reason"])
        assert told == ("template_upgraded", "active", "active", "ana", "a mistyped word")
        assert event["evidence"] == {"template": "note", "from": was, "to": "v2"}
        assert (await scene.store.standing(row.id, [])).revision == 2
    assert await upgrade(scene) == Upgraded(0, 0, None)


@case
async def an_upgrade_goes_page_by_page(scene: Scene) -> None:
    """Each page is so many reminders of the ledger and names its last; the last page names none."""
    rows = await scene.schedule(*(f"r{number}" for number in range(5)), due_in=LATER, template_version="v1")
    ids = sorted(row.id for row in rows)
    wanted = Upgrade("note", "v2", None, FIRST, 2)
    first = await scene.store.upgrade_template("ana", "why", wanted)
    assert first == Upgraded(2, 0, ids[1])
    second = await scene.store.upgrade_template("ana", "why", wanted._replace(after=first.last))
    assert second == Upgraded(2, 0, ids[3])
    assert await scene.store.upgrade_template("ana", "why", wanted._replace(after=second.last)) == Upgraded(1, 0, None)


@case
async def an_upgrade_may_be_of_one_account(scene: Scene) -> None:
    """Other accounts' reminders stay as they are."""
    for account in ("acme", "bold"):
        await scene.schedule("r", due_in=LATER, template_version="v1", account=account)
    assert await upgrade(scene, account="bold") == Upgraded(1, 0, None)
    assert await upgrade(scene, account="unheard-of") == Upgraded(0, 0, None)
    assert await pins(scene) == {("note", "v1"): 1, ("note", "v2"): 1}


@case
async def an_upgrade_leaves_what_has_fired(scene: Scene) -> None:
    """A reminder that has fired keeps its version; so does one that goes on, while a delivery of it is open."""
    done = await scene.leased("done", template_version="v1")
    assert await upgrade(scene) == Upgraded(0, 0, None)
    assert (await scene.show(done.id))["template_version"] == "v1"
    await scene.ledger.change("update reminder set next_due_at = deadline_at, status = 'active'")
    assert await upgrade(scene) == Upgraded(0, 1, None)
    await scene.begin(done)
    await scene.settle(done, Outcome.ACCEPTED)
    assert await upgrade(scene) == Upgraded(1, 0, None)


@case
async def an_upgrade_moves_dead_letters_on(scene: Scene) -> None:
    """A redrive renders anew, so what was rejected comes to the version too; what was cancelled or sent does not."""
    for key, outcome in (("rejected", Outcome.REJECTED), ("sent", Outcome.ACCEPTED)):
        row = await scene.sending(key, template_version="v1")
        await scene.settle(row, outcome)
    (off,) = await scene.schedule("off", due_in=LATER, template_version="v1")
    await scene.store.cancel("ana", "not needed", reminder=off.id, delivery=None)
    assert await upgrade(scene) == Upgraded(1, 0, None)
    (rejected,) = await scene.views.deliveries(Filters(status=State.REJECTED))
    assert len(await scene.store.requeue("ana", "mended", [(await scene.views.find(rejected["id"], None))[1]])) == 1
    assert (await scene.claim_one()).template_version == "v2"


@case
async def a_newer_version_of_a_reminder_brings_its_template(scene: Scene) -> None:
    """A revised reminder is promised by the version that was current then."""
    (old,) = await scene.schedule("r", due_in=LATER, template_version="v1", event_version=1)
    new = replace(
        new_reminder("r", await scene.now() + timedelta(hours=2), data={"x": 1}, event_version=2), template_version="v2"
    )
    assert await scene.store.revise("ana", "moved", Revision(new, 1, old.next_due_at, 1, (), keep_body=False))
    assert (await scene.views.show_reminder(old.id))["template_version"] == "v2"
