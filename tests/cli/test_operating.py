"""`holds`, `restore` and `doctor` where nothing is held and nothing is wrong; and what they refuse."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.cli.commands.holds import TWICE, UNKEPT, _follows, _resend
from duly.cli.commands.outlook import outcomes, policy_text
from duly.cli.commands.work import _text
from duly.cli.output import age, fields
from duly.cli.surface import operator
from duly.cli.words import counted
from duly.core import keys
from duly.core.limits import Limits
from duly.core.model import Doubtful, Frozen, HoldPolicy, OnDoubt
from duly.runtime.bootstrap import open_plant
from duly.runtime.config import load, parse
from duly.testing.builders import NAMESPACE
from tests.flows.scene import SECRET

pytestmark = pytest.mark.usefixtures("folder")

CONFIG = f"""
database = "sqlite:///duly.db"

[providers.hooks]
kind = "webhook"
secret = "{SECRET}"
deduplicates = true
key_window = "PT6H"

[endpoints.acme]
url = "https://hooks.acme.example/in"
deduplicates = false
lookup_url = "https://hooks.acme.example/deliveries/{{delivery}}"

[accounts.harbour-lofts]
on_doubt = "close"

[accounts.bold]
on_doubt = "resend"

[providers.mail]
kind = "smtp"
url = "smtp://localhost:2525"
from = "us@example.com"
"""


NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def held(**changes: Any) -> Doubtful:
    """A delivery that is held since now, with one attempt and its bytes."""
    fields_: dict[str, Any] = dict.fromkeys(Doubtful._fields)
    bytes_ = Frozen("https://app.example.com", b"{}", "note", "v1")
    fields_ |= {"since": NOW, "attempts": 1, "spared": 0, "deadline_at": NOW + DAY, "frozen": bytes_}
    return Doubtful(**{**fields_, **changes})


def duly(*arguments: str, code: int = 0) -> Result:
    """Run the program in this process."""
    answer = CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert answer.exit_code == code, answer.output
    return answer


def told(*arguments: str) -> Any:
    """What the program says with `--json`."""
    return json.loads(duly(*arguments, "--json").stdout)


def complaint(*arguments: str) -> str:
    """The one line with which a command refuses."""
    answer = duly(*arguments, code=1)
    assert answer.stdout == ""
    (line,) = [line for line in answer.stderr.splitlines() if "warning: " not in line]
    return line


# --- holds ---------------------------------------------------------------------------------------


def test_nothing_is_held() -> None:
    """An empty list is a document like any other, and a sentence for people."""
    assert told("holds", "list") == {"holds": []}
    assert duly("holds", "list").stdout == "nothing is held\n"


@pytest.mark.parametrize("command", [["show", "no-such-id"], ["decide", "no-such-id", "sent", "--why", "seen"]])
def test_what_is_not_there_cannot_be_decided(command: list[str]) -> None:
    """An unknown id is told as everywhere."""
    assert "no reminder or delivery has the id 'no-such-id'" in complaint("holds", *command)


def test_a_mistyped_account_is_told() -> None:
    """Nothing is held of an account that does not exist, which is not what was asked; a configured one exists."""
    for command in (["holds", "list"], ["list"]):
        assert "--account: no account is called 'harbour-loft'" in complaint(*command, "--account", "harbour-loft")
        duly(*command, "--account", "harbour-lofts")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, f"the same bytes leave once more under the same key, {TWICE}"),
        ({"frozen": None, "attempts": 0}, f"{UNKEPT}: it is rendered anew from the same data and leaves under the"),
        ({"frozen": None}, "is refused: the bytes that were sent are no longer kept"),
        ({"refused": "opted_out"}, "is refused: opted out"),
        ({"deadline_at": NOW}, "is refused: its deadline has passed"),
    ],
)
def test_what_a_resend_would_do_is_told(changes: dict[str, Any], words: str) -> None:
    """The same rule as that of the decision, in words; a guard that is open comes first."""
    row = held(**changes)
    assert _resend(row, NOW, guarded=False).startswith(words)
    assert ("after `duly restore close`" in _resend(row, NOW, guarded=True)) == ("refused" not in words)


@pytest.mark.parametrize(
    ("then", "deadline", "words"),
    [
        (OnDoubt.CLOSE, DAY * 9, "it is closed: unconfirmed, and not sent again"),
        (OnDoubt.RESEND, DAY * 9, "it is sent again, though that may be the second time"),
        (OnDoubt.RESEND, DAY, "it is closed: unconfirmed, and not sent again, because its deadline passed"),
    ],
)
def test_what_the_end_of_a_hold_will_do_is_told(then: OnDoubt, deadline: timedelta, words: str) -> None:
    """As the policy says, where it may: at its end, and not before, a deadline may have passed."""
    follows = _follows(held(deadline_at=NOW + deadline), NOW, HoldPolicy(then=then), Limits())
    assert follows["at_its_end"].startswith(words)
    assert (follows["alarm_at"], follows["ends_at"]) == (NOW + timedelta(hours=4), NOW + DAY * 7)
    assert follows["then"] == then


# --- status --------------------------------------------------------------------------------------


def test_the_status_begins_with_an_open_guard() -> None:
    """Nothing is sent while it is open, so it stands above all else."""
    assert told("status")["guard"] is None
    duly("restore", "open", "--why", "a test")
    assert told("status")["guard"]["why"] == "a test"
    first, *_ = duly("status").stdout.splitlines()
    assert first.startswith("guard 1 is open, since ")
    assert first.endswith("(a test): nothing is sent")


def test_a_circuit_is_told_by_its_endpoints_name() -> None:
    """The configured name stands for the hash; a provider without endpoints has none to tell."""
    named = keys.show(keys.endpoint_id(NAMESPACE, "https://hooks.acme.example/in"))
    other = keys.show(keys.endpoint_id(NAMESPACE, "https://other.example/in"))
    with closing(sqlite3.connect("duly.db", isolation_level=None)) as database:
        for provider, endpoint in (("hooks", named), ("hooks", other), ("mail", keys.show(keys.NO_ENDPOINT))):
            database.execute(
                "insert into budget (provider, endpoint, circuit, block_reason, updated_at) values (?, ?, 1, ?, 1)",
                (provider, keys.parse(endpoint), "auth"),
            )
    budgets = {budget["endpoint"]: budget["endpoint_name"] for budget in told("status")["budgets"]}
    assert budgets == {named: "acme", other: None, keys.show(keys.NO_ENDPOINT): None}
    doors = duly("status").stdout.partition("open circuits\n")[2].splitlines()[1:]
    assert sorted(line.split()[1] for line in doors) == sorted(["acme", other, "-"])


def test_what_failed_and_waits_is_counted() -> None:
    """`status` and `doctor` say by provider and reason what waits after failed attempts, and that is no fault."""
    assert told("doctor")["failing"] == []
    assert "failed attempts" not in duly("status").stdout + duly("doctor").stdout
    with closing(sqlite3.connect("duly.db", isolation_level=None)) as database:
        database.execute(
            "insert into work (delivery_id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence,"
            " channel, provider, lane, state, reason, attempts, since, next_at, due_at, deadline_at)"
            " values (zeroblob(16), 1, zeroblob(16), zeroblob(16), zeroblob(16), zeroblob(16), 'once',"
            " 'webhook', 'hooks', 'normal', 'waiting', 'not_sent_connection', 3, 1, 1, 1, 4000000000000000)"
        )
    line = {"provider": "hooks", "status": "waiting", "reason": "not_sent_connection", "count": 1}
    assert told("status")["failing"] == [line]
    for command in ("status", "doctor"):
        text = CliRunner().invoke(build(), [command]).stdout.partition("waiting after failed attempts\n")[2]
        assert text.splitlines()[1].split() == ["hooks", "waiting", "not_sent_connection", "1"]


# --- restore -------------------------------------------------------------------------------------


def test_a_guard_is_opened_planned_and_closed() -> None:
    """Each step says what is next; the last one asks for the operator's word."""
    assert "no guard is open" in duly("restore", "plan").stdout
    opened = duly("restore", "open", "--why", "a test\x1b[2J")
    assert "0 deliveries start in doubt" in opened.stdout
    assert "duly restore plan" in opened.stdout
    assert "(a test [2J): nothing is sent" in duly("restore", "plan").stdout
    refused = complaint("restore", "close", "--why", "done")
    assert "reminders, reschedules, cancels, opt-outs, redrives and decisions since" in refused
    assert "closed: sending begins again" in duly("restore", "close", "--why", "done", "--submitted-again").stdout
    assert "no restore guard is open" in complaint("restore", "close", "--why", "done", "--submitted-again")


def test_the_plan_reads_each_promise_from_its_provider() -> None:
    """A provider and an endpoint with terms of its own each have their way from doubt to an end."""
    promises = {(one["provider"], one["endpoint"]): one["then"] for one in told("restore", "plan")["providers"]}
    policy = "else held, until an operator decides; of account harbour-lofts: closed, bold: resent"
    assert promises == {
        ("hooks", None): ["repeated under the same key, up to 6.0 h after it was due", policy],
        ("hooks", "acme"): ["asked for our key; sent only if it is looked up in vain often enough", policy],
        ("mail", None): [policy],
    }


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ("yesterday", "--since: it is not a time; write a time like 2026-12-01T09:00:00Z"),
        ("2026-11-01T09:00", "--since: it has no offset; write a time like 2026-12-01T09:00:00Z"),
        ("2999-01-01T00:00:00Z", "lies ahead of the last sign of life"),
    ],
)
def test_a_beginning_that_cannot_be_is_refused(since: str, words: str) -> None:
    """`--since` is an instant, and moves the guard's beginning back only."""
    assert words in complaint("restore", "open", "--why", "a test", "--since", since)


def test_a_beginning_is_moved_back() -> None:
    """A guard that is opened again grows."""
    assert told("restore", "open", "--why", "a test")["already"] is False
    moved = told("restore", "open", "--why", "older", "--since", "2026-01-01T01:00:00+01:00")
    assert (moved["guard"]["number"], moved["guard"]["since"]) == (1, "2026-01-01T00:00:00Z")
    assert (moved["already"], moved["guard"]["why"]) == (True, f"a test; moved back by {operator()}: older")


def test_a_guard_that_is_open_already_says_so() -> None:
    """Its reason stays who opened it first; what was done of the wish is told, and no more."""
    duly("restore", "open", "--why", "a test")
    again = duly("restore", "open", "--why", "another").stdout
    assert again.startswith("guard 1 was open already, opened at ")
    assert f"by {operator()} (a test); nothing was changed: it is open since " in again
    moved = duly("restore", "open", "--why", "another", "--since", "2026-01-01T00:00:00Z").stdout
    assert "(a test); only `since` was moved back, from " in moved
    assert "to 2026-01-01T00:00:00Z; 0 deliveries are in doubt" in moved


def test_one_is_not_many() -> None:
    """A count agrees with its noun."""
    assert [counted(count, "delivery", "deliveries") for count in (0, 1, 2)] == [
        "0 deliveries", "1 delivery", "2 deliveries",
    ]  # fmt: skip


GROUP = {"provider": "hooks", "endpoint": None, "account": "acme", "state": "uncertain", "count": 3}
GROUP |= {"granted": False, "closed": False, "deadline_passed": False, "age_seconds": 60.0}


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "repeated under the same key"),
        ({"age_seconds": 6 * 3600.0}, "held by policy"),  # its key window has closed
        ({"deadline_passed": True}, "held by policy"),
        ({"closed": True, "account": "harbour-lofts"}, "closed by policy"),
        ({"endpoint": "THE-HASH"}, "asked"),
        ({"provider": "mail"}, "held by policy"),
        ({"provider": "mail", "account": "bold"}, "resent by policy"),
        ({"provider": "mail", "account": "bold", "deadline_passed": True}, "held by policy"),
        ({"provider": "mail", "granted": True, "state": "ready"}, "resent as decided"),
        ({"state": "held"}, "held by policy"),
        ({"provider": "gone"}, "waits: its provider is not configured"),
    ],
)
def test_the_plan_counts_what_will_become_of_it(folder: Path, changes: dict[str, Any], outcome: str) -> None:
    """Each group takes the rung on which the ladder would stand now, by its provider's promise and its policy."""

    async def counts() -> list[dict[str, Any]]:
        config = load(folder / "duly.toml", {})
        async with open_plant(config, freeze_garbage=False) as plant:
            return outcomes([{**GROUP, **changes}], plant, config, {"THE-HASH": "acme"})

    (line,) = asyncio.run(counts())
    assert (line["outcome"], line["count"]) == (outcome, 3)
    assert line["endpoint"] == ("acme" if "endpoint" in changes else None)


def test_the_plan_names_who_chose_otherwise() -> None:
    """A few accounts by name, of many the rest by number."""
    text = "\n".join(f'[accounts.a{number}]\non_doubt = "resend"' for number in range(7))
    config = parse(f'database = "sqlite:///duly.db"\n{text}', Path("duly.toml"), {})
    assert policy_text(config) == (
        "held, until an operator decides; of account a0: resent, a1: resent, a2: resent, a3: resent, a4: resent,"
        " 2 more accounts otherwise"
    )


@pytest.mark.parametrize("command", [["restore", "open"], ["restore", "close", "--submitted-again"]])
def test_a_reason_is_asked_for(command: list[str]) -> None:
    """Without one it is wrong usage; a blank one is refused."""
    duly(*command, code=2)
    assert "--why: it is blank" in complaint(*command, "--why", " \n ")


# --- doctor --------------------------------------------------------------------------------------


def test_the_doctor_says_what_to_do() -> None:
    """What is found stands at the end, with advice; the rest has none."""
    assert {check["advice"] for check in told("doctor")["checks"]} == {None}
    duly("restore", "open", "--why", "a test")
    last = duly("doctor", code=1).stdout.splitlines()[-1]
    assert last.startswith("work: guard open: nothing is sent until `duly restore close`")


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, ""), (0.4, "0 s"), (59, "59 s"), (90, "1.5 min"), (5400, "1.5 h"), (172_800, "2.0 d")]
)
def test_an_age_reads_well(seconds: float | None, words: str) -> None:
    """The unit grows with the age."""
    assert age(seconds) == words


def test_fields_leave_out_empty_columns() -> None:
    """Plain values stand first; a list is a table without the columns in which nothing stands. So with fields."""
    events = [{"at": 1, "evidence": None, "covered": False}]
    shown = fields({"id": "d", "events": events, "hold": {"x": 1}, "why": None, "restored": False})
    assert shown == "id  d\n\nevents\nat\n1"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, "nothing to do, 1.5 s"),
        ({"claimed": 2, "retried": 2}, "no message accepted; 2 claimed, 2 retried, 1.5 s"),
        ({"claimed": 1, "sent": 1}, "1 message accepted; 1 claimed, 1 sent, 1.5 s"),
        ({"claimed": 4, "sent": 4, "in_summaries": 3}, "1 message accepted; 4 claimed, 4 sent, 3 in summaries, 1.5 s"),
    ],
)
def test_work_tells_how_many_messages_were_accepted(counts: dict[str, int], words: str) -> None:
    """Many deliveries may go as one summary: that is one message."""
    nothing = {"claimed": 0, "sent": 0, "retried": 0, "in_summaries": 0}
    assert _text({**nothing, **counts, "seconds": 1.5}) == words
