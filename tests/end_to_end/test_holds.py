"""Holds: what is held is listed and shown, an operator decides each way, and the record says who, why and on what.

One story per database. Webhook receivers take a message and never answer, and promise nothing; the mail server takes
the message and is silent. So every delivery is held, and each is decided in another way.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import (
    ACCOUNT,
    DIALECTS,
    Installation,
    Run,
    Shown,
    attempts,
    reminder,
    settle_in,
    tell_on_both,
    wait_until,
)
from tests.end_to_end.recovering import opt_out

WHY: Final = "their log says so"
#: what becomes of it -> what is decided about the reminder of that key.
DECIDED: Final = {"found": "sent", "again": "resend", "enough": "close"}
WEBHOOKS: Final = (*DECIDED, "cancelled", "opted-out", "alarmed", "both")


@dataclass
class Story:
    """What the commands said, and what the ledger and the receiver say in the end."""

    held: list[dict[str, Any]]
    nobodys: Run
    text: str
    explained: str
    first: list[dict[str, Any]]
    shown: Shown
    answers: dict[str, Any]
    refused: dict[str, Run]
    alarms: list[dict[str, Any]]
    doctor: Run
    ledger: dict[str, Shown]
    receiver: Receiver
    many: list[str] | None  # which of whom are held after the page's loop has decided about the mails; None: no jq


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Story]]:
    """The story on each database."""
    return tell_on_both(_decided, tmp_path_factory.mktemp("held"))


@pytest.fixture(params=DIALECTS)
def story(request: pytest.FixtureRequest, stories: dict[str, Future[Story]]) -> Story:
    """The story on each database in turn."""
    return stories[request.param].result()


def _decided(dialect: str, folder: Path) -> Story:
    with (
        beside(Receiver(deduplicates=False)) as receiver,
        beside(MailSink()) as sink,
        settle_in(dialect, folder, sink.url) as duly,
    ):
        duly.settings |= {"DULY_PROVIDERS__HOOKS__DEDUPLICATES": "false"}
        rows = _reminders(receiver)
        duly.take(rows)
        duly.run("up", "--until-idle")
        held = duly.told("holds", "list")["holds"]
        nobodys = duly.run("holds", "list", "--account", "nobody", code=1)
        first = duly.told("holds", "list", "--account", ACCOUNT, "--limit", "1")["holds"]
        shown = _named(duly, "holds", "show", "found")
        text = duly.run("holds", "show", "found", "--account", ACCOUNT).out
        explained = duly.told("explain", shown["id"])["explanation"]
        refused = _refusals(duly, rows, held[0]["id"])
        answers = {key: _named(duly, "holds", "decide", key, verdict, "--why", WHY) for key, verdict in DECIDED.items()}
        refused["twice"] = duly.run("holds", "decide", answers["found"]["id"], "close", "--why", WHY, code=1)
        refused["not held"] = duly.run("holds", "show", answers["again"]["id"], code=1)
        alarms = _raise_alarms(duly)
        duly.run("work", "--until-idle")
        doctor, ledger = duly.run("doctor", "--json", code=1), duly.ledger()
        return Story(
            held=held, nobodys=nobodys, text=text, explained=explained, first=first, shown=shown,
            answers=answers, refused=refused, alarms=alarms,
            doctor=doctor, ledger=ledger, receiver=receiver, many=_decide_many(duly),
        )  # fmt: skip


def _reminders(receiver: Receiver) -> list[dict[str, Any]]:
    rows = [reminder(key, webhook=receiver.url("lost", key)) for key in WEBHOOKS if key != "both"]
    both = reminder("both", webhook=receiver.url("lost", "both"), email="silent@example.com")
    return [*rows, {**both, "channels": ["webhook", "email"]}]


def _named(duly: Installation, *command: str) -> Any:
    return duly.told(*command, "--account", ACCOUNT)


def _refusals(duly: Installation, rows: list[dict[str, Any]], one: str) -> dict[str, Run]:
    """Decisions that must not be made, each for another reason."""
    duly.told("cancel", "cancelled", "--account", ACCOUNT)
    opt_out(duly, next(row["to"]["webhook"] for row in rows if row["idempotency_key"] == "opted-out"))
    decide = ("holds", "decide")
    asked: dict[str, tuple[list[str], int]] = {
        "two held": ([*decide, "both", "sent", "--why", WHY, "--account", ACCOUNT], 1),
        "cancelled": ([*decide, "cancelled", "resend", "--why", WHY, "--account", ACCOUNT], 1),
        "opted out": ([*decide, "opted-out", "resend", "--why", WHY, "--account", ACCOUNT], 1),
        "nobody": ([*decide, "nobody", "sent", "--why", WHY, "--account", ACCOUNT], 1),
        "blank": ([*decide, one, "sent", "--why", " \t"], 1),
        "no reason": ([*decide, one, "sent"], 2),
        "no verdict": ([*decide, one, "maybe", "--why", WHY], 2),
    }
    with ThreadPoolExecutor(4) as pool:
        runs = pool.map(lambda call: duly.run(*call[0], code=call[1]), asked.values())
        return dict(zip(asked, runs, strict=True))


def _raise_alarms(duly: Installation) -> list[dict[str, Any]]:
    """What is held still, after its alarm has come and a worker has looked."""
    duly.file.write_text(f'{duly.text}\n[accounts.{ACCOUNT}]\nhold_alarm = "PT1S"\n', encoding="utf-8")
    duly.change("update work set next_at = since where state = 'held'")

    def held() -> list[dict[str, Any]]:
        return list(duly.told("holds", "list")["holds"])

    with duly.running("work") as work:
        wait_until(lambda: all(one["alarmed"] for one in held()), "the alarm on record")
        run = work.end(signal.SIGTERM)
    assert run.events("hold_alarm")
    return held()


def _decide_many(duly: Installation) -> list[str] | None:
    """Run the loop of the page as it stands there, but for its date."""
    page = (Path(__file__).parents[2] / "docs/howto/held-delivery.md").read_text(encoding="utf-8")
    loop = page.partition("```sh\n")[2].partition("```")[0].replace("2026-12-01T10:00:00Z", "2999")
    if shutil.which("jq") is None:
        return None
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**duly.environ(), "PATH": path}
    done = subprocess.run(
        ["sh", "-euc", loop], cwd=duly.folder, env=environ, capture_output=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (duly.folder / "refused.txt").exists()
    return [f"{one['reminder']} {one['provider']}" for one in duly.told("holds", "list")["holds"]]


# --- what is held --------------------------------------------------------------------------------


def test_what_is_held_is_listed(story: Story) -> None:
    """Each held delivery is a row: oldest first, of the account that was asked for, no more than were asked for."""
    assert sorted(one["reminder"] for one in story.held) == sorted([*WEBHOOKS, "both"])
    assert [one["held_since"] for one in story.held] == sorted(one["held_since"] for one in story.held)
    assert {(one["account"], one["reason"], one["attempts"], one["alarmed"]) for one in story.held} == {
        (ACCOUNT, "no_way_to_ask", 1, False)
    }
    assert {one["channel"] for one in story.held if one["reminder"] == "both"} == {"webhook", "email"}
    assert "no account is called 'nobody'" in story.nobodys.err
    assert story.first == [{**story.held[0], "age_seconds": story.first[0]["age_seconds"]}]


def test_a_held_delivery_is_shown_with_its_evidence(story: Story) -> None:
    """The attempt, its bytes, and what follows if nobody decides."""
    shown, hold = story.shown, story.shown["hold"]
    assert (shown["reminder"], shown["status"], attempts(shown)) == ("found", "held", [("unknown", "timeout")])
    assert shown["payload_hash"]
    assert (hold["unknown_attempts"], hold["bytes_kept"], hold["refused"]) == (1, True, None)
    assert (hold["alarmed"], hold["then"]) == (False, "close")
    lasts = datetime.fromisoformat(hold["ends_at"]) - datetime.fromisoformat(hold["held_since"])
    assert lasts == timedelta(days=7)


def test_a_held_delivery_is_shown_with_what_a_decision_needs(story: Story) -> None:
    """Who was to be told what, why it is held, and what each way on would do; never an address."""
    hold = story.shown["hold"]
    assert (hold["recipient"], hold["template"], hold["restored"]) == ("of-found", "visit", False)
    assert hold["explanation"] == story.explained
    alarm = datetime.fromisoformat(hold["alarm_at"]) - datetime.fromisoformat(hold["held_since"])
    assert alarm == timedelta(hours=4)
    assert hold["at_its_end"] == "it is closed: unconfirmed, and not sent again"
    assert hold["resend"] == "the same bytes leave once more under the same key, though that may be the second time"
    first, *rest = story.text.splitlines()
    assert first == story.explained
    assert "bytes_kept        yes" in rest
    assert not [line for line in rest if line.startswith(("refused", "restored", "alarmed"))]
    assert "covered" not in story.text


# --- what is decided -----------------------------------------------------------------------------


def test_each_decision_moves_it(story: Story) -> None:
    """Found, it is sent; given another try, it is sent once more under the same key; closed, it is unconfirmed."""
    assert {key: answer["status"] for key, answer in story.answers.items()} == {
        "found": "sent", "again": "ready", "enough": "unconfirmed",
    }  # fmt: skip
    assert {key: story.ledger[key]["status"] for key in DECIDED} == {
        "found": "sent", "again": "sent", "enough": "unconfirmed",
    }  # fmt: skip
    assert attempts(story.ledger["again"]) == [("unknown", "timeout"), ("accepted", None)]
    assert [story.receiver.count("lost", key) for key in DECIDED] == [1, 2, 1]
    first, second = story.receiver.received("lost", "again")
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])


@pytest.mark.parametrize("key", DECIDED)
def test_the_record_says_who_why_and_on_what(story: Story, key: str) -> None:
    """The event of a decision has its actor, his reason, and what was known."""
    one = story.ledger[key]
    event = next(event for event in one["events"] if event["from"] == "held" and event["kind"] != "hold_alarm")
    assert (event["to"], event["reason"]) == (story.answers[key]["status"], WHY)
    assert "@" in event["actor"]
    evidence = event["evidence"]
    assert (evidence["verdict"], evidence["held_because"], evidence["attempts"], evidence["unknown"]) == (
        DECIDED[key], "no_way_to_ask", 1, 1,
    )  # fmt: skip
    assert evidence["payload_hash"] == story.ledger[key]["payload_hash"]
    assert evidence["held_since"]


def test_many_are_decided_in_a_loop(story: Story) -> None:
    """The loop of the page decides about what it selects, and about nothing else."""
    if story.many is None:
        pytest.skip("the page's loop needs jq")
    assert sorted(story.many) == [f"{key} hooks" for key in ("alarmed", "both", "cancelled", "opted-out")]


# --- what is refused -----------------------------------------------------------------------------

REFUSED: Final = {
    "two held": "2 of its deliveries are held; name one: ",
    "cancelled": "it cannot be sent again, reminder cancelled",
    "opted out": "it cannot be sent again, opted out",
    "nobody": "has no reminder or delivery 'nobody'",
    "blank": "--why: it is blank",
    "twice": "is not held",
    "not held": "is not held",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_decision_that_must_not_be_is_refused(story: Story, what: str) -> None:
    """One line says why, and nothing is on standard output."""
    run = story.refused[what]
    (line,) = run.complaints
    assert run.out == ""
    assert REFUSED[what] in line


@pytest.mark.parametrize(("what", "word"), [("no reason", "--why"), ("no verdict", "sent, resend or close")])
def test_wrong_usage_is_told(story: Story, what: str, word: str) -> None:
    """A decision without a reason, or that is none, is wrong usage."""
    run = story.refused[what]
    assert run.out == ""
    assert word in run.err


def test_what_was_refused_is_held_still(story: Story) -> None:
    """A refusal changes nothing, and sends nothing."""
    assert sorted(one["reminder"] for one in story.alarms) == ["alarmed", "both", "both", "cancelled", "opted-out"]
    assert [story.receiver.count("lost", key) for key in ("alarmed", "both", "cancelled", "opted-out")] == [1, 1, 1, 1]


# --- alarms --------------------------------------------------------------------------------------


def test_an_alarm_is_raised_once(story: Story) -> None:
    """A hold that nobody decides becomes a line of the log, an event, and a finding of the doctor."""
    assert {one["alarmed"] for one in story.alarms} == {True}
    events = [event for event in story.ledger["alarmed"]["events"] if event["kind"] == "hold_alarm"]
    assert [(event["from"], event["to"], event["reason"]) for event in events] == [("held", "held", "hold_alarm")]
    found = {check["check"]: check for check in story.doctor.document["checks"] if check["found"]}
    assert list(found) == ["work: hold past its alarm"]
    assert found["work: hold past its alarm"]["found"] == len(story.alarms)
    assert "duly holds decide" in found["work: hold past its alarm"]["advice"]
