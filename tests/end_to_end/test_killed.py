"""Workers are killed in the middle of their work, as a power cut would: nothing is lost, and no mail comes twice."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import (
    DIALECTS,
    Installation,
    Shown,
    attempts,
    reminder,
    settle_in,
    tell_on_both,
    wait_until,
)
from tests.end_to_end.recovering import ACCEPTED, asked

WEBHOOKS: Final = 120
MAILS: Final = 40
KILLS: Final = 3
LEASE_SECONDS: Final = "4.5"
HOOKS_AT_ONCE: Final = 6
MAILS_AT_ONCE: Final = 3


class Aftermath(NamedTuple):
    """Where everything stood after each kill, and what stands after the recovery."""

    kills: list[dict[str, Shown]]
    ledger: dict[str, Shown]
    receiver: Receiver
    sink: MailSink

    @property
    def hooks(self) -> dict[str, Shown]:
        """The webhooks of the ledger."""
        return {key: one for key, one in self.ledger.items() if one["channel"] == "webhook"}


@pytest.fixture(scope="module")
def recoveries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Aftermath]]:
    """A worker is killed several times while requests are under way, then one is left to finish."""
    return tell_on_both(_aftermath, tmp_path_factory.mktemp("aftermath"))


@pytest.fixture(params=DIALECTS)
def aftermath(request: pytest.FixtureRequest, recoveries: dict[str, Future[Aftermath]]) -> Aftermath:
    """The story on each database in turn."""
    return recoveries[request.param].result()


def _aftermath(dialect: str, folder: Path) -> Aftermath:
    with (
        beside(Receiver(slow_seconds=0.15)) as receiver,
        beside(MailSink(slow_seconds=0.15)) as sink,
        settle_in(dialect, folder, sink.url) as duly,
    ):
        duly.settings |= {
            "DULY_LEASE_SECONDS": LEASE_SECONDS,
            "DULY_PROVIDERS__HOOKS__CONCURRENCY": str(HOOKS_AT_ONCE),
            "DULY_PROVIDERS__MAIL__CONCURRENCY": str(MAILS_AT_ONCE),
        }
        duly.take(_rows(receiver))
        duly.told("tick")
        kills = [_kill_in_mid_flight(duly, receiver, sink) for _ in range(KILLS)]
        duly.run("work", "--until-idle")
        return Aftermath(kills, duly.ledger(), receiver, sink)


def _rows(receiver: Receiver) -> list[dict[str, object]]:
    hook = receiver.url("slow")
    hooks = [reminder(f"hook-{number}", webhook=hook) for number in range(WEBHOOKS)]
    return [*hooks, *(reminder(f"mail-{n}", email=f"slow-{n}@prvt.example.com") for n in range(MAILS))]


def _kill_in_mid_flight(duly: Installation, receiver: Receiver, sink: MailSink) -> dict[str, Shown]:
    requests, mails = receiver.requests, sink.accepted
    with duly.running("work") as worker:
        wait_until(lambda: receiver.requests >= requests + 12 and sink.accepted >= mails + 4, "requests under way")
        worker.kill()
    return duly.ledger()


def test_nothing_is_lost(aftermath: Aftermath) -> None:
    """Every webhook is accepted and recorded as sent in the end, whoever was killed on the way."""
    assert {key: one["status"] for key, one in aftermath.hooks.items()} == {
        f"hook-{number}": "sent" for number in range(WEBHOOKS)
    }
    assert sorted(aftermath.receiver.accepted) == sorted(one["id"] for one in aftermath.hooks.values())


def test_a_webhook_is_repeated_under_its_key_only(aftermath: Aftermath) -> None:
    """What was under way at a kill is sent again with the same id and the same bytes, and the kills met some of it."""
    bodies = defaultdict(list)
    for request in aftermath.receiver.received("slow"):
        bodies[request.headers["webhook-id"]].append(request.body)
    assert all(len(set(same)) == 1 for same in bodies.values())
    assert any(len(same) > 1 for same in bodies.values()), "no kill met a request under way"


def test_no_mail_comes_twice(aftermath: Aftermath) -> None:
    """A mail that was under way at a kill is held for an operator; no recipient gets two."""
    mails = [one for one in aftermath.ledger.values() if one["channel"] == "email"]
    assert len(mails) == MAILS
    assert {one["status"] for one in mails} == {"sent", "held"}
    assert all(len(messages) == 1 for messages in aftermath.sink.messages.values())


def test_every_request_has_its_attempt(aftermath: Aftermath) -> None:
    """No request left without an attempt on record, and an attempt that got no answer is unknown, for a lost worker."""
    outcomes = [attempts(one) for one in aftermath.hooks.values()]
    assert aftermath.receiver.requests <= sum(map(len, outcomes))
    assert {of_one[0] for of_one in outcomes if len(of_one) > 1} == {("unknown", "worker_lost")}


def test_a_crash_leaves_little_in_doubt(aftermath: Aftermath) -> None:
    """What has begun at a kill is never more than what can be sent at once."""
    sending = [[one["channel"] for one in kill.values() if one["status"] == "sending"] for kill in aftermath.kills]
    new = [len(now) - len(before) for before, now in zip([[], *sending], sending, strict=False)]
    assert max(new) <= HOOKS_AT_ONCE + MAILS_AT_ONCE
    assert any(sending)


def test_what_had_not_begun_goes_back(aftermath: Aftermath) -> None:
    """What was claimed and not begun at the last kill is sent after its lease, without doubt and as a first attempt."""
    last = aftermath.kills[-1]
    claimed = [key for key, one in last.items() if one["status"] == "leased" and not one["attempts"]]
    assert claimed
    assert {asked(aftermath.ledger[key]) for key in claimed} == {(ACCEPTED,)}
