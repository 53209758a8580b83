"""Rounds: a batch in which an id stands twice, cut so that one statement meets each id once.

A statement sees the table as it was before it, so two rows about one delivery cannot follow each other
within it. The second comes with the next statement of the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

__all__ = ["rounds"]

Row = TypeVar("Row")


def rounds(rows: Sequence[Row], key: Callable[[Row], bytes]) -> Iterator[Sequence[Row]]:
    """Parts in which each key stands once, in order; one part, unless a key is there twice."""
    rest = rows
    while rest:
        seen: set[bytes] = set()
        later: list[Row] = []
        part: list[Row] = []
        for row in rest:
            known = key(row) in seen
            (later if known else part).append(row)
            seen.add(key(row))
        yield part
        rest = later
