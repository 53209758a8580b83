"""What becomes of an occurrence that comes after its deadline.

    drop          nothing is sent: it expires (the default)
    send_marked   it is sent until `late_until`, and says that it is late
    summarize     as `send_marked`, but what is late for one recipient comes as one message

`late_until` is a duration after the due time, or an instant where there is one occurrence only; it lies after the
deadline, which has to be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from duly.core.deadlines import deadline_of
from duly.intake.fields import choice, label
from duly.intake.rejection import Rejection
from duly.intake.when import When

__all__ = ["Late", "LatePolicy", "read_late"]

TIME_CHARACTERS_MAX: Final = 64


class LatePolicy(StrEnum):
    """What becomes of what is late."""

    DROP = "drop"
    SEND_MARKED = "send_marked"
    SUMMARIZE = "summarize"


class Late(NamedTuple):
    """The policy, checked. `until` is as submitted; `deadline_at` is the first occurrence's last moment."""

    policy: LatePolicy
    until: str | None
    deadline_at: datetime


def read_late(row: Mapping[str, Any], when: When) -> Late:
    """Raises Rejection."""
    policy = LatePolicy(choice(row, "late", LatePolicy, LatePolicy.DROP))
    until = label(row, "late_until", TIME_CHARACTERS_MAX)
    if policy is LatePolicy.DROP:
        if until is not None:
            raise Rejection('is about late: "send_marked" or "summarize"; leave it out, or give one', "late_until")
        return Late(policy, None, when.deadline_at)
    return Late(policy, until, _last_moment(policy, until, when))


def _last_moment(policy: LatePolicy, until: str | None, when: When) -> datetime:
    if until is None:
        raise Rejection(f'is missing beside late: "{policy}"; say how long it is of use, like P1D', "late_until")
    if when.deadline is None:
        raise Rejection(f'is missing beside late: "{policy}"; it says from when on one is late', "deadline")
    if when.goes_on and until[0].isdigit():
        raise Rejection("must be a duration like P1D where there is more than one occurrence", "late_until")
    try:
        moment = deadline_of(when.first.due_at, until, None)
    except ValueError as error:
        raise Rejection(str(error), "late_until") from None
    if moment <= when.deadline_at:
        raise Rejection("is not after the deadline; write a later one", "late_until")
    return moment
