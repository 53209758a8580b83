"""A frequency cap from the configuration: so many reach the recipient, and the rest waits and says why."""

from __future__ import annotations

from duly.testing.receiver import Receiver
from tests.end_to_end.installation import ACCOUNT, Installation, reminder

CAPPED = f"""
[accounts.{ACCOUNT}]
caps = {{ marketing = "2/P1D" }}
"""


def test_a_cap_lets_so_many_pass(duly: Installation, receiver: Receiver) -> None:
    """Of five reminders for one recipient two leave, those of another purpose all do, and what waits says why."""
    duly.file.write_text(duly.text + CAPPED, encoding="utf-8")
    hook = receiver.url("ok")
    same = {"to": {"id": "prvt-ana", "name": "prvt-Ana", "webhook": hook}}
    many = [reminder(f"offer-{number}", purpose="marketing") | same for number in range(5)]
    others = [reminder(f"visit-{number}", purpose="service") | same for number in range(3)]
    duly.take([*many, *others, reminder("bo", webhook=hook, purpose="marketing")])
    duly.run("tick")
    duly.run("work", "--until-idle")
    assert duly.states() == {"sent": 6, "waiting": 3}
    waiting = [one for one in duly.ledger().values() if one["status"] == "waiting"]
    assert {(one["reason"], len(one["attempts"])) for one in waiting} == {("frequency_cap", 0)}
    told = duly.run("explain", waiting[0]["id"]).out
    assert (
        "its recipient has had as many of this purpose as the account allows for now (2 within 24 h); there is room"
        in told
    )
    assert "its deadline comes first" in told  # a day after it was due: the cap looks back from a little later
    duly.run("work", "--until-idle")
    assert len(receiver.accepted) == 6
