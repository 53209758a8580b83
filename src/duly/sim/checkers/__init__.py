"""The promise, as code that can say no. Each checker judges one sentence of it.

Where DESIGN promises less than one might wish, the checker's own words say so. What a receiver lied about
(see Truth) excuses exactly that acceptance; every other one, of the same delivery too, is judged in full.

Checkers stand by what they judge: `moves`, `attempts`, `requests`, `truths` (what is said to have been accepted),
`doubles` (what is accepted twice), `persons` (what recipients and accounts have chosen), `schedules` and `ends`.
"""

from __future__ import annotations

from typing import Final

from duly.sim.checkers.attempts import AttemptsAreNumbered, DoubtBindsBytes, NoBeginWhereForbidden, ResultsStand
from duly.sim.checkers.doubles import DoublesAreNoted, NothingTwice
from duly.sim.checkers.ends import NothingIsLost
from duly.sim.checkers.moves import EveryMoveIsExplained, EveryMoveIsInTheTable, FinalIsFinal, WritesAreFenced
from duly.sim.checkers.persons import CapsAreKept, ConsentIsKept, PausesAreKept, QuietHoursAreKept
from duly.sim.checkers.requests import (
    NoAnswerIsDropped,
    NoRepeatWithoutAKey,
    NoRequestWithoutAttempt,
    StartsWithinItsLease,
)
from duly.sim.checkers.schedules import EachOccurrenceOnce, EverySlotIsAccountedFor, MissedAsAsked, OnlyWhatIsNamed
from duly.sim.checkers.truths import AcceptanceWins, DoubtIsNotForgotten, NotSentHasNotLeft, NotSentIsTrue, SentIsTrue
from duly.sim.checkers.wishes import ChangesAreKept
from duly.sim.truth import Checker

__all__ = [
    "CHECKERS",
    "AcceptanceWins",
    "AttemptsAreNumbered",
    "CapsAreKept",
    "ConsentIsKept",
    "DoublesAreNoted",
    "DoubtBindsBytes",
    "DoubtIsNotForgotten",
    "EachOccurrenceOnce",
    "EveryMoveIsExplained",
    "EveryMoveIsInTheTable",
    "EverySlotIsAccountedFor",
    "FinalIsFinal",
    "MissedAsAsked",
    "NoAnswerIsDropped",
    "NoBeginWhereForbidden",
    "NoRepeatWithoutAKey",
    "NoRequestWithoutAttempt",
    "NotSentHasNotLeft",
    "NotSentIsTrue",
    "NothingIsLost",
    "NothingTwice",
    "OnlyWhatIsNamed",
    "PausesAreKept",
    "QuietHoursAreKept",
    "ResultsStand",
    "SentIsTrue",
    "StartsWithinItsLease",
    "WritesAreFenced",
]

#: All of them, in the order in which they are asked: the cause of a trouble before what comes of it.
CHECKERS: Final[tuple[type[Checker], ...]] = (
    EveryMoveIsInTheTable,
    EveryMoveIsExplained,
    FinalIsFinal,
    WritesAreFenced,
    ChangesAreKept,
    OnlyWhatIsNamed,
    MissedAsAsked,
    NoBeginWhereForbidden,
    ConsentIsKept,
    PausesAreKept,
    QuietHoursAreKept,
    CapsAreKept,
    AttemptsAreNumbered,
    DoubtBindsBytes,
    NoRequestWithoutAttempt,
    StartsWithinItsLease,
    NoRepeatWithoutAKey,
    NoAnswerIsDropped,
    ResultsStand,
    SentIsTrue,
    NotSentIsTrue,
    NotSentHasNotLeft,
    AcceptanceWins,
    DoubtIsNotForgotten,
    NothingTwice,
    EachOccurrenceOnce,
    DoublesAreNoted,
    NothingIsLost,
    EverySlotIsAccountedFor,
)
