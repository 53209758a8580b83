"""Cancelling: whoever commits first wins, and what may already be out is said, not hidden."""

from __future__ import annotations

from duly.testing.receiver import Receiver
from tests.end_to_end.installation import ACCOUNT, Installation, attempts, reminder, wait_until


def test_a_cancel_before_the_tick_prevents_everything(duly: Installation, receiver: Receiver) -> None:
    """A reminder cancelled before it is due becomes no delivery."""
    duly.take([reminder("r", webhook=receiver.url("ok"), due_in=1.0)])
    done = duly.told("cancel", "r", "--account", ACCOUNT, "--why", "moved out")
    assert done == {"cancelled": 0, "sending": 0, "in_doubt": 0, "final": 0}
    wait_until(lambda: duly.told("tick")["due"] == 0, "nothing is due")
    duly.run("up", "--until-idle", "--patience", "2")
    assert (duly.states(), receiver.requests) == ({}, 0)
    assert duly.told("show", "r", "--account", ACCOUNT)["status"] == "cancelled"


def test_a_cancel_before_begin_wins(duly: Installation, receiver: Receiver) -> None:
    """A delivery cancelled before it began is never sent, and the record says who cancelled it and why."""
    duly.take([reminder("r", webhook=receiver.url("ok"))])
    duly.told("tick")
    done = duly.told("cancel", "r", "--account", ACCOUNT, "--why", "moved out")
    assert done == {"cancelled": 1, "sending": 0, "in_doubt": 0, "final": 0}
    duly.run("work", "--until-idle")
    one = duly.ledger()["r"]
    assert (one["status"], one["attempts"], receiver.requests) == ("cancelled", [], 0)
    event = one["events"][-1]
    assert (event["from"], event["to"], event["reason"]) == ("ready", "cancelled", "moved out")
    assert "@" in event["actor"]


def test_a_waiting_delivery_can_be_cancelled(duly: Installation, receiver: Receiver) -> None:
    """A delivery that was refused for now and waits is cancelled: the receiver has not taken it."""
    duly.take([reminder("r", webhook=receiver.url("denied"))])
    duly.run("up", "--until-idle")
    done = duly.told("cancel", duly.ledger()["r"]["id"])
    assert done["cancelled"] == 1
    assert duly.states() == {"cancelled": 1}


def test_a_cancel_while_sending_says_so(duly: Installation, receiver: Receiver) -> None:
    """What is under way cannot be called back: the cancel says so, and the ledger shows what came of it."""
    receiver.slow_seconds = 5.0
    duly.settings["DULY_PROVIDERS__HOOKS__TIMEOUT_SECONDS"] = "20"
    duly.settings["DULY_LEASE_SECONDS"] = "60"
    duly.take([reminder("r", webhook=receiver.url("slow"))])
    with duly.running("up", "--until-idle") as up:
        wait_until(lambda: receiver.requests, "the request")
        done = duly.told("cancel", "r", "--account", ACCOUNT)
        assert done == {"cancelled": 0, "sending": 1, "in_doubt": 0, "final": 0}
        assert up.end().code == 0
    one = duly.ledger()["r"]
    assert (one["status"], attempts(one)) == ("sent", [("accepted", None)])


def test_what_is_in_doubt_is_not_cancelled_as_unsent(duly: Installation, receiver: Receiver) -> None:
    """A delivery that may have been accepted is not written down as cancelled, and is not sent again either."""
    duly.settings["DULY_PROVIDERS__HOOKS__DEDUPLICATES"] = "false"
    duly.take([reminder("r", webhook=receiver.url("lost"))])
    duly.run("up", "--until-idle")
    assert duly.states() == {"held": 1}
    done = duly.told("cancel", "r", "--account", ACCOUNT)
    assert done == {"cancelled": 0, "sending": 0, "in_doubt": 1, "final": 0}
    duly.run("up", "--until-idle")
    assert (duly.states(), receiver.requests) == ({"held": 1}, 1)


def test_a_cancel_after_the_end_changes_nothing(duly: Installation, receiver: Receiver) -> None:
    """What was sent stays sent, and the cancel says that it was final before."""
    duly.take([reminder("r", webhook=receiver.url("ok"))])
    duly.run("up", "--until-idle")
    assert duly.told("cancel", "r", "--account", ACCOUNT) == {"cancelled": 0, "sending": 0, "in_doubt": 0, "final": 1}
    assert duly.states() == {"sent": 1}
