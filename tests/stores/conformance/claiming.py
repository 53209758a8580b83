"""Cases of claim: leases are taken fairly, in order, and by one worker only."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from duly.core import keys
from duly.core.model import Block, Channel, Lane, Outcome, Signal, SignalKind
from duly.core.states import State
from duly.ports import Revision
from duly.testing.builders import NAMESPACE, frozen, settlement, start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

URL = "https://app.example.com/hooks"


@case
async def a_claim_takes_a_lease(scene: Scene) -> None:
    """A claimed row has a new fence, a lease of the length asked for, and no attempt."""
    (delivery,) = await scene.ready("r")
    claim = await scene.claim(lease_seconds=45, worker="w7")
    (row,) = claim.rows
    assert (row.id, row.fence, row.attempts) == (delivery, 1, 0)
    assert row.lease_until == claim.now + timedelta(seconds=45)
    shown = await scene.show(delivery)
    assert (shown["status"], shown["attempts"]) == (State.LEASED, [])
    assert shown["lease_expires_at"] is not None


@case
async def a_claim_brings_all_that_sending_needs(scene: Scene) -> None:
    """A claimed row carries what admission, rendering and the request need."""
    (reminder,) = await scene.schedule("r", data={"unit": "4B"}, lane=Lane.URGENT, recipient_zone="Europe/Lisbon")
    await scene.tick()
    row = await scene.claim_one(lane="urgent")
    assert (row.account, row.reminder, row.reminder_key, row.reminder_status) == ("acme", reminder.id, "r", "done")
    assert (row.occurrence, row.lane, row.channel) == ("once", Lane.URGENT, Channel.WEBHOOK)
    assert (row.due_at, row.deadline_at) == (reminder.next_due_at, reminder.deadline_at)
    assert (row.address, row.endpoint) == (URL, reminder.contacts[0].endpoint)
    assert (row.recipient_ref, row.recipient_name, row.recipient_zone, row.recipient_locale) == (
        "ana",
        "Ana",
        "Europe/Lisbon",
        "en",
    )
    assert (row.template, row.data, row.revisions) == ("note", {"unit": "4B"}, (1, 1, 1, 1))
    assert (row.spared, row.doubt, row.closed, row.granted, row.first_unknown_at) == (0, False, False, False, None)
    assert (row.account_paused, row.suppressed, row.block, row.frozen) == (False, None, None, None)
    assert row.account_id == await scene.ledger.value("select id from account")


@case
async def a_leased_row_is_not_claimed_again(scene: Scene) -> None:
    """What one worker has, another does not get; not even when the lease has ended and nobody took it back."""
    await scene.leased("r")
    assert (await scene.claim(worker="w2")).rows == []
    await scene.ledger.pass_time(120)
    assert (await scene.claim(worker="w2")).rows == []


@case
async def a_claim_is_bounded(scene: Scene) -> None:
    """A claim brings no more than it was asked for, and the rest stays ready."""
    await scene.ready(*(f"r{i}" for i in range(10)))
    assert len((await scene.claim(4)).rows) == 4
    assert len((await scene.claim(100)).rows) == 6


@case
async def a_claim_is_for_one_provider_and_lane(scene: Scene) -> None:
    """A claim brings rows of its provider and its lane only."""
    await scene.ready("hook")
    await scene.ready("mail", channels=(Channel.EMAIL,))
    await scene.ready("bulk", lane=Lane.BULK)
    assert [row.reminder_key for row in (await scene.claim(lane="bulk")).rows] == ["bulk"]
    assert [row.reminder_key for row in (await scene.claim(provider="mail")).rows] == ["mail"]
    assert [row.reminder_key for row in (await scene.claim()).rows] == ["hook"]


@case
async def nothing_ready_is_an_empty_claim(scene: Scene) -> None:
    """Where nothing is ready, the claim is empty and the cursor starts over."""
    claim = await scene.claim(after=7)
    assert (claim.rows, claim.next_account) == ([], 0)


@case
async def the_oldest_of_an_account_go_first(scene: Scene) -> None:
    """Within an account, rows are claimed in the order in which they fell due."""
    for minutes in (3, 9, 6):
        await scene.schedule(f"r{minutes}", due_in=-60 * minutes)
    await scene.tick()
    claimed = [(await scene.claim_one_of(1)).reminder_key for _ in range(3)]
    assert claimed == ["r9", "r6", "r3"]


@case
async def a_crowded_account_delays_nobody(scene: Scene) -> None:
    """An account with a crowd gets its share, and the others are served in the same claim."""
    await scene.ready(*(f"r{i}" for i in range(200)), account="crowded")
    await scene.ready("a", account="small-1")
    await scene.ready("b", account="small-2")
    claim = await scene.claim(12)
    served = Counter(row.account for row in claim.rows)
    assert served == {"crowded": 4, "small-1": 1, "small-2": 1}


@case
async def accounts_take_turns(scene: Scene) -> None:
    """The cursor goes on behind the account served last, and starts over after the last one."""
    for account in ("a", "b", "c"):
        await scene.ready(*(f"r{i}" for i in range(4)), account=account)
    served, after = [], 0
    for _ in range(6):
        claim = await scene.claim(1, after=after)
        served += [row.account for row in claim.rows]
        after = claim.next_account
    assert Counter(served[:3]) == Counter("abc")
    assert len(set(served)) == 3
    assert max(Counter(served).values()) <= 2


@case
async def a_share_is_rounded_up(scene: Scene) -> None:
    """The limit is shared out evenly, rounded up, and never passed."""
    for account in ("a", "b", "c"):
        await scene.ready(*(f"r{i}" for i in range(5)), account=account)
    claim = await scene.claim(7)
    assert len(claim.rows) == 7
    assert max(Counter(row.account for row in claim.rows).values()) == 3


@case
async def revisions_are_those_of_the_moment(scene: Scene) -> None:
    """A claimed row carries the revisions, the pause and the suppression that hold now."""
    await scene.ready("r")
    await scene.ledger.change("update account set revision = 5, paused = true")
    await scene.ledger.change("update recipient set revision = 7")
    await scene.ledger.change("update contact set revision = 8, suppressed = 'opted_out'")
    await scene.ledger.change("update reminder set revision = 6, status = 'paused'")
    row = await scene.claim_one()
    assert row.revisions == (5, 6, 7, 8)
    assert (row.account_paused, row.suppressed, row.reminder_status) == (True, "opted_out", "paused")


@case
async def frozen_bytes_come_with_the_second_claim(scene: Scene) -> None:
    """Once an attempt has begun, a claim brings the latest bytes, with their number and hash."""
    first = await scene.leased("r")
    assert first.frozen is None
    await scene.begin(first, frozen=frozen(first, b"first"))
    await scene.settle(first, Outcome.REFUSED)
    await scene.store.promote(10)
    second = await scene.claim_one()
    assert second.frozen is not None
    assert (second.frozen.body, second.frozen.number, second.frozen.destination) == (b"first", 1, URL)
    assert second.frozen.hash == keys.payload_hash(b"first")
    assert (second.frozen.template, second.frozen.template_version) == ("note", "v1")
    await scene.begin(second, frozen=frozen(second, b"second"))
    await scene.settle(second, Outcome.REFUSED, 2)
    await scene.store.promote(10)
    third = await scene.claim_one()
    assert third.frozen is not None
    assert (third.frozen.body, third.frozen.number) == (b"second", 2)


@case
async def a_repeat_keeps_its_bytes(scene: Scene) -> None:
    """An attempt that repeats earlier bytes freezes none, and the next claim brings the same ones."""
    await scene.waiting("r")
    await scene.again(number=2)
    await scene.store.promote(10)
    row = await scene.claim_one()
    assert row.frozen is not None
    assert (row.attempts, row.frozen.number) == (2, 1)
    assert await scene.ledger.value("select count(*) from frozen") == 1


@case
async def bytes_of_any_kind_are_kept(scene: Scene) -> None:
    """Frozen bytes come back as they were, NUL and invalid UTF-8 included."""
    body = bytes(range(256)) * 400
    row = await scene.leased("r")
    await scene.begin(row, frozen=frozen(row, body))
    await scene.settle(row, Outcome.REFUSED)
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert again.frozen is not None
    assert again.frozen.body == body


async def hear(scene: Scene, endpoint: bytes, kind: SignalKind, reason: str, seconds: float) -> None:
    """Let an endpoint say something."""
    await scene.store.settle(HOOKS, [], [Signal(endpoint, kind, reason, seconds)])


@case
async def a_closed_door_is_seen_by_the_claim(scene: Scene) -> None:
    """A claim shows the endpoint's block while it lasts, and none afterwards."""
    await scene.ready("r1", "r2")
    endpoint = keys.endpoint_id(NAMESPACE, URL)
    now = await scene.now()
    await hear(scene, endpoint, SignalKind.BLOCK, "retry_after", 30)
    block = (await scene.claim_one_of(1)).block
    assert block is not None
    assert (block.reason, block.circuit) == ("retry_after", False)
    assert timedelta(0) <= block.until - now - timedelta(seconds=30) < timedelta(seconds=10)
    await scene.ledger.pass_time(45)
    assert (await scene.claim_one_of(1)).block is None


@case
async def a_claim_sees_its_own_endpoints_door_only(scene: Scene) -> None:
    """A block of one endpoint, or of the same endpoint at another provider, is not shown with another's rows."""
    await scene.ready("r1", addresses={"webhook": "https://one.example.com/"})
    await scene.ready("r2", addresses={"webhook": "https://other.example.com/"})
    one, other = (keys.endpoint_id(NAMESPACE, f"https://{name}.example.com/") for name in ("one", "other"))
    await hear(scene, one, SignalKind.BLOCK, "retry_after", 30)
    await scene.store.settle("another-provider", [], [Signal(other, SignalKind.OPEN, "auth", 30)])
    blocks = {row.reminder_key: row.block for row in (await scene.claim()).rows}
    assert (blocks["r1"] is None, blocks["r2"] is None) == (False, True)


@case
async def an_open_circuit_is_seen_until_it_closes(scene: Scene) -> None:
    """A claim shows an open circuit also after its moment, so that admission lets one row probe it."""
    await scene.ready("r1", "r2", "r3")
    endpoint = keys.endpoint_id(NAMESPACE, URL)
    await hear(scene, endpoint, SignalKind.OPEN, "auth", 5)
    await scene.ledger.pass_time(10)
    block = (await scene.claim_one_of(1)).block
    assert isinstance(block, Block)
    assert (block.reason, block.circuit) == ("auth", True)
    assert block.until < await scene.now()
    await hear(scene, endpoint, SignalKind.CLOSE, "answered", 0)
    assert (await scene.claim_one_of(1)).block is None


@case
async def doubt_is_told_with_the_claim(scene: Scene) -> None:
    """A row in doubt is claimed with its doubt, and with the moment from which the key's window counts."""
    first = await scene.sending("r")
    begun_at = (await scene.show(first.id))["attempts"][0]["started_at"]
    await scene.settle(first, Outcome.UNKNOWN)
    looked = await scene.looked_at()
    await scene.decide(looked, State.UNCERTAIN, State.READY, reason="resend_by_policy", granted=True)
    row = await scene.claim_one()
    assert (row.doubt, row.closed, row.granted, row.attempts) == (True, False, True, 1)
    assert row.first_unknown_at is not None
    assert row.first_unknown_at.isoformat().startswith(begun_at.removesuffix("Z"))


@case
async def five_hundred_travel_together(scene: Scene) -> None:
    """Five hundred rows are claimed, begun and settled, each in one batch."""
    await scene.ready(*(f"r{i}" for i in range(500)))
    rows = (await scene.claim(500)).rows
    assert len(rows) == 500
    begun = await scene.store.begin(HOOKS, "w1", [start(row) for row in rows])
    assert len(begun.numbers) == 500
    now = await scene.now()
    settled = await scene.store.settle(HOOKS, [settlement(row, 1, Outcome.ACCEPTED, now) for row in rows], [])
    assert len(settled.moved) == 500
    assert (await scene.views.status())["states"]["sent"]["count"] == 500


@case
async def what_a_reminder_says_of_its_recipient_holds_for_it(scene: Scene) -> None:
    """Name, zone and locale that are others than those on record go before these; what is not said is his own."""
    await scene.leased("introduces", recipient_name="Ana", recipient_zone="Asia/Tokyo", recipient_locale="ja")
    said = {"recipient_name": "Anna", "recipient_zone": "Europe/Berlin", "recipient_locale": None}
    row = await scene.leased("r", **said, follows_recipient=True)
    assert (row.recipient_name, row.recipient_zone, row.recipient_locale) == ("Anna", "Europe/Berlin", "ja")
    assert (await scene.show(row.id))["zone"] == "Europe/Berlin"
    assert (await scene.views.show_reminder(row.reminder))["recipient_zone"] == "Europe/Berlin"
    nothing = {"recipient_name": None, "recipient_zone": None, "recipient_locale": None}
    known = await scene.leased("by-id", **nothing)
    assert (known.recipient_name, known.recipient_zone, known.recipient_locale) == ("Ana", "Asia/Tokyo", "ja")


@case
async def what_is_said_as_it_is_known_changes_with_the_recipient(scene: Scene) -> None:
    """Whoever repeats what is on record has said nothing of his own; a revision says it anew."""
    said = {"recipient_name": "Ana", "recipient_zone": "Asia/Tokyo", "recipient_locale": "ja"}
    await scene.schedule("introduces", **said)
    await scene.schedule("same", follows_recipient=True, **said)
    (other,) = await scene.schedule("other", follows_recipient=True, **{**said, "recipient_zone": "Europe/Berlin"})
    follows = "select count(*) from reminder where follows_recipient"
    assert await scene.ledger.value(follows) == 1
    assert await scene.ledger.value("select count(*) from reminder where own is not null") == 1
    standing = await scene.store.standing(other.id, ["once"])
    again = replace(other, recipient_zone="Asia/Tokyo", body_hash=b"2" * 32)
    revision = Revision(again, standing.revision, standing.next_due_at, 1, (), keep_body=False)
    assert await scene.store.revise("ana", "moved", revision)
    assert await scene.ledger.value(follows) == 2
    assert await scene.ledger.value("select count(*) from reminder where own is not null") == 0
