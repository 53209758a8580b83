"""`preview` and `send-test` as an operator runs them: what they print, and how they end."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.testing.mail_sink import MailSink
from tests.runtime.test_trying import TOML, submitted


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a configuration, a reminder, and no database."""
    (tmp_path / "duly.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "reminder.json").write_text(json.dumps(submitted(), indent=2), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TEXT: Final = """\
sms, template visit, version {version}

Subject: Visit on Dec 1, 2026

Hello Ana, we come at 9:00 AM...

as SMS: 1 segment of gsm-7, 32 units
"""


def duly(*arguments: str, given: str | None = None) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(build(), arguments, input=given, catch_exceptions=False)


def lines(answer: Result) -> list[str]:
    """What is on stderr, without warnings."""
    return [line for line in answer.stderr.splitlines() if "warning: " not in line]


async def tried(folder: Path, to: str, *arguments: str) -> Result:
    """A test against a mail server of its own, run beside it."""
    async with MailSink() as sink:
        (folder / "duly.toml").write_text(TOML.replace(":2525", f":{sink.port}"), encoding="utf-8")
        return await asyncio.to_thread(duly, "send-test", "reminder.json", "--to", to, *arguments)


# --- preview -------------------------------------------------------------------------------------


def test_a_preview_is_one_document(folder: Path) -> None:
    """With --json there is one document, of a file or of standard input; and nothing is left behind."""
    names = ["channel", "template", "template_version", "subject", "text", "html", "sms", "headers"]
    printed = json.loads(duly("preview", "reminder.json", "--json").stdout)
    assert list(printed) == names
    assert list(printed["sms"]) == ["encoding", "segments", "units"]
    piped = duly("preview", "-", "--json", given=json.dumps(submitted()) + "\n{")
    assert json.loads(piped.stdout) == printed
    assert sorted(path.name for path in folder.iterdir()) == ["duly.toml", "reminder.json"]


def test_a_preview_is_read_by_people() -> None:
    """As text it is what the recipient will see, with its cost as SMS."""
    version = json.loads(duly("preview", "reminder.json", "--json").stdout)["template_version"]
    assert duly("preview", "reminder.json", "--channel", "sms").stdout == TEXT.format(version=version)


def test_a_mail_is_shown_with_its_headers_and_its_html() -> None:
    """The headers stand above the text, and the HTML below it."""
    rich = submitted(template="rich", data={"at": "<b>\u202e\x1b[31m"})
    shown = duly("preview", "-", given=json.dumps(rich)).stdout
    assert "To: Ana <ana@example.com>\nSubject: s\n" in shown
    assert "\nt\n\nas HTML:\n<p>&lt;b&gt;??[31m</p>\n" in shown


@pytest.mark.parametrize(
    ("arguments", "given", "line"),
    [
        (["none.json"], None, "duly: none.json cannot be opened: No such file or directory"),
        (["-"], "", "duly: the file is empty; write one reminder into it, as a JSON object"),
        (["-"], "{}", "duly: idempotency_key: is missing"),
        (["-"], '{"a\\nb": 1}', "duly: a b: there is no such field"),
        (["reminder.json", "--channel", "fax"], None, "duly: --channel: it is not one of email, sms, webhook"),
    ],
)
def test_a_preview_is_refused_in_one_line(arguments: list[str], given: str | None, line: str) -> None:
    """What is wrong is told on stderr, and nothing is on stdout."""
    for shape in ([], ["--json"]):
        answer = duly("preview", *arguments, *shape, given=given)
        assert (answer.exit_code, answer.stdout, lines(answer)) == (1, "", [line])


# --- send-test -----------------------------------------------------------------------------------


def test_an_accepted_test_ends_well(folder: Path) -> None:
    """The outcome is printed, stderr says that the ledger knows nothing of it, and there is no ledger."""
    answer = asyncio.run(tried(folder, "me@example.com", "--json"))
    assert answer.exit_code == 0
    document: dict[str, Any] = json.loads(answer.stdout)
    assert document["outcome"] == "accepted"
    assert document["id"].startswith("test-")
    assert lines(answer) == ["duly: nothing was written to the ledger, and nothing will be sent again"]
    assert sorted(path.name for path in folder.iterdir()) == ["duly.toml", "reminder.json"]


@pytest.mark.parametrize(("to", "outcome"), [("gone@example.com", "rejected"), ("dropped@example.com", "unknown")])
def test_any_other_outcome_is_a_failure(folder: Path, to: str, outcome: str) -> None:
    """What is not accepted exits with 1, its outcome is printed all the same, and the address is not."""
    answer = asyncio.run(tried(folder, to))
    assert answer.exit_code == 1
    assert re.search(rf"^outcome +{outcome}$", answer.stdout, re.MULTILINE)
    assert to not in answer.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--to", "nobody"], "duly: --to: the address for email is not an e-mail address: "),
        (["--to", "+14155550100", "--channel", "sms"], "duly: no provider sends sms here; add a [providers.NAME] "),
    ],
)
def test_a_test_is_refused_in_one_line(arguments: list[str], line: str) -> None:
    """Before anything is sent, the line says what is wrong."""
    answer = duly("send-test", "reminder.json", *arguments)
    (told,) = lines(answer)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert told.startswith(line)


def test_a_test_needs_an_address() -> None:
    """Nothing is ever sent to the reminder's own address by mistake."""
    assert duly("send-test", "reminder.json").exit_code == 2
