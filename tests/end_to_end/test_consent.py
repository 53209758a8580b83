"""Consent on its whole way: what was said by commands decides what a worker sends, and every view says why.

One story per database. The words that no run may print stand in every address: each command shows its discretion.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import ACCOUNT, DIALECTS, Installation, Shown, reminder, settle_in, tell_on_both

pytestmark = pytest.mark.heavy

AT: Final = ("--account", ACCOUNT)
WHY: Final = ("--why", "he asked to")
#: key of a reminder -> its purpose, and how it ends.
ENDS: Final = {
    "free": ("service", "sent", "accepted"),
    "marketing": ("marketing", "suppressed", "opted_out_of_marketing"),
    "service-only": ("service", "sent", "accepted"),
    "all": ("the weekly plan", "suppressed", "opted_out"),
    "all-but-security": ("security", "sent", "accepted"),
    "hard-stop": ("security", "suppressed", "opted_out"),
    "bounced": ("security", "suppressed", "bounced"),
    "complained": ("service", "suppressed", "complained"),
    "suppressed": ("service", "suppressed", "suppressed"),
    "lifted": ("service", "sent", "accepted"),
    "kept-out": ("marketing", "suppressed", "opted_out_of_marketing"),
    "deleted-before": ("service", "skipped", "recipient_deleted"),
    "deleted": ("service", "suppressed", "recipient_deleted"),
    "disabled": ("service", "suppressed", "channel_disabled"),
}
#: key of a reminder -> what a person reads.
EXPLAINED: Final = {
    "marketing": "It is suppressed, because the recipient opted out of marketing (for the purpose marketing, ",
    "bounced": "It is suppressed, because the address bounced earlier",
    "deleted-before": "It is skipped, because its recipient was deleted.",
    "disabled": "It is suppressed, because this channel of its recipient was disabled.",
}
#: key of a reminder, and what a file says about its address.
SAID: Final = (
    ("marketing", "opt_out", "marketing"),
    ("service-only", "opt_out", "marketing"),
    ("all", "opt_out", ""),
    ("all-but-security", "opt_out", ""),
    ("bounced", "bounce", ""),
    ("complained", "complaint", ""),
    ("suppressed", "manual", ""),
    ("kept-out", "opt_out", "marketing"),
    ("kept-out", "opt_in", "marketing"),
)
BEFORE_TICK: Final = "deleted-before"
SENT: Final = sum(state == "sent" for _, state, _ in ENDS.values())


class Told(NamedTuple):
    """What the ledger says in the end, with the explanation of each delivery."""

    ledger: dict[str, Shown]
    explained: dict[str, str]
    paused: dict[str, str]
    imported: dict[str, int]
    requests: int


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Told]]:
    """Everything is said before a worker looks; in between the account is paused."""
    return tell_on_both(_told, tmp_path_factory.mktemp("consent"))


@pytest.fixture(params=DIALECTS)
def told(request: pytest.FixtureRequest, stories: dict[str, Future[Told]]) -> Told:
    """The story on each database in turn."""
    return stories[request.param].result()


def _told(dialect: str, folder: Path) -> Told:
    with beside(Receiver()) as receiver, settle_in(dialect, folder) as duly:
        urls = {key: receiver.url("ok", f"prvt-{key}") for key in ENDS}
        duly.take(reminder(key, webhook=urls[key], purpose=ENDS[key][0]) for key in ENDS)
        duly.run("recipients", "delete", f"of-{BEFORE_TICK}", *AT, *WHY)
        duly.run("tick")
        imported = _say(duly, folder, urls)
        duly.run("accounts", "pause", ACCOUNT, *WHY)
        duly.run("work", "--until-idle", "--patience", "5")
        paused = {key: shown["status"] for key, shown in duly.ledger().items()}
        duly.run("accounts", "resume", ACCOUNT, *WHY)
        duly.run("work", "--until-idle")
        ledger = duly.ledger()
        answers = duly.told_at_once(*(("explain", ledger[key]["id"]) for key in EXPLAINED))
        explained = {key: answer["explanation"] for key, answer in zip(EXPLAINED, answers, strict=True)}
        return Told(ledger, explained, paused, imported, receiver.requests)


def _say(duly: Installation, folder: Path, urls: dict[str, str]) -> dict[str, int]:
    """Everything that is said about addresses and recipients; returns what the import counted."""
    lines = [f"{urls[key]},{kind},{purpose}" for key, kind, purpose in SAID]
    (folder / "said.csv").write_text("\n".join(["address,kind,purpose", *lines]), encoding="utf-8")
    imported: dict[str, int] = duly.told("consent", "import", "said.csv", *AT)
    duly.run("consent", "opt-out", urls["hard-stop"], "--even-security", *AT, *WHY)
    duly.run("consent", "suppress", urls["lifted"], *AT, *WHY)
    duly.run("consent", "lift", urls["lifted"], *AT, *WHY)
    duly.run("recipients", "delete", "of-deleted", *AT, *WHY)
    duly.run("recipients", "disable", "of-disabled", "--channel", "webhook", *AT, *WHY)
    return imported


@pytest.mark.parametrize("key", ENDS)
def test_each_ends_as_consent_has_it(told: Told, key: str) -> None:
    """What may be sent is sent, what may not ends with the reason that applies to its purpose, and nothing is tried."""
    shown = told.ledger[key]
    _, state, reason = ENDS[key]
    assert (shown["status"], shown["reason"]) == (state, reason)
    assert bool(shown["attempts"]) is (state == "sent")


def test_nobody_else_heard_anything(told: Told) -> None:
    """The receiver was asked exactly as often as something was sent."""
    assert told.requests == SENT


def test_an_import_counts_what_was_kept_out(told: Told) -> None:
    """An opt-in without a time does not end an opt-out, and says so."""
    assert told.imported == {"rows": 9, "recorded": 8, "already": 0, "kept_out": 1, "rejected": 0}


def test_a_paused_account_sends_nothing(told: Told) -> None:
    """While it is paused, what may be sent waits; what may not has ended."""
    expected = {key: "waiting" if state == "sent" else state for key, (_, state, _) in ENDS.items()}
    assert told.paused == expected


@pytest.mark.parametrize(("key", "words"), EXPLAINED.items())
def test_the_explanation_says_why(told: Told, key: str, words: str) -> None:
    """A person reads the reason as a sentence."""
    assert words in told.explained[key]


def test_the_timeline_tells_who_changed_what(told: Told) -> None:
    """Each open delivery whose answer changed has an event with the operator's name."""
    events = told.ledger["lifted"]["events"]
    assert [(event["kind"], event["reason"]) for event in events[:2]] == [
        ("suppressed", "suppressed"),
        ("allowed", "consent_given"),
    ]
    assert "@" in events[0]["actor"]
    assert [event["kind"] for event in told.ledger["service-only"]["events"]].count("suppressed") == 0
