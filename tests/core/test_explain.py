"""Explaining: one paragraph that adds no facts, and a sentence for every reason code that the rules give."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import duly.core
from duly.core.explain import REASONS, explain_delivery, explain_reason, explain_reminder, next_action
from duly.core.model import FailureClass, Outcome
from duly.core.postponed import ANOTHER_TRY, PAUSES, WAITED
from duly.core.states import OPEN, State
from duly.core.tried import BLOCKED_HERE
from duly.ports import Answer, Sent
from duly.providers.standard_webhooks import parse_secret
from duly.providers.webhook import WebhookProvider

FORGOTTEN = (
    "No attempt is on record; the ledger was restored from a backup, and an attempt that it does not remember may"
    " have been made."
)


def attempt(
    outcome: str | None, failure: str | None = None, http_status: int | None = None, detail: str | None = None
) -> dict[str, Any]:
    return {"outcome": outcome, "class": failure, "http_status": http_status, "detail": detail, "covered": False}


def delivery(**changes: Any) -> dict[str, Any]:
    """A delivery as `show` shows it."""
    shown = {
        "id": "d1",
        "reminder": "inspection-1",
        "channel": "webhook",
        "due_at": "2026-12-01T09:00:00Z",
        "deadline_at": "2026-12-01T17:00:00Z",
        "status": "sent",
        "reason": "accepted",
        "next_action": "nothing",
        "next_at": None,
        "restored": None,
        "attempts": [attempt("accepted", None, 200)],
        "events": [],
    }
    return {**shown, **changes}


def test_a_sent_delivery() -> None:
    """Sent, why, by how many requests, and that it is over."""
    assert explain_delivery(delivery()) == (
        "Delivery d1 of reminder inspection-1 (webhook) was due at 2026-12-01T09:00:00Z. "
        "It is sent, because the provider accepted it. One attempt was made: accepted. "
        "It is final: nothing more will happen."
    )


def test_a_delivery_whose_doubt_was_settled() -> None:
    """An unknown attempt before the accepted one is told."""
    text = explain_delivery(delivery(attempts=[attempt("unknown", "timeout"), attempt("accepted")]))
    assert "2 attempts were made: unknown (timeout), then accepted." in text
    assert "The doubt about the earlier attempt was settled" in text


def test_a_waiting_delivery_says_when_and_what_next() -> None:
    """The next moment and the deadline stand in the last sentence."""
    text = explain_delivery(
        delivery(
            status="waiting",
            reason="refused_rate_limited",
            next_action="it will be tried again",
            next_at="2026-12-01T09:00:05Z",
            attempts=[attempt("refused", "rate_limited", 429), attempt(None)],
        )
    )
    assert "because the receiver refused it for now: too many requests were made." in text
    assert "refused (rate limited), then no answer yet." in text
    assert text.endswith(
        "Next: it will be tried again at 2026-12-01T09:00:05Z, no later than its deadline at 2026-12-01T17:00:00Z."
    )


def test_a_held_delivery_and_one_without_attempts() -> None:
    """A hold names the doubt; a delivery that was never tried says so."""
    held = explain_delivery(
        delivery(
            status="held",
            reason="no_way_to_ask",
            next_action="an operator must decide",
            attempts=[attempt("unknown", None, 500)],
        )
    )
    assert "An attempt may have been accepted" in held
    assert "unknown (500)" in held
    assert held.endswith("Next: an operator must decide; if nobody does, the hold ends as its account's policy says.")
    untried = explain_delivery(delivery(status="ready", reason=None, next_action="a worker will claim it", attempts=[]))
    assert "It is ready. No attempt was made." in untried


def test_doubt_that_is_open_says_what_may_still_leave() -> None:
    """While it is reconciled, only a repeat that the receiver drops may go out."""
    text = explain_delivery(
        delivery(status="uncertain", reason="unknown_timeout", attempts=[attempt("unknown", "timeout")])
    )
    assert "until that is known, only the same bytes may leave, under the same key" in text


def test_a_hold_tells_its_alarm() -> None:
    """The alarm that was raised is told as long as the hold lasts, and no longer."""
    events = [{"at": "2026-12-01T13:00:00Z", "kind": "hold_alarm"}]
    raised = "The alarm of its hold was raised at 2026-12-01T13:00:00Z."
    held = delivery(status="held", reason="no_way_to_ask", next_action="an operator must decide", events=events)
    assert raised in explain_delivery(held)
    assert raised not in explain_delivery(delivery(reason="decided_sent", events=events))
    assert "raised" not in explain_delivery({**held, "events": []})


def test_doubt_that_look_ups_covered_is_over() -> None:
    """An unknown attempt that was looked up in vain often enough is no reason any more not to send."""
    unknown = attempt("unknown", "timeout")
    waiting = delivery(status="waiting", reason="looked_up_in_vain", attempts=[{**unknown, "covered": True}])
    assert "may have been accepted" not in explain_delivery(waiting)
    assert "may have been accepted" in explain_delivery({**waiting, "attempts": [unknown]})


def test_a_restored_delivery_is_in_doubt_without_an_attempt() -> None:
    """After a restore the doubt is about an attempt that no row tells of, whatever the reason is by now."""
    text = explain_delivery(delivery(status="uncertain", reason="restored", attempts=[], restored=True))
    assert "because the ledger was restored from a backup" in text
    assert FORGOTTEN in text
    assert "only what is rendered anew from the same data may leave, under the same key" in text
    held = explain_delivery(delivery(status="held", reason="no_way_to_ask", attempts=[], restored=True))
    assert FORGOTTEN in held
    assert "An attempt may have been accepted, so it was not sent again." in held


@pytest.mark.parametrize("status", ["sent", "unconfirmed"])
def test_a_restored_delivery_that_is_final_says_so(status: str) -> None:
    """Of a final one the events tell that its ledger was restored: what is on record may not be all there was."""
    events = [{"at": "2026-12-01T13:00:00Z", "kind": "restored"}]
    assert FORGOTTEN in explain_delivery(delivery(status=status, attempts=[], events=events))
    assert "One attempt is on record: accepted." in explain_delivery(delivery(status=status, events=events))
    two = delivery(status=status, events=events, attempts=[attempt("refused"), attempt("accepted")])
    assert "2 attempts are on record: refused, then accepted." in explain_delivery(two)
    assert "No attempt was made." in explain_delivery(delivery(status=status, attempts=[]))


@pytest.mark.parametrize(
    ("suffix", "words"), [("", "machine."), ("_in_doubt", "machine, while an earlier attempt may have been accepted.")]
)
def test_what_our_own_guard_blocked_is_not_the_receivers_doing(suffix: str, words: str) -> None:
    """An address inside a private network is refused here: the receiver was never asked."""
    provider = WebhookProvider("hooks", [parse_secret("whsec_" + "QUJD" * 11, "secret")])
    result = provider.classify(Answer(error="refused_address", sent=Sent.NOTHING), datetime(2026, 12, 1, tzinfo=UTC))
    blocked = attempt(str(result.outcome), result.failure, result.http_status, result.detail)
    shown = delivery(status="rejected", reason=f"rejected_invalid_destination{suffix}", attempts=[blocked])
    text = explain_delivery(shown)
    assert f"because {BLOCKED_HERE}".removesuffix("machine") + words in text
    assert "One attempt was made: blocked here (private network)." in text
    assert "receiver" not in text
    gone = {**shown, "attempts": [attempt("rejected", "invalid_destination", 410)]}
    assert "because the receiver refused it for good: the address does not take messages" in explain_delivery(gone)


def test_a_reminder() -> None:
    """Its state, each delivery, and what comes next."""
    cancelled = {"at": "2026-12-01T08:00:00Z", "kind": "cancelled", "from": "active", "to": "cancelled"}
    cancelled |= {"actor": "ana@office", "reason": "moved"}
    shown = {"idempotency_key": "k", "account": "a", "status": "cancelled", "next_due_at": None, "events": [cancelled]}
    first, *others = explain_reminder(shown, [delivery(), delivery(id="d2")]).splitlines()
    assert first == (
        "Reminder k of account a is cancelled. At 2026-12-01T08:00:00Z ana@office cancelled it: moved."
        " No further occurrence is planned."
    )
    assert others == [explain_delivery(delivery()), explain_delivery(delivery(id="d2"))]
    active = {**shown, "status": "active", "next_due_at": "2026-12-02T09:00:00Z", "events": []}
    assert explain_reminder(active, []).endswith("is active. It is next due at 2026-12-02T09:00:00Z.")


def zone(name: str) -> ZoneInfo | None:
    """The only zone that is known here."""
    return ZoneInfo(name) if name == "America/New_York" else None


def test_moments_are_told_where_the_recipient_lives() -> None:
    """In his local time and in UTC; in a zone that nobody knows here, in UTC alone."""
    quiet = delivery(
        status="waiting", reason="quiet_hours", next_action="it will be tried again", attempts=[],
        next_at="2026-12-01T13:00:00Z", zone="America/New_York", occurrence="2026-12-01T04:00",
    )  # fmt: skip
    text = explain_delivery(quiet, zone)
    assert text.startswith(
        "Delivery d1 of reminder inspection-1 (webhook, occurrence 2026-12-01T04:00) was due on Tue 1 Dec 2026 04:00"
        " in America/New_York (09:00 UTC). It is waiting, because the recipient keeps quiet hours now, until Tue 1 Dec"
        " 2026 08:00 in America/New_York (13:00 UTC). No attempt was made."
    )
    assert text.endswith("its deadline on Tue 1 Dec 2026 12:00 in America/New_York (17:00 UTC).")
    assert "was due at 2026-12-01T09:00:00Z." in explain_delivery({**quiet, "zone": "Mars/Olympus"}, zone)


def test_what_put_it_off_before_is_told() -> None:
    """Each deferral that is over, but not the one that it waits for now, nor another decision."""

    def decided(at: str, to: str, reason: str) -> dict[str, Any]:
        return {"at": f"2026-12-01T{at}:00Z", "kind": "decided", "to": to, "reason": reason}

    events = [decided("09:00", "waiting", "quiet_hours"), decided("10:00", "waiting", "account_paused")]
    sent = explain_delivery(delivery(events=[*events, decided("11:00", "ready", "operator")]))
    assert (
        "At 2026-12-01T09:00:00Z it was put off: quiet hours. At 2026-12-01T10:00:00Z it was put off: account" in sent
    )
    assert "11:00" not in sent
    waiting = explain_delivery(delivery(status="waiting", reason="account_paused", events=events))
    assert "put off: quiet hours." in waiting
    assert "put off: account" not in waiting


DEADLINE = "on Tue 1 Dec 2026 12:00 in America/New_York (17:00 UTC)"


def postponed(**changes: Any) -> dict[str, Any]:
    """One that waits for something that ends behind its deadline."""
    return delivery(
        status="waiting", reason="quiet_hours", next_action="it will be tried again", attempts=[],
        next_at="2026-12-01T18:00:00Z", zone="America/New_York", **changes,
    )  # fmt: skip


def put_off(reason: str, evidence: Any = None, at: str = "2026-12-01T09:00:00Z") -> dict[str, Any]:
    states = {"from": "leased", "to": "waiting"}
    return {"at": at, "kind": "decided", "actor": "w", "reason": reason, "evidence": evidence, **states}


CAPPED = put_off("frequency_cap", {"cap": "3/P1D", "until": "2026-12-01T18:00:00Z"})


def test_one_whose_deadline_comes_first_will_not_be_tried() -> None:
    """A moment at or behind the deadline is no try: it expires, and is told when."""
    text = explain_delivery(postponed(), zone)
    assert text.endswith(f"Next: its deadline comes first, {DEADLINE}: it expires then, and it is not tried again.")
    at_once = explain_delivery({**postponed(), "next_at": "2026-12-01T17:00:00Z"})
    assert "Next: its deadline comes first, at 2026-12-01T17:00:00Z: it expires then" in at_once
    doubted = {**postponed(), "reason": "late_answer", "attempts": [attempt("unknown", "timeout")]}
    assert "what became of it is found out then, and it is not tried again." in explain_delivery(doubted)
    assert next_action("waiting", "2026-12-01T18:00:00Z", "2026-12-01T17:00:00Z") == "its deadline comes first"
    assert next_action("waiting", "2026-12-01T16:59:59Z", "2026-12-01T17:00:00Z") == "it will be tried again"


def test_one_in_doubt_is_looked_at_behind_its_deadline_too() -> None:
    """Its deadline ends what may be sent, and not what is asked."""
    doubted = delivery(status="uncertain", reason="unknown_timeout", next_action="it will be reconciled", attempts=[])
    later = explain_delivery({**doubted, "next_at": "2026-12-01T18:00:00Z"})
    assert later.endswith(
        "Next: it will be reconciled at 2026-12-01T18:00:00Z. Its deadline has passed by then, so no request leaves any"
        " more."
    )
    sooner = explain_delivery({**doubted, "next_at": "2026-12-01T16:00:00Z"})
    assert sooner.endswith("reconciled at 2026-12-01T16:00:00Z, no later than its deadline at 2026-12-01T17:00:00Z.")


def test_a_cap_is_told_with_its_number_and_window() -> None:
    """As it was when it put the delivery off, and from when on there is room."""
    waiting = {**postponed(events=[CAPPED]), "reason": "frequency_cap", "next_at": "2026-12-01T16:00:00Z"}
    text = explain_delivery(waiting, zone)
    assert (
        "because its recipient has had as many of this purpose as the account allows for now (3 within 24 h); there is"
        " room for it from Tue 1 Dec 2026 11:00 in America/New_York (16:00 UTC) on."
    ) in text
    sent = explain_delivery(delivery(events=[CAPPED]))
    assert "At 2026-12-01T09:00:00Z it was put off: frequency cap (3 within 24 h)." in sent
    unknown = {**postponed(), "reason": "frequency_cap", "next_at": "2026-12-01T16:00:00Z"}
    assert "allows for now; there is room for it from 2026-12-01T16:00:00Z on." in explain_delivery(unknown)


def expired(events: list[dict[str, Any]], origin: str = "waiting", **evidence: str) -> str:
    end = {"at": "2026-12-01T17:00:00Z", "kind": "deadline_passed", "actor": "upkeep", "reason": "deadline_passed"}
    end |= {"from": origin, "to": "expired", "evidence": evidence or None}
    gone = {"status": "expired", "reason": "deadline_passed", "next_action": "nothing", "next_at": None}
    return explain_delivery({**postponed(events=[*events, end]), **gone}, zone)


ROOM = "Tue 1 Dec 2026 13:00 in America/New_York (18:00 UTC)"


@pytest.mark.parametrize("code", sorted(WAITED))
def test_what_an_expired_one_waited_for_is_told(code: str) -> None:
    """Whatever put it off past its deadline is named: quiet hours and caps with their moment, a cap with its window."""
    text = expired([CAPPED], waited_for=code, until="2026-12-01T18:00:00Z")
    assert f"It is expired, because its deadline had passed while {WAITED[code]}" in text
    if code == "quiet_hours":
        assert f"while the recipient kept quiet hours, until {ROOM}." in text
    elif code == "frequency_cap":
        assert f"as the account allows (3 within 24 h); there would have been room from {ROOM} on." in text
    else:
        assert ROOM not in text.split("No attempt")[0]


def test_one_that_expired_while_nothing_put_it_off() -> None:
    """It waited for another try, or for a worker; without a record of it nothing is added."""
    assert f"had passed while {ANOTHER_TRY}." in expired(
        [], waited_for="refused_temporary", until="2026-12-01T18:00:00Z"
    )
    assert "had passed before a worker took it." in expired([], "ready")
    assert "because its deadline had passed. On" in expired([CAPPED], "leased")
    assert "because its deadline had passed. No attempt" in expired([], "leased")


@pytest.mark.parametrize("code", sorted(PAUSES))
def test_a_pause_may_last_past_the_deadline(code: str) -> None:
    """It is said while it waits; afterwards the pause is named, even if it was just being looked at."""
    waiting = {**postponed(events=[put_off(code)]), "reason": code, "next_at": "2026-12-01T16:00:00Z"}
    text = explain_delivery(waiting, zone)
    assert text.endswith(
        "Next: it will be looked at again on Tue 1 Dec 2026 11:00 in America/New_York (16:00 UTC); if the pause lasts"
        f" until its deadline {DEADLINE}, it expires then."
    )
    assert f"had passed while {WAITED[code]}." in expired([put_off(code)], "leased")
    assert f"had passed while {WAITED[code]}." in expired([CAPPED, put_off(code)], "ready")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"told_at": "2026-12-01T09:59:59Z"}, "From 2026-12-01T10:00:00Z on it is late, and says so when it is sent."),
        ({}, "From 2026-12-01T10:00:00Z on it is late, and says so when it is sent."),
        ({"told_at": "2026-12-01T10:00:00Z"}, "It is late since 2026-12-01T10:00:00Z, and says so when it is sent."),
        ({"begun": "2026-12-01T10:00:00Z"}, "It is late since 2026-12-01T10:00:00Z, and says so."),
        (
            {"begun": "2026-12-01T10:00:00Z", "next_action": "nothing"},
            "It was late since 2026-12-01T10:00:00Z, and said so.",
        ),
        ({"begun": "2026-12-01T09:59:59.5Z"}, None),
        ({"next_action": "nothing"}, None),
        ({"summary": "abc"}, None),
    ],
)
def test_lateness_is_told(fields: dict[str, str], words: str | None) -> None:
    """In the tense that fits; nothing of what began in time, was never sent, or comes in a summary."""
    begun = fields.pop("begun", None)
    attempts = [{**attempt("refused"), "started_at": begun}] if begun else []
    open_ = {"status": "ready", "reason": None, "next_action": "a worker will claim it", "attempts": attempts}
    text = explain_delivery(delivery(late_from="2026-12-01T10:00:00Z", **{**open_, **fields}))
    assert words in text if words else " late" not in text.replace("no later", "")


def test_what_may_be_late_ends_at_its_last_moment() -> None:
    """`late_until` is not its deadline, in no sentence."""
    late = {"late_from": "2026-12-01T10:00:00Z", "finished_at": None}
    waiting = explain_delivery({**postponed(), **late}, zone)
    assert "Next: its last moment comes first, on Tue" in waiting
    expired_ = {"status": "expired", "reason": "deadline_passed", "next_action": "nothing", "next_at": None}
    ended = explain_delivery({**postponed(), **late, **expired_, "finished_at": "2026-12-01T17:00:01Z"})
    assert "because its last moment had passed" in ended
    assert "Its last moment was 2026-12-01T17:00:00Z, and it expired at 2026-12-01T17:00:01Z." in ended
    assert "eadline" not in waiting + ended
    assert next_action("waiting", "2026-12-01T18:00:00Z", "2026-12-01T17:00:00Z", late=True) == (
        "its last moment comes first"
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"attempts": [{**attempt("accepted"), "finished_at": "2026-12-01T09:00:01Z"}]},
            "It was accepted at 2026-12-01T09:00:01Z.",
        ),
        ({"attempts": []}, "That was recorded at 2026-12-01T10:00:00Z."),
        ({"status": "cancelled"}, "It ended at 2026-12-01T10:00:00Z."),
        (
            {"status": "expired", "reason": "deadline_passed"},
            "Its deadline was 2026-12-01T17:00:00Z, and it expired at 2026-12-01T10:00:00Z.",
        ),
    ],
)
def test_when_it_ended_is_told(fields: dict[str, Any], words: str) -> None:
    """When it was accepted; when it expired, and its deadline; or when it ended."""
    shown = delivery(attempts=[attempt("rejected")], finished_at="2026-12-01T10:00:00Z")
    assert words in explain_delivery({**shown, **fields})


UNTIMELY = {"status": "expired", "reason": "deadline_passed_before_tick", "attempts": [], "finished_at": None}


@pytest.mark.parametrize(
    ("fields", "came", "why"),
    [
        (
            {"submitted_at": "2026-12-01T18:00:00Z"},
            "submitted at 2026-12-01T18",
            "its deadline had passed before its reminder",
        ),
        (
            {"submitted_at": "2026-12-01T16:00:00Z"},
            "submitted at 2026-12-01T16",
            "its deadline had passed before the tick",
        ),
        (
            {"submitted_at": "2026-12-01T08:00:00Z", "revised_at": "2026-12-01T17:00:00Z"},
            "changed at 2026-12-01T17",
            "its deadline had passed before its reminder",
        ),
        ({"submitted_at": "2026-12-01T08:00:00Z", "revised_at": None}, None, "its deadline had passed before the tick"),
        (
            {"submitted_at": "2026-12-01T18:00:00Z", "reminder": "duly/summary/x/1"},
            None,
            "its deadline had passed before the tick",
        ),
    ],
)
def test_no_tick_is_to_blame_for_what_came_too_late(fields: dict[str, Any], came: str | None, why: str) -> None:
    """An occurrence that was past when its reminder was submitted or changed is told as such; a summary is none."""
    text = explain_delivery(delivery(**{**UNTIMELY, **fields}))
    assert why in text
    assert ("when that was past." in text) is (came is not None)
    assert (came or "") in text


def resent(*attempts: dict[str, Any], policy: bool = False, **fields: Any) -> str:
    """A delivery whose resend was decided at 10:00, as it is explained."""
    decision = {"at": "2026-12-01T10:00:00Z", "kind": "decided", "from": "held", "to": "ready", "actor": "ana@office"}
    own = {"reason": "resend_by_policy"} if policy else {"reason": "he asked", "evidence": {"verdict": "resend"}}
    return explain_delivery(delivery(attempts=list(attempts), events=[{**decision, **own}], **fields))


def tried(outcome: str | None, hour: int) -> dict[str, Any]:
    moment = f"2026-12-01T{hour:02}:30:00Z"
    return {**attempt(outcome), "started_at": moment, "finished_at": moment}


BY_ANA = (
    "An attempt may have been accepted; at 2026-12-01T10:00:00Z ana@office decided that it is sent again all the same:"
    " he asked."
)
BY_POLICY = (
    "at 2026-12-01T10:00:00Z the account's policy, which accepts the risk, decided that it is sent again all the same."
)
TWICE = "The receiver may have it twice."
THEN_TWICE = "The receiver may then have it twice."
NOT_AGAIN = "It has not left again since."
UNSETTLED = {"status": "uncertain", "reason": "unknown_timeout", "next_action": "it will be reconciled"}


@pytest.mark.parametrize(
    ("attempts", "fields", "words"),
    [
        ([tried("unknown", 9), tried("accepted", 10)], {}, (BY_ANA, TWICE)),
        ([tried("unknown", 9), tried("accepted", 10)], {"policy": True}, (BY_POLICY, TWICE)),
        ([tried("accepted", 9), tried("accepted", 10)], {}, (BY_ANA, TWICE)),
        ([tried("accepted", 9)], {}, (BY_ANA, NOT_AGAIN)),
        ([tried("unknown", 9)], {"status": "unconfirmed", "reason": "deadline_passed_in_doubt"}, (BY_ANA, NOT_AGAIN)),
        ([tried("unknown", 9)], {"status": "ready", "reason": None}, (BY_ANA, THEN_TWICE)),
        ([tried("unknown", 9), tried("refused", 10)], {"status": "waiting", "reason": "refused"}, (BY_ANA, THEN_TWICE)),
        ([tried("unknown", 9), tried("unknown", 10)], UNSETTLED, (BY_ANA, TWICE)),
        ([tried("unknown", 9), tried(None, 10)], {"status": "sending", "reason": None}, (BY_ANA, TWICE)),
    ],
)
def test_a_resend_that_was_decided_may_come_twice(
    attempts: list[dict[str, Any]], fields: dict[str, Any], words: tuple[str, str]
) -> None:
    """Who decided it, and why; an acceptance behind it settles nothing about the attempt before it."""
    text = resent(*attempts, **fields)
    assert " ".join(words) in text
    assert "settled" not in text
    assert "so it was not sent again" not in text
    assert "drops repeats" not in text


def test_other_decisions_are_no_resend() -> None:
    """A repeat that a keyed receiver drops settles its doubt; a resend whose doubt look-ups ended is over."""
    keyed = {
        "at": "2026-12-01T10:00:00Z",
        "kind": "decided",
        "to": "ready",
        "reason": "resend_same_key",
        "evidence": None,
    }
    both = [tried("unknown", 9), tried("accepted", 10)]
    assert "was settled by the acceptance on record." in explain_delivery(delivery(attempts=both, events=[keyed]))
    covered = {**tried("unknown", 9), "covered": True}
    assert "twice" not in resent(covered, tried("accepted", 10))


SAID = {"kind": "opt_out", "purpose": "marketing", "at": "2026-12-01T08:00:00Z", "recorded_at": "2026-12-01T08:30:00Z",
        "source": "import list.csv"}  # fmt: skip
WAITS = {"status": "waiting", "reason": "quiet_hours", "next_action": "it will be tried again", "attempts": [],
         "next_at": "2026-12-01T13:00:00Z"}  # fmt: skip
OPTED_OUT = (
    "It will not be sent, because the recipient opted out of marketing (for the purpose marketing, at"
    " 2026-12-01T08:00:00Z, source: import list.csv)."
)
BY_NUMBER = "; his zone is not known, so it must be free in every zone in which his number may ring (A and B)."
LOOKED_AT = "Next: its turn comes at 2026-12-01T13:00:00Z, and it ends unsent."


@pytest.mark.parametrize(
    ("fields", "words", "outlook"),
    [
        ({"obstacle": "opted_out_of_marketing", "consent": [SAID]},
         OPTED_OUT, LOOKED_AT),
        ({"obstacle": "opted_out", "consent": [{**SAID, "purpose": "all", "at": None}]},
         "(for every purpose but security, at a time that nobody knows, recorded at 2026-12-01T08:30:00Z, source:",
         LOOKED_AT),
        ({"obstacle": "recipient_deleted"}, "It will not be sent, because its recipient was deleted.", LOOKED_AT),
        ({"obstacle": "channel_disabled"}, "because this channel of its recipient was disabled.", LOOKED_AT),
        ({"obstacle": "reminder_cancelled"}, "because the reminder was cancelled.", LOOKED_AT),
        ({"obstacle": "called_off", "status": "ready", "next_at": None}, "because this delivery was cancelled.",
         "Next: its turn comes, and it ends unsent."),
        ({"obstacle": "account_paused"}, "Nothing is sent as long as the account is paused.",
         "it will be looked at again at 2026-12-01T13:00:00Z; if the pause lasts until its deadline"),
        ({"obstacle": "template_paused", "status": "ready", "next_at": None, "next_action": "claim"},
         "Nothing is sent as long as its template is paused.", "Next: claim, no later than"),
        ({"obstacle": "opted_out", "status": "held", "reason": "no_way_to_ask", "next_action": "decide"},
         "No request leaves for it any more, because the recipient opted out.", "Next: decide; if nobody does,"),
        ({"obstacle": "opted_out", "attempts": [tried("unknown", 9)]}, "It will not be sent", "it will be tried again"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_told(fields: dict[str, Any], words: str, outlook: str) -> None:
    """Before its turn comes, with the statement behind it, and with what becomes of it."""
    text = explain_delivery(delivery(**{**WAITS, **fields}))
    assert words in text
    assert outlook in text


@pytest.mark.parametrize("status", ["sending", "folded"])
def test_what_cannot_be_stopped_is_not_told_to_be(status: str) -> None:
    """A request is under way, or it goes with its summary; nor is told again what its own reason says."""
    shown = delivery(status=status, reason=None, next_action="x", obstacle="opted_out")
    assert "opted out" not in explain_delivery(shown)
    waits = explain_delivery(delivery(**{**WAITS, "reason": "account_paused", "obstacle": "account_paused"}))
    assert "as long as" not in waits


def test_a_silence_is_told_with_its_statement() -> None:
    """When it was said, by what source, and of which purpose."""
    gone = {"status": "suppressed", "reason": "complained", "consent": [{**SAID, "purpose": "all+security"}]}
    assert (
        "It is suppressed, because the recipient complained about a message, and nothing is sent to him any more (for"
        " every purpose, at 2026-12-01T08:00:00Z, source: import list.csv)."
    ) in explain_delivery(delivery(**gone))


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (None, "until 2026-12-01T13:00:00Z."),
        ({"of": "account", "zones": ("UTC",)}, "; his zone is not known, so the account's clock decides (UTC)."),
        ({"of": "number", "zones": ("A", "B")}, BY_NUMBER),
        ({"of": "number", "zones": ("A", "B", "C", "D")}, "may ring (4 zones)."),
    ],
)  # fmt: skip
def test_whose_clock_decides_is_told(clock: dict[str, Any] | None, words: str) -> None:
    """Where the recipient's own is not known."""
    assert words in explain_delivery(delivery(**WAITS, quiet_clock=clock))


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("close", "the hold ends at 2026-12-08T09:00:00Z: it is closed, unconfirmed, and not sent again."),
        ("resend", "the hold ends at 2026-12-08T09:00:00Z: it is sent again, if that may be, and closed otherwise."),
    ],
)
def test_until_when_a_hold_lasts_is_told(then: str, words: str) -> None:
    """With what follows by the account's policy."""
    held = {"status": "held", "reason": "no_way_to_ask", "next_action": "an operator must decide"}
    ends = {"ends_at": "2026-12-08T09:00:00Z", "then": then}
    assert explain_delivery(delivery(**held, hold_ends=ends)).endswith(words)


def event(kind: str, reason: str, evidence: Any = None, to: str = "active") -> dict[str, Any]:
    return {
        "at": "2026-12-01T08:00:00Z", "kind": kind, "actor": "ana", "to": to, "reason": reason, "evidence": evidence
    }  # fmt: skip


MOVED = {"from": "2026-12-01T14:00:00Z", "to": "2026-12-01T08:00:00Z", "zone": "Europe/Berlin", "zone_data": "2026b"}


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (
            event("missed", "occurrences_missed", {"skipped": 3, "first": "a", "last": "c"}),
            "3 occurrences were missed and left out, from a to c, because nobody looked in time.",
        ),
        (
            event("missed", "occurrences_missed", {"skipped": 1, "first": "a", "last": "a"}),
            "one occurrence was missed and left out, a, because nobody looked in time.",
        ),
        (
            event("retimed", "recipient_moved", MOVED),
            "ana moved its next occurrence from Tue 1 Dec 2026 09:00 in America/New_York (14:00 UTC) to Tue 1 Dec 2026",
        ),
        (
            event("retimed", "recipient_moved", MOVED | {"from": MOVED["to"], "to": "2026-12-01T14:00:00Z"}),
            "ana moved its next occurrence from Tue 1 Dec 2026 03:00 in America/New_York (08:00 UTC) to Tue 1 Dec 2026",
        ),
        (event("paused", "zone_unknown"), "ana paused it, because this machine does not know its zone;"),
        (event("paused", "schedule_cannot_be_read"), "ana paused it, because this version cannot read its schedule."),
        (event("resumed", "it is settled"), "ana resumed it: it is settled."),
        (event("revised", "newer_version"), "ana changed it, because a newer version of it was submitted."),
        (
            event("revised", "moved", {"from": None, "to": MOVED["from"]}),
            "ana changed it, so that its next occurrence was due on Tue",
        ),
        (event("revised", "moved", {"from": MOVED["to"], "to": MOVED["to"]}), "ana changed it: moved."),
        (
            event("revised", "moved", {"from": MOVED["to"], "to": MOVED["from"]}),
            "ana changed it, moving its next occurrence from Tue 1 Dec 2026 03:00 in America/New_York (08:00 UTC) to",
        ),
        (event("cancelled", "sold"), "ana cancelled it: sold."),
        ({**event("cancelled", "sold"), "from": "cancelled"}, "ana cancelled it once more: sold."),
        (event("template_upgraded", "x", to="active"), "ana made it active: x."),
    ],
)
def test_what_happened_to_a_reminder_is_told(happened: dict[str, Any], words: str) -> None:
    """Each kind of event has its sentence, with its moment where the recipient lives."""
    shown = {
        "idempotency_key": "k", "account": "a", "status": "active", "next_due_at": "2026-12-02T14:00:00Z",
        "next_label": "2026-12-02T09:00", "zone": "Europe/Berlin", "recipient_zone": "America/New_York",
        "events": [happened],
    }  # fmt: skip
    text = explain_reminder(shown, [], zone)
    assert ("another zone now." in text) == (happened["reason"] == "recipient_moved")
    assert f"On Tue 1 Dec 2026 03:00 in America/New_York (08:00 UTC) {words}" in text
    due = "Wed 2 Dec 2026 09:00 in America/New_York (14:00 UTC)"
    assert text.endswith(f"It is next due on {due} (occurrence 2026-12-02T09:00).")


def test_a_paused_reminder_says_that_it_stands_still() -> None:
    """What would come next does not come before it is resumed; of many events the latest are told."""
    shown = {"idempotency_key": "k", "account": "a", "status": "paused", "next_due_at": "2026-12-02T14:00:00Z"}
    events = [event("resumed", f"reason {number}") for number in range(12)]
    text = explain_reminder({**shown, "events": events}, [])
    assert text.endswith("It stands still until it is resumed: what was to come next does not come before.")
    assert "is paused. ... At" in text
    assert "reason 1." not in text
    assert "reason 2." in text


def test_of_many_attempts_the_latest_are_told() -> None:
    """A paragraph stays one; `show` has them all."""
    turns = [attempt("not_sent", "connection"), attempt("refused", "temporary")]
    text = explain_delivery(delivery(attempts=turns * 4 + [attempt("accepted")]))
    assert "9 attempts were made: ..., then refused (temporary), then" in text
    assert text.count("not sent") == 2


def test_attempts_that_went_alike_are_told_once() -> None:
    """With their number, and with what went wrong where nothing of a receiver's answer can be in it."""
    off = attempt("not_sent", "connection", detail="at connect: connection\nrefused")
    text = explain_delivery(delivery(attempts=[off] * 6 + [attempt("refused", "temporary", detail="theirs")]))
    assert (
        "7 attempts were made: 6 times not sent (connection: at connect: connection refused), then refused (temp"
        in text
    )
    assert "theirs" not in text


def test_a_reminder_to_come_tells_what_stands_in_its_way() -> None:
    """Each of it by its channel; what it pauses; what was left out; and its purpose. One that is done is told so."""
    shown = {
        "idempotency_key": "k", "account": "a", "status": "active", "next_due_at": "2026-12-02T14:00:00Z",
        "events": [], "purpose": "marketing", "left_out": ["-PT24H"],
        "obstacles": [{"channel": "email", "reason": "opted_out"}, {"channel": None, "reason": "account_paused"}],
    }  # fmt: skip
    assert explain_reminder(shown, []) == (
        "Reminder k of account a (purpose marketing) is active. It is next due at 2026-12-02T14:00:00Z. As things are,"
        " nothing of it will be sent by email, because the recipient opted out. Nothing of it is sent as long as the"
        " account is paused. -PT24H was sent before, or may have been, and does not come again; `duly reschedule` with"
        " --again asks for it."
    )
    gone = {**shown, "obstacles": [{"channel": None, "reason": "recipient_deleted"}], "left_out": ["-PT24H", "-PT2H"]}
    text = explain_reminder(gone, [])
    assert "nothing of it will be sent, because its recipient was deleted." in text
    assert "-PT24H and -PT2H were sent before, or may have been, and do not come again" in text
    done = {"idempotency_key": "k", "account": "a", "status": "done", "next_due_at": None, "events": []}
    assert explain_reminder(done, []) == "Reminder k of account a: no further occurrence comes."


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "no reason is on record"),
        ("opted_out", "opted out"),
        ("opted_out_in_doubt", "opted out, while an earlier attempt may have been accepted"),
        ("account_paused_in_doubt", "the account is paused, while an earlier attempt may have been accepted"),
        (
            "rejected_content_rejected_in_doubt",
            "refused it for good: the content was not taken, while an earlier attempt",
        ),
        ("not_sent_connection", "nothing left this machine: the connection failed"),
        ("cannot_be_rendered: 'day' is undefined", "cannot be rendered: 'day' is undefined"),
    ],
)
def test_a_reason_becomes_words(reason: str | None, words: str) -> None:
    """Codes of the rules are looked up or composed; others' words are shown as they are."""
    assert words in explain_reason(reason)


ROOT = Path(duly.core.__file__).parents[1]

#: Where reasons are made: words of these modules that look like a code and are none. Whatever else looks like one
#: needs a sentence.
WORDS: dict[str, set[str]] = {
    "core/admit": {"cancelled", "paused"},
    "core/budget": set(),
    "core/caps": {"cap", "count", "per", "until"},
    "core/consent": {"all", "marketing", "security", "service"},
    "core/firing": {"first", "last", "latest", "missed", "paused", "skipped"},
    "core/ladder": set(),
    "core/revising": {"cancelled", "from", "left_out", "to"},
    "core/rezoning": {"from", "to", "zone", "zone_data"},
    "core/settle": {"answered"},
    "flows/deliver": {"claimed", "duplicates_suppressed", "folded", "retried"},
    "flows/reconcile": {"sent"},
    "flows/rezone": set(),
    "flows/upkeep": {"ready", "sent", "unconfirmed"},
}


def words_of(module: str) -> set[str]:
    """The string literals of a module that look like a code, without exported names and the values of enums."""
    tree = ast.parse((ROOT / f"{module}.py").read_text())
    enums = {node for each in ast.walk(tree) if isinstance(each, ast.ClassDef) for node in ast.walk(each)}
    exported = {
        node
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id == "__all__"
        for node in ast.walk(each)
    }
    literals = {node for node in ast.walk(tree) if isinstance(node, ast.Constant)} - enums - exported
    return {
        node.value for node in literals if isinstance(node.value, str) and re.fullmatch("[a-z]+(_[a-z]+)*", node.value)
    }


@pytest.mark.parametrize("module", sorted(WORDS))
def test_every_reason_code_in_the_rules_has_its_sentence(module: str) -> None:
    """A code that is added without a sentence, or a word that is no code and is not named above, fails here."""
    composed = {code for code in words_of(module) if explain_reason(code) != code.replace("_", " ")}
    assert words_of(module) - set(REASONS) - composed == WORDS[module]


def test_every_module_with_a_decision_is_looked_at() -> None:
    """Whoever moves a delivery gives a reason: no module that does so is left out."""
    makes = re.compile(r"\b(Stop|Step|Next|Decision|PutOff|NewDelivery|FiredNote|Retiming)\(")
    found = {
        f"{folder}/{file.stem}"
        for folder in ("core", "flows")
        for file in (ROOT / folder).glob("*.py")
        if makes.search(re.sub(r"class \w+\(.*", "", file.read_text()))
    }
    assert found - set(WORDS) <= {"flows/holds"}  # an operator's own words


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.ACCEPTED])
def test_every_outcome_and_class_has_its_sentence(outcome: Outcome) -> None:
    """What an attempt's result makes a reason of, alone and with each class, in doubt and without."""
    for failure in (None, *FailureClass):
        code = f"{outcome}_{failure}" if failure else str(outcome)
        words = explain_reason(code)
        assert words != code.replace("_", " ")
        assert explain_reason(f"{code}_in_doubt").endswith(", while an earlier attempt may have been accepted")


def test_every_reason_code_of_the_stores_has_its_sentence() -> None:
    """What the stores move by themselves carries a code too."""
    text = "".join(file.read_text() for file in sorted((ROOT / "stores" / "sql").rglob("*.sql")))
    codes = set(re.findall(r"\breason = (?:case when [a-z.]+ then )?'([a-z_]+)'", text))
    assert {"begin_unconfirmed", "deadline_passed"} <= codes
    assert codes - set(REASONS) == set()


def test_no_sentence_is_for_a_code_that_nobody_gives() -> None:
    """A sentence whose code was renamed or dropped goes with it."""
    files = [file for kind in ("*.py", "*.sql") for file in ROOT.rglob(kind) if file.name != "explain.py"]
    text = "".join(file.read_text() for file in files)
    given = set(re.findall(r"[\"']([a-z_]+)[\"']", text))
    assert {code for code in REASONS if {code, code.removesuffix("_in_doubt")} & given == set()} == set()


def test_every_open_state_has_a_next_step() -> None:
    """Nothing is the answer for final states only."""
    moments = (None, "2026-12-01T17:00:00Z")
    assert all((next_action(state, *moments) == "nothing") == (state not in OPEN) for state in State)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"folded": [{}]}, "It is a summary of one late reminder."),
        ({"folded": [{}, {}]}, "It is a summary of 2 late reminders."),
        ({"status": "folded", "reason": "late", "summary": "abc"}, "It is folded into the summary abc."),
        ({"status": "sent", "reason": "summary_sent", "summary": "abc"}, "It was folded into the summary abc."),
    ],
)
def test_a_summary_and_what_is_in_it_name_each_other(fields: dict[str, Any], words: str) -> None:
    """Whoever asks for one of them is led to the other."""
    assert words in explain_delivery(delivery(**fields))
