"""The table of transitions: complete, closed, and obeyed."""

from __future__ import annotations

import pytest

from duly.core.states import FINAL, OPEN, TRANSITIONS, IllegalTransition, State, check


def test_every_state_stands_in_the_table_and_can_be_reached() -> None:
    """No state is forgotten, and none is a dead entry."""
    assert set(TRANSITIONS) == {None, *State}
    assert {target for targets in TRANSITIONS.values() for target in targets} == set(State)


def test_open_and_final_states_part_the_whole() -> None:
    """A state is open or final, never both; an open one always has a way on."""
    assert set(State) == OPEN | FINAL
    assert not OPEN & FINAL
    assert all(TRANSITIONS[state] for state in OPEN)


def test_only_evidence_or_a_decision_leaves_a_final_state() -> None:
    """A final state goes to sent by evidence, or is redriven; sent goes nowhere."""
    assert TRANSITIONS[State.SENT] == {}
    for state in FINAL - {State.SENT}:
        for target, mover in TRANSITIONS[state].items():
            assert mover == ("evidence" if target is State.SENT else "redrive")


def test_sent_is_within_reach_of_every_other_state() -> None:
    """Acceptance evidence moves every state but sent to sent."""
    for state in State:
        if state is not State.SENT:
            check(state, State.SENT)


def test_an_illegal_transition_raises_and_names_both_states() -> None:
    """A bug is told, not written."""
    with pytest.raises(IllegalTransition, match="sent -> ready"):
        check(State.SENT, State.READY)
    with pytest.raises(IllegalTransition, match=r"\(new\) -> sent"):
        check(None, State.SENT)
