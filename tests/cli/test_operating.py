"""`holds`, `restore` and `doctor` where nothing is held and nothing is wrong; and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.cli.output import age, fields
from tests.flows.scene import SECRET
from tests.stores.ledgers import create_sqlite

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

[providers.mail]
kind = "smtp"
url = "smtp://localhost:2525"
from = "us@example.com"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an empty ledger."""
    (tmp_path / "duly.toml").write_text(CONFIG, encoding="utf-8")
    create_sqlite(tmp_path / "duly.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    policy = "else held, resent or closed by the account's policy"
    assert promises == {
        ("hooks", None): ["repeated under the same key, up to 6.0 h after it was due", policy],
        ("hooks", "acme"): ["asked for our key; sent only if it is looked up in vain often enough", policy],
        ("mail", None): [policy],
    }


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ("yesterday", "--since: it is not a time"),
        ("2026-11-01T09:00", "--since: it has no offset"),
        ("2999-01-01T00:00:00Z", "lies ahead of the last sign of life"),
    ],
)
def test_a_beginning_that_cannot_be_is_refused(since: str, words: str) -> None:
    """`--since` is an instant, and moves the guard's beginning back only."""
    assert words in complaint("restore", "open", "--why", "a test", "--since", since)


def test_a_beginning_is_moved_back() -> None:
    """A guard that is opened again grows."""
    duly("restore", "open", "--why", "a test")
    moved = told("restore", "open", "--why", "older", "--since", "2026-01-01T01:00:00+01:00")
    assert (moved["guard"]["number"], moved["guard"]["since"]) == (1, "2026-01-01T00:00:00Z")


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
    """Plain values stand first; a list is a table without the columns in which nothing stands."""
    shown = fields({"id": "d", "events": [{"at": 1, "evidence": None}], "hold": {"x": 1}, "why": None})
    assert shown == "id   d\nwhy\n\nevents\nat\n1"
