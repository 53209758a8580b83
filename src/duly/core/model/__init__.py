"""The words of Duly as values: what travels between the flows, the stores and the providers.

Times are aware datetimes in UTC, read from the database's clock. Durations are `timedelta`, or
seconds where the name says so. Ids are 16 bytes (see `keys`). Everything is immutable: a decision is
made from these values and returned as another one, and only a store writes. What is made for every
delivery is a named tuple, which costs a fraction of a frozen dataclass.

Rooms: `words`, `reminders` (schedule and tick), `sending` (claim to settle), `doubts` (reconcile and restore).
"""

from duly.core.model.doubts import Doubtful, Guard, Look, Looked, LookKind
from duly.core.model.reminders import Due, Fired, FiredNote, NewContact, NewDelivery, NewReminder, TemplateSource
from duly.core.model.sending import (
    Attempt,
    Begun,
    Block,
    Claimed,
    Content,
    Decision,
    Frozen,
    Result,
    Revisions,
    Settlement,
    Signal,
    SignalKind,
    Start,
)
from duly.core.model.words import Capabilities, Channel, FailureClass, HoldPolicy, Lane, OnDoubt, Outcome, Scheduled

__all__ = [
    "Attempt",
    "Begun",
    "Block",
    "Capabilities",
    "Channel",
    "Claimed",
    "Content",
    "Decision",
    "Doubtful",
    "Due",
    "FailureClass",
    "Fired",
    "FiredNote",
    "Frozen",
    "Guard",
    "HoldPolicy",
    "Lane",
    "Look",
    "LookKind",
    "Looked",
    "NewContact",
    "NewDelivery",
    "NewReminder",
    "OnDoubt",
    "Outcome",
    "Result",
    "Revisions",
    "Scheduled",
    "Settlement",
    "Signal",
    "SignalKind",
    "Start",
    "TemplateSource",
]
