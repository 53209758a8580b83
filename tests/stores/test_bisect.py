"""A row that the database refuses stands alone in the end, and costs no other row its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import StoreUnavailable
from duly.stores.bisect import DataRefused, write_all

CLEAN = 1_000


class Table:
    """Takes batches of numbers in one commit each; refuses a batch with a bad one."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.rows: list[int] = []
        self.commits = 0

    async def write(self, rows: Sequence[int]) -> int:
        """All rows, or none and DataRefused."""
        if self.bad & set(rows):
            raise DataRefused("a value was refused")
        self.commits += 1
        self.rows += rows
        return len(rows)


def scrub(row: int) -> int:
    """What the table takes."""
    return row + CLEAN


@given(count=st.integers(0, 40), bad=st.sets(st.integers(0, 39), max_size=6))
def test_every_row_is_written_once(count: int, bad: set[int]) -> None:
    """Good rows are written as they are, bad ones scrubbed, each once and in order."""
    table = Table(bad)
    written = asyncio.run(write_all(range(count), table.write, scrub))
    assert table.rows == [row + CLEAN if row in bad else row for row in range(count)]
    assert sum(written) == count


def test_a_good_batch_is_one_commit() -> None:
    """Where nothing is refused, nothing is divided."""
    table = Table(set())
    assert asyncio.run(write_all(range(500), table.write, scrub)) == [500]
    assert table.commits == 1


def test_one_bad_row_costs_few_commits() -> None:
    """One bad row among 500 is found in as many halvings as there are bits in 500."""
    table = Table({123})
    asyncio.run(write_all(range(500), table.write, scrub))
    assert table.commits <= 10


def test_a_row_that_cannot_be_scrubbed_is_refused() -> None:
    """What the database refuses even scrubbed is told to the caller."""
    table = Table({3, 3 + CLEAN})
    with pytest.raises(DataRefused):
        asyncio.run(write_all(range(8), table.write, scrub))


def test_an_empty_batch_that_is_refused_is_told() -> None:
    """Where there is no row to blame, the refusal is the caller's."""

    async def write(rows: Sequence[int]) -> int:
        raise DataRefused(f"refused with {len(rows)} rows")

    with pytest.raises(DataRefused):
        asyncio.run(write_all([], write, scrub))


def test_a_lost_connection_is_no_rows_fault() -> None:
    """An error that no row has caused ends the attempt at once."""
    asked = 0

    async def write(rows: Sequence[int]) -> int:
        nonlocal asked
        asked += 1
        raise StoreUnavailable(f"gone before {len(rows)} rows")

    with pytest.raises(StoreUnavailable):
        asyncio.run(write_all(range(8), write, scrub))
    assert asked == 1
