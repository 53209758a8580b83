"""Folding: what is late comes as one message, a *summary*, and not as many.

With `late = summarize` a delivery that could be sent, and is late, is folded: it waits for a summary, which is a
delivery of its own, under its own key, with the same recipient, address, provider, purpose and lane. A summary gathers
for a moment, and as long as nothing of it may have left: also while it waits for another try. It is sent like any other
delivery, and marked as late. What it carries are *parts*: for each folded delivery what it would have said. Whatever
becomes of the summary becomes of them: sent or unconfirmed with it, or, if it ends in another way, ready again. Then
they are folded anew, but not for ever: after `RETURNS_MAX` summaries that came to nothing a delivery is sent by itself,
marked as late. A summary is *retired* if a reminder in it is called off or changed before anything of it can have left;
the others make another. If that comes later the summary is called off: what is in the air goes on, and is not sent once
more.

The key of a summary comes from the first delivery that it was made for and from how often that was folded: a summary
that is lost and made again is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from duly.core import keys
from duly.core.model import Channel, Claimed, Content
from duly.core.moments import instant
from duly.core.schedule import ONCE
from duly.core.text import recordable

__all__ = [
    "BUSY",
    "GATHER_SECONDS",
    "MEMBERS_MAX",
    "PREFIX",
    "RETIRED",
    "RETURNS_MAX",
    "TEMPLATE",
    "Folding",
    "Gathered",
    "Gathering",
    "gather",
    "group_of",
    "may_fold",
    "part_of",
    "share_of",
    "share_reason",
]

#: The template of every summary. There is one with that name that everybody has, and that a configuration may replace.
TEMPLATE: Final = "late-summary"
#: The callers' keys of summaries begin with this, and those of reminders do not.
PREFIX: Final = "duly/"
#: Why a late delivery waits whose summary a worker has in its hands.
BUSY: Final = "summary_under_way"
#: Why a summary ends that has lost one of its own before it began.
RETIRED: Final = "summary_retired"

#: For so long a new summary waits for others, or half of the time that is left.
GATHER_SECONDS: Final = 10.0
#: So many summaries of a delivery may come to nothing; then it is sent alone.
RETURNS_MAX: Final = 3
MEMBERS_MAX: Final = 50
#: Of all parts of a summary; one part alone may be longer.
PARTS_BYTES_MAX: Final = 50_000


class Folding(NamedTuple):
    """A claimed row that is to be folded: under which fence and revision of its reminder, into which group, and what it
    would have said (JSON).
    """

    id: bytes
    fence: int
    revision: int
    group: str
    part: str


class Gathering(NamedTuple):
    """A summary that may still take something up. `parts`: its data, JSON. `next_at`: when it looks again."""

    id: bytes
    reminder: bytes
    parts: str
    due_at: datetime
    deadline_at: datetime
    next_at: datetime


class Foldable(NamedTuple):
    """A row as the ledger has it. `whose`: recipient and contact."""

    row: Folding
    account: str
    channel: Channel
    whose: tuple[bytes, bytes]
    due_at: datetime
    deadline_at: datetime
    folds: int
    into: Gathering | None


class Gathered(NamedTuple):
    """A summary with what it takes up: `members`, of which the first lends it what it does not have of its own."""

    summary: Gathering
    new_key: str | None  # the caller's key of one that is new
    members: tuple[bytes, ...]
    group: str | None  # None: it is full, and takes up nothing more
    send_at: datetime  # while it only gathers: no later than this


# --- what is folded ------------------------------------------------------------------------------


def may_fold(row: Claimed) -> bool:
    """Whether an admitted row that is sent late is folded. In doubt, only its own bytes may go out."""
    return row.summarized and row.late is not None and not row.doubt


def group_of(row: Claimed) -> str:
    """What rows of one recipient and address must have in common: what quiet hours, caps, consent and haste go by."""
    return json.dumps([row.purpose, row.lane, *row.recipient_quiet_hours])


def part_of(row: Claimed, content: Content) -> str:
    """What a row would have said, as templates of summaries find it in `data.reminders`."""
    part = {
        "reminder": row.reminder_key,
        "occurrence": row.occurrence,
        "due_at": instant(row.due_at),
        "template": row.template,
        "subject": recordable(content.subject),
        "text": recordable(content.text),
        "data": row.data,
    }
    return json.dumps(part, ensure_ascii=False)


# --- what becomes of it --------------------------------------------------------------------------


#: Why what was folded goes where its summary's end brings it.
_REASONS: Final[Mapping[str, str]] = {
    "sent": "summary_sent",
    "unconfirmed": "summary_unconfirmed",
    "rejected": "summary_rejected",
    "dead": "summary_dead",
    "expired": "summary_expired",
    "suppressed": "summary_suppressed",
    "cancelled": "summary_cancelled",
}


def share_of(status: str) -> str:
    """The state that a summary's end brings to what was folded into it."""
    return status if status in ("sent", "unconfirmed") else "ready"


def share_reason(status: str, reason: str) -> str:
    """The reason code of that, from how a summary ended and why."""
    return RETIRED if reason == RETIRED else _REASONS[status]


# --- who goes with whom --------------------------------------------------------------------------


def gather(rows: Iterable[Foldable], namespace: str, now: datetime) -> Iterator[Gathered]:
    """Share rows out among the summaries that gather for them, and new ones: in one order, whoever does it."""
    groups: dict[tuple[Any, ...], list[Foldable]] = {}
    for one in rows:
        groups.setdefault((one.account, *one.whose, one.row.group), []).append(one)
    for _, members in sorted(groups.items()):
        yield from _gather(sorted(members, key=lambda one: (one.due_at, one.row.id)), namespace, now)


def _gather(rows: Sequence[Foldable], namespace: str, now: datetime) -> Iterator[Gathered]:
    into, taken = rows[0].into, list[Foldable]()
    for one in rows:
        if into and _too_short(one, into, now):
            continue
        if not _fits(into, taken, one):
            yield _gathered(into, taken, namespace, now, full=True)
            into, taken = None, []
        taken.append(one)
    if taken:
        yield _gathered(into, taken, namespace, now, full=False)


def _too_short(one: Foldable, into: Gathering, now: datetime) -> bool:
    """Whether a summary waits, for more than others, beyond the last moment of a row: the row would end it."""
    return one.deadline_at <= into.next_at and into.next_at > now + timedelta(seconds=GATHER_SECONDS)


def _fits(into: Gathering | None, taken: Sequence[Foldable], one: Foldable) -> bool:
    there = _parts(into.parts) if into else []
    if not there and not taken:
        return True
    parts = [into.parts if into else "", *(other.row.part for other in taken), one.row.part]
    size = sum(len(part.encode()) for part in parts)
    return len(there) + len(taken) < MEMBERS_MAX and size <= PARTS_BYTES_MAX


def _gathered(
    into: Gathering | None, taken: Sequence[Foldable], namespace: str, now: datetime, *, full: bool
) -> Gathered:
    key, summary = (None, into) if into else _new(taken[0], namespace)
    due_at = min([summary.due_at, *(one.due_at for one in taken)])
    deadline_at = min([summary.deadline_at, *(one.deadline_at for one in taken)])
    parts = _joined(summary.parts, [one.row.part for one in taken])
    group = None if full else taken[0].row.group
    return Gathered(
        summary._replace(parts=parts, due_at=due_at, deadline_at=deadline_at),
        key,
        tuple(one.row.id for one in taken),
        group,
        min(now + timedelta(seconds=GATHER_SECONDS), now + (deadline_at - now) / 2),
    )


def _new(first: Foldable, namespace: str) -> tuple[str, Gathering]:
    key = f"{PREFIX}summary/{keys.show(first.row.id)}/{first.folds + 1}"
    delivery = keys.delivery_id(namespace, first.account, key, ONCE, first.channel)
    reminder = keys.reminder_id(namespace, first.account, key)
    return key, Gathering(delivery, reminder, '{"reminders": []}', first.due_at, first.deadline_at, first.deadline_at)


def _joined(before: str, parts: Iterable[str]) -> str:
    """The data of a summary: its parts in the order in which they were due."""
    found = [*_parts(before), *map(json.loads, parts)]
    found.sort(key=lambda part: (part["due_at"].removesuffix("Z"), part["reminder"], part["occurrence"]))
    return json.dumps({"reminders": found}, ensure_ascii=False)


def _parts(data: str) -> list[Mapping[str, Any]]:
    parts: list[Mapping[str, Any]] = json.loads(data)["reminders"]
    return parts
