"""Cases of consent: what was said about an address, what stands, and what a claim brings of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain, combinations
from typing import Any, Final

import pytest

from duly.core.consent import ALL, EVERYTHING, Entry, Kind, Said, Verdict, code_of, entries_of, objection
from duly.core.keys import NO_ENDPOINT
from duly.core.model import Begun, Channel, Claimed, NewReminder, Outcome
from duly.errors import NotFound
from duly.ports import ClaimOrder, NewConsent
from duly.testing.builders import contact, new_reminder
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

URL: Final = "https://app.example.com/hooks"
ADDRESS: Final = contact("acme", Channel.WEBHOOK, URL)


def said(
    kind: Kind, scope: str = ALL, at: datetime | None = None, *, imported: bool = False, source: str = "us"
) -> Said:
    """A statement."""
    return Said(kind, scope, at, source, "asked to", imported)


async def tell(scene: Scene, *statements: Said) -> list[Verdict]:
    """Say something about the address of the scene's deliveries."""
    told: list[Verdict] = await scene.store.record_consent(
        "ana", "acme", [NewConsent(ADDRESS, one) for one in statements]
    )
    return told


async def stands(scene: Scene) -> list[tuple[str, str, str | None]]:
    """What stands about the address: kind, purpose, code."""
    shown = await scene.views.consent(ADDRESS.id)
    return [(one["kind"], one["purpose"], one["code"]) for one in shown["standing"]]


@case
async def an_opt_out_silences_its_purpose(scene: Scene) -> None:
    """An opt-out of marketing leaves service alone; each open delivery whose answer changed has an event."""
    (service,) = await scene.ready("service")
    (marketing,) = await scene.ready("marketing", purpose="marketing")
    assert await tell(scene, said(Kind.OPT_OUT, "marketing")) == [Verdict.RECORDED]
    claimed = {row.id: row for row in (await scene.claim()).rows}
    assert (claimed[service].suppressed, claimed[service].purpose) == (None, "service")
    assert (claimed[marketing].suppressed, claimed[marketing].purpose) == ("opted_out_of_marketing", "marketing")
    assert await scene.events(service) == []
    assert await scene.events(marketing) == [("suppressed", "ready", "ready", "ana", "opted_out_of_marketing")]


@case
async def an_opt_out_of_all_spares_security(scene: Scene) -> None:
    """An opt-out of all purposes silences all but security, and the hard stop also that."""
    (security,) = await scene.ready("security", purpose="security")
    (free,) = await scene.ready("free", purpose="the weekly plan")
    await tell(scene, said(Kind.OPT_OUT))
    claimed = {row.id: row for row in (await scene.claim()).rows}
    assert (claimed[security].suppressed, claimed[free].suppressed) == (None, "opted_out")
    assert await scene.events(security) == []
    await tell(scene, said(Kind.OPT_OUT, EVERYTHING))
    await scene.store.abandon("w1", [(row.id, row.fence) for row in claimed.values()])
    assert {row.suppressed for row in (await scene.claim()).rows} == {"opted_out"}
    assert [event[4] for event in await scene.events(security)] == ["opted_out"]


@case
async def a_change_of_consent_before_begin_wins(scene: Scene) -> None:
    """What was claimed before a change of consent does not begin after it, whichever way it went."""
    await tell(scene, said(Kind.OPT_OUT, "marketing"))
    row = await scene.leased("r")
    await tell(scene, said(Kind.OPT_IN, "marketing"))
    assert await scene.begin(row) == Begun({}, {})
    await scene.store.abandon("w1", [(row.id, row.fence)])
    again = await scene.claim_one()
    assert again.revisions.contact == row.revisions.contact + 1
    assert (await scene.begin(again)).numbers == {row.id: 1}


@case
async def an_opt_in_ends_its_own_opt_out(scene: Scene) -> None:
    """It ends the opt-out of its scope, and open deliveries hear of it; what remains goes on silencing."""
    (delivery,) = await scene.ready("r", purpose="marketing")
    await tell(scene, said(Kind.OPT_OUT, "marketing"), said(Kind.OPT_OUT))
    assert await tell(scene, said(Kind.OPT_IN, "marketing")) == [Verdict.RECORDED]
    assert (await scene.claim_one()).suppressed == "opted_out"
    assert await tell(scene, said(Kind.OPT_IN)) == [Verdict.RECORDED]
    events = [(kind, reason) for kind, _, _, _, reason in await scene.events(delivery)]
    assert events == [
        ("suppressed", "opted_out_of_marketing"),
        ("suppressed", "opted_out"),
        ("allowed", "consent_given"),
    ]
    assert await stands(scene) == [("opt_in", "all", None), ("opt_in", "marketing", None)]


@case
async def only_a_lift_ends_a_suppression(scene: Scene) -> None:
    """An opt-in is kept out by a bounce; a lift ends it, and is remembered."""
    await scene.ready("r")
    assert await tell(scene, said(Kind.BOUNCE, EVERYTHING)) == [Verdict.RECORDED]
    assert await tell(scene, said(Kind.OPT_IN)) == [Verdict.KEPT_OUT]
    row = await scene.claim_one()
    assert row.suppressed == "bounced"
    await scene.store.abandon("w1", [(row.id, row.fence)])
    assert await tell(scene, said(Kind.LIFT, EVERYTHING)) == [Verdict.RECORDED]
    assert (await scene.claim_one()).suppressed is None
    history = (await scene.views.consent(ADDRESS.id))["history"]
    assert [(one["kind"], one["actor"]) for one in history] == [("lift", "ana"), ("bounce", "ana")]
    assert await stands(scene) == []


@case
async def the_same_statement_again_changes_nothing(scene: Scene) -> None:
    """An imported row that was heard before is `already`, also where it has been overruled meanwhile."""
    bounce = said(Kind.BOUNCE, EVERYTHING, imported=True)
    assert await tell(scene, bounce, bounce) == [Verdict.RECORDED, Verdict.ALREADY]
    await tell(scene, said(Kind.LIFT, EVERYTHING))
    revision = await scene.ledger.value("select revision from contact")
    assert await tell(scene, bounce) == [Verdict.ALREADY]
    assert await stands(scene) == []
    assert await scene.ledger.value("select revision from contact") == revision


@case
async def an_imported_opt_in_enables_nobody_in_silence(scene: Scene) -> None:
    """It is kept out by an opt-out that is newer or of unknown time, and changes nothing then."""
    now = await scene.now()
    await tell(scene, said(Kind.OPT_OUT, "marketing", now - timedelta(days=1), imported=True))
    older = said(Kind.OPT_IN, "marketing", now - timedelta(days=2), imported=True)
    unknown = said(Kind.OPT_IN, "marketing", imported=True)
    assert await tell(scene, older, unknown) == [Verdict.KEPT_OUT, Verdict.KEPT_OUT]
    await tell(scene, said(Kind.OPT_OUT, "service", imported=True))
    assert await tell(scene, said(Kind.OPT_IN, "service", now, imported=True)) == [Verdict.KEPT_OUT]
    assert await stands(scene) == [
        ("opt_out", "marketing", "opted_out_of_marketing"),
        ("opt_out", "service", "opted_out_of_service"),
    ]
    assert await tell(scene, said(Kind.OPT_IN, "marketing", now, imported=True)) == [Verdict.RECORDED]


@case
async def a_contact_is_found_by_its_id(scene: Scene) -> None:
    """A contact that is known comes with its account; an id that nobody has is not found."""
    mailbox = contact("other", Channel.EMAIL, "ana@example.com")
    await tell(scene, said(Kind.OPT_OUT))
    await scene.store.record_consent("ana", "other", [NewConsent(mailbox, said(Kind.OPT_OUT))])
    assert await scene.store.contact(ADDRESS.id) == ("acme", ADDRESS)
    assert await scene.store.contact(mailbox.id) == ("other", mailbox)
    assert mailbox.endpoint == NO_ENDPOINT
    with pytest.raises(NotFound):
        await scene.store.contact(NO_ENDPOINT)


@case
async def an_address_nobody_named_can_be_suppressed(scene: Scene) -> None:
    """The contact is made, so that a reminder that names it later finds it suppressed."""
    assert await tell(scene, said(Kind.MANUAL, EVERYTHING)) == [Verdict.RECORDED]
    assert (await scene.leased("r")).suppressed == "suppressed"


@case
async def a_suppression_stands_beside_a_choice(scene: Scene) -> None:
    """What an operator says has its own code, which an opt-out does not touch, and a lift ends."""
    await scene.ready("r")
    await tell(scene, said(Kind.MANUAL, EVERYTHING))
    await tell(scene, said(Kind.OPT_OUT, "marketing"))
    row = await scene.claim_one()
    assert row.suppressed == "suppressed"
    await scene.store.abandon("w1", [(row.id, row.fence)])
    await tell(scene, said(Kind.LIFT, EVERYTHING))
    assert (await scene.claim_one()).suppressed is None


@case
async def reconcile_hears_of_its_own_purpose_only(scene: Scene) -> None:
    """Of two rows in doubt, only the one whose purpose is silenced would be refused."""
    first = await scene.sending("service")
    await scene.settle(first, Outcome.UNKNOWN)
    second = await scene.sending("marketing", purpose="marketing")
    await scene.settle(second, Outcome.UNKNOWN)
    await tell(scene, said(Kind.OPT_OUT, "marketing"))
    _, rows = await scene.store.doubtful([HOOKS], 10, 30.0)
    assert {row.id: row.refused for row in rows} == {first.id: None, second.id: "opted_out_of_marketing"}


@case
async def what_stands_comes_in_pages(scene: Scene) -> None:
    """Page after page of an account brings each entry once, with its address, and nothing of another account."""
    rows = [
        NewConsent(contact("acme", Channel.EMAIL, f"a{number}@example.com"), said(kind, scope))
        for number in range(3)
        for kind, scope in ((Kind.OPT_OUT, "marketing"), (Kind.BOUNCE, EVERYTHING))
    ]
    await scene.store.record_consent("ana", "acme", rows)
    await scene.store.record_consent(
        "ana", "other", [NewConsent(contact("other", Channel.SMS, "+14155550100"), rows[0].said)]
    )
    pages: list[dict[str, Any]] = []
    while page := await scene.views.consents("acme", pages[-1] if pages else None, 2):
        pages += page
    assert sorted((one["address"], one["kind"]) for one in pages) == sorted(
        (row.contact.address, row.said.kind) for row in rows
    )
    assert await scene.views.consents("nobody", None, 10) == []


@case
async def an_entry_that_admission_would_not_see_breaks_an_invariant(scene: Scene) -> None:
    """The contact tells of every entry that silences; one that it hides is counted."""
    await tell(scene, said(Kind.OPT_OUT, "marketing"), said(Kind.BOUNCE, EVERYTHING), said(Kind.OPT_IN, "plans"))
    assert await scene.broken_invariants() == []
    await scene.ledger.change("update contact set silenced = not silenced, suppressed = null")
    assert await scene.broken_invariants() == [("consent_reaches_admission", 2)]
    await scene.ledger.change("update contact set silenced = not silenced, suppressed = 'bounced'")


# --- the two rules agree -------------------------------------------------------------------------

STATEMENTS: Final = (
    (Kind.OPT_OUT, "marketing"),
    (Kind.OPT_OUT, ALL),
    (Kind.OPT_OUT, EVERYTHING),
    (Kind.MANUAL, "marketing"),
    (Kind.MANUAL, EVERYTHING),
    (Kind.BOUNCE, EVERYTHING),
    (Kind.COMPLAINT, EVERYTHING),
)
PURPOSES: Final = ("service", "marketing", "security", "a 'plan' of \"mine\"")


def _subsets() -> Iterator[tuple[tuple[Kind, str], ...]]:
    return chain.from_iterable(combinations(STATEMENTS, size) for size in range(len(STATEMENTS) + 1))


def _entries(subset: Iterable[tuple[Kind, str]]) -> list[Entry]:
    return [Entry(kind, scope, None, "", "", "", code_of(kind, scope)) for kind, scope in subset]


@case
async def sql_and_core_object_to_the_same(scene: Scene) -> None:
    """Over all combinations of what can stand, each purpose is refused for the reason that the rule in core gives."""
    store, expected = scene.ledger.store, dict[tuple[str, str], str | None]()
    due, reminders = await scene.now() - timedelta(seconds=1), list[NewReminder]()
    for number, subset in enumerate(_subsets()):
        url = f"https://app.example.com/{number}"
        rows = [NewConsent(contact("acme", Channel.WEBHOOK, url), said(kind, scope)) for kind, scope in subset]
        await store.record_consent("ana", "acme", rows)
        for purpose in PURPOSES:
            key = f"{number} {purpose}"
            to = {Channel.WEBHOOK: url}
            reminders.append(new_reminder(key, due, ref=key, addresses=to, purpose=purpose))
            expected[key, purpose] = objection(entries_of(_entries(subset)), purpose)
    await store.schedule(reminders)
    await scene.tick()
    claimed: list[Claimed] = (await store.claim(_order(len(expected)))).rows
    assert {(row.reminder_key, row.purpose): row.suppressed for row in claimed} == expected
    assert len(claimed) == 2 ** len(STATEMENTS) * len(PURPOSES)
    await scene.store.look_away()


def _order(limit: int) -> ClaimOrder:
    return ClaimOrder(HOOKS, "normal", limit, 0, "w1", 60.0)
