"""`reschedule`, `reminders`, `zones`, `cancel --group`, `show` and `explain` as an operator runs them, on SQLite."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.intake import zones
from tests.flows.scene import SECRET

pytestmark = pytest.mark.usefixtures("folder")

CONFIG: Final = f"""
database = "sqlite:///duly.db"

[providers.hooks]
kind = "webhook"
secret = "{SECRET}"

[providers.mail]
kind = "smtp"
url = "smtp://127.0.0.1:2525"
from = "Harbour Lofts <reminders@example.com>"

[templates.visit]
subject = "Visit"
text = "Hello {{{{ recipient.name }}}}, we visit unit {{{{ data.unit }}}}."
"""
ACCOUNT: Final = ("--account", "harbour-lofts")
WHY: Final = ("--why", "the visit was moved")
NEVER: Final = "2099-12-01T09:00"
#: Nine o'clock in New York on that day.
NEVER_UTC: Final = "2099-12-01T14:00:00Z"


def duly(*arguments: str, code: int = 0, given: str | None = None) -> Result:
    """Run the program in this process."""
    answer = CliRunner().invoke(build(), arguments, input=given, catch_exceptions=False)
    assert answer.exit_code == code, answer.output
    return answer


def told(*arguments: str, code: int = 0, given: str | None = None) -> Any:
    """What the program says with `--json`."""
    return json.loads(duly(*arguments, "--json", code=code, given=given).stdout)


def complaint(*arguments: str) -> str:
    """The one line with which a command refuses."""
    answer = duly(*arguments, code=1)
    (line,) = [line for line in answer.stderr.splitlines() if "warning: " not in line]
    return line


def take(*keys: str, **fields: Any) -> None:
    """Import reminders that fire in New York in 2099, unless they say otherwise; every one must be taken."""
    row = {
        "account": "harbour-lofts",
        "to": {"id": "ana", "name": "Ana", "email": "ana@example.com"},
        "template": "visit",
        "data": {"unit": "4B"},
        "notify_at": NEVER,
        "zone": "America/New_York",
        **fields,
    }
    rows = [json.dumps({name: one for name, one in {**row, "idempotency_key": key}.items() if one}) for key in keys]
    assert told("import", "-", given="\n".join(rows))["created"] == len(keys)


def people(*rows: dict[str, str], **counts: int) -> None:
    """Import recipients; these counts must be among those that are told."""
    given = "\n".join(map(json.dumps, rows))
    found = told("recipients", "import", "-", *ACCOUNT, given=given)
    assert {word: found[word] for word in counts} == counts


def shown(key: str = "r") -> Any:
    """The reminder as it is shown."""
    return told("show", key, *ACCOUNT)


def explained(key: str = "r") -> str:
    """The first paragraph about the reminder."""
    return str(told("explain", key, *ACCOUNT)["explanation"]).splitlines()[0]


def change(sql: str) -> None:
    """Behind the program's back."""
    with closing(sqlite3.connect("duly.db", isolation_level=None)) as database:
        database.execute(sql)


# --- reschedule ----------------------------------------------------------------------------------


def test_a_reminder_moves_to_another_time() -> None:
    """The answer has its label, local time, UTC and zone; show and the record say who moved it and why."""
    take("r")
    moved = told("reschedule", "r", *ACCOUNT, "--at", "2099-12-02T10:30", *WHY)
    assert moved == {
        "answer": "moved",
        "label": "once",
        "local": "2099-12-02T10:30:00",
        "utc": "2099-12-02T15:30:00Z",
        "zone": "America/New_York",
        "left_out": [],
        "at_once": [],
        "expired": [],
    }
    assert (shown()["next_due_at"], shown()["schedule"]) == ("2099-12-02T15:30:00Z", "2099-12-02T10:30")
    (event,) = shown()["events"]
    assert (event["kind"], event["reason"]) == ("revised", "the visit was moved")
    text = duly("reschedule", "r", *ACCOUNT, "--at", "2099-12-02T10:30", "--zone", "Europe/Berlin", *WHY).stdout
    assert text == "moved: once is due at 2099-12-02T10:30:00 in Europe/Berlin (2099-12-02T09:30:00Z)\n"


def test_an_instant_is_moved_without_a_zone() -> None:
    """A reminder of an instant has no local time, and is told in UTC."""
    take("r", notify_at="2099-12-01T09:00:00Z", zone=None)
    moved = told("reschedule", "r", *ACCOUNT, "--at", "2099-12-02T09:00:00+02:00", *WHY)
    assert (moved["local"], moved["utc"], moved["zone"]) == (None, "2099-12-02T07:00:00Z", None)
    assert "moved: once is due at 2099-12-03T07:00:00Z" in duly(
        "reschedule", "r", *ACCOUNT, "--at", "2099-12-03T07:00:00Z", *WHY
    ).stdout  # fmt: skip


def test_a_moved_reminder_is_still_the_one_that_was_submitted() -> None:
    """The same row again is already there, and does not move it back."""
    take("r")
    duly("reschedule", "r", *ACCOUNT, "--at", "2099-12-02T10:30", *WHY)
    row = {"idempotency_key": "r", "account": "harbour-lofts", "template": "visit", "zone": "America/New_York",
           "to": {"id": "ana", "name": "Ana", "email": "ana@example.com"},
           "data": {"unit": "4B"}, "notify_at": NEVER}  # fmt: skip
    assert told("import", "-", given=json.dumps(row))["already"] == 1
    assert shown()["next_due_at"] == "2099-12-02T15:30:00Z"


@pytest.mark.parametrize(
    ("options", "schedule", "label"),
    [
        (("--repeat", "FREQ=DAILY"), "RRULE:FREQ=DAILY", NEVER),
        (("--repeat", "FREQ=DAILY", "--at", "2099-12-05T08:00"), "RRULE:FREQ=DAILY", "2099-12-05T08:00"),
        (("--starts-at", "2099-12-02T10:00", "--before", "PT24H", "--before", "PT1H"),
         "24 h and 1 h before 2099-12-02T10:00", "-PT24H"),
    ],
)  # fmt: skip
def test_a_reminder_gets_another_schedule(options: tuple[str, ...], schedule: str, label: str) -> None:
    """A rule counts from where the reminder did, or from --at; offsets count back from their anchor."""
    take("r")
    moved = told("reschedule", "r", *ACCOUNT, *options, *WHY)
    assert (moved["answer"], moved["label"]) == ("moved", label)
    assert (shown()["schedule"], shown()["next_label"]) == (schedule, label)


def test_a_schedule_gives_way_to_another() -> None:
    """Nothing of the former one is left: rule, policy and offsets go; kept are the offsets of another anchor."""
    take("r", repeat="FREQ=DAILY", missed="skip", grace="PT1H")
    anchored = ("--starts-at", "2099-12-02T10:00", "--before", "PT1H")
    duly("reschedule", "r", *ACCOUNT, *anchored, *WHY)
    assert (shown()["missed"], shown()["schedule"]) == (None, "1 h before 2099-12-02T10:00")
    duly("reschedule", "r", *ACCOUNT, "--starts-at", "2099-12-09T10:00", *WHY)
    assert shown()["schedule"] == "1 h before 2099-12-09T10:00"
    duly("reschedule", "r", *ACCOUNT, "--repeat", "FREQ=WEEKLY", *WHY)
    assert (shown()["schedule"], shown()["next_label"]) == ("RRULE:FREQ=WEEKLY", "2099-12-09T10:00")
    assert told("reschedule", "r", *ACCOUNT, "--at", NEVER, *WHY)["utc"] == NEVER_UTC


@pytest.mark.parametrize("rule", ["FREQ=MINUTELY", "* * * * *", "FREQ=DAILY"])
def test_a_rule_begins_behind_now(rule: str) -> None:
    """A change does not fire at once, however long ago the reminder began."""
    take("r", notify_at="2026-01-01T09:00", deadline="PT8H")
    before = datetime.now(UTC)
    moved = told("reschedule", "r", *ACCOUNT, "--repeat", rule, *WHY)
    assert before < datetime.fromisoformat(moved["utc"]) <= before + timedelta(days=1, minutes=1)
    assert told("list")["deliveries"] == []


def test_a_rule_that_is_over_is_refused() -> None:
    """There is nothing to wait for."""
    take("r")
    over = (
        "--repeat",
        "FREQ=DAILY;COUNT=1",
        "--at",
        (datetime.now(UTC) - timedelta(minutes=1)).isoformat(timespec="seconds"),
    )
    assert "--repeat: has no occurrence that is still to come" in complaint("reschedule", "r", *ACCOUNT, *over, *WHY)


def test_what_was_sent_is_sent_again_only_by_name() -> None:
    """Already sent and being sent are answers, with exit code 1; --again gives the occurrence its next name."""
    take("r", notify_at="2026-01-01T09:00:00Z", zone=None, deadline="2099-01-01T00:00:00Z")
    duly("tick")
    change("update work set state = 'leased', begun = 1, attempts = 1, lease_until = 9e15, worker = 'w'")
    order = ("reschedule", "r", *ACCOUNT, "--at", "2099-12-02T10:30:00Z", "--deadline", "PT8H", *WHY)
    assert told(*order, code=1)["answer"] == "already_sending"
    assert "already being sent" in complaint(*order)
    change("delete from work")
    change("update delivery set status = 'sent', reason = 'accepted'")
    nowhere = dict.fromkeys(("label", "local", "utc", "zone"))
    nothing = {**nowhere, "left_out": [], "at_once": [], "expired": []}
    assert told(*order, code=1) == {"answer": "already_sent", **nothing}
    assert duly(*order, code=1).stdout == ""
    assert complaint(*order).endswith("nothing was changed; --again sends it once more, by name")
    assert told(*order, "--again")["label"] == "once#2"


SENT_BEFORE: Final = "-PT24H was sent before, or may have been, and does not come again"


def sent_in_part(**fields: Any) -> None:
    """An appointment of which the first of two reminders was sent."""
    starts_at = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="seconds")
    take("r", starts_at=starts_at, before=["PT24H", "PT1H"], notify_at=None, deadline="P2D", **fields)
    duly("tick")
    change("delete from work")
    change("update delivery set status = 'sent', reason = 'accepted'")


def test_an_appointment_that_moves_says_what_does_not_come_again() -> None:
    """What was sent stays in the schedule and is left out, move after move, until it is asked for by name."""
    sent_in_part()
    order = ("reschedule", "r", *ACCOUNT, *WHY, "--starts-at")
    moved = told(*order, "2099-12-08T09:00")
    assert (moved["answer"], moved["label"], moved["left_out"]) == ("moved", "-PT1H", ["-PT24H"])
    text = duly(*order, "2099-12-09T09:00").stdout
    assert text.startswith("moved: -PT1H is due at 2099-12-09T08:00:00 in America/New_York")
    assert text.endswith(f"; {SENT_BEFORE} (--again asks for it)\n")
    assert (shown()["schedule"], shown()["left_out"]) == ("24 h and 1 h before 2099-12-09T09:00", ["-PT24H"])
    assert ["left_out", "-PT24H"] in map(str.split, duly("show", "r", *ACCOUNT).stdout.splitlines())
    assert f"{SENT_BEFORE}; `duly reschedule` with --again asks for it." in explained()
    (*_, event) = shown()["events"]
    assert event["evidence"] == {"from": "2099-12-08T13:00:00Z", "to": "2099-12-09T13:00:00Z", "left_out": ["-PT24H"]}
    assert "moving its next occurrence from Tue 8 Dec 2099 08:00" in explained()
    again = told(*order, "2099-12-10T09:00", "--again")
    assert (again["label"], again["left_out"], shown()["left_out"]) == ("-PT24H#2", [], [])


def test_an_import_that_moves_an_appointment_says_so_too() -> None:
    """With its line, key and labels, as counts and as text."""
    sent_in_part(event_version=1)
    row = {
        "idempotency_key": "r", "account": "harbour-lofts", "template": "visit", "data": {"unit": "4B"},
        "to": {"id": "ana", "name": "Ana", "email": "ana@example.com"}, "zone": "America/New_York", "deadline": "P2D",
        "before": ["PT24H", "PT1H"],
    }  # fmt: skip
    newer = {**row, "starts_at": "2099-12-08T09:00", "event_version": 2}
    done = told("import", "-", given="\n" + json.dumps(newer))
    left_out = [{"line": 2, "idempotency_key": "r", "labels": ["-PT24H"]}]
    assert (done["revised"], done["left_out"], done["left_out_rows"]) == (1, 1, left_out)
    newest = json.dumps({**newer, "starts_at": "2099-12-09T09:00", "event_version": 3})
    first, second = duly("import", "-", given=newest).stdout.splitlines()
    assert first.endswith("0 rejected, 1 revised")
    assert second == f"line 1, r: {SENT_BEFORE}; `duly reschedule` with --again asks for it"


def test_what_is_open_and_unsent_is_superseded() -> None:
    """Its delivery ends, and says why; the moved one comes under its next name, at once if its time is past."""
    take("r", notify_at="2026-01-01T09:00:00Z", zone=None, deadline="2099-01-01T00:00:00Z")
    duly("tick")
    moved = told("reschedule", "r", *ACCOUNT, "--at", "2026-02-01T09:00:00Z", *WHY)
    assert (moved["answer"], moved["label"]) == ("moved", "once#2")
    assert told("tick")["created"] == 1
    (old,) = told("list", "--status", "cancelled")["deliveries"]
    text = told("explain", old["id"])["explanation"]
    assert "It is cancelled, because a newer version of its reminder took its place." in text


def test_into_the_past_says_what_happens() -> None:
    """What is of use still goes out at once; what is not expires, by its label; what was sent is not told again."""
    now = datetime.now(UTC)
    take("r", "s", "t", channels=["email"])
    order = ("reschedule", "r", *ACCOUNT, *WHY, "--at", (now - timedelta(hours=1)).isoformat())
    assert told(*order, "--deadline", "PT8H")["at_once"] == ["once"]
    assert duly(*order).stdout.splitlines()[1:] == ["it is past, and goes out at once: once"]
    anchor = (now + timedelta(hours=2)).isoformat()
    offsets = [part for offset in ("P2D", "PT3H", "PT1H") for part in ("--before", offset)]
    order = ("reschedule", "s", *ACCOUNT, *WHY, "--starts-at", anchor, *offsets, "--deadline", "PT90M")
    moved = told(*order)
    assert (moved["at_once"], moved["expired"]) == (["-PT3H"], ["-PT48H"])
    assert duly(*order).stdout.splitlines()[1:] == [
        "it is past, and goes out at once: -PT3H",
        "its deadline has passed, and nothing comes of it: -PT48H",
    ]
    duly("tick")
    assert [(one["occurrence"], one["status"]) for one in told("list", "--status", "expired")["deliveries"]] == [
        ("-PT48H", "expired")
    ]
    change("update delivery set status = 'sent', reason = 'accepted' where occurrence = '-PT3H'")
    change("delete from work where occurrence = '-PT3H'")
    assert told(*order)["at_once"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--at", "2026-01-01T09:00Z"), "--at: nothing would come of it: it lies in the past with the deadline"),
        (
            ("--starts-at", "2026-01-01T09:00Z", "--before", "PT1H", "--before", "P1D"),
            "--starts-at: nothing would come",
        ),
        (("--at", "2026-01-01T09:00Z", "--deadline", "PT1H", "--again"), "give a later time, or a deadline"),
    ],
)
def test_where_nothing_would_come_nothing_is_changed(options: tuple[str, ...], words: str) -> None:
    """A time whose every deadline has passed is refused; imported, it is taken, and its record says what came of it."""
    take("r")
    assert words in complaint("reschedule", "r", *ACCOUNT, *WHY, *options)
    assert shown()["events"] == []
    take("past", notify_at="2026-01-01T09:00:00Z", zone=None)
    duly("tick")
    assert [one["status"] for one in told("list")["deliveries"]] == ["expired"]


def test_a_cancelled_reminder_and_one_under_a_guard_are_not_moved() -> None:
    """Each says so in one line."""
    take("r", "s")
    duly("cancel", "r", *ACCOUNT)
    order = (*ACCOUNT, "--at", NEVER, *WHY)
    assert "it was cancelled, and stays so" in complaint("reschedule", "r", *order)
    change("update reminder set next_due_at = 1 where caller_key = 's'")
    duly("restore", "open", "--why", "a backup was put back")
    assert "before a backup was restored" in complaint("reschedule", "s", *order)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "say when: --at TIME, --repeat RULE, or --starts-at TIME with --before"),
        (("--at", NEVER, "--before", "PT1H"), "--before: it counts back from an anchor; give --starts-at"),
        (("--at", NEVER, "--starts-at", NEVER), "--starts-at: it stands beside --before alone"),
        (("--starts-at", NEVER), "--before: is missing"),
        (("--at", "soon"), "--at: it is not a time"),
        (("--at", "x" * 1_000_000), "--at: is longer than 64 characters"),
        (("--at", "2099\x00"), "at: it holds bytes that are not UTF-8 text"),
        (("--at", NEVER, "--zone", "Mars"), "--zone: there is no such time zone"),
        (("--at", NEVER, "--zone", "recipient"), "--zone: the recipient has no zone"),
        (("--repeat", "FREQ=NEVER"), "--repeat: "),
        (("--at", NEVER, "--deadline", "2098-01-01T00:00:00Z"), "--deadline: is not after the due time"),
        (("--at", NEVER, "--why", " "), "--why: it is blank"),
    ],
)
def test_what_cannot_be_done_is_said_in_the_options_words(options: tuple[str, ...], words: str) -> None:
    """One line names the option, and nothing is changed."""
    take("r")
    assert words in complaint("reschedule", "r", *ACCOUNT, *WHY, *options)
    assert shown()["events"] == []


def test_what_was_submitted_may_not_be_taken_any_more(folder: Path) -> None:
    """A template that is gone is told as such, with its field."""
    take("r")
    text = (folder / "duly.toml").read_text(encoding="utf-8")
    (folder / "duly.toml").write_text(text.replace("[templates.visit]", "[templates.other]"), encoding="utf-8")
    line = complaint("reschedule", "r", *ACCOUNT, "--at", NEVER, *WHY)
    assert "as it was submitted it cannot be taken any more: template: no template has this name" in line


def test_a_delivery_is_not_rescheduled() -> None:
    """What moves is the reminder: the id of a delivery is refused, and says so."""
    take("r", notify_at="2026-01-01T09:00:00Z", zone=None)
    duly("tick")
    (line,) = told("list")["deliveries"]
    for order in (("reschedule", "--at", NEVER), ("reminders", "pause"), ("reminders", "resume")):
        assert "it is a delivery" in complaint(*order, line["id"], *WHY)


# --- groups --------------------------------------------------------------------------------------


def test_a_group_is_cancelled() -> None:
    """Every reminder of the group in that account, counts summed, and nothing else."""
    take("a", "b", "done", group="visit-9", notify_at="2026-01-01T09:00:00Z", zone=None, deadline="2099-01-01T00:00Z")
    duly("tick")
    change("delete from work where reminder_id = (select id from reminder where caller_key = 'done')")
    change("update delivery set status = 'sent' where id not in (select delivery_id from work)")
    take("c", group="visit-9")
    take("d", group="visit-1")
    counts = {"cancelled": 2, "sending": 0, "in_doubt": 0, "final": 1, "sent": 1, "stopped": 1, "before": 0}
    expected = {"reminders": 4, **counts}
    assert told("cancel", "--group", "visit-9", *ACCOUNT, *WHY) == expected
    assert (shown("c")["status"], shown("d")["status"]) == ("cancelled", "active")
    assert shown("c")["group"] == "visit-9"
    text = duly("cancel", "--group", "visit-1", *ACCOUNT).stdout
    assert text == "1 reminder cancelled; no deliveries yet\n"
    take("e", group="visit-1")
    text = duly("cancel", "--group", "visit-1", *ACCOUNT).stdout
    assert text == "1 reminder cancelled, 1 was cancelled before; no deliveries yet\n"
    text = duly("cancel", "--group", "visit-9", *ACCOUNT).stdout
    assert text.startswith("no reminder cancelled, 4 were cancelled before; deliveries: ")


def test_a_second_cancel_keeps_its_reason() -> None:
    """It says that it was cancelled before, and why it was wanted once more is on record."""
    take("r")
    duly("cancel", "r", *ACCOUNT, "--why", "moved out")
    text = duly("cancel", "r", *ACCOUNT, "--why", "sold").stdout
    assert text == "it was cancelled before; it had no deliveries yet\n"
    assert "cancelled it: moved out. " in explained()
    assert "cancelled it once more: sold. No further occurrence is planned." in explained()


def gone(status: str) -> None:
    """What is open has ended like that."""
    change("delete from work")
    change(f"update delivery set status = '{status}' where status is null")  # noqa: S608 - a word of ours


PAST: Final = {"notify_at": "2026-01-01T09:00:00Z", "zone": None, "deadline": "2099-01-01T00:00Z"}


def test_what_was_sent_cannot_be_cancelled() -> None:
    """It says so and is refused, by its reminder and by itself; a second time it was cancelled before."""
    take("r", **PAST)
    duly("tick")
    (line,) = told("list")["deliveries"]
    gone("sent")
    words = "duly: it was already sent, and nothing was left to cancel; deliveries: 1 already sent"
    assert complaint("cancel", line["id"], *WHY) == words
    assert complaint("cancel", "r", *ACCOUNT, *WHY) == words
    again = told("cancel", "r", *ACCOUNT, *WHY)
    assert (again["answer"], again["sent"]) == ("already_cancelled", 1)
    assert duly("cancel", "r", *ACCOUNT).stdout == "it was cancelled before; deliveries: 1 already sent\n"
    assert told("cancel", line["id"], code=1)["answer"] == "already_sent"


def test_what_ended_otherwise_needs_no_cancel() -> None:
    """Nothing was sent and nothing comes: the answer says that it had ended."""
    take("r", **PAST)
    duly("tick")
    gone("expired")
    text = duly("cancel", "r", *ACCOUNT).stdout
    assert text == "it had ended, and nothing was left to cancel; deliveries: 1 final before\n"


def test_a_repeating_one_tells_what_was_sent_and_that_nothing_comes() -> None:
    """Of its occurrences some were sent, one is cancelled, and no further one comes."""
    take("r", repeat="* * * * *", notify_at="2026-01-01T09:00", missed="all:2", deadline="P3650D")
    change("update reminder set next_due_at = 0, next_label = '2026-11-01T09:00Z'")
    duly("tick")
    change("delete from work where delivery_id = (select delivery_id from work limit 1)")
    change("update delivery set status = 'sent' where id not in (select delivery_id from work)")
    text = duly("cancel", "r", *ACCOUNT).stdout
    assert text == ("cancelled, and no further occurrence comes; deliveries: 1 will not be sent; 1 already sent\n")
    assert duly("cancel", "r", *ACCOUNT).stdout.startswith(
        "it was cancelled before; deliveries: 1 already sent; 1 final"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name one: the ID of a reminder or a delivery, or --group with --account"),
        (("r", "--group", "g", *ACCOUNT), "name one: "),
        (("--group", "g"), "--group: it belongs to an account; give --account too"),
        (("--group", "g", *ACCOUNT), "--group: no reminder of account harbour-lofts belongs to 'g'"),
        (("--group", "g", "--account", "harbour-loft"), "--account: no account is called 'harbour-loft'"),
    ],
)
def test_a_group_and_an_id_are_told_apart(arguments: tuple[str, ...], words: str) -> None:
    """Exactly one of them, a group with its account, and one that is there."""
    take("r")
    assert words in complaint("cancel", *arguments)


# --- pauses --------------------------------------------------------------------------------------


def test_a_reminder_is_paused_and_goes_on_without_a_flood() -> None:
    """What came due meanwhile does not come; the next one does, and it is said when."""
    take("r", repeat="FREQ=DAILY")
    id_ = shown()["id"]
    assert told("reminders", "pause", "r", *ACCOUNT, *WHY) == {"id": id_, "status": "paused", "changed": True}
    assert duly("reminders", "pause", id_, *WHY).stdout == "it is paused, as before\n"
    assert "It stands still until it is resumed" in explained()
    change("update reminder set next_due_at = 1, next_label = '2026-01-01T09:00'")
    assert told("tick")["created"] == 0
    resumed = told("reminders", "resume", "r", *ACCOUNT, *WHY)
    assert (resumed["status"], resumed["changed"], resumed["next_label"]) == ("active", True, NEVER)
    assert (resumed["next_due_at"], resumed["next_local"]) == (NEVER_UTC, f"{NEVER}:00")
    text = duly("reminders", "resume", "r", *ACCOUNT, *WHY).stdout
    at = f"{NEVER}:00 in America/New_York ({NEVER_UTC})"
    assert text == f"it is active, as before; {NEVER} is due at {at}\n"


def test_what_fires_once_keeps_its_time() -> None:
    """Paused over its time it is due at once when it goes on, and its deadline judges it."""
    take("r", notify_at="2026-01-01T09:00:00Z", zone=None, deadline="PT1H")
    duly("reminders", "pause", "r", *ACCOUNT, *WHY)
    assert told("tick")["created"] == 0
    text = duly("reminders", "resume", "r", *ACCOUNT, *WHY).stdout
    assert text == "it is active; once is due at 2026-01-01T09:00:00Z\n"
    duly("tick")
    (line,) = told("list")["deliveries"]
    assert (line["status"], line["reason"]) == ("expired", "deadline_passed_before_tick")


def test_a_rule_that_is_over_is_done() -> None:
    """Resumed when its last occurrence is past, nothing of it is left."""
    start = (datetime.now(UTC) + timedelta(seconds=90)).isoformat(timespec="seconds")
    take("r", notify_at=start, zone=None, repeat="FREQ=DAILY;COUNT=1", deadline="PT8H")
    duly("reminders", "pause", "r", *ACCOUNT, *WHY)
    change("update reminder set schedule = replace(schedule, substr(schedule, 11, 4), '2020')")
    assert duly("reminders", "resume", "r", *ACCOUNT, *WHY).stdout == "nothing of it is still to come: it is done\n"
    for order in ("pause", "resume"):
        assert "it is done: nothing of it is still to come" in complaint("reminders", order, "r", *ACCOUNT, *WHY)


def test_what_a_tick_has_paused_goes_on_when_the_zone_is_known() -> None:
    """As long as this machine does not know the zone it stays paused, and says why; then it goes on."""
    take("r", repeat="FREQ=DAILY")
    change("update reminder set next_due_at = 1, zone = 'Mars/Olympus'")
    duly("tick")
    assert shown()["status"] == "paused"
    assert "tick paused it, because this machine does not know its zone; update the zone data (tzdata)." in explained()
    line = complaint("reminders", "resume", "r", *ACCOUNT, *WHY)
    assert "key r: it stays paused: this machine does not know its zone Mars/Olympus" in line
    change("update reminder set zone = 'America/New_York'")
    assert told("reminders", "resume", "r", *ACCOUNT, *WHY)["next_due_at"] == NEVER_UTC


# --- zones ---------------------------------------------------------------------------------------


def test_other_zone_data_move_what_they_told() -> None:
    """After an update of the zone data each moment is told anew, once; the text names what moved."""
    take("r", "s", "t")
    take("instant", notify_at="2099-12-01T09:00:00Z", zone=None)
    assert told("zones", "refresh")["looked"] == 0
    change("update reminder set zone_data = '2020a' where zone_data is not null")
    change("update reminder set next_due_at = next_due_at + 3600000000 where caller_key = 'r'")
    change("update reminder set zone = 'Mars/Olympus' where caller_key = 't'")
    text = duly("zones", "refresh").stdout
    assert text.startswith(f"zone data {zones.version()}: 3 reminders told by others; 1 moved, 1 as before\n1 cannot")
    assert text.splitlines()[-1].split() == ["harbour-lofts", "r", "once", "2099-12-01T15:00:00Z", NEVER_UTC]
    again = told("zones", "refresh")
    counts = {"looked": 1, "moved": 0, "same": 0, "stale": 0, "unknown": 1, "version": zones.version()}
    assert {word: again[word] for word in counts} == counts
    assert again["seconds"] >= 0
    assert shown()["next_due_at"] == NEVER_UTC
    assert "moved its next occurrence from Tue 1 Dec 2099 10:00 in America/New_York (15:00 UTC) to" in explained()
    assert ", because the rules of its zone have changed." in explained()


def test_of_many_that_moved_the_first_are_named() -> None:
    """Twenty stand in the text, and how many more there are."""
    take(*(f"r{number}" for number in range(25)))
    change("update reminder set zone_data = '2020a', next_due_at = next_due_at + 3600000000")
    lines = duly("zones", "refresh").stdout.splitlines()
    assert len([line for line in lines if line.startswith("harbour-lofts")]) == 20
    assert lines[-1] == "... and 5 more (`duly show` tells each)"


def test_who_moves_takes_his_reminders_along() -> None:
    """What follows him is told anew at his new place; what has a zone of its own stays; the import counts it."""
    people({"id": "bob", "email": "bob@example.com", "zone": "America/New_York"}, created=1, retimed=0)
    take("fixed", "r", to={"id": "bob"}, channels=["email"])
    take("follows", to={"id": "bob"}, channels=["email"], zone="recipient")
    assert (shown("follows")["zone"], shown("follows")["next_due_at"]) == ("America/New_York", NEVER_UTC)
    people({"id": "bob", "zone": "Asia/Tokyo"}, changed=1, zone_changed=1, retimed=1)
    people({"id": "bob", "zone": "Asia/Tokyo"}, same=1, retimed=0)
    moved = shown("follows")
    assert (moved["zone"], moved["next_due_at"], moved["next_local"]) == (
        "Asia/Tokyo",
        "2099-12-01T00:00:00Z",
        f"{NEVER}:00",
    )
    assert moved["events"][-1]["reason"] == "recipient_moved"
    assert "Tue 1 Dec 2099 09:00 in Asia/Tokyo (00:00 UTC)" in explained("follows")
    assert shown("fixed")["next_due_at"] == NEVER_UTC
    again = told("reschedule", "follows", *ACCOUNT, "--at", "2099-12-02T09:00", *WHY)
    assert (again["zone"], again["utc"]) == ("Asia/Tokyo", "2099-12-02T00:00:00Z")


def test_a_zone_that_came_with_a_reminder_holds_for_it() -> None:
    """Whatever is known of the recipient, and wherever he moves: each occurrence is told in the submitted zone."""
    people({"id": "bob", "email": "bob@example.com", "zone": "Asia/Tokyo"}, created=1)
    bob = {"id": "bob", "name": "Bob", "email": "bob@example.com", "zone": "America/New_York"}
    take("once", to=bob, zone="recipient")
    take("daily", to=bob, zone="recipient", repeat="FREQ=DAILY", notify_at="2020-01-01T09:00", missed="skip")
    for _ in range(2):
        assert (shown("once")["zone"], shown("once")["next_due_at"]) == ("America/New_York", NEVER_UTC)
        assert shown("daily")["next_local"].endswith("T09:00:00")
        assert shown("daily")["zone"] == "America/New_York"
        assert "in America/New_York" in explained("daily")
        change("update reminder set next_due_at = 1577887200000000, next_label = '2020-01-01T09:00'"
               " where caller_key = 'daily'")  # fmt: skip
        duly("tick")
        people({"id": "bob", "zone": "Europe/Berlin"}, retimed=0)
    assert "Europe/Berlin" not in explained("once")


def test_an_id_alone_is_read_in_the_zone_of_its_recipient() -> None:
    """Who has none is refused, with what to do."""
    people({"id": "eve", "email": "eve@example.com"})
    row = {
        "idempotency_key": "k",
        "account": "harbour-lofts",
        "to": {"id": "eve"},
        "channels": ["email"],
        "template": "visit",
        "data": {"unit": "4B"},
        "notify_at": NEVER,
        "zone": "recipient",
    }
    assert told("import", "-", given=json.dumps(row))["rejected"] == 1
    assert "the recipient has no zone" in Path("stdin.rejected.jsonl").read_text(encoding="utf-8")
    people({"id": "eve", "zone": "Europe/Berlin"})
    assert told("import", "-", given=json.dumps(row))["created"] == 1
    assert shown("k")["next_due_at"] == "2099-12-01T08:00:00Z"


# --- what is told --------------------------------------------------------------------------------


def test_what_was_missed_is_told() -> None:
    """An occurrence that no tick found in time is on record, with how many and which."""
    take("r", repeat="FREQ=DAILY", notify_at="2099-01-01T09:00")
    change("update reminder set next_due_at = 1, next_label = '2020-01-01T09:00', schedule ="
           " replace(schedule, '2099-01-01', '2020-01-01')")  # fmt: skip
    duly("tick")
    told_ = explained()
    assert "occurrences were missed and left out, from 2020-01-01T09:00 to 2" in told_
    assert "because nobody looked in time." in told_
    assert "It is next due on " in told_
    assert told("explain", "r", *ACCOUNT)["explanation"].count("(email, occurrence 20") == 1


def test_a_deferral_says_until_when() -> None:
    """Quiet hours defer: until when stands in the recipient's time and in UTC."""
    take("r", notify_at="2026-01-01T09:00", deadline="2099-12-31T00:00:00Z")
    duly("tick")
    change("update work set state = 'waiting', reason = 'quiet_hours', next_at = 4099899600000000")
    (line,) = told("list")["deliveries"]
    text = told("explain", line["id"])["explanation"]
    until = "Wed 2 Dec 2099 08:00 in America/New_York (13:00 UTC)"
    assert "was due on Thu 1 Jan 2026 09:00 in America/New_York (14:00 UTC)." in text
    assert f"because the recipient keeps quiet hours now, until {until}." in text
    assert f"Next: it will be tried again on {until}, no later than its deadline on " in text


def test_the_accounts_clock_and_a_hold_are_told(folder: Path) -> None:
    """Whose clock decides where no zone is known, by the account's zone or the number's; until when a hold lasts."""
    account = 'zone = "Europe/Berlin"\nhold_alarm = "PT1H"\nhold_for = "PT2H"\nhold_then = "resend"\n'
    config = f"{CONFIG}[accounts.harbour-lofts]\n{account}"
    (folder / "duly.toml").write_text(config, encoding="utf-8")
    take("r", notify_at="2026-01-01T09:00", deadline="2099-12-31T00:00:00Z")
    duly("tick")
    change("update work set state = 'waiting', reason = 'quiet_hours', next_at = 4099899600000000")
    (line,) = told("list")["deliveries"]
    text = told("explain", line["id"])["explanation"]
    assert "; his zone is not known, so the account's clock decides (Europe/Berlin)." in text
    change("update work set channel = 'sms'")
    change("update delivery set channel = 'sms'")
    change("""update reminder set "to" = json_set("to", '$.phone', '+4930123456')""")
    text = told("explain", line["id"])["explanation"]
    assert "it must be free in every zone in which his number may ring (Europe/Berlin)." in text
    change("""update reminder set "to" = json_set("to", '$.phone', '+18005550100')""")
    assert "the account's clock decides (Europe/Berlin)." in told("explain", line["id"])["explanation"]
    (folder / "duly.toml").write_text(CONFIG, encoding="utf-8")
    assert "his zone is not known" not in told("explain", line["id"])["explanation"]
    (folder / "duly.toml").write_text(config, encoding="utf-8")
    change("update work set state = 'held', reason = 'no_way_to_ask', since = 4099899600000000, doubt = 1")
    text = told("explain", "r", *ACCOUNT)["explanation"]
    assert "the hold ends on Wed 2 Dec 2099 10:00 in America/New_York (15:00 UTC): it is sent again" in text


def test_lateness_is_told() -> None:
    """What may be sent late says from when on it is late."""
    late = {"late": "send_marked", "deadline": "PT1H", "late_until": "2099-12-31T00:00:00Z"}
    take("r", notify_at="2026-01-01T09:00", **late)
    duly("tick")
    (line,) = told("list")["deliveries"]
    assert told("show", line["id"])["late_from"] == "2026-01-01T15:00:00Z"
    text = told("explain", line["id"])["explanation"]
    assert "It is late since Thu 1 Jan 2026 10:00 in America/New_York (15:00 UTC), and says so when it is sent." in text
    assert "no later than its last moment on" in text


# --- trying out ----------------------------------------------------------------------------------


def test_who_is_named_by_his_id_is_looked_up_where_that_is_asked_for() -> None:
    """`next` and `preview` then know his zone, name and address; what the reminder says itself goes before."""
    people({"id": "bob", "name": "Bob", "email": "bob@example.com", "zone": "Asia/Tokyo"}, created=1)
    row = {
        "idempotency_key": "k", "account": "harbour-lofts", "to": {"id": "bob"}, "channels": ["email"],
        "template": "visit", "data": {"unit": "4B"}, "notify_at": NEVER, "zone": "recipient",
    }  # fmt: skip
    given = json.dumps(row)
    assert "add --from-ledger, or to.zone" in duly("next", "-", code=1, given=given).stderr
    assert (
        "add --from-ledger, or a name" in duly("preview", "-", code=1, given=json.dumps({**row, "zone": "UTC"})).stderr
    )
    (found,) = told("next", "-", "--from-ledger", given=given)["occurrences"]
    assert (found["local"], found["utc"]) == (f"{NEVER}:00", "2099-12-01T00:00:00Z")
    shown_ = told("preview", "-", "--from-ledger", given=given)
    assert shown_["text"].startswith("Hello Bob, we visit")
    assert "bob@example.com" in shown_["headers"]["To"]
    own = {"id": "bob", "name": "Rob", "phone": "+14155550100", "zone": "Europe/Berlin"}
    said = json.dumps({**row, "to": own, "channels": ["sms"]})
    assert told("next", "-", "--from-ledger", given=said)["zone"] == "Europe/Berlin"
    assert told("preview", "-", "--from-ledger", given=said)["text"].startswith("Hello Rob")
    assert "no to.email" in duly("preview", "-", "--from-ledger", code=1, given=said.replace("sms", "email")).stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"to": {"id": "eve"}}, "--from-ledger: account harbour-lofts has no recipient 'eve'"),
        ({"account": "elsewhere"}, "--from-ledger: account elsewhere has no recipient 'bob'"),
        ({"account": None}, "--from-ledger: to look somebody up takes account and to.id, as texts"),
        ({"to": "bob"}, "--from-ledger: to look somebody up takes account and to.id, as texts"),
    ],
)
def test_nobody_is_found_in_another_account(changes: dict[str, Any], words: str) -> None:
    """A recipient is looked up in the account of the reminder, and by his id alone."""
    people({"id": "bob", "email": "bob@example.com", "zone": "Asia/Tokyo"}, created=1)
    row = {"account": "harbour-lofts", "to": {"id": "bob"}, "notify_at": NEVER, "zone": "recipient", **changes}
    given = json.dumps(row)
    for order in (("next",), ("preview",), ("send-test", "--to", "me@example.com")):
        assert words in duly(*order, "-", "--from-ledger", code=1, given=given).stderr


# --- purposes ------------------------------------------------------------------------------------


def test_purposes_that_are_near_a_known_one_are_told() -> None:
    """The import takes them and warns, with the first rows; one that differs by case is rejected."""
    Path("duly.toml").write_text(
        CONFIG + '[accounts.harbour-lofts]\ncaps = { Newsletter = "3/P1D" }\n', encoding="utf-8"
    )
    words = ["marketing", "marketng", "newsletters", "newsletter", "survey", "marketting", "servce"]
    rows = [
        {
            "idempotency_key": word, "account": "harbour-lofts", "to": {"id": "a", "name": "A", "webhook": "https://a.example/in"},
            "template": "visit", "data": {"unit": "4B"}, "notify_at": f"{NEVER}Z", "purpose": word,
        }
        for word in words
    ]  # fmt: skip
    answer = duly("import", "-", "--format", "jsonl", given="".join(json.dumps(one) + "\n" for one in rows))
    assert "7 rows: 6 created, 0 already there, 1 rejected" in answer.stdout
    (warning,) = [line for line in answer.stderr.splitlines() if "purposes are near" in line]
    assert warning.endswith(
        "warning: 4 rows were taken whose purposes are near a known one (Newsletter, marketing):"
        ' line 2 has "marketng", line 3 has "newsletters", line 6 has "marketting"'
    )
    assert "did you mean" in Path("stdin.rejected.jsonl").read_text(encoding="utf-8")
