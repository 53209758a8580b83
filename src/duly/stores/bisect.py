"""Bisection: one row that the database refuses costs no other row its outcome.

A batch is one commit. If the database refuses it for what a row holds, the batch is halved until the
bad row stands alone; that row is then written in a form that the database must take. A connection that
fails is no row's fault: it ends the attempt at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from duly.errors import StoreError

__all__ = ["DataRefused", "write_all"]

Row = TypeVar("Row")
Written = TypeVar("Written")


class DataRefused(StoreError):
    """The database answered, and refused a value of a row."""


async def write_all(
    rows: Sequence[Row],
    write: Callable[[Sequence[Row]], Awaitable[Written]],
    scrub: Callable[[Row], Row],
) -> list[Written]:
    """Write the rows in as few commits as can be: one, unless a row is bad.

    `write` commits its rows or none of them; `scrub` makes a refused row acceptable. What `write` raises
    for a scrubbed row, or other than DataRefused, is raised here; what was committed before stays.
    """
    try:
        return [await write(rows)]
    except DataRefused:
        if not rows:
            raise
        if len(rows) == 1:
            return [await write([scrub(rows[0])])]
    middle = len(rows) // 2
    return [*await write_all(rows[:middle], write, scrub), *await write_all(rows[middle:], write, scrub)]
