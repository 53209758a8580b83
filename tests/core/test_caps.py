"""Frequency caps: read strictly, and sliding: never more than so many within any stretch of so long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.caps import Ask, Cap, passing, read_cap, room, uncapped, waiting, written

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CAPS = st.builds(
    Cap, st.integers(1, 1_000), st.integers(1, 366 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
)
MOMENTS = st.integers(-200, 5).map(lambda minutes: NOW + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("text", "cap"),
    [
        ("3/P1D", Cap(3, timedelta(days=1))),
        ("1/PT90M", Cap(1, timedelta(minutes=90))),
        ("0010/p2w", Cap(10, timedelta(weeks=2))),
        ("1000/P366D", Cap(1_000, timedelta(days=366))),
    ],
)
def test_the_forms_of_a_cap(text: str, cap: Cap) -> None:
    """A number, a slash and a duration."""
    assert read_cap(text) == cap


@given(CAPS)
def test_a_cap_comes_back_from_its_text(cap: Cap) -> None:
    """What is written is read as the same cap."""
    assert read_cap(written(cap)) == cap


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a cap; write one like 3/P1D"),
        ("3", "not a cap"),
        ("3/1D", "not a cap"),
        ("three/P1D", "not a cap"),
        ("-3/P1D", "not a cap"),
        ("3.5/P1D", "not a cap"),
        ("3 / P1D", "not a cap"),
        ("\u0663/P1D", "not a cap"),
        ("9" * 1_000_000 + "/P1D", "not a cap"),
        ("3/P1D\0", "not a duration"),
        ("3/P1D\n", "not a cap"),
        ("3/P1M", "no fixed length"),
        ("3/PT0S", "zero"),
        ("0/P1D", "not between 1 and 1,000"),
        ("1001/P1D", "not between 1 and 1,000"),
        ("3/P367D", "over 366 days"),
    ],
)
def test_what_is_no_cap(text: str, words: str) -> None:
    """Anything else is refused: nothing that allows none, looks back for ever or has no fixed length."""
    with pytest.raises(ValueError, match=words):
        read_cap(text)


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[0-9]{0,8}/P[0-9A-Z]{0,20}", fullmatch=True)))
def test_no_text_breaks_the_reader_of_caps(text: str) -> None:
    """Every text is a cap within the bounds, or a ValueError."""
    try:
        cap = read_cap(text)
    except ValueError:
        return
    assert 1 <= cap.count <= 1_000
    assert timedelta(0) < cap.per <= timedelta(days=366)


def test_a_place_is_free_when_the_time_has_passed() -> None:
    """What began a day ago counts until the instant at which that day is over."""
    cap, taken = Cap(2, timedelta(days=1)), [NOW - HOUR, NOW - timedelta(days=1) + HOUR]
    free = NOW + HOUR
    assert room(cap, taken, NOW) == free
    assert room(cap, taken, free - timedelta(microseconds=1)) == free
    assert room(cap, taken, free) is None


def test_nothing_taken_leaves_room() -> None:
    """A recipient who got nothing may get one."""
    assert room(Cap(1, HOUR), (), NOW) is None


@given(st.integers(1, 4), st.integers(1, 120), st.lists(MOMENTS, max_size=8))
def test_the_answer_is_the_first_instant_with_room(count: int, minutes: int, taken: list[datetime]) -> None:
    """Looked at minute by minute, there is no room before the answer, and there is from it on."""
    cap = Cap(count, timedelta(minutes=minutes))
    moment = NOW
    while sum(moment - cap.per < began for began in taken) >= count:
        moment += timedelta(minutes=1)
    assert room(cap, taken, NOW) == (None if moment == NOW else moment)


@given(st.integers(1, 4), st.integers(1, 120), st.lists(MOMENTS, max_size=8))
def test_the_latest_are_enough(count: int, minutes: int, taken: list[datetime]) -> None:
    """Whoever counts need not bring more than the latest `count`, in any order."""
    cap = Cap(count, timedelta(minutes=minutes))
    assert room(cap, sorted(taken, reverse=True)[:count], NOW) == room(cap, taken, NOW)


@given(st.integers(1, 4), st.integers(1, 120), st.lists(st.integers(0, 40), max_size=30))
def test_no_stretch_ever_holds_more(count: int, minutes: int, waits: list[int]) -> None:
    """Whoever begins only when there is room never has more than `count` within any stretch of the cap's length."""
    cap, begun, now = Cap(count, timedelta(minutes=minutes)), [], NOW
    for wait in waits:
        now += timedelta(minutes=wait)
        now = room(cap, begun, now) or now
        begun.append(now)
    assert all(later - earlier >= cap.per for earlier, later in zip(begun, begun[count:], strict=False))


# --- several at once -----------------------------------------------------------------------------

ANA, BO = (b"ana", "email", "marketing"), (b"bo", "email", "marketing")


def ask(
    whose: tuple[bytes, str, str] = ANA, count: int = 1, taken: Sequence[datetime] = (), *,
    has_place: bool = False, in_doubt: bool = False,
) -> Ask:  # fmt: skip
    """A delivery that would begin under a cap of one hour."""
    return Ask(whose, Cap(count, HOUR), taken, has_place, in_doubt)


def test_each_takes_its_place_before_the_next_asks() -> None:
    """Within one batch a recipient gets no more than the cap allows, and another one as many."""
    asks = {b"1": ask(count=2), b"2": ask(count=2), b"3": ask(count=2), b"4": ask(BO)}
    assert passing(asks, NOW) == {b"1", b"2", b"4"}
    assert waiting(asks, {b"1", b"2", b"4"}, {b"1", b"2", b"4"}, NOW) == {b"3": NOW + HOUR}


def test_what_counts_already_takes_no_second_place() -> None:
    """A repeat passes though the cap is full, and leaves room for another."""
    asks = {b"1": ask(has_place=True), b"2": ask()}
    assert passing(asks, NOW) == {b"1", b"2"}


def test_what_may_have_arrived_passes_and_counts() -> None:
    """One in doubt is not asked, and takes a place if it has none."""
    asks = {b"1": ask(taken=[NOW], in_doubt=True), b"2": ask()}
    assert passing(asks, NOW) == {b"1"}
    assert waiting(asks, {b"1"}, {b"1"}, NOW) == {b"2": NOW + HOUR}


def test_a_place_that_was_not_taken_keeps_nobody_waiting() -> None:
    """Where one that passed did not begin, the next is told no moment, unless the cap was full before."""
    asks = {b"1": ask(), b"2": ask(), b"3": ask(BO, taken=[NOW])}
    passed = passing(asks, NOW)
    assert passed == {b"1"}
    assert waiting(asks, passed, (), NOW) == {b"3": NOW + HOUR}


def test_a_repeat_that_began_fills_no_place_twice() -> None:
    """What has its place already is in what was counted, and is not counted again when it begins."""
    began = NOW - HOUR / 2
    asks = {b"1": ask(count=2, has_place=True), b"2": ask(count=2, taken=[began]), b"3": ask(count=2, taken=[began])}
    passed = passing(asks, NOW)
    assert passed == {b"1", b"2"}
    assert waiting(asks, passed, {b"1"}, NOW) == {}
    assert waiting(asks, passed, {b"1", b"2"}, NOW) == {b"3": began + HOUR}


def test_nobody_has_a_cap_unless_it_was_chosen() -> None:
    """Without a choice there is none, whatever the account and purpose."""
    assert uncapped("acme", "marketing") is None
