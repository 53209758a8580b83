"""What comes after its deadline: sent and marked where its reminder asks for that, and not for ever."""

from __future__ import annotations

import json
from typing import Any, Final

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.installation import ACCOUNT, Installation, reminder

HOUR: Final = 3600.0
#: Late after a minute, and of use for two hours.
MARKED: Final = {"late": "send_marked", "deadline": "PT1M", "late_until": "PT2H"}
TEXT: Final = '"Hello {{ recipient.name }}, we come to unit {{ data.unit }}."'
LATE_TEXT: Final = '"{% if late %}{{ late.by }} late{% else %}on time{% endif %}"'


def test_what_is_late_says_so_or_expires(duly: Installation, receiver: Receiver, sink: MailSink) -> None:
    """After the deadline it arrives marked by webhook and by mail; on time unmarked; after `late_until` not at all."""
    duly.file.write_text(duly.text.replace(TEXT, LATE_TEXT), encoding="utf-8")
    hook = receiver.url("ok", "prvt-hook")
    duly.take(
        [
            reminder("late-hook", webhook=hook, due_in=-HOUR, **MARKED),
            reminder("late-mail", email="late@prvt.example.com", due_in=-HOUR, **MARKED),
            reminder("on-time", email="on-time@prvt.example.com", **MARKED | {"deadline": "PT1H"}),
            reminder("too-late", webhook=hook, due_in=-3 * HOUR, **MARKED),
        ]
    )
    duly.run("tick")
    duly.run("work", "--until-idle")
    assert duly.states() == {"sent": 3, "expired": 1}
    (request,) = receiver.received("ok", "prvt-hook")
    assert (request.headers["duly-late"], json.loads(request.body)["data"]["late"]) == ("true", True)
    assert json.loads(request.body)["data"]["text"] == "1 hour late"
    (late,), (on_time,) = sink.messages["late@prvt.example.com"], sink.messages["on-time@prvt.example.com"]
    assert b"\r\nDuly-Late: true\r\n" in late
    assert b"1 hour late" in late
    assert b"Duly-Late" not in on_time
    assert b"on time" in on_time


#: As MARKED, but those of one recipient come as one message.
SUMMARIZED: Final = MARKED | {"late": "summarize"}


def summarized(duly: Installation) -> Any:
    """Everything that can be done now, as if the time had passed in which summaries gather."""
    duly.run("work", "--until-idle", "--patience", "0")
    duly.change("update work set next_at = due_at where reason = 'summary_gathers'")
    return duly.told("work", "--until-idle")


def of_one(key: str, **more: Any) -> dict[str, Any]:
    """A late reminder of one and the same recipient."""
    row = reminder(key, due_in=-HOUR, **SUMMARIZED | more)
    return row | {"to": row["to"] | {"id": "somebody"}}


def test_what_is_late_for_somebody_comes_as_one_message(duly: Installation, receiver: Receiver, sink: MailSink) -> None:
    """Three mails become one, two webhooks one; each reminder's record names the message and what became of it."""
    hook, mail = receiver.url("ok", "prvt-hook"), "late@prvt.example.com"
    duly.take(
        [
            *(of_one(f"mail-{number}", email=mail) for number in range(3)),
            *(of_one(f"hook-{number}", webhook=hook) for number in range(2)),
            of_one("on-time", email=mail, deadline="PT90M"),
        ]
    )
    duly.run("tick")
    tally = summarized(duly)
    assert (tally["sent"], tally["in_summaries"]) == (7, 5)
    assert duly.states() == {"sent": 8}
    letters = sink.messages[mail]
    (summary,) = [letter for letter in letters if b"Duly-Late: true" in letter]
    assert len(letters) == 2
    assert b"Subject: 3 reminders\r\n" in summary
    assert summary.count(b"we come to unit") == 3
    (request,) = receiver.received("ok", "prvt-hook")
    assert [one["reminder"] for one in json.loads(request.body)["data"]["data"]["reminders"]] == ["hook-0", "hook-1"]
    ledger = duly.ledger()
    one = ledger["mail-1"]
    assert (one["status"], one["reason"], one["attempts"]) == ("sent", "summary_sent", [])
    told = duly.told("show", one["summary"])
    assert [line["reminder"] for line in told["folded"]] == ["mail-0", "mail-1", "mail-2"]
    assert f"It was folded into the summary {one['summary']}." in duly.run("explain", one["id"]).out
    assert "It is a summary of 3 late reminders." in duly.run("explain", one["summary"]).out


def test_a_cancel_leaves_the_summary_without_it(duly: Installation, receiver: Receiver) -> None:
    """Before it is sent, who is called off is not told of, and the others still come as one."""
    duly.take(of_one(key, webhook=receiver.url("ok", "prvt-hook")) for key in ("a", "b", "c"))
    duly.run("tick")
    duly.run("work", "--until-idle", "--patience", "0")
    assert duly.states() == {"folded": 3, "waiting": 1}
    assert duly.told("cancel", "b", "--account", ACCOUNT, "--why", "moved out")["cancelled"] == 1
    summarized(duly)
    (request,) = receiver.received("ok", "prvt-hook")
    assert [one["reminder"] for one in json.loads(request.body)["data"]["data"]["reminders"]] == ["a", "c"]
    assert duly.states() == {"sent": 3, "cancelled": 2}
