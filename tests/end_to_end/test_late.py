"""What comes after its deadline: sent and marked where its reminder asks for that, and not for ever."""

from __future__ import annotations

import json
from typing import Final

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.installation import Installation, reminder

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
