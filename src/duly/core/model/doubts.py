"""What reconcile looks at, and the guard of a restored ledger."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from duly.core.model.sending import Frozen
from duly.core.model.words import FailureClass, Outcome
from duly.core.states import State

__all__ = ["Doubtful", "Guard", "Look", "LookKind", "Looked"]


class Doubtful(NamedTuple):
    """An uncertain or held delivery under reconcile's own fence, with what its attempts say.

    An attempt is *unknown* while it may have been accepted: no definite answer is on record, and no
    counted miss covers it. After a restore, one more counts that nobody remembers.
    """

    id: bytes
    fence: int
    state: State  # uncertain, or held: then its alarm or its deadline has come
    since: datetime  # when it came into that state
    account: str
    provider: str
    address: str
    attempts: int
    spared: int
    unknown: int
    last_unknown: int | None  # number of the latest unknown attempt; None if there is none on record
    last_unknown_at: datetime | None  # when that one was given up; for one that nobody remembers, `since`
    request_id: str | None  # the provider's name for an unknown attempt, where we hold one
    last_outcome: Outcome | None  # of the latest attempt
    last_failure: FailureClass | None
    first_unknown_at: datetime | None
    misses: int
    missed_at: datetime | None
    due_at: datetime
    deadline_at: datetime
    closed: bool
    restored: bool  # an attempt that nobody remembers may have been made
    alarmed: bool
    refused: str | None  # why admission would refuse it for good: cancelled, or an objection
    frozen: Frozen | None  # the latest bytes, if they are still kept
    reason: str = ""  # why it is where it is


class LookKind(StrEnum):
    """By what a provider is asked for a delivery."""

    REQUEST_ID = "request_id"
    KEY = "key"
    SEARCH = "search"


class Look(NamedTuple):
    """What a provider's answer to a look-up proves. `found` None: nothing, so ask again later."""

    found: bool | None
    request_id: str | None = None
    retry_after: float | None = None  # seconds


class Looked(NamedTuple):
    """A row that stays where it is after reconcile has looked at it."""

    id: bytes
    fence: int
    next_at: datetime
    misses: int  # counted so far, this look included
    missed: bool  # this look was a miss that counts: its time is recorded
    alarmed: bool = False  # held, and the alarm is raised now: leaves an event `hold_alarm`


class Guard(NamedTuple):
    """A restore guard: while it is open nothing is sent. What happened from `since` on may be forgotten."""

    number: int
    since: datetime
    opened_at: datetime
    opened_by: str
    why: str
    closed_at: datetime | None = None
    closed_by: str | None = None
    closing_why: str | None = None
