"""A promise is kept although the configuration has changed since, until somebody moves it to the new version."""

from __future__ import annotations

import json

from duly.testing.receiver import Receiver
from tests.end_to_end.installation import Installation, reminder


def test_an_edited_template_changes_no_promise(duly: Installation, receiver: Receiver) -> None:
    """What was taken before the edit says what it said then, what comes after or is moved says the new words."""
    hook = receiver.url("ok")
    before = [reminder("due", webhook=hook, due_in=1.0), reminder("moved", webhook=hook, due_in=40_000.0)]
    duly.take(before)
    duly.file.write_text(duly.text.replace("we come to unit", "we visit unit"), encoding="utf-8")
    duly.take([reminder("new", webhook=hook)])
    assert duly.take(before)["already"] == 2, "an edited template is no other body"
    version = duly.told("show", "moved", "--account", "harbour-lofts")["template_version"]
    duly.change("update reminder set next_due_at = created_at where caller_key = 'due'")
    duly.run("up", "--until-idle")
    texts = {data["reminder"]: data["text"] for data in _data(receiver)}
    assert texts == {
        "due": "Hello Prvt-Ana prvt, we come to unit prvt-4B.",
        "new": "Hello Prvt-Ana prvt, we visit unit prvt-4B.",
    }
    shown = duly.ledger()
    assert shown["due"]["template_version"] == version != shown["new"]["template_version"]
    moved = duly.told("templates", "upgrade", "visit", "--why", "a better word")
    assert (moved["moved"], moved["version"]) == (1, shown["new"]["template_version"])
    duly.change("update reminder set next_due_at = created_at where caller_key = 'moved'")
    duly.run("up", "--until-idle")
    assert "we visit unit" in _data(receiver)[-1]["text"]


def test_a_version_that_was_lost_is_waited_for(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """Where nobody has kept the version, the delivery waits and says so, and nothing else is sent in its place."""
    duly = duly_on_sqlite
    duly.take([reminder("r", webhook=receiver.url("ok"))])
    duly.file.write_text(duly.text.replace("we come to unit", "we visit unit"), encoding="utf-8")
    duly.change("delete from template")
    duly.run("up", "--until-idle", "--patience", "30")
    shown = duly.ledger()["r"]
    assert (shown["status"], shown["reason"]) == ("waiting", "template_version_unknown")
    assert receiver.requests == 0
    assert "the version of its template that it was promised by" in duly.run("explain", shown["id"]).out


def _data(receiver: Receiver) -> list[dict[str, str]]:
    return [json.loads(request.body)["data"] for request in receiver.received("ok")]
