"""Folding: who goes with whom, in which order, and how many."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.folding import (
    GATHER_SECONDS,
    MEMBERS_MAX,
    PARTS_BYTES_MAX,
    PREFIX,
    RETIRED,
    RETURNS_MAX,
    Foldable,
    Folding,
    Gathered,
    Gathering,
    gather,
    share_of,
    share_reason,
)
from duly.core.model import Channel
from duly.core.states import FINAL, TRANSITIONS, State

NOW: Final = datetime(2026, 12, 1, 9, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)


def part(number: int, size: int = 0) -> str:
    """What a delivery would have said, with so much text."""
    due_at = (NOW + timedelta(seconds=number)).isoformat()
    return json.dumps({"reminder": f"r{number:04}", "occurrence": "once", "due_at": due_at, "text": "x" * size})


def row(number: int, *, size: int = 0, **more: Any) -> Foldable:
    """A late delivery, one of many of the same recipient."""
    identity = keys.derive(str(number))
    fields: dict[str, Any] = {
        "row": Folding(identity, 1, 1, more.pop("group", "service"), part(number, size)),
        "account": "acme",
        "channel": Channel.EMAIL,
        "whose": (b"recipient", b"contact"),
        "due_at": NOW + timedelta(seconds=number),
        "deadline_at": NOW + HOUR,
        "folds": 0,
        "into": None,
    }
    return Foldable(**{**fields, **more})


def standing(*numbers: int) -> Gathering:
    """A summary that gathers, and has taken up these."""
    data = json.dumps({"reminders": [json.loads(part(number)) for number in numbers]})
    return Gathering(b"summary", b"reminder", data, NOW - HOUR, NOW + HOUR / 2, NOW)


def told(one: Gathered) -> list[str]:
    """Of which reminders a summary tells, in its order."""
    return [found["reminder"] for found in json.loads(one.summary.parts)["reminders"]]


def gathered(*rows: Foldable) -> list[Gathered]:
    """What becomes of them now."""
    return list(gather(rows, "a-namespace", NOW))


def test_those_of_one_recipient_go_together() -> None:
    """One summary in the order in which they were due, with the earliest of their moments."""
    (one,) = gathered(row(2, deadline_at=NOW + HOUR / 4), row(1))
    assert told(one) == ["r0001", "r0002"]
    assert (one.summary.due_at, one.summary.deadline_at) == (NOW + timedelta(seconds=1), NOW + HOUR / 4)
    assert one.members == (row(1).row.id, row(2).row.id)
    assert one.group == "service"


def test_others_go_apart() -> None:
    """Another account, recipient, address or group makes another summary."""
    others = ({"account": "other"}, {"whose": (b"bo", b"contact")}, {"whose": (b"recipient", b"c2")}, {"group": "g"})
    assert len(gathered(row(0), *(row(number, **one) for number, one in enumerate(others, 1)))) == 1 + len(others)


def test_what_gathers_takes_up() -> None:
    """The rows join the summary that is there, and nothing new is made."""
    (one,) = gathered(row(5, into=standing(7)))
    assert (one.new_key, one.summary.id, told(one)) == (None, b"summary", ["r0005", "r0007"])
    assert (one.summary.due_at, one.summary.deadline_at) == (NOW - HOUR, NOW + HOUR / 2)


def test_a_full_summary_takes_up_nothing() -> None:
    """It gathers no more, and the rest makes another."""
    full = standing(*range(MEMBERS_MAX))
    closed, new = gathered(row(99, into=full))
    assert (closed.group, closed.members, closed.summary.parts) == (None, (), full.parts)
    assert (new.group, told(new)) == ("service", ["r0099"])
    assert new.new_key is not None


def test_long_ones_are_not_put_together() -> None:
    """The text of all has a limit; one that is longer by itself has a summary by itself."""
    long = PARTS_BYTES_MAX // 2
    found = gathered(row(1, size=long), row(2, size=long), row(3, size=3 * long), row(4))
    assert [told(one) for one in found] == [["r0001"], ["r0002"], ["r0003"], ["r0004"]]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=3 * MEMBERS_MAX, unique=True))
def test_each_is_taken_up_once(numbers: list[int]) -> None:
    """Whatever comes: nobody is lost, nobody is told twice, no summary is too full, and only the last gathers."""
    found = gathered(*map(row, numbers))
    assert sorted(name for one in found for name in told(one)) == sorted(f"r{number:04}" for number in numbers)
    assert all(len(one.members) <= MEMBERS_MAX for one in found)
    assert [one.group for one in found] == [None] * (len(found) - 1) + ["service"]
    assert len({one.summary.id for one in found}) == len(found)


def test_a_summary_that_is_made_again_is_the_same() -> None:
    """Its key comes from its first delivery and from how often that was folded; the namespace tells it from others."""
    (one,), (again,), (later,) = gathered(row(1), row(2)), gathered(row(1), row(3)), gathered(row(1, folds=1))
    assert one.summary.id == again.summary.id != later.summary.id
    assert (one.new_key or "").startswith(PREFIX)
    (elsewhere,) = gather([row(1)], "another-namespace", NOW)
    assert elsewhere.summary.id != one.summary.id


def test_it_is_sent_before_it_is_too_late() -> None:
    """It gathers for some seconds, or for half of the time that is left."""
    (long,), (short,) = gathered(row(1)), gathered(row(1, deadline_at=NOW + timedelta(seconds=4)))
    assert long.send_at - NOW == timedelta(seconds=GATHER_SECONDS)
    assert short.send_at - NOW == timedelta(seconds=2)


def test_every_end_is_shared() -> None:
    """Whatever becomes of a summary, there is a way for what is folded into it."""
    shared = {end: State(share_of(end)) for end in FINAL}
    assert all(state in TRANSITIONS[State.FOLDED] for state in shared.values())
    assert {end for end, state in shared.items() if state is end} == {State.SENT, State.UNCONFIRMED}
    assert share_reason("dead", "attempts_exhausted") == "summary_dead"
    assert share_reason("cancelled", "moved out") == "summary_cancelled"
    assert share_reason("cancelled", RETIRED) == RETIRED
    assert RETURNS_MAX > 1


def test_a_row_does_not_end_a_summary_that_waits() -> None:
    """One that ends before the summary looks again is left to itself, and the others join."""
    waits = standing(7)._replace(next_at=NOW + HOUR / 4)
    short, long = row(1, into=waits, deadline_at=NOW + HOUR / 8), row(2, into=waits)
    (one,) = gathered(short, long)
    assert told(one) == ["r0002", "r0007"]
    assert gathered(short) == []


def test_what_joins_late_hurries_a_summary_that_only_gathers() -> None:
    """It is sent before the last moment of who has the least time."""
    (one,) = gathered(row(1, into=standing(7), deadline_at=NOW + timedelta(seconds=6)))
    assert one.send_at - NOW == timedelta(seconds=3)


def test_they_are_told_in_the_order_of_their_moments() -> None:
    """Also within a second."""
    parts = [json.dumps({"reminder": f"r{n}", "occurrence": "once", "due_at": at}) for n, at in enumerate(
        ("2026-12-01T09:00:00.500000Z", "2026-12-01T09:00:00Z", "2026-12-01T08:59:59.900000Z")
    )]  # fmt: skip
    rows = [row(number)._replace(row=row(number).row._replace(part=one)) for number, one in enumerate(parts)]
    assert told(gathered(*rows)[0]) == ["r2", "r1", "r0"]


def test_long_is_counted_in_bytes() -> None:
    """A hundred thousand bytes are too much for a message, however few characters they are."""
    wide = json.dumps(
        {"reminder": "r", "occurrence": "once", "due_at": "", "text": "\u3042" * 10_000}, ensure_ascii=False
    )
    rows = [row(number)._replace(row=row(number).row._replace(part=wide)) for number in range(3)]
    assert [len(one.members) for one in gathered(*rows)] == [1, 1, 1]
