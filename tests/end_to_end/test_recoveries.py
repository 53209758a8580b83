"""The six recoveries: the same work comes twice, a worker stops half-way, a receiver says later or no, time runs out.

Each is told on both databases, by the real program and a real receiver. The words it is told in stand in `recovering`.
"""

from __future__ import annotations

from duly.flows.redrive import REDRIVE_BATCH_ROWS
from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doomed import dies
from tests.end_to_end.doubles import LaterReceiver, beside
from tests.end_to_end.installation import Installation, reminder
from tests.end_to_end.recovering import (
    ACCEPTED,
    LOST,
    RATE_LIMITED,
    hand_each_claim_over_again,
    leases_end,
    messages,
    promises_nothing,
    redrive_all,
    redriven,
    seconds_between_attempts,
    story,
    work,
)


def test_a_duplicate_queue_delivery(duly: Installation, receiver: Receiver) -> None:
    """Each claim is handed to its worker twice, and to another one: fence and begin let one request leave."""
    duly.take(reminder(f"r-{number}", webhook=receiver.url("slow")) for number in range(20))
    tally = hand_each_claim_over_again(duly)
    assert receiver.requests == 20 <= tally["duplicates_suppressed"]
    assert {story(one) for one in duly.ledger().values()} == {("sent", (ACCEPTED,))}


def test_a_restart_after_acceptance(duly: Installation, receiver: Receiver) -> None:
    """A worker dies between acceptance and record: who drops repeats is asked again, who promises nothing never is."""
    shy = promises_nothing(duly, receiver.url("ok", "shy"))
    duly.take([reminder("keyed", webhook=receiver.url("ok")), reminder("shy", webhook=shy)])
    assert dies(duly, "before settle")
    leases_end(duly)
    ledger = work(duly)
    assert story(ledger["keyed"]) == ("sent", (LOST, ACCEPTED))
    assert story(ledger["shy"]) == ("held", (LOST,))
    assert messages(receiver) == {ledger["keyed"]["id"]: 1, ledger["shy"]["id"]: 1}
    assert (receiver.count("ok"), receiver.count("ok", "shy")) == (2, 1)


def test_a_429(duly: Installation, receiver: Receiver) -> None:
    """A receiver that asks for a second is given it, and accepts one message; the refusal stays on record."""
    duly.take([reminder("r", webhook=receiver.url("busy"))])
    one = work(duly)["r"]
    assert story(one) == ("sent", (RATE_LIMITED, ACCEPTED))
    assert seconds_between_attempts(one) >= 1.0
    assert messages(receiver) == {one["id"]: 1}


def test_an_invalid_destination(duly: Installation, receiver: Receiver, sink: MailSink) -> None:
    """An address that is gone is rejected at its first answer, 410 or 550, and is not tried again."""
    duly.take([reminder("hook", webhook=receiver.url("gone")), reminder("mail", email="gone@prvt.example.com")])
    assert work(duly) == (ledger := work(duly))
    assert story(ledger["hook"]) == ("rejected", (("rejected", "consent_revoked"),))
    assert story(ledger["mail"]) == ("rejected", (("rejected", "invalid_destination"),))
    assert (receiver.requests, sink.accepted) == (1, 0)


def test_an_expired_deadline(duly: Installation) -> None:
    """What is too late is never sent, a retry that would be too late is never made, and the record says which."""
    with beside(LaterReceiver()) as receiver:
        late = reminder("late", webhook=receiver.url("ok"), due_in=-20, deadline="PT10S")
        duly.take([late, reminder("later", webhook=receiver.url("busy"), deadline="PT20S")])
        ledger = work(duly)
        assert (story(ledger["late"]), story(ledger["later"])) == (("expired", ()), ("expired", (RATE_LIMITED,)))
        assert ledger["late"]["reason"] == "deadline_passed_before_tick"
        assert ledger["later"]["reason"] == "deadline_before_next_try"
        assert (receiver.requests, receiver.accepted) == (1, [])


def test_a_redrive_stopped_half_way(duly: Installation, receiver: Receiver) -> None:
    """A redrive is killed between two batches and run again: each dead letter goes back once, and is accepted once."""
    duly.take(reminder(f"r-{number}", webhook=receiver.url("gone-ok")) for number in range(REDRIVE_BATCH_ROWS + 10))
    work(duly)
    assert dies(duly, "before requeue 2", "redrive")
    assert redrive_all(duly) == 10
    ledger = work(duly)
    assert {story(one) for one in ledger.values()} == {("sent", (("rejected", "consent_revoked"), ACCEPTED))}
    assert {redriven(one) for one in ledger.values()} == {1}
    assert messages(receiver) == {one["id"]: 1 for one in ledger.values()}
