"""The pages' own commands, run as they stand: a reader who types them gets what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
START = "<!-- run from here -->"
RUN_SECONDS_MAX = 240
#: The ports that the pages name, which something else may use on this machine.
PORTS = ("2525", "8025", "8080")


def script(page: str, mail_port: str) -> str:
    """The page's console blocks as one shell script. A line that begins with `$ ` is a command; others continue it."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(START)[2]
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    init = next(number for number, line in enumerate(lines) if line.startswith("duly init"))
    lines.insert(init + 1, f"sed -i s/2525/{mail_port}/ duly.toml")
    return "\n".join(["set -eu", "trap 'kill $(jobs -p) 2>/dev/null || :' EXIT", *lines])


def run(page: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Run a page in an empty folder; returns what it printed, and the environment for more commands."""
    ports = {named: str(free_port()) for named in PORTS}
    text = script(page, ports["2525"])
    for named, free in ports.items():
        text = text.replace(f"--port {named}", f"--port {free}").replace(f":{named}", f":{free}")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{page}: {done.stderr[-2000:]}"
    return done.stdout, environ


def duly(folder: Path, environ: dict[str, str], *args: str) -> Any:
    done = subprocess.run(
        ["duly", *args, "--json"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=RUN_SECONDS_MAX,
    )
    return json.loads(done.stdout)


def test_the_readme_delivers_a_first_reminder(tmp_path: Path) -> None:
    """From an empty folder to a mail that arrived, as the README says."""
    printed, environ = run("README.md", tmp_path)
    assert "we visit unit 4B at 10:00" in printed
    assert "is sent, because the provider accepted it." in printed
    (delivery,) = duly(tmp_path / "reminders", environ, "list")["deliveries"]
    assert (delivery["reminder"], delivery["status"]) == ("hello-1", "sent")


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    """Mails, a mended row, an answer that got lost and was found, and a cancelled reminder."""
    printed, environ = run("docs/tutorial.md", tmp_path)
    folder = tmp_path / "reminders"
    assert "unknown (timeout), then accepted" in printed
    assert "3 rows: 2 created, 0 already there, 1 rejected" in printed
    assert "3 rows: 1 created, 2 already there, 0 rejected" in printed
    statuses = {row["reminder"]: row["status"] for row in duly(folder, environ, "list")["deliveries"]}
    assert statuses == {"visit-1": "sent", "visit-2": "sent", "visit-3": "sent", "parcel-1": "sent"}
    parcel = duly(folder, environ, "show", "parcel-1", "--account", "shop")["deliveries"][0]
    shown = duly(folder, environ, "show", parcel["id"])
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["unknown", "accepted"]
    assert duly(folder, environ, "show", "visit-9", "--account", "harbour-lofts")["status"] == "cancelled"


def test_a_reminder_is_changed_as_the_page_says(tmp_path: Path) -> None:
    """It moves, is replaced, stands still and goes on, and is cancelled with its group."""
    printed, environ = run("docs/howto/change-a-reminder.md", tmp_path)
    page = (ROOT / "docs/howto/change-a-reminder.md").read_text(encoding="utf-8")
    told = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(told) == 3
    assert all(text in printed for text in told)
    assert "24 h and 1 h before 2035-06-06T10:00" in printed
    assert "It stands still until it is resumed" in printed
    folder = tmp_path / "change"
    assert duly(folder, environ, "show", "visit-2", "--account", "harbour-lofts")["status"] == "cancelled"


def test_appointments_are_reminded_of_as_the_page_says(tmp_path: Path) -> None:
    """A day and an hour before; moved and cancelled; and what becomes of those that are booked late."""
    printed, environ = run("docs/howto/appointments.md", tmp_path)
    page = (ROOT / "docs/howto/appointments.md").read_text(encoding="utf-8")
    told = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(told) == 2
    assert [block for block in told if block not in printed] == []
    assert "we see you on Jun 5, 2035, 10:00 AM in room 7." in printed
    assert "1 rows: 0 created, 0 already there, 0 rejected, 1 revised" in printed
    folder = tmp_path / "appointments"
    assert duly(folder, environ, "show", "visit-1", "--account", "clinic")["status"] == "cancelled"
    deliveries = duly(folder, environ, "list")["deliveries"]
    assert {(one["reminder"], one["occurrence"]): one["status"] for one in deliveries} == {
        ("late", "-PT24H"): "ready",
        ("over", "-PT24H"): "expired",
        ("over", "-PT1H"): "expired",
    }
    assert duly(folder, environ, "show", "late", "--account", "clinic")["next_label"] == "-PT1H"


def test_who_moves_is_followed_as_the_page_says(tmp_path: Path) -> None:
    """Nine o'clock is nine o'clock in the other city, and other data have nothing to tell."""
    printed, environ = run("docs/howto/zones.md", tmp_path)
    assert "1 rows: 0 created, 1 changed, 0 same, 0 rejected, 1 zone changed, 1 retimed\n" in printed
    assert "It is next due on Tue 5 Jun 2035 09:00 in America/Los_Angeles (16:00 UTC)." in printed
    assert "0 reminders told by others; 0 moved, 0 as before" in printed
    shown = duly(tmp_path / "zones", environ, "show", "visit-1", "--account", "harbour-lofts")
    assert shown["next_due_at"] == "2035-06-05T16:00:00Z"


def test_a_reminder_is_tried_out_as_the_page_says(tmp_path: Path) -> None:
    """It is shown, and one is sent to the operator, of which the ledger knows nothing."""
    printed, environ = run("docs/howto/try-out.md", tmp_path)
    assert "To: Ana <ana@example.com>\nSubject: Inspection on Tuesday\n" in printed
    assert "as SMS: 1 segment of gsm-7, " in printed
    assert "to me@example.com\nsubject [test] Inspection on Tuesday\n" in printed
    assert re.search(r"^outcome +accepted$", printed, re.MULTILINE)
    assert duly(tmp_path / "try-out", environ, "list")["deliveries"] == []


def test_people_are_imported_as_the_page_says(tmp_path: Path) -> None:
    """Recipients, a list of who wants what, one person, and a paused account."""
    printed, environ = run("docs/howto/recipients.md", tmp_path)
    text = (ROOT / "docs/howto/recipients.md").read_text(encoding="utf-8")
    told = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert len(told) == 4
    assert [block for block in told if block not in printed] == []
    assert "marketing: not sent, because the recipient opted out of marketing" in printed
    account = ("--account", "harbour-lofts")
    assert duly(tmp_path, environ, "consent", "show", "+14155550100", *account)["purposes"]["security"] == "bounced"
    assert [one["paused"] for one in duly(tmp_path, environ, "accounts", "list")["accounts"]] == [False]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here to press the button with")
def test_people_unsubscribe_as_the_page_says(tmp_path: Path) -> None:
    """A link is offered, answered by the server, and silences its purpose alone."""
    printed, environ = run("docs/howto/unsubscribe.md", tmp_path)
    assert "List-Unsubscribe: <https://r.example.com/u/" in printed
    assert "<title>Unsubscribed</title>" in printed
    assert "marketing: not sent, because the recipient opted out of marketing" in printed
    environ["UNSUBSCRIBE_SECRET"] = "of no use any more"
    whose = ("ana@example.com", "--account", "harbour-lofts")
    shown = duly(tmp_path / "unsubscribe", environ, "consent", "show", *whose)
    assert [one["source"] for one in shown["history"]] == ["unsubscribe"]
    assert shown["purposes"]["service"] is None
