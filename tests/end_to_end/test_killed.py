"""Workers are killed in the middle of their work, as a power cut would: nothing is lost, and no mail comes twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import DIALECTS, Installation, Shown, attempts, reminder, settle_in, wait_until

WEBHOOKS: Final = 120
MAILS: Final = 40
KILLS: Final = 3
LEASE_SECONDS: Final = "4"


class Aftermath(NamedTuple):
    """What stands after the last kill and the recovery."""

    ledger: dict[str, Shown]
    receiver: Receiver
    sink: MailSink


@pytest.fixture(scope="module", params=DIALECTS)
def aftermath(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    """A worker is killed several times while requests are under way, then one is left to finish."""
    with (
        beside(Receiver(slow_seconds=0.15)) as receiver,
        beside(MailSink(slow_seconds=0.15)) as sink,
        settle_in(request.param, tmp_path_factory.mktemp("killed"), sink.url) as duly,
    ):
        duly.settings |= {
            "DULY_LEASE_SECONDS": LEASE_SECONDS,
            "DULY_PROVIDERS__HOOKS__CONCURRENCY": "6",
            "DULY_PROVIDERS__MAIL__CONCURRENCY": "3",
        }
        duly.take(_rows(receiver))
        duly.told("tick")
        for _ in range(KILLS):
            _kill_in_mid_flight(duly, receiver, sink)
        duly.run("work", "--until-idle")
        yield Aftermath(duly.ledger(), receiver, sink)


def _rows(receiver: Receiver) -> list[dict[str, object]]:
    hook = receiver.url("slow")
    hooks = [reminder(f"hook-{number}", webhook=hook) for number in range(WEBHOOKS)]
    return [*hooks, *(reminder(f"mail-{n}", email=f"slow-{n}@prvt.example.com") for n in range(MAILS))]


def _kill_in_mid_flight(duly: Installation, receiver: Receiver, sink: MailSink) -> None:
    requests, mails = receiver.requests, sink.accepted
    with duly.running("work") as worker:
        wait_until(lambda: receiver.requests >= requests + 12 and sink.accepted >= mails + 4, "requests under way")
        worker.kill()


def test_nothing_is_lost(aftermath: Aftermath) -> None:
    """Every webhook is accepted and recorded as sent in the end, whoever was killed on the way."""
    hooks = {key: one["status"] for key, one in aftermath.ledger.items() if one["channel"] == "webhook"}
    assert hooks == {f"hook-{number}": "sent" for number in range(WEBHOOKS)}
    assert sorted(aftermath.receiver.accepted) == sorted(
        one["id"] for one in aftermath.ledger.values() if one["channel"] == "webhook"
    )


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
    assert {one["status"] for one in mails} <= {"sent", "held"}
    assert all(len(messages) == 1 for messages in aftermath.sink.messages.values())


def test_every_request_has_its_attempt(aftermath: Aftermath) -> None:
    """No request left without an attempt on record, and an attempt that got no answer is unknown, for a lost worker."""
    counted = aftermath.receiver.requests
    hooks = [attempts(one) for one in aftermath.ledger.values() if one["channel"] == "webhook"]
    assert counted <= sum(map(len, hooks))
    interrupted = [outcomes for outcomes in hooks if len(outcomes) > 1]
    assert interrupted
    assert {outcomes[0] for outcomes in interrupted} == {("unknown", "worker_lost")}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_had_not_begun_goes_back(dialect: str, tmp_path: Path) -> None:
    """What a killed worker had claimed and not begun is ready after the lease, without doubt and without an attempt."""
    with beside(Receiver(slow_seconds=9.0)) as receiver, settle_in(dialect, tmp_path) as duly:
        duly.settings |= {"DULY_LEASE_SECONDS": LEASE_SECONDS, "DULY_PROVIDERS__HOOKS__CONCURRENCY_PER_HOST": "2"}
        duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(10))
        duly.told("tick")
        with duly.running("work") as worker:
            wait_until(lambda: receiver.requests >= 2, "two requests under way")
            worker.kill()
        receiver.slow_seconds = 0.0
        before = duly.ledger().values()
        assert {one["status"] for one in before} == {"sending", "leased"}
        begun = {one["reminder"] for one in before if one["status"] == "sending"}
        duly.run("work", "--until-idle")
        after = duly.ledger()
        assert {one["status"] for one in after.values()} == {"sent"}
        assert {key for key, one in after.items() if attempts(one) != [("accepted", None)]} == begun
        assert receiver.requests == 10 + len(begun)
