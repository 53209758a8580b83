"""Cases of summaries: what is late comes as one message, and shares its fate."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, Final

from duly.core import keys
from duly.core.folding import MEMBERS_MAX, PREFIX, RETURNS_MAX
from duly.core.model import Claimed, Outcome
from duly.core.states import State
from duly.ports import ClaimOrder, Revision
from duly.testing.builders import folding, new_reminder, settlement, start
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene

LATE: Final = {"late": "summarize", "deadline": "PT1M", "late_until": "PT8H"}


async def late(scene: Scene, *names: str, **more: Any) -> list[Claimed]:
    """Late deliveries, claimed, in the order of their names."""
    await scene.ready(*names, **{**LATE, **more})
    rows = {row.reminder_key: row for row in (await scene.claim()).rows}
    return [rows[name] for name in names]


def parts(summary: Claimed) -> list[str]:
    """Of which reminders a claimed summary tells, in its order."""
    return [part["reminder"] for part in summary.data["reminders"]]


async def share(scene: Scene) -> dict[str, int]:
    """Let the ends of summaries be shared; how many went where."""
    shared = await scene.store.share_fates(100, "upkeep")
    return {state: count for state, count in shared.items() if count}


# --- folding -------------------------------------------------------------------------------------


@case
async def late_ones_of_a_recipient_make_one_summary(scene: Scene) -> None:
    """They are folded; the summary is a delivery of its own, to the same address, and waits for a moment."""
    first, second = await late(scene, "a", "b")
    folded = await scene.fold(first, second)
    assert folded.keys() == {first.id, second.id}
    (summary,) = set(folded.values())
    shown = await scene.show(first.id)
    assert (shown["status"], shown["reason"], shown["summary"]) == ("folded", "late", keys.show(summary))
    assert await scene.events(first.id) == [("folded", "leased", "folded", "w1", "late")]
    made = await scene.show(summary)
    assert (made["status"], made["reason"], made["attempts"]) == ("waiting", "summary_gathers", [])
    assert made["reminder"].startswith(PREFIX)
    assert sorted(line["reminder"] for line in made["folded"]) == ["a", "b"]
    claimed = await scene.gathered()
    assert (claimed.id, claimed.address, claimed.purpose) == (summary, first.address, first.purpose)
    assert not claimed.summarized
    assert claimed.late_after is not None
    assert parts(claimed) == ["a", "b"]
    assert claimed.data["reminders"][0]["text"] == "about a"


@case
async def a_summary_takes_up_more_until_it_begins(scene: Scene) -> None:
    """What is late meanwhile joins it, in the order in which it was due; its moments are the earliest of all."""
    await scene.schedule("early", due_in=-60.0, **LATE)
    await scene.tick()
    (row,) = (await scene.claim()).rows
    (later,) = await late(scene, "later", lasts=timedelta(minutes=30))
    first, second = await scene.fold(later), await scene.fold(row)
    assert set(first.values()) == set(second.values())
    summary = await scene.gathered()
    assert parts(summary) == ["early", "later"]
    assert summary.deadline_at - summary.due_at == later.deadline_at - row.due_at
    assert summary.revisions.reminder == 2


@case
async def a_summary_in_a_workers_hands_takes_up_nothing(scene: Scene) -> None:
    """Its text may be made already: a row that would join is left as it is, and joins when it was given back."""
    await scene.folded("a", **LATE)
    summary = await scene.gathered()
    (row,) = await late(scene, "b")
    assert await scene.fold(row) == {}
    assert await scene.state(row.id) == State.LEASED
    await scene.store.abandon("w1", [(summary.id, summary.fence)])
    assert await scene.fold(row) == {row.id: summary.id}


@case
async def what_was_refused_takes_up_more(scene: Scene) -> None:
    """In the air it takes up nothing; a refusal leaves no doubt, and the next try tells of what joined since."""
    *_, first = await scene.folded("a", **LATE)
    summary = await scene.gathered()
    await scene.begin(summary)
    (row,) = await late(scene, "b")
    assert await scene.fold(row) == {}
    await scene.settle(summary, Outcome.REFUSED)
    assert await scene.fold(row) == {row.id: first}
    await scene.store.promote(10)
    assert parts(await scene.claim_one()) == ["a", "b"]


@case
async def what_is_in_doubt_takes_up_nothing(scene: Scene) -> None:
    """Only its own bytes may go out: another summary gathers in its place."""
    *_, first = await scene.folded("a", **LATE)
    summary = await scene.gathered()
    await scene.begin(summary)
    await scene.settle(summary, Outcome.UNKNOWN)
    (row,) = await late(scene, "b")
    (second,) = (await scene.fold(row)).values()
    assert second != first
    (third,) = await late(scene, "c")
    assert set((await scene.fold(third)).values()) == {second}


@case
async def who_has_less_time_hurries_it(scene: Scene) -> None:
    """A summary that only gathers is sent before the last moment of each."""
    await scene.folded("a", **LATE)
    (row,) = await late(scene, "b", lasts=timedelta(seconds=7))
    assert len(await scene.fold(row)) == 1
    await scene.ledger.pass_time(4)
    await scene.store.promote(10)
    assert parts(await scene.claim_one()) == ["a", "b"]


@case
async def what_cannot_be_recorded_is_cleaned(scene: Scene) -> None:
    """A text that a template made of NUL and half a surrogate pair costs no other row its turn."""
    (row,) = await late(scene, "a")
    assert len(await scene.store.fold("w1", [folding(row, "a\x00b\ud800")])) == 1
    assert (await scene.gathered()).data["reminders"][0]["subject"] not in ("a\x00b\ud800", "")


@case
async def what_changed_since_the_claim_is_not_folded(scene: Scene) -> None:
    """A pause between claim and fold is seen, as begin would see it."""
    (row,) = await late(scene, "a")
    await scene.ledger.change("update reminder set status = 'active' where caller_key = 'a'")
    assert await scene.store.pause_reminder("ana", "wait", row.reminder)
    assert await scene.fold(row) == {}


@case
async def who_has_little_in_common_is_not_folded_together(scene: Scene) -> None:
    """Another recipient, another purpose and another reminder's quiet hours make other summaries."""
    rows = [
        *await late(scene, "a"),
        *await late(scene, "b", ref="bo"),
        *await late(scene, "c", purpose="marketing"),
        *await late(scene, "d", recipient_quiet_hours='["21:00-08:00"]'),
        *await late(scene, "e", account="other"),
    ]
    assert len(set((await scene.fold(*rows)).values())) == len(rows)


@case
async def a_summary_has_its_limit(scene: Scene) -> None:
    """So many go into one; the rest makes another, which goes on gathering."""
    names = [f"r{number:03}" for number in range(MEMBERS_MAX + 1)]
    rows = await late(scene, *names)
    folded = await scene.fold(*rows)
    (_, most), (rest, fewest) = Counter(folded.values()).most_common()
    assert (most, fewest) == (MEMBERS_MAX, 1)
    (one_more,) = await late(scene, "one more")
    assert set((await scene.fold(one_more)).values()) == {rest}


@case
async def only_its_own_worker_folds(scene: Scene) -> None:
    """Not under another fence, not by another worker, not what has begun, not what was never there."""
    row, begun = await late(scene, "a", "b")
    await scene.begin(begun)
    assert await scene.store.fold("w2", [folding(row)]) == {}
    assert await scene.store.fold("w1", [folding(row)._replace(fence=row.fence + 1)]) == {}
    assert await scene.store.fold("w1", [folding(begun), folding(row)._replace(id=b"0" * 16)]) == {}
    assert await scene.store.fold("w1", []) == {}
    assert await scene.ledger.value("select count(*) from delivery where summarizes") == 0


@case
async def nothing_is_folded_under_a_guard(scene: Scene) -> None:
    """While a restore guard is open, a summary would slip through it."""
    (row,) = await late(scene, "a")
    await scene.store.open_guard("ana", "restored")
    assert await scene.fold(row) == {}


@case
async def two_workers_fold_into_one_summary(scene: Scene) -> None:
    """Whoever comes second joins, or leaves its row as it is; two summaries never gather for one recipient."""
    theirs = await scene.ledger.another()
    for round_ in range(6):
        ref = f"person-{round_}"
        rows = await late(scene, f"a{round_}", f"b{round_}", ref=ref)
        ours, others = await asyncio.gather(
            scene.ledger.store.fold("w1", [folding(rows[0])]), theirs.fold("w1", [folding(rows[1])])
        )
        await scene.store.look_away()
        assert len({*ours.values(), *others.values()}) == 1
        for row in rows:
            assert await scene.state(row.id) == (State.FOLDED if row.id in {**ours, **others} else State.LEASED)


# --- one fate ------------------------------------------------------------------------------------


@case
async def what_is_folded_is_sent_with_its_summary(scene: Scene) -> None:
    """Sent at the same moment, without an attempt of its own; said again, nothing more moves."""
    first, second, summary = await scene.folded("a", "b", **LATE)
    row = await scene.gathered()
    await scene.begin(row)
    await scene.settle(row, Outcome.ACCEPTED)
    assert await scene.store.next_step([HOOKS]) == 0
    assert await share(scene) == {"sent": 2}
    assert await scene.store.next_step([HOOKS]) is None
    for delivery in (first, second):
        shown = await scene.show(delivery)
        assert (shown["status"], shown["reason"], shown["attempts"]) == ("sent", "summary_sent", [])
        assert (await scene.events(delivery))[-1] == ("unfolded", "folded", "sent", "upkeep", "summary_sent")
    assert await scene.state(summary) == State.SENT
    assert await share(scene) == {}


@case
async def what_is_folded_is_as_uncertain_as_its_summary(scene: Scene) -> None:
    """It stays folded while nobody knows, and is unconfirmed with it."""
    first, _ = await scene.folded("a", **LATE)
    row = await scene.gathered()
    await scene.begin(row)
    await scene.settle(row, Outcome.UNKNOWN)
    assert await share(scene) == {}
    assert await scene.state(first) == State.FOLDED
    assert await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.UNCONFIRMED, reason="closed_by_policy")
    assert await share(scene) == {"unconfirmed": 1}
    assert await scene.state(first) == State.UNCONFIRMED


@case
async def what_is_folded_comes_back(scene: Scene) -> None:
    """Where its summary was rejected, gave up, came too late or was called off, it is ready again at once."""
    for end in (State.REJECTED, State.DEAD, State.EXPIRED, State.SUPPRESSED, State.CANCELLED):
        first, second, summary = await scene.folded(f"a-{end}", f"b-{end}", **LATE)
        row = await scene.gathered()
        await scene.decide(row, State.LEASED, end)
        assert await scene.state(summary) == end
        assert await share(scene) == {"ready": 2}
        for delivery in (first, second):
            assert (await scene.events(delivery))[-1] == ("unfolded", "folded", "ready", "upkeep", f"summary_{end}")
            await scene.store.cancel("ana", "done", reminder=None, delivery=delivery)


@case
async def what_comes_back_too_often_is_sent_alone(scene: Scene) -> None:
    """After so many summaries that came to nothing it is not folded any more."""
    (row,) = await late(scene, "a")
    summaries = set()
    for _ in range(RETURNS_MAX):
        assert row.summarized
        summaries.update((await scene.fold(row)).values())
        await scene.decide(await scene.gathered(), State.LEASED, State.DEAD)
        assert await share(scene) == {"ready": 1}
        row = await scene.claim_one()
    assert not row.summarized
    assert len(summaries) == RETURNS_MAX


@case
async def late_evidence_speaks_for_all_that_was_carried(scene: Scene) -> None:
    """A summary that was accepted after all was read by somebody: what came back and is not in the air was sent."""
    open_one, ended, in_the_air, _ = await scene.folded("open", "ended", "air", **LATE)
    row = await scene.gathered()
    await scene.begin(row)
    await scene.settle(row, Outcome.REFUSED, state=State.DEAD)
    assert await share(scene) == {"ready": 3}
    await scene.store.cancel("ana", "done", reminder=None, delivery=ended)
    rows = {row.id: row for row in (await scene.claim()).rows}
    assert (await scene.begin(rows[in_the_air])).numbers
    accepted = settlement(row, 1, Outcome.ACCEPTED, await scene.now())
    assert (await scene.store.settle(HOOKS, [accepted], [])).corrected == 1
    await share(scene)
    assert await scene.state(open_one) == State.SENT
    assert await scene.state(ended) == State.SENT
    assert (await scene.events(ended))[-1][0] == "corrected"
    assert await scene.state(in_the_air) == State.SENDING


@case
async def a_summary_is_not_redriven(scene: Scene) -> None:
    """What was in it has gone its own ways since; and that is not folded again when it is redriven."""
    first, summary = await scene.folded("a", **LATE)
    await scene.decide(await scene.gathered(), State.LEASED, State.DEAD)
    await share(scene)
    await scene.decide(await scene.claim_one(), State.LEASED, State.DEAD)
    assert await scene.store.requeue("ana", "mended", [first, summary]) == {first}
    assert not (await scene.claim_one()).summarized


# --- changes -------------------------------------------------------------------------------------


@case
async def a_cancel_takes_it_out_before_the_begin(scene: Scene) -> None:
    """The summary ends, the cancelled one with it, and the others come back to make another."""
    first, second, summary = await scene.folded("a", "b", **LATE)
    claimed = await scene.gathered()
    cancelled = await scene.store.cancel("ana", "moved out", reminder=None, delivery=first)
    assert cancelled.cancelled == 1
    assert (await scene.begin(claimed)).numbers == {}
    shown = await scene.show(summary)
    assert (shown["status"], shown["reason"]) == ("cancelled", "summary_retired")
    assert await scene.state(first) == State.CANCELLED
    assert await share(scene) == {"ready": 1}
    assert await scene.state(second) == State.READY


@case
async def what_was_retired_does_not_count(scene: Scene) -> None:
    """A summary that ends because somebody else's reminder was cancelled has not failed."""
    (row,) = await late(scene, "a")
    for number in range(RETURNS_MAX + 1):
        (other,) = await late(scene, f"b{number}")
        await scene.fold(row, other)
        await scene.store.cancel("ana", "moved out", reminder=None, delivery=other.id)
        assert await share(scene) == {"ready": 1}
        row = await scene.claim_one()
        assert row.summarized


@case
async def a_cancel_finds_what_has_just_come_to_nothing(scene: Scene) -> None:
    """Between the end of a summary and its sharing, what is folded into it is not being sent."""
    first, second, _ = await scene.folded("a", "b", **LATE)
    await scene.store.cancel("ana", "moved out", reminder=None, delivery=first)
    assert await scene.state(second) == State.FOLDED
    standing = await scene.store.standing(new_reminder("b", await scene.now()).id, ["once"])
    assert [fate.state for fate in standing.fates] == [State.WAITING]
    assert (await scene.store.cancel("ana", "moved out", reminder=None, delivery=second)).cancelled == 1
    assert await share(scene) == {}


@case
async def a_cancelled_reminder_leaves_its_summary(scene: Scene) -> None:
    """As a cancel of one delivery, for all of a reminder."""
    first, second, summary = await scene.folded("a", "b", **LATE)
    reminder = new_reminder("a", await scene.now()).id
    assert (await scene.store.cancel("ana", "moved out", reminder=reminder, delivery=None)).cancelled == 1
    assert await scene.state(summary) == State.CANCELLED
    assert await scene.state(first) == State.CANCELLED
    await share(scene)
    assert await scene.state(second) == State.READY


@case
async def a_cancel_after_the_begin_binds_the_next_admission(scene: Scene) -> None:
    """It is being sent: the ledger says so, and where the summary comes to nothing, nothing more is sent."""
    first, summary = await scene.folded("a", **LATE)
    row = await scene.gathered()
    await scene.begin(row)
    reminder = new_reminder("a", await scene.now()).id
    cancelled = await scene.store.cancel("ana", "moved out", reminder=reminder, delivery=None)
    assert (cancelled.cancelled, cancelled.sending) == (0, 1)
    assert await scene.state(first) == State.FOLDED
    await scene.settle(row, Outcome.REFUSED, state=State.DEAD)
    assert await scene.state(summary) == State.DEAD
    await share(scene)
    assert (await scene.claim_one()).reminder_status == "cancelled"


@case
async def what_is_called_off_in_the_air_is_not_sent_again(scene: Scene) -> None:
    """A cancel that came after the begin binds the next admission of the summary: what it carries comes back."""
    first, second, summary = await scene.folded("a", "b", **LATE)
    row = await scene.gathered()
    await scene.begin(row)
    assert (await scene.store.cancel("ana", "moved out", reminder=None, delivery=first)).sending == 1
    await scene.settle(row, Outcome.REFUSED)
    await scene.store.promote(10)
    again = await scene.claim_one()
    assert (again.id, again.reminder_status) == (summary, "called_off")
    await scene.decide(again, State.LEASED, State.CANCELLED, reason="called_off")
    assert await share(scene) == {"ready": 2}
    rows = {row.id: row for row in (await scene.claim()).rows}
    assert (rows[first].reminder_status, rows[second].reminder_status) == ("called_off", "done")


@case
async def a_cancel_under_a_guard_is_heard(scene: Scene) -> None:
    """What a restore put in doubt may have been sent: it is not sent again with what was called off."""
    first, _, summary = await scene.folded("a", "b", **LATE)
    await scene.store.open_guard("ana", "restored")
    cancelled = await scene.store.cancel("ana", "moved out", reminder=None, delivery=first)
    assert (cancelled.sending, cancelled.in_doubt) == (1, 0)
    await scene.store.close_guard("ana", "all was submitted again")
    assert await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.READY, reason="not_there", covered=True)
    row = await scene.claim_one()
    assert (row.id, row.reminder_status) == (summary, "called_off")


@case
async def evidence_for_many_reaches_all(scene: Scene) -> None:
    """However many summaries were accepted after all, each round shares what it has looked at, and no more."""
    members = []
    for number in range(5):
        first, summary = await scene.folded(f"r{number}", ref=f"p{number}", **LATE)
        row = await scene.gathered()
        await scene.begin(row)
        await scene.settle(row, Outcome.UNKNOWN)
        doubtful = await scene.looked_at()
        assert doubtful.id == summary
        await scene.decide(doubtful, State.UNCERTAIN, State.UNCONFIRMED, reason="closed_by_policy")
        await share(scene)
        members.append((first, row))
    accepted = [settlement(row, 1, Outcome.ACCEPTED, await scene.now()) for _, row in members]
    await scene.store.settle(HOOKS, accepted, [])
    for _ in members:
        await scene.store.share_fates(1, "upkeep")
    assert {await scene.state(first) for first, _ in members} == {State.SENT}


@case
async def a_revision_takes_it_out_before_the_begin(scene: Scene) -> None:
    """A folded delivery waits, in effect: a newer version takes its place, and no summary tells the old one."""
    first, summary = await scene.folded("a", **LATE)
    due = await scene.now() + timedelta(hours=1)
    new = new_reminder("a", due)
    standing = await scene.store.standing(new.id, ["once"])
    assert [(fate.id, fate.state) for fate in standing.fates] == [(first, State.WAITING)]
    revision = Revision(new, standing.revision, standing.next_due_at, 2, (first,), keep_body=False)
    assert await scene.store.revise("ana", "moved", revision)
    assert await scene.state(first) == State.CANCELLED
    assert await scene.state(summary) == State.CANCELLED


@case
async def a_revision_after_the_begin_finds_it_folded(scene: Scene) -> None:
    """What is in a summary that has begun may be sent already."""
    first, _ = await scene.folded("a", **LATE)
    await scene.begin(await scene.gathered())
    new = new_reminder("a", await scene.now() + timedelta(hours=1))
    standing = await scene.store.standing(new.id, ["once"])
    assert [(fate.id, fate.state) for fate in standing.fates] == [(first, State.FOLDED)]
    revision = Revision(new, standing.revision, standing.next_due_at, 2, (first,), keep_body=False)
    assert not await scene.store.revise("ana", "moved", revision)
    assert await scene.state(first) == State.FOLDED


@case
async def a_pause_takes_it_out_before_the_begin(scene: Scene) -> None:
    """A paused reminder is not told of by the summary; the others are."""
    (row,) = await late(scene, "a")
    await scene.fold(row)
    await scene.ledger.change("update reminder set status = 'active' where caller_key = 'a'")
    assert await scene.store.pause_reminder("ana", "wait", row.reminder)
    assert await scene.state(row.id) == State.READY
    assert (await scene.claim_one()).reminder_status == "paused"


@case
async def a_restore_keeps_it_with_its_summary(scene: Scene) -> None:
    """Both are in doubt then; the summary is asked for, and what is folded has its answer."""
    first, summary = await scene.folded("a", **LATE)
    await scene.store.open_guard("ana", "restored")
    assert (await scene.state(first), await scene.state(summary)) == (State.FOLDED, State.UNCERTAIN)
    await scene.store.close_guard("ana", "all was submitted again")
    await scene.ledger.pass_time(10)
    (row,) = await late(scene, "b")
    (other,) = (await scene.fold(row)).values()
    assert other != summary
    assert await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.SENT, reason="found")
    assert await share(scene) == {"sent": 1}


@case
async def a_claim_that_read_too_soon_does_not_begin(scene: Scene) -> None:
    """What a summary took up after it was read would not be told of: the revision has risen."""
    *_, summary = await scene.folded("a", **LATE)
    claimed = await scene.gathered()
    await scene.store.abandon("w1", [(claimed.id, claimed.fence)])
    (row,) = (await scene.store.claim(ClaimOrder(HOOKS, "normal", 1, 0, "w1", 60.0))).rows
    await scene.ledger.change("update reminder set revision = revision + 1 where caller_key like 'duly/%'")
    assert (row.id, (await scene.store.begin(HOOKS, "w1", [start(row)])).numbers) == (summary, {})
