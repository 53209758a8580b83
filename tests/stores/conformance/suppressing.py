"""Cases of an opt-out: a contact that wants no more, and everything that is under way to it."""

from __future__ import annotations

from duly.core import keys
from duly.core.consent import ALL, Kind, Said, Verdict
from duly.core.model import Begun, Channel, Outcome
from duly.core.states import State
from duly.ports import NewConsent
from duly.testing.builders import NAMESPACE, contact
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

URL = "https://app.example.com/hooks"
REMINDER = keys.reminder_id(NAMESPACE, "acme", "r")
CONTACT = contact("acme", Channel.WEBHOOK, URL)
WANTS_NO_MORE = Said(Kind.OPT_OUT, ALL, None, "us", "asked to")


async def opt_out(scene: Scene) -> bool:
    """The contact of the scene's deliveries opts out; whether that was new."""
    (verdict,) = await scene.store.record_consent("ana", "acme", [NewConsent(CONTACT, WANTS_NO_MORE)])
    return bool(verdict is Verdict.RECORDED)


@case
async def a_contact_opts_out_once(scene: Scene) -> None:
    """Opting out again is nothing new, and leaves no other event: there is one event at each open delivery."""
    deliveries = await scene.ready("r1", "r2")
    assert await opt_out(scene)
    assert not await opt_out(scene)
    for delivery in deliveries:
        assert await scene.events(delivery) == [("suppressed", "ready", "ready", "ana", "opted_out")]


@case
async def nobody_else_is_silenced(scene: Scene) -> None:
    """Deliveries to other contacts, and those that are final, are left alone."""
    sent = await scene.sending("sent")
    await scene.settle(sent, Outcome.ACCEPTED)
    (other,) = await scene.ready("other", addresses={Channel.WEBHOOK: "https://other.example.com/"})
    await opt_out(scene)
    assert await scene.events(sent.id) == []
    assert await scene.events(other) == []
    assert (await scene.claim_one()).suppressed is None


@case
async def admission_sees_the_suppression(scene: Scene) -> None:
    """A later claim carries why the contact is silent, and another revision of it."""
    row = await scene.leased("r")
    await opt_out(scene)
    await scene.store.abandon("w1", [(row.id, row.fence)])
    again = await scene.claim_one()
    assert (again.suppressed, again.revisions.contact) == ("opted_out", row.revisions.contact + 1)


@case
async def an_opt_out_before_begin_wins(scene: Scene) -> None:
    """What was claimed before the opt-out does not begin after it."""
    row = await scene.leased("r")
    await opt_out(scene)
    assert await scene.begin(row) == Begun({}, {})
    assert await scene.outcomes(row.id) == []
    assert await scene.events(row.id) == [("suppressed", "leased", "leased", "ana", "opted_out")]


@case
async def a_begin_before_an_opt_out_wins(scene: Scene) -> None:
    """What began before the opt-out goes on to its outcome, and the timeline says so."""
    row = await scene.sending("r")
    assert await opt_out(scene)
    assert await scene.events(row.id) == [("suppressed", "sending", "sending", "ana", "opted_out")]
    await scene.settle(row, Outcome.ACCEPTED)
    assert await scene.state(row.id) == State.SENT


@case
async def reconcile_is_told_why_it_would_be_refused(scene: Scene) -> None:
    """A row in doubt says that its contact is suppressed, or its reminder cancelled."""
    await scene.uncertain("r")
    assert (await scene.looked_at(lease_seconds=30)).refused is None
    await opt_out(scene)
    await scene.ledger.pass_time(31)
    row = await scene.looked_at(lease_seconds=30)
    assert row.refused == "opted_out"
    await scene.store.cancel("ana", "moved out", reminder=REMINDER, delivery=None)
    await scene.ledger.pass_time(31)
    assert (await scene.store.doubtful([HOOKS], 10, 30.0))[1][0].refused == "reminder_cancelled"
