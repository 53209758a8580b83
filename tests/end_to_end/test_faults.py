"""The receiving side misbehaves: each delivery ends as its evidence says, under one key and with the same bytes.

All faults are met in one run per database; each test looks at one of them.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import DIALECTS, Installation, Shown, attempts, reminder, settle_in, tell_on_both
from tests.end_to_end.recovering import ACCEPTED, promises_nothing, seconds_between_attempts
from tests.ports import free_port

#: mood of the receiver -> how many requests it saw, the state, and what became of each attempt.
WEBHOOKS: Final = {
    "ok": (1, "sent", [ACCEPTED]),
    "slow": (1, "sent", [ACCEPTED]),
    "busy": (2, "sent", [("refused", "rate_limited"), ACCEPTED]),
    "closed": (2, "sent", [("refused", "provider_down"), ACCEPTED]),
    "down": (2, "sent", [("unknown", "provider_down"), ACCEPTED]),
    "broken": (2, "sent", [("unknown", "provider_down"), ACCEPTED]),
    "reset": (2, "sent", [("unknown", "connection"), ACCEPTED]),
    "dropped": (2, "sent", [("unknown", "connection"), ACCEPTED]),
    "silent": (2, "sent", [("unknown", "timeout"), ACCEPTED]),
    "lost": (2, "sent", [("unknown", "timeout"), ACCEPTED]),
    "gone": (1, "rejected", [("rejected", "consent_revoked")]),
}
#: how the mail's local part begins -> how many mails were taken, the state, and what became of each attempt.
MAILS: Final = {
    "ok": (1, "sent", [ACCEPTED]),
    "slow": (1, "sent", [ACCEPTED]),
    "busy": (1, "sent", [("refused", "provider_down"), ACCEPTED]),
    "gone": (0, "rejected", [("rejected", "invalid_destination")]),
    "spam": (0, "rejected", [("rejected", "content_rejected")]),
    "dropped": (1, "held", [("unknown", "connection")]),
    "silent": (1, "held", [("unknown", "timeout")]),
}
#: Due when the program has started, also on a busy machine.
SHORT: Final[dict[str, Any]] = {"due_in": 4.0, "deadline": "PT8S"}
#: Seen when the answer came, or a moment later.
EXPIRED: Final = (("expired", "deadline_before_next_try"), ("expired", "deadline_passed"))


class Met(NamedTuple):
    """What the ledger says, and what the receiving side saw."""

    ledger: dict[str, Shown]
    receiver: Receiver
    sink: MailSink
    tally: dict[str, Any]
    explained: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Met]]:
    """One run that meets every fault."""
    return tell_on_both(_met, tmp_path_factory.mktemp("met"))


@pytest.fixture(params=DIALECTS)
def met(request: pytest.FixtureRequest, runs: dict[str, Future[Met]]) -> Met:
    """The story on each database in turn."""
    return runs[request.param].result()


def _met(dialect: str, folder: Path) -> Met:
    with (
        beside(Receiver(slow_seconds=0.3)) as receiver,
        beside(MailSink(slow_seconds=0.3)) as sink,
        settle_in(dialect, folder, sink.url) as duly,
    ):
        duly.settings |= {
            "DULY_ACCOUNTS__CLOSES__ON_DOUBT": "close",
            "DULY_ACCOUNTS__RESENDS__ON_DOUBT": "resend",
        }
        duly.take(_rows(receiver, promises_nothing(duly, receiver.url("lost", "no-promise"))))
        tally = duly.told("up", "--until-idle")
        ledger = duly.ledger()
        explained = duly.told("explain", ledger["mail-dropped"]["id"])["explanation"]
        return Met(ledger, receiver, sink, tally, explained)


def _rows(receiver: Receiver, shy: str) -> list[dict[str, Any]]:
    return [
        *(reminder(f"hook-{mood}", webhook=receiver.url(mood, "prvt-path")) for mood in WEBHOOKS),
        *(reminder(f"mail-{mood}", email=f"{mood}@prvt.example.com") for mood in MAILS),
        reminder("nobody-listens", webhook=f"http://127.0.0.1:{free_port()}/prvt", **SHORT),
        reminder("full", email="full@prvt.example.com", **SHORT),
        reminder("holds", webhook=shy),
        reminder("closes", webhook=shy) | {"account": "closes"},
        reminder("resends", webhook=shy) | {"account": "resends"},
    ]


# --- webhooks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mood", WEBHOOKS)
def test_a_webhook_ends_as_its_answers_say(met: Met, mood: str) -> None:
    """Each answer of the receiver has its outcome on record, and exactly one request left per attempt."""
    requests, state, outcomes = WEBHOOKS[mood]
    one = met.ledger[f"hook-{mood}"]
    assert (one["status"], attempts(one)) == (state, outcomes)
    assert met.receiver.count(mood, "prvt-path") == requests


@pytest.mark.parametrize("mood", [mood for mood, (requests, *_) in WEBHOOKS.items() if requests > 1])
def test_a_repeat_has_the_same_key_and_bytes(met: Met, mood: str) -> None:
    """Whatever is sent again goes out under the delivery's id, byte for byte as before, signed anew."""
    first, second = met.receiver.received(mood, "prvt-path")
    one = met.ledger[f"hook-{mood}"]
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == one["id"]
    assert first.body == second.body
    assert {attempt["payload_hash"] for attempt in one["attempts"]} == {one["payload_hash"]}


def test_retry_after_is_waited_out(met: Met) -> None:
    """A 429 with Retry-After: 1 is on record, and the next attempt starts no sooner than a second later."""
    one = met.ledger["hook-busy"]
    first = one["attempts"][0]
    assert (first["http_status"], first["retry_after"]) == (429, 1.0)
    assert seconds_between_attempts(one) >= 1.0


def test_a_lost_answer_is_not_a_second_message(met: Met) -> None:
    """What was accepted without an answer is asked for again under its key, and the receiver drops the repeat."""
    without_an_answer = [met.ledger[f"hook-{mood}"]["id"] for mood in ("lost", "broken", "dropped")]
    assert [met.receiver.accepted.count(one) for one in without_an_answer] == [1, 1, 1]
    assert met.receiver.duplicates_dropped >= len(without_an_answer)


def test_nobody_listens_is_not_doubt(met: Met) -> None:
    """A refused connection is `not_sent`: tried again without doubt, and expired when no time is left."""
    one = met.ledger["nobody-listens"]
    assert (one["status"], one["reason"]) in EXPIRED
    assert len(one["attempts"]) >= 2
    assert set(attempts(one)) == {("not_sent", "connection")}


@pytest.mark.parametrize(
    ("key", "state", "outcomes"),
    [
        ("holds", "held", [("unknown", "timeout")]),
        ("closes", "unconfirmed", [("unknown", "timeout")]),
        ("resends", "sent", [("unknown", "timeout"), ACCEPTED]),
    ],
)
def test_without_a_promise_the_account_decides(met: Met, key: str, state: str, outcomes: list[Any]) -> None:
    """In doubt at a receiver that promises nothing, the account's policy holds, closes or sends again."""
    one = met.ledger[key]
    assert (one["status"], attempts(one)) == (state, outcomes)


# --- mails ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mood", MAILS)
def test_a_mail_ends_as_its_replies_say(met: Met, mood: str) -> None:
    """Each reply has its outcome on record; a mail whose final reply is missing is held, and not sent again."""
    mails, state, outcomes = MAILS[mood]
    one = met.ledger[f"mail-{mood}"]
    assert (one["status"], attempts(one)) == (state, outcomes)
    assert len(met.sink.messages.get(f"{mood}@prvt.example.com", [])) == mails


def test_a_full_mailbox_is_tried_until_its_deadline(met: Met) -> None:
    """A mailbox that stays full is tried again, and expires before its deadline is past."""
    one = met.ledger["full"]
    assert (one["status"], one["reason"]) in EXPIRED
    assert set(attempts(one)) == {("refused", "temporary")}
    assert all(attempt["started_at"] < one["deadline_at"] for attempt in one["attempts"])


# --- the whole -----------------------------------------------------------------------------------


def test_the_tally_adds_up(met: Met) -> None:
    """What the worker counted as sent, rejected, held, unconfirmed and expired is what the ledger holds."""
    states = [one["status"] for one in met.ledger.values()]
    counted = {word: met.tally[word] for word in ("sent", "rejected", "held", "unconfirmed", "expired")}
    assert counted == {word: states.count(word) for word in counted}


def test_an_explanation_speaks_of_doubt(met: Met) -> None:
    """`explain` of a held delivery says that it may have been accepted, and that an operator decides."""
    assert "An attempt may have been accepted" in met.explained
    assert "an operator must decide" in met.explained


def test_a_reset_on_a_warm_connection_is_one_request(duly: Installation, receiver: Receiver) -> None:
    """A reset on a connection that was used before is unknown: nothing below repeats the request by itself."""
    duly.settings["DULY_PROVIDERS__HOOKS__CONCURRENCY_PER_HOST"] = "1"
    rows = [reminder("first", webhook=receiver.url("ok"), due_in=-9), reminder("then", webhook=receiver.url("reset"))]
    duly.take(rows)
    duly.run("up", "--until-idle")
    assert attempts(duly.ledger()["then"]) == [("unknown", "connection"), ACCEPTED]
    assert (receiver.count("reset"), receiver.connections) == (2, 2)
