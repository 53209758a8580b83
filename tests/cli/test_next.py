"""`duly next`: when a reminder will fire, as text and as JSON, from a file or a pipe, without a database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from duly.cli.app import build

DAILY: Final = {"notify_at": "2026-03-06T02:30", "zone": "America/New_York", "repeat": "FREQ=DAILY"}
CONFIG: Final = """
database = "sqlite:///duly.db"
[accounts.harbour-lofts]
zone = "Europe/Berlin"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no settings from outside."""
    for name in [name for name in os.environ if name.startswith("DULY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def duly(*arguments: str, stdin: str | None = None) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(build(), ["next", *arguments], input=stdin, catch_exceptions=False)


def asked(reminder: Any, *arguments: str) -> dict[str, Any]:
    """What it says with `--json` of a reminder that is piped in."""
    answer = duly("-", "--json", *arguments, stdin=json.dumps(reminder))
    assert answer.exit_code == 0, answer.output
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def refused(*arguments: str, stdin: str | None = None) -> str:
    """The one line with which it refuses."""
    answer = duly(*arguments, stdin=stdin)
    assert (answer.exit_code, answer.stdout) == (1, "")
    (line,) = answer.stderr.splitlines()
    return line


def test_a_table_for_people(folder: Path) -> None:
    """One line for each occurrence; a skipped time shows at what it runs."""
    (folder / "reminder.json").write_text(json.dumps(DAILY, indent=2))
    answer = duly("reminder.json", "--from", "2026-03-07T12:00", "--count", "2")
    assert answer.stdout.splitlines() == [
        "LABEL             LOCAL, America/New_York  UTC",
        "2026-03-08T02:30  2026-03-08T03:30:00      2026-03-08T07:30:00Z",
        "2026-03-09T02:30  2026-03-09T02:30:00      2026-03-09T06:30:00Z",
    ]


@pytest.mark.usefixtures("folder")
def test_a_document_for_programs() -> None:
    """Local times carry no offset and stand beside their zone."""
    assert asked(DAILY, "--from", "2026-03-08T07:30:00Z", "--count", "1") == {
        "zone": "America/New_York",
        "occurrences": [{"label": "2026-03-08T02:30", "local": "2026-03-08T03:30:00", "utc": "2026-03-08T07:30:00Z"}],
    }


@pytest.mark.usefixtures("folder")
def test_from_now_on() -> None:
    """Ten occurrences, and an instant without a zone is shown in UTC."""
    found = asked({"notify_at": "2020-01-01T09:00Z", "repeat": "FREQ=DAILY"})
    assert (found["zone"], len(found["occurrences"])) == ("UTC", 10)
    assert found["occurrences"][0]["utc"] > "2026"


@pytest.mark.usefixtures("folder")
def test_a_reminder_of_the_past_does_not_fire_any_more() -> None:
    """There is nothing to list, and it is said."""
    past = {"notify_at": "2020-01-01T09:00Z"}
    assert asked(past) == {"zone": "UTC", "occurrences": []}
    assert duly("-", stdin=json.dumps(past)).stdout == "it does not fire any more\n"


@pytest.mark.usefixtures("folder")
def test_the_first_line_of_jsonl() -> None:
    """Later lines are not looked at, and the rest of a reminder may be missing."""
    lines = "\n" + json.dumps({**DAILY, "idempotency_key": "a"}) + "\nnot json\n"
    answer = duly("-", "--from", "2026-03-06T00:00", "--count", "1", stdin=lines)
    assert "2026-03-06T02:30" in answer.stdout


@pytest.mark.usefixtures("folder")
def test_an_anchor_in_the_recipients_zone() -> None:
    """The zone is taken as it is when a reminder is imported."""
    found = asked(
        {"starts_at": "2027-01-01T09:00", "before": ["PT1H", "P7D"], "to": {"zone": "Europe/Berlin"}},
        "--from",
        "2026-01-01T00:00Z",
    )
    assert [(one["label"], one["local"]) for one in found["occurrences"]] == [
        ("-P7D", "2026-12-25T09:00:00"),
        ("-PT1H", "2027-01-01T08:00:00"),
    ]


def test_the_accounts_zone_of_a_configuration(folder: Path) -> None:
    """Where there is one, it says in which zone the account is."""
    reminder = {"account": "harbour-lofts", "notify_at": "2099-12-01T09:00"}
    assert refused("-", stdin=json.dumps(reminder)).startswith("duly: notify_at: is a local time without a zone")
    (folder / "duly.toml").write_text(CONFIG)
    assert asked(reminder)["zone"] == "Europe/Berlin"
    assert asked({**reminder, "account": ["x"], "zone": "Asia/Tokyo"})["zone"] == "Asia/Tokyo"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty; write one reminder into it"),
        ("{", "the line is not JSON"),
        ("[]", "the line is JSON, and not an object"),
        ('{"notify_at": "2026-12-01T09:00Z"', "the line is not JSON"),
        ("x" * 2_000_000, "the line is longer than 1,048,576 bytes"),
        ('{"notify_at": "soon"}', "notify_at: it is not a time"),
        ('{"notify_at": "2026-12-01T09:00Z", "repeat": "FREQ=SECONDLY"}', "repeat: FREQ=SECONDLY is not supported"),
        ('{"when": 1}', "when: there is no such field"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    """One line says what is wrong and what to do."""
    assert words in refused("-", stdin=text)


def test_wrong_arguments(folder: Path) -> None:
    """A file that is not there, a time that is none, and a number out of bounds."""
    (folder / "reminder.json").write_text(json.dumps(DAILY))
    assert "nothing.json cannot be opened" in refused("nothing.json")
    assert "cannot be" in refused(str(folder))
    assert refused("reminder.json", "--from", "soon").startswith("duly: --from: it is not a time; write a time like")
    assert duly("reminder.json", "--count", "0").exit_code == 2
    assert duly("reminder.json", "--count", "1001").exit_code == 2


@pytest.mark.usefixtures("folder")
def test_who_is_only_an_id_is_not_guessed() -> None:
    """An id alone in the zone of the recipient is refused, also where his account has a zone."""
    Path("duly.toml").write_text(CONFIG)
    row = {"notify_at": "2099-12-01T09:00", "zone": "recipient", "account": "harbour-lofts", "to": {"id": "bob"}}
    assert refused("-", stdin=json.dumps(row)).endswith("add --from-ledger, or to.zone")
    for more in ({"email": "bob@example.com"}, {"zone": "Europe/Berlin"}):
        assert asked({**row, "to": {"id": "bob", **more}})["zone"] == "Europe/Berlin"
    assert asked({**row, "zone": None})["zone"] == "Europe/Berlin"
