"""The main path: reminders go in as files, become deliveries, are sent once, and every view can say why.

One story is told per database, each step by the real program, and each test looks at one promise about it.
"""

from __future__ import annotations

import json
import signal
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple

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

#: As a spreadsheet writes it: a byte order mark, semicolons, and a cell of two lines.
NONE_LEFT_OUT = {"left_out": 0, "left_out_rows": []}
CSV: Final = (
    "\ufeffidempotency_key;account;to.id;to.name;to.email;template;data.unit;notify_at;deadline\r\n"
    'csv-1;harbour-lofts;t-1;Ana;ana@prvt.example.com;visit;"prvt;4B\nrear ""house""";{due};PT8H\r\n'
    "csv-2;harbour-lofts;t-2;Bo;bo@prvt.example.com;visit;007;{due};PT8H\r\n"
)
DUE: Final = "2026-01-01T00:00:00Z"
FAR: Final = "2099-01-01T09:00:00Z"


class Views(NamedTuple):
    """What the read-only commands tell in the end."""

    expired: Any
    status: Any
    later: Any
    mail: Any
    delivery: Any
    explained: Any
    explained_later: Any


class Story(NamedTuple):
    """What the program said at each step, and what the receiving side saw in the end."""

    receiver: Receiver
    sink: MailSink
    imported: dict[str, Any]
    imported_csv: dict[str, Any]
    imported_again: dict[str, Any]
    ticked: dict[str, Any]
    ticked_again: dict[str, Any]
    worked: Run
    worked_again: Run
    ledger: dict[str, Shown]
    views: Views
    requests: int
    mails: int


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Story]]:
    """Everything once, then everything again."""
    return tell_on_both(_story, tmp_path_factory.mktemp("story"))


@pytest.fixture(params=DIALECTS)
def story(request: pytest.FixtureRequest, stories: dict[str, Future[Story]]) -> Story:
    """The story on each database in turn."""
    return stories[request.param].result()


def _story(dialect: str, folder: Path) -> Story:
    with beside(Receiver()) as receiver, beside(MailSink()) as sink, settle_in(dialect, folder, sink.url) as duly:
        return _told(duly, receiver, sink)


def _told(duly: Installation, receiver: Receiver, sink: MailSink) -> Story:
    (duly.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows(receiver)))
    (duly.folder / "rows.csv").write_text(CSV.replace("{due}", _recently()), encoding="utf-8", newline="")
    imported, imported_csv = duly.told("import", "rows.jsonl"), duly.told("import", "rows.csv")
    ticked = duly.told("tick")
    worked = duly.run("work", "--until-idle", "--json")
    requests, mails = receiver.requests, sink.accepted
    imported_again = duly.told("import", "rows.jsonl")
    ticked_again, worked_again = duly.told("tick"), duly.run("work", "--until-idle", "--json")
    assert (receiver.requests, sink.accepted) == (requests, mails), "the second round sent something"
    ledger = duly.ledger()
    return Story(
        receiver, sink, imported, imported_csv, imported_again, ticked, ticked_again, worked, worked_again,
        ledger, _views(duly, ledger), requests, mails,
    )  # fmt: skip


def _views(duly: Installation, ledger: dict[str, Shown]) -> Views:
    documents = duly.told_at_once(
        ["list", "--status", "expired"],
        ["status"],
        ["show", "later", "--account", ACCOUNT],
        ["show", "mail", "--account", ACCOUNT],
        ["show", ledger["mail"]["id"]],
        ["explain", ledger["late"]["id"]],
        ["explain", "later", "--account", ACCOUNT],
    )
    return Views(*documents)


def _recently() -> str:
    return str(reminder("r")["notify_at"])


def _rows(receiver: Receiver) -> list[dict[str, Any]]:
    """Three webhooks, a mail, one on both channels, one for later, and one that is too late."""
    hook = receiver.url("ok", "prvt-path")
    return [
        *(reminder(f"hook-{number}", webhook=hook) for number in range(3)),
        reminder("mail", email="mail@prvt.example.com"),
        reminder("both", webhook=hook, email="both@prvt.example.com", channels=["webhook"]),
        reminder("later", webhook=hook) | {"notify_at": FAR, "zone": "America/New_York"},
        reminder("late", webhook=hook) | {"notify_at": DUE, "deadline": "PT8H"},
    ]


# --- in ------------------------------------------------------------------------------------------


def test_import_counts_every_row(story: Story) -> None:
    """An import says how many rows it read, created, knew already and rejected."""
    assert story.imported == {"rows": 7, "created": 7, "already": 0, "rejected": 0, "revised": 0, **NONE_LEFT_OUT}


def test_a_spreadsheets_csv_is_read(story: Story) -> None:
    """A CSV with a byte order mark, semicolons and a quoted line break gives the rows that it holds."""
    assert story.imported_csv == {"rows": 2, "created": 2, "already": 0, "rejected": 0, "revised": 0, **NONE_LEFT_OUT}


def test_importing_again_creates_nothing(story: Story) -> None:
    """The same file a second time finds every row already there."""
    assert story.imported_again == {"rows": 7, "created": 0, "already": 7, "rejected": 0, "revised": 0, **NONE_LEFT_OUT}


def test_a_tick_makes_what_is_due(story: Story) -> None:
    """A tick turns what is due into deliveries, also what is too late, and leaves the rest alone."""
    told = {word: story.ticked[word] for word in ("due", "created", "already", "remaining")}
    assert told == {"due": 8, "created": 8, "already": 0, "remaining": False}


def test_ticking_again_makes_nothing(story: Story) -> None:
    """A second tick finds nothing due."""
    assert (story.ticked_again["due"], story.ticked_again["created"]) == (0, 0)


# --- out -----------------------------------------------------------------------------------------


def test_everything_due_is_sent_once(story: Story) -> None:
    """Each webhook is posted once and each mail is taken once, however often the program runs."""
    assert (story.requests, story.mails) == (4, 3)
    assert len(set(story.receiver.accepted)) == 4
    assert {address: len(mails) for address, mails in story.sink.messages.items()} == {
        "mail@prvt.example.com": 1,
        "ana@prvt.example.com": 1,
        "bo@prvt.example.com": 1,
    }


def test_the_tally_is_what_happened(story: Story) -> None:
    """`work --json` counts what it claimed and sent, and a second run has nothing to count."""
    first, second = story.worked.document, story.worked_again.document
    assert (first["claimed"], first["sent"], first["retried"], first["uncertain"]) == (7, 7, 0, 0)
    assert {word: count for word, count in second.items() if count and word != "seconds"} == {}


def test_the_ledger_says_sent_with_one_attempt(story: Story) -> None:
    """Each delivery that was sent has one attempt, accepted, with the hash of what was asked for."""
    sent = [one for one in story.ledger.values() if one["status"] == "sent"]
    assert len(sent) == 7
    assert all(attempts(one) == [("accepted", None)] for one in sent)
    assert all(
        one["reason"] == "accepted" and one["payload_hash"] == one["attempts"][0]["payload_hash"] for one in sent
    )


def test_the_key_travels(story: Story) -> None:
    """A webhook carries the delivery's id as `webhook-id` and as `Idempotency-Key`, and names it in the body."""
    ids = {one["id"] for key, one in story.ledger.items() if one["channel"] == "webhook" and one["status"] == "sent"}
    received = story.receiver.received("ok", "prvt-path")
    assert {one.headers["webhook-id"] for one in received} == ids
    assert {one.headers["idempotency-key"] for one in received} == ids
    assert {json.loads(one.body)["data"]["delivery"] for one in received} == ids


def test_a_cells_line_break_reaches_the_mail(story: Story) -> None:
    """What a quoted cell held is what the mail says, line break and quotes too."""
    (mail,) = story.sink.messages["ana@prvt.example.com"]
    assert b'we come to unit prvt;4B\r\nrear "house".' in mail


def test_digits_stay_text(story: Story) -> None:
    """A cell of digits is not a number: unit 007 is not unit 7."""
    (mail,) = story.sink.messages["bo@prvt.example.com"]
    assert b"Subject: Visit of unit 007\r\n" in mail


def test_what_is_due_later_stays(story: Story) -> None:
    """A reminder of the future has no delivery, is active, and says when it is due, also in its own zone."""
    shown = story.views.later
    assert "later" not in story.ledger
    assert (shown["status"], shown["next_due_at"], shown["next_local"]) == ("active", FAR, "2099-01-01T04:00:00")


def test_what_is_too_late_expires_with_a_reason(story: Story) -> None:
    """A reminder whose deadline had passed is written as expired, was never sent, and says why."""
    late = story.ledger["late"]
    assert (late["status"], late["reason"], late["attempts"]) == ("expired", "deadline_passed_before_tick", [])


# --- views ---------------------------------------------------------------------------------------


def test_list_shows_the_words_of_the_contract(story: Story) -> None:
    """`list --json` has one row per delivery, with the words that scripts rely on."""
    rows = story.views.expired["deliveries"]
    assert len(rows) == 1
    assert list(rows[0]) == [
        *("id", "account", "reminder", "occurrence", "channel", "status", "reason", "attempts", "due_at")
    ]
    assert (rows[0]["reminder"], rows[0]["occurrence"], rows[0]["due_at"]) == ("late", "once", DUE)


def test_status_counts_states(story: Story) -> None:
    """`status` counts every delivery in its state."""
    assert {state: one["count"] for state, one in story.views.status["states"].items()} == {"sent": 7, "expired": 1}


def test_show_goes_by_the_callers_key(story: Story) -> None:
    """`show KEY --account A` is the reminder, and leads to its delivery by id."""
    shown = story.views.mail
    (line,) = shown["deliveries"]
    assert (shown["idempotency_key"], shown["status"], line["channel"]) == ("mail", "done", "email")
    assert story.views.delivery == story.ledger["mail"]
    assert line["id"] == story.views.delivery["id"]


def test_show_tells_the_whole_attempt(story: Story) -> None:
    """An attempt names its number, times, outcome, status, hash and worker."""
    (attempt,) = story.ledger["hook-0"]["attempts"]
    assert set(attempt) == {
        *("number", "started_at", "finished_at", "outcome", "class", "http_status", "request_id", "payload_hash"),
        *("retry_after", "response_excerpt", "worker", "detail", "covered"),
    }
    assert (attempt["number"], attempt["http_status"], len(attempt["payload_hash"])) == (1, 200, 64)
    assert attempt["started_at"] < attempt["finished_at"]
    assert attempt["finished_at"].endswith("Z")


def test_explain_is_a_paragraph(story: Story) -> None:
    """`explain` says in one paragraph what became of a delivery, and that nothing more will happen."""
    text = story.views.explained["explanation"]
    assert "\n" not in text
    assert "is expired, because its deadline had passed before its reminder came" in text
    assert "nothing more will happen" in text


def test_explain_tells_what_comes_next(story: Story) -> None:
    """`explain` of a reminder of the future says when it is due."""
    assert (
        "next due on Thu 1 Jan 2099 04:00 in America/New_York (09:00 UTC)" in story.views.explained_later["explanation"]
    )


# --- up, stdin, rejections -----------------------------------------------------------------------


def test_up_ticks_and_works(duly: Installation, receiver: Receiver) -> None:
    """`up` sends what is due, and what comes due while it runs."""
    duly.take(reminder(key, webhook=receiver.url("ok", key), due_in=due) for key, due in (("now", -1.0), ("soon", 3.0)))
    with duly.running("up") as up:
        wait_until(lambda: receiver.count("ok", "now"), "what is due is sent")
        wait_until(lambda: receiver.count("ok", "soon"), "what comes due is sent")
        assert up.end(signal.SIGTERM).code == 0
    assert {key: one["status"] for key, one in duly.ledger().items()} == {"now": "sent", "soon": "sent"}


def test_a_rejected_row_is_set_aside_with_its_reason(duly: Installation, receiver: Receiver) -> None:
    """Bad rows stop nothing: they go to FILE.rejected.jsonl with line, field and reason, for its owner's eyes only."""
    good = reminder("good", webhook=receiver.url("ok"))
    rows = [good | {"template": "vist"}, good, reminder("bad-address", email="nobody"), good | {"notify_at": DUE}]
    (duly.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{nonsense\n")
    run = duly.run("import", "rows.jsonl", "--json")
    assert run.document == {"rows": 5, "created": 1, "already": 0, "rejected": 4, "revised": 0, **NONE_LEFT_OUT}
    rejected = duly.folder / "rows.jsonl.rejected.jsonl"
    told = [json.loads(line) for line in rejected.read_text().splitlines()]
    assert [(one["line"], one["field"]) for one in told] == [
        *((1, "template"), (3, "to.email"), (4, "idempotency_key"), (5, None))
    ]
    assert all(one["reason"] for one in told)
    assert rejected.stat().st_mode & 0o077 == 0


def test_a_mended_file_removes_the_rejections(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """When nothing is rejected any more, the file of rejections goes."""
    file = duly_on_sqlite.folder / "rows.jsonl"
    row = reminder("a", webhook=receiver.url("ok"))
    file.write_text(json.dumps(row | {"template": "nope"}))
    duly_on_sqlite.run("import", "rows.jsonl", "--strict", code=1)
    file.write_text(json.dumps(row))
    duly_on_sqlite.run("import", "rows.jsonl", "--strict")
    assert not (duly_on_sqlite.folder / "rows.jsonl.rejected.jsonl").exists()


def test_strict_still_takes_the_good_rows(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """With --strict a rejection makes the exit code 1, and the good rows are taken all the same."""
    rows = [reminder("a", webhook=receiver.url("ok")), reminder("b", webhook="ftp://prvt.example.com")]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    run = duly_on_sqlite.run("import", "-", "--strict", "--json", stdin=text, code=1)
    assert run.document == {"rows": 2, "created": 1, "already": 0, "rejected": 1, "revised": 0, **NONE_LEFT_OUT}
    assert (duly_on_sqlite.folder / "stdin.rejected.jsonl").exists()
