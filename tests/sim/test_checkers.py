"""Each checker complains about a history that breaks its sentence, and about none that keeps it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from duly.core.model import Outcome, Result, Settlement
from duly.core.states import State
from duly.sim.checkers import (
    CHECKERS,
    AcceptanceWins,
    AttemptsAreNumbered,
    ChangesAreKept,
    DoublesAreNoted,
    DoubtBindsBytes,
    DoubtIsNotForgotten,
    EveryMoveIsExplained,
    EveryMoveIsInTheTable,
    FinalIsFinal,
    NoAnswerIsDropped,
    NoBeginWhereForbidden,
    NoRepeatWithoutAKey,
    NoRequestWithoutAttempt,
    NothingIsLost,
    NothingTwice,
    NotSentHasNotLeft,
    NotSentIsTrue,
    ResultsStand,
    SentIsTrue,
    StartsWithinItsLease,
    WritesAreFenced,
)
from duly.sim.ledger import AttemptRow, Change, EventRow, Ledger, Move, ResultRow, Standing
from duly.sim.run import ground
from duly.sim.scheduler import Incarnation
from duly.sim.truth import OPERATOR, Checker, Expected, Heard, Left, Promised, Settling, Taken, Truth

ONE: Final = bytes(15) + b"\x01"
HASH: Final = b"h" * 32
OTHER_HASH: Final = b"o" * 32


class Scene:
    """A ledger whose mirror a test fills by hand, and a truth beside it."""

    def __init__(self, ledger: Ledger) -> None:
        self.truth = Truth(ledger)
        self.names: dict[bytes, set[str]] = {}

    def stands(self, state: State, **more: Any) -> Standing:
        """How delivery ONE stands from now on."""
        standing = _standing(state, **more)
        self.truth.ledger.standing[ONE] = standing
        return standing

    def began(self, number: int = 1, payload_hash: bytes = HASH, started_at: int = 10) -> AttemptRow:
        """An attempt that is on record."""
        row = AttemptRow(ONE, number, started_at, "w1", payload_hash)
        self.truth.ledger.attempts[ONE, number] = row
        return row

    def result(self, outcome: Outcome, number: int = 1, before: Outcome | None = None, covered: int = 0) -> ResultRow:
        """A result that is on record."""
        self.truth.ledger.results[ONE, number] = (outcome, covered)
        return ResultRow(ONE, number, outcome, None, covered, before)

    def takes(self, number: int = 1, era: int = 0, *, denied: bool = False) -> Taken:
        """The receiver accepts an attempt. `denied`: it answers that it has not."""
        taken = Taken(ONE, era, number, f"name-{len(self.truth.of(ONE))}", denied)
        self.truth.taken.setdefault(ONE, []).append(taken)
        return taken


def _standing(state: State, **more: Any) -> Standing:
    fields: dict[str, Any] = dict.fromkeys(Standing._fields, 0)
    names = {"reason": "why", "provider": "hooks", "reminder": ONE, "contact": ONE, "worker": "w1", "request_id": None}
    return Standing(**{**fields, "id": ONE, "state": state, "deadline_at": 100, **names, **more})


def _event(kind: str, actor: str = "w1") -> EventRow:
    return EventRow(ONE, kind, None, None, actor, "why", None)


def _change(
    *moves: Move,
    attempts: Sequence[AttemptRow] = (),
    results: Sequence[ResultRow] = (),
    events: Sequence[EventRow] = (),
    guarded: bool = False,
    forbidden: dict[bytes, str] | None = None,
    call: str = "call",
    arguments: tuple[Any, ...] = (),
) -> Change:
    written = (moves, tuple(attempts), tuple(results), tuple(events))
    return Change(50, "w1", call, *written, guarded, forbidden or {}, arguments)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """An empty ledger."""
    with ground() as place:
        path: Path = place.folder / "ledger.db"
        path.write_bytes(place.template.read_bytes())
        ledger = Ledger(path)
        yield Scene(ledger)
        ledger.close()


def says(complaints: Iterator[Any]) -> str:
    """All complaints as one text."""
    return "; ".join(complaint.text for complaint in complaints)


def move(scene: Scene, before: State | None, after: State, **more: Any) -> Move:
    """A move of delivery ONE, which the mirror knows already. `before_...` sets fields of how it stood."""
    was = {name.removeprefix("before_"): value for name, value in more.items() if name.startswith("before_")}
    now = {name: value for name, value in more.items() if not name.startswith("before_")}
    return Move(None if before is None else _standing(before, **was), scene.stands(after, **now))


# --- commits -------------------------------------------------------------------------------------

Broken = Callable[[Scene], Change]


def _dead_after_unknown(scene: Scene) -> Change:
    scene.result(Outcome.UNKNOWN)
    return _change(move(scene, State.SENDING, State.DEAD, attempts=1))


def _other_bytes_in_doubt(scene: Scene) -> Change:
    scene.began(1)
    scene.result(Outcome.UNKNOWN)
    return _change(attempts=[scene.began(2, OTHER_HASH)])


def _began(scene: Scene, **more: Any) -> Change:
    scene.stands(State.SENDING, attempts=1)
    return _change(attempts=[scene.began(started_at=more.pop("started_at", 10))], **more)


def _gap(scene: Scene) -> Change:
    scene.stands(State.SENDING, attempts=3)
    return _change(attempts=[scene.began(3)])


def _taken_and(scene: Scene, change: Change) -> Change:
    scene.takes()
    return change


FENCED: Final = ("begin", "settle", "decide", "looked", "abandon", "renew")


def _born(scene: Scene, due_at: int, era: int = 0) -> Change:
    """A tick writes ONE for a moment; in this era people were told that its reminder had been moved to 20."""
    scene.truth.promised[ONE] = Promised(era, 20)
    return _change(move(scene, None, State.READY, due_at=due_at), call="tick")


def _moved_by(call: str, scene: Scene, fence: int = 1) -> Change:
    """A call names a fence, and moves what stands under fence 2."""
    moves = move(scene, State.SENDING, State.UNCERTAIN, before_fence=2, fence=2)
    return _change(moves, events=[_event("noted")], call=call, arguments=("w1", [(ONE, fence)], 60.0))


#: (checker, a commit that breaks its sentence, a part of the complaint)
BROKEN_COMMITS: Final[list[tuple[type[Checker], Broken, str]]] = [
    (EveryMoveIsInTheTable, lambda s: _change(move(s, State.READY, State.SENDING)), "from ready to sending"),
    (EveryMoveIsInTheTable, lambda s: _change(move(s, None, State.SENT)), "from nothing to sent"),
    (EveryMoveIsExplained, lambda s: _change(move(s, State.READY, State.EXPIRED)), "nothing tells why"),
    (
        EveryMoveIsExplained,
        lambda s: _change(move(s, State.READY, State.EXPIRED, reason=""), events=[_event("swept")]),
        "for no reason",
    ),
    (FinalIsFinal, lambda s: _change(move(s, State.DEAD, State.READY)), "'redriven'"),
    (FinalIsFinal, lambda s: _change(move(s, State.EXPIRED, State.SENT), events=[_event("decided")]), "'corrected'"),
    (NoBeginWhereForbidden, lambda s: _began(s, started_at=100), "after its deadline"),
    (NoBeginWhereForbidden, lambda s: _began(s, forbidden={ONE: "cancelled"}), "although it was cancelled"),
    (NoBeginWhereForbidden, lambda s: _began(s, guarded=True), "guard was open"),
    (AttemptsAreNumbered, _gap, "none before it"),
    (AttemptsAreNumbered, lambda s: _began(s)._replace(attempts=(s.began(2),)), "does not count it"),
    (DoubtBindsBytes, _other_bytes_in_doubt, "other bytes than 1"),
    (
        ResultsStand,
        lambda s: _change(results=[s.result(Outcome.ACCEPTED, before=Outcome.REFUSED)]),
        "from refused to accepted",
    ),
    (SentIsTrue, lambda s: _change(move(s, State.SENDING, State.SENT)), "never accepted it"),
    (SentIsTrue, lambda s: _change(move(s, State.HELD, State.SENT), events=[_event("decided")]), "never accepted it"),
    (NotSentIsTrue, lambda s: _taken_and(s, _change(move(s, State.READY, State.EXPIRED))), "had accepted it"),
    (NotSentIsTrue, lambda s: _taken_and(s, _change(results=[s.result(Outcome.NOT_SENT)])), "was not_sent"),
    (
        NotSentIsTrue,
        lambda s: _taken_and(s, _change(results=[s.result(Outcome.UNKNOWN, covered=1)])),
        "was not accepted",
    ),
    *((WritesAreFenced, partial(_moved_by, call), f"{call} moved it under fence 2, for [1]") for call in FENCED),
    (ChangesAreKept, lambda s: _born(s, due_at=10), "tick wrote it for a moment from which it had been moved"),
    (DoubtIsNotForgotten, _dead_after_unknown, "attempt 1 is unknown"),
    (NothingTwice, lambda s: _change(move(s, State.HELD, State.READY, granted=1)), "no policy and no operator"),
    (
        DoublesAreNoted,
        lambda s: _taken_and(s, _change(events=[_event("double_acceptance")])),
        "its receiver accepted it once",
    ),
]


@pytest.mark.parametrize(("kind", "broken", "complaint"), BROKEN_COMMITS)
def test_a_checker_complains_of_a_commit_that_breaks_its_sentence(
    scene: Scene, kind: type[Checker], broken: Broken, complaint: str
) -> None:
    """What must not be committed is complained of, in words that say what it was."""
    assert complaint in says(kind().changed(broken(scene), scene.truth))


def _resend_by(actor: str, scene: Scene) -> Change:
    return _change(move(scene, State.HELD, State.READY, granted=1), events=[_event("decided", actor)])


def _dead_after_cover(scene: Scene) -> Change:
    scene.result(Outcome.UNKNOWN, covered=1)
    return _change(move(scene, State.UNCERTAIN, State.DEAD, attempts=1), events=[_event("decided")])


FINE_COMMITS: Final[list[Broken]] = [
    lambda s: _change(move(s, None, State.READY)),
    lambda s: _change(move(s, State.READY, State.LEASED)),
    _began,
    lambda s: _change(move(s, State.READY, State.EXPIRED), events=[_event("swept")]),
    lambda s: _change(move(s, State.DEAD, State.READY), events=[_event("redriven", OPERATOR)]),
    lambda s: _taken_and(s, _change(move(s, State.EXPIRED, State.SENT), events=[_event("corrected")])),
    lambda s: _change(move(s, State.HELD, State.SENT), events=[_event("decided", OPERATOR)]),
    lambda s: _taken_and(
        s, _change(move(s, State.SENDING, State.SENT), results=[s.result(Outcome.ACCEPTED, before=Outcome.UNKNOWN)])
    ),
    lambda s: _resend_by(OPERATOR, s),
    _dead_after_cover,
    *(partial(_moved_by, call, fence=2) for call in FENCED),
    partial(_born, due_at=20),
    partial(_born, due_at=10, era=1),  # the move is forgotten with its past
    partial(_moved_by, "sweep"),  # names no fence: it takes what has ended
    lambda s: _change(
        move(s, State.SENDING, State.SENT, before_fence=2, fence=2),
        events=[_event("decided", OPERATOR)],
        call="settle",
        arguments=("hooks", [(ONE, 1)], []),  # acceptance needs none
    ),
]


@pytest.mark.parametrize("fine", FINE_COMMITS)
def test_no_checker_complains_of_a_commit_that_keeps_the_promise(scene: Scene, fine: Broken) -> None:
    """What may be committed is passed by every checker."""
    change = fine(scene)
    assert [says(kind().changed(change, scene.truth)) for kind in CHECKERS] == [""] * len(CHECKERS)


# --- messages ------------------------------------------------------------------------------------


def _leaves(
    scene: Scene, checker: Checker, number: int = 1, body_hash: bytes = HASH, latest_us: int = 60, timeout_us: int = 20
) -> str:
    return says(checker.left(Left(ONE, number, body_hash, latest_us, timeout_us), scene.truth))


def test_a_request_needs_its_attempt_row(scene: Scene) -> None:
    """A request that leaves before its attempt is on record is complained of."""
    assert "not on record" in _leaves(scene, NoRequestWithoutAttempt())


def test_a_request_leaves_with_the_recorded_bytes_once_under_its_lease(scene: Scene) -> None:
    """Other bytes, a second request under one number, and one after the lease are complained of."""
    checker = NoRequestWithoutAttempt()
    scene.began()
    scene.stands(State.SENDING, attempts=1)
    assert _leaves(scene, checker) == ""
    assert "two requests" in _leaves(scene, checker)
    assert "other bytes" in _leaves(scene, checker, body_hash=OTHER_HASH)
    scene.began(2)
    scene.stands(State.UNCERTAIN, attempts=2)
    assert "when its lease was over" in _leaves(scene, checker, 2)


def test_numbers_of_another_era_are_other_attempts(scene: Scene) -> None:
    """After a restore the same number may be used again."""
    checker = NoRequestWithoutAttempt()
    scene.began()
    _leaves(scene, checker)
    checker.restored()
    assert _leaves(scene, checker) == ""


def test_the_latest_start_must_end_within_the_lease(scene: Scene) -> None:
    """A request whose last moment to start and timeout together outlast its lease is complained of; equal is fine."""
    checker = StartsWithinItsLease()
    scene.stands(State.SENDING, attempts=1, lease_until=80)
    assert _leaves(scene, checker, latest_us=60, timeout_us=20) == ""
    assert "when its lease was over" in _leaves(scene, checker, latest_us=61, timeout_us=20)
    assert "when its lease was over" in _leaves(scene, checker, latest_us=60, timeout_us=21)


def test_a_lease_that_is_gone_is_no_bound(scene: Scene) -> None:
    """Where the attempt has no lease any more, the bound is not judged: that it leaves at all is another's sentence."""
    checker = StartsWithinItsLease()
    scene.stands(State.SENT, attempts=1)
    assert _leaves(scene, checker) == ""
    scene.stands(State.SENDING, attempts=2, lease_until=10)
    assert _leaves(scene, checker, number=1) == ""


def _in_doubt(scene: Scene, kept_us: int | None, **more: Any) -> str:
    """Attempt 1 began at 10 and is unknown; attempt 2 leaves, and ends at 80."""
    scene.truth.keyed_for_us = lambda _: kept_us
    scene.began(1, started_at=10)
    scene.began(2, started_at=50)
    scene.stands(State.SENDING, attempts=2, **more)
    return _leaves(scene, NoRepeatWithoutAKey(), 2, latest_us=60, timeout_us=20)


def test_a_repeat_in_doubt_needs_a_key(scene: Scene) -> None:
    """Where receivers drop no repeats, or might have forgotten the key, a repeat in doubt is complained of."""
    assert "no key makes it a repeat" in _in_doubt(scene, None)
    assert "when its key is forgotten" in _in_doubt(scene, 69)
    assert _in_doubt(scene, 70) == ""


def test_a_grant_needs_no_key(scene: Scene) -> None:
    """A granted resend leaves, whatever its receiver remembers; so does one that a guard has come too late for."""
    assert _in_doubt(scene, None, granted=1) == ""
    scene.truth.ledger.guarded = True
    assert _in_doubt(scene, None) == ""


@pytest.mark.parametrize(("outcome", "covered"), [(Outcome.REFUSED, 0), (Outcome.UNKNOWN, 1)])
def test_what_is_not_in_doubt_needs_no_key(scene: Scene, outcome: Outcome, covered: int) -> None:
    """After a definite no, or look-ups in vain, another attempt may leave."""
    scene.result(outcome, covered=covered)
    assert _in_doubt(scene, None) == ""


def test_a_later_no_does_not_clear_an_earlier_doubt(scene: Scene) -> None:
    """The window counts from the first attempt in doubt, whatever became of the second."""
    scene.began(1, started_at=10)
    scene.began(2, started_at=50)
    scene.result(Outcome.REFUSED, 2)
    scene.truth.keyed_for_us = lambda _: 69
    scene.stands(State.SENDING, attempts=3)
    assert "when its key is forgotten" in _leaves(scene, NoRepeatWithoutAKey(), 3)


def test_a_lost_attempt_counts_from_the_due_time(scene: Scene) -> None:
    """What a restore made forgotten may have been accepted when it was due; with no doubt at all there is no bound."""
    checker = NoRepeatWithoutAKey()
    scene.truth.keyed_for_us = lambda _: 70
    scene.stands(State.SENDING, attempts=1, restored=1, due_at=9)
    assert "when its key is forgotten" in _leaves(scene, checker)
    scene.stands(State.SENDING, attempts=1, restored=1, due_at=10)
    assert _leaves(scene, checker) == ""
    scene.stands(State.SENDING, attempts=1, due_at=9)
    assert _leaves(scene, checker) == ""


def test_what_has_left_is_not_recorded_as_not_sent(scene: Scene) -> None:
    """A result not_sent for an attempt that has left is complained of at once; in another era it is another attempt."""
    checker = NotSentHasNotLeft()
    not_sent = _change(results=[scene.result(Outcome.NOT_SENT)])
    assert says(checker.changed(not_sent, scene.truth)) == ""
    assert _leaves(scene, checker) == ""
    assert "attempt 1 was not sent; it had left" in says(checker.changed(not_sent, scene.truth))
    unknown = _change(results=[scene.result(Outcome.UNKNOWN)])
    assert says(checker.changed(unknown, scene.truth)) == ""
    checker.restored()
    assert says(checker.changed(not_sent, scene.truth)) == ""


@pytest.mark.parametrize(
    ("outcome", "covered", "wrong"),
    [
        (Outcome.NOT_SENT, 0, True),
        (Outcome.REFUSED, 0, True),
        (Outcome.REJECTED, 0, True),
        (Outcome.UNKNOWN, 1, True),
        (Outcome.UNKNOWN, 0, False),
        (Outcome.ACCEPTED, 1, False),
    ],
)
def test_what_is_recorded_as_not_accepted_stays_so(scene: Scene, outcome: Outcome, covered: int, wrong: bool) -> None:
    """An acceptance after the ledger has said no is complained of; what is unknown may be accepted still."""
    scene.result(outcome, covered=covered)
    complaint = says(NotSentHasNotLeft().taken(scene.takes(), scene.truth))
    assert ("it was recorded as not accepted" in complaint) is wrong


def test_a_second_acceptance_needs_a_grant(scene: Scene) -> None:
    """The receiver accepts once; twice only as an attempt that began under a grant."""
    checker = NothingTwice()
    assert says(checker.taken(scene.takes(1), scene.truth)) == ""
    assert "a second time, as attempt 2" in says(checker.taken(scene.takes(2), scene.truth))
    granted = move(scene, State.LEASED, State.SENDING, attempts=3, before_attempts=2, before_granted=1)
    assert says(checker.changed(_change(granted), scene.truth)) == ""
    assert says(checker.taken(scene.takes(3), scene.truth)) == ""


def test_a_policy_may_grant_a_resend(scene: Scene) -> None:
    """A grant without an operator is right where some configuration says resend."""
    scene.truth.may_resend = lambda _: True
    granted = _change(move(scene, State.UNCERTAIN, State.READY, granted=1), events=[_event("decided")])
    assert says(NothingTwice().changed(granted, scene.truth)) == ""


def test_an_acceptance_after_the_end_is_complained_of(scene: Scene) -> None:
    """What ended as not sent must not be accepted afterwards."""
    scene.stands(State.CANCELLED)
    assert "after it had ended cancelled" in says(NotSentIsTrue().taken(scene.takes(), scene.truth))


# --- lies ----------------------------------------------------------------------------------------


def _evidence(request_id: str | None = "name-0", *, named: bool = True) -> Settlement:
    """What the postman has the ledger settle."""
    result = Result(Outcome.ACCEPTED, request_id=request_id)
    when = datetime(2026, 12, 1, tzinfo=UTC)
    return Settlement(ONE, -1, 1, when, result, State.SENT, "reported", None, closed=False, spared=False, named=named)


def _lied(scene: Scene, outcome: Outcome = Outcome.REFUSED, number: int = 1) -> ResultRow:
    """The receiver accepts an attempt and denies it, and its no is on record."""
    scene.takes(number, denied=True)
    return scene.result(outcome, number)


@pytest.mark.parametrize("state", [state for state in State if state is not State.SENT])
def test_evidence_must_be_believed(scene: Scene, state: State) -> None:
    """Once the ledger was told of an acceptance, whatever is not sent is complained of: a lie is to be corrected."""
    _lied(scene)
    scene.stands(state)
    assert f"left it {state}" in says(AcceptanceWins().accepted(_evidence(), scene.truth))


def test_believed_evidence_is_fine(scene: Scene) -> None:
    """A delivery that is sent, or that is not there, is no trouble."""
    assert says(AcceptanceWins().accepted(_evidence(), scene.truth)) == ""
    scene.stands(State.SENT)
    assert says(AcceptanceWins().accepted(_evidence(), scene.truth)) == ""


@pytest.mark.parametrize("state", [State.REJECTED, State.DEAD, State.EXPIRED, State.SUPPRESSED, State.CANCELLED])
def test_a_correction_is_told(scene: Scene, state: State) -> None:
    """What had ended comes back as sent with an event, and no checker wants more; without it two complain."""
    _lied(scene)
    silent = _change(move(scene, state, State.SENT))
    assert "nothing tells why" in says(EveryMoveIsExplained().changed(silent, scene.truth))
    assert "'corrected'" in says(FinalIsFinal().changed(silent, scene.truth))
    told = silent._replace(events=(_event("corrected"),))
    assert [says(kind().changed(told, scene.truth)) for kind in CHECKERS] == [""] * len(CHECKERS)


def test_an_open_delivery_is_corrected_with_an_event(scene: Scene) -> None:
    """Where a repeat waited, the move to sent needs an event too: the attempt's own result stays a refusal."""
    _lied(scene)
    silent = _change(move(scene, State.WAITING, State.SENT))
    assert "nothing tells why" in says(EveryMoveIsExplained().changed(silent, scene.truth))
    told = silent._replace(events=(_event("accepted"),))
    assert [says(kind().changed(told, scene.truth)) for kind in CHECKERS] == [""] * len(CHECKERS)


def test_a_second_name_must_be_noted_at_once(scene: Scene) -> None:
    """Evidence under another name than the one it is sent under needs its event, where a name is a message's."""
    scene.stands(State.SENT, request_id="name-1")
    checker = DoublesAreNoted()
    assert "it is also name-0" in says(checker.accepted(_evidence(), scene.truth))
    assert says(checker.accepted(_evidence(named=False), scene.truth)) == ""
    assert says(checker.accepted(_evidence("name-1"), scene.truth)) == ""
    noted = _event("double_acceptance")._replace(evidence='{"request_ids":["name-1","name-0"],"attempt":1}')
    scene.truth.ledger.events.append(noted)
    assert says(checker.accepted(_evidence(), scene.truth)) == ""
    assert "it is also name-2" in says(checker.accepted(_evidence("name-2"), scene.truth))


@pytest.mark.parametrize("state", [State.REJECTED, State.EXPIRED])
def test_a_no_that_is_a_lie_may_be_believed(scene: Scene, state: State) -> None:
    """What was lied about may be on record as refused, end as not sent, and be accepted once more."""
    change = _change(results=[_lied(scene)])
    assert says(NotSentIsTrue().changed(change, scene.truth)) == ""
    ended = _change(move(scene, State.READY, state), events=[_event("swept")])
    assert says(NotSentIsTrue().changed(ended, scene.truth)) == ""
    assert says(NotSentIsTrue().ended(scene.truth)) == ""
    assert says(NothingTwice().taken(scene.takes(2), scene.truth)) == ""


@pytest.mark.parametrize("recorded", [False, True])
def test_a_lie_that_the_ledger_never_heard_excuses_nothing(scene: Scene, recorded: bool) -> None:
    """Where the false answer got lost, its attempt is unknown, and everything is judged in full."""
    scene.takes(1, denied=True)
    result = scene.result(Outcome.UNKNOWN, covered=1) if recorded else None
    covered = _change(results=[result] if result else [])
    assert ("was not accepted" in says(NotSentIsTrue().changed(covered, scene.truth))) is recorded
    ended = _change(move(scene, State.READY, State.EXPIRED), events=[_event("swept")])
    assert "had accepted it" in says(NotSentIsTrue().changed(ended, scene.truth))
    assert "a second time" in says(NothingTwice().taken(scene.takes(2), scene.truth))


def test_a_lie_excuses_no_other_acceptance(scene: Scene) -> None:
    """Of the same delivery, what was accepted and not denied is judged in full."""
    _lied(scene)
    assert says(NothingTwice().taken(scene.takes(2), scene.truth)) == ""
    assert "as attempt 3" in says(NothingTwice().taken(scene.takes(3), scene.truth))
    assert "attempt 2 was refused" in says(
        NotSentIsTrue().changed(_change(results=[scene.result(Outcome.REFUSED, 2)]), scene.truth)
    )


# --- the end -------------------------------------------------------------------------------------


def test_an_end_that_denies_an_acceptance_is_complained_of(scene: Scene) -> None:
    """In the end, too, nothing that was accepted stands as not sent."""
    scene.stands(State.REJECTED)
    scene.takes()
    assert "it ended rejected" in says(NotSentIsTrue().ended(scene.truth))


def test_a_lost_delivery_is_complained_of(scene: Scene) -> None:
    """A delivery that was expected and is not there is named."""
    scene.truth.expected[ONE] = Expected(b"r" * 16, "r1 by email")
    assert "no delivery for r1 by email" in says(NothingIsLost().ended(scene.truth))


def test_a_delivery_without_an_end_is_complained_of(scene: Scene) -> None:
    """What is still open in the end is named with its state and reason."""
    scene.stands(State.HELD, reason="no_way_to_ask")
    assert "held (no_way_to_ask)" in says(NothingIsLost().ended(scene.truth))


def _heard(scene: Scene, era: int = 0, *, alive: bool = True) -> str:
    scene.truth.heard = [Heard(Incarnation("w1", alive=alive), ONE, era, 1)]
    return says(NoAnswerIsDropped().ended(scene.truth))


def test_a_dropped_answer_is_complained_of(scene: Scene) -> None:
    """What a living worker has heard must be on record in the end, unless its past was made forgotten."""
    assert "the answer to attempt 1 was dropped" in _heard(scene)
    scene.result(Outcome.UNKNOWN)
    assert "the answer to attempt 1 was dropped" in _heard(scene)
    assert _heard(scene, era=1) == ""
    assert _heard(scene, alive=False) == ""
    scene.result(Outcome.REFUSED)
    assert _heard(scene) == ""


WORKER: Final = Incarnation("w1")


def _settles(scene: Scene, checker: Checker, *numbers: int, by: Incarnation = WORKER, provider: str = "hooks") -> str:
    """A worker asks to settle these attempts of ONE."""
    rows = [_evidence()._replace(number=number) for number in numbers]
    return says(checker.settling(Settling(by, provider, rows), scene.truth))


def test_an_answer_is_in_the_next_batch_or_the_one_after(scene: Scene) -> None:
    """One batch may have been picked before the answer came, and may be repeated; another without it drops it."""
    checker = NoAnswerIsDropped()
    scene.stands(State.SENDING, provider="hooks")
    scene.truth.heard = [Heard(WORKER, ONE, 0, 1)]
    assert _settles(scene, checker, 7) == ""
    assert _settles(scene, checker, 7) == ""
    assert "the answer to attempt 1 was dropped" in _settles(scene, checker, 8)
    checker.restored()
    assert _settles(scene, checker, 8) == ""


def test_a_batch_that_holds_the_answer_keeps_it(scene: Scene) -> None:
    """Once the answer has been in a batch, or is on record, one more batch may have been picked before it."""
    checker = NoAnswerIsDropped()
    scene.stands(State.SENDING, provider="hooks")
    scene.truth.heard = [Heard(WORKER, ONE, 0, 1)]
    assert [_settles(scene, checker, number) for number in (7, 1, 8)] == [""] * 3
    scene.result(Outcome.REFUSED)
    assert [_settles(scene, checker, number) for number in (9, 10)] == [""] * 2


def test_only_who_heard_it_has_to_settle_it(scene: Scene) -> None:
    """Batches of another worker, of another provider, of another past or for what is not there say nothing about it."""
    checker = NoAnswerIsDropped()
    scene.truth.heard = [Heard(WORKER, ONE, 0, 1)]
    assert [_settles(scene, checker, number) for number in (7, 8)] == [""] * 2
    scene.stands(State.SENDING, provider="hooks")
    assert [_settles(scene, checker, number, by=Incarnation("w1")) for number in (7, 8)] == [""] * 2
    assert [_settles(scene, checker, number, provider="mails") for number in (7, 8)] == [""] * 2
    scene.truth.heard = [Heard(WORKER, ONE, 1, 1)]
    assert [_settles(scene, checker, number) for number in (7, 8)] == [""] * 2


def test_two_names_must_be_noted(scene: Scene) -> None:
    """Two accepted results under two names need an event, where names name messages."""
    scene.stands(State.SENT)
    _accepted_as(scene, "a", "b")
    assert "accepted as a and b" in says(DoublesAreNoted().ended(scene.truth))
    scene.truth.names_message = lambda _: False
    assert says(DoublesAreNoted().ended(scene.truth)) == ""
    scene.truth.names_message = lambda _: True
    scene.truth.ledger.events.append(_event("double_acceptance"))
    assert says(DoublesAreNoted().ended(scene.truth)) == ""


def _accepted_as(scene: Scene, *names: str) -> None:
    """Written by hand into the ledger that the mirror reads."""
    with sqlite3.connect(scene.truth.ledger.path) as raw:
        for number, name in enumerate(names, 1):
            raw.execute(
                "insert into attempt_result (delivery_id, number, finished_at, outcome, request_id, stale)"
                " values (?, ?, 0, 'accepted', ?, 0)",
                (ONE, number, name),
            )


def test_every_checker_is_asked() -> None:
    """No checker of the package is left out of the list."""
    bases = [kind for kind in Checker.__subclasses__() if kind.__module__.startswith("duly.sim.checkers.")]
    kinds = {one for kind in bases for one in (kind.__subclasses__() or [kind])}
    assert kinds == set(CHECKERS)
