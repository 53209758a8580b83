"""Slots are counted exactly: in all, for each host, and back to nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.transports.slots import Slots


def test_a_host_gets_no_more_than_its_share() -> None:
    """The third of three for one host is refused while another host still gets a slot."""
    slots = Slots(capacity=10, per_host=2)
    assert slots.reserve(["a:80", "a:80", "a:80", "b:80"]) == [True, True, False, True]
    assert slots.room() == 7


def test_all_hosts_together_get_no_more_than_the_capacity() -> None:
    """When the capacity is used up nobody gets a slot, whatever his own share."""
    slots = Slots(capacity=2, per_host=2)
    assert slots.reserve(["a:80", "b:80", "c:80"]) == [True, True, False]
    assert slots.room() == 0


def test_a_released_slot_can_be_taken_again() -> None:
    """Releasing gives back both the host's slot and the one in all."""
    slots = Slots(capacity=1, per_host=1)
    assert slots.reserve(["a:80"]) == [True]
    slots.release(["a:80"])
    assert slots.room() == 1
    assert slots.reserve(["b:80"]) == [True]


def test_a_slot_that_nobody_holds_cannot_be_released() -> None:
    """A release too many is a bug and is said so, and it leaves the count as it was."""
    slots = Slots(capacity=2, per_host=2)
    with pytest.raises(ValueError, match="exactly once"):
        slots.release(["a:80"])
    assert slots.room() == 2


@pytest.mark.parametrize(("capacity", "per_host"), [(0, 1), (1, 0), (-1, -1)])
def test_there_is_at_least_one_slot(capacity: int, per_host: int) -> None:
    """No slots at all would be a worker that never works."""
    with pytest.raises(ValueError, match="at least 1"):
        Slots(capacity, per_host)


@given(st.integers(1, 6), st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=60))
def test_the_count_never_leaves_its_bounds(capacity: int, per_host: int, steps: list[tuple[bool, str]]) -> None:
    """Whatever is reserved and released in whatever order, no bound is passed and nothing leaks."""
    slots, held = Slots(capacity, per_host), list[str]()
    for take, host in steps:
        if take:
            got = slots.reserve([host]) == [True]
            assert got == (len(held) < capacity and held.count(host) < per_host)
            held += [host] * got
        elif host in held:
            slots.release([host])
            held.remove(host)
        assert slots.room() == capacity - len(held)
    slots.release(held)
    assert slots.room() == capacity
