"""Import of plain lists (consent, recipients): rows are checked and written batch by batch, in constant memory.

Every row is decided: it counts under the word that the ledger answers, or is rejected with a reason and set aside. A
bad row never stops the rest. An import may be stopped and run again at any time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from duly.intake import Rejection
from duly.runtime.importing import Rejects, Row

__all__ = ["BULK_BATCH_ROWS", "Answer", "import_list"]

BULK_BATCH_ROWS: Final = 1_000

T = TypeVar("T")
#: Under which words a written row counts, or why it was not taken after all.
Answer = tuple[str, ...] | Rejection


class Origin(NamedTuple):
    """Where a row came from: its line number, and the object if it could be read."""

    line: int
    row: Mapping[str, Any] | None


async def import_list(
    rows: Iterator[Row],
    accept: Callable[[Mapping[str, Any]], T],
    write: Callable[[Sequence[T]], Awaitable[Sequence[Answer]]],
    rejects: Rejects,
    progress: Callable[[], None],
) -> Counter[str]:
    """Check and write every row that can be; returns the counts, `rows` and `rejected` among them.

    `accept` raises Rejection; `write` answers for each row, in order. `progress` is called once per batch.
    """
    counts: Counter[str] = Counter(rows=0, rejected=0)
    while True:
        decided = await asyncio.to_thread(_check, rows, accept)
        if not decided:
            return counts
        accepted = [(origin, found) for origin, found in decided if not isinstance(found, Rejection)]
        rejected = [(origin, found) for origin, found in decided if isinstance(found, Rejection)]
        answers = await write([found for _, found in accepted]) if accepted else []
        for (origin, _), answer in zip(accepted, answers, strict=True):
            if isinstance(answer, Rejection):
                rejected.append((origin, answer))
            else:
                counts.update(answer)
        for origin, rejection in sorted(rejected, key=lambda pair: pair[0].line):
            rejects.write(origin.line, rejection, origin.row)
        counts["rows"] += len(decided)
        counts["rejected"] += len(rejected)
        progress()


def _check(rows: Iterator[Row], accept: Callable[[Mapping[str, Any]], T]) -> list[tuple[Origin, T | Rejection]]:
    """Read and check the next rows."""
    decided: list[tuple[Origin, T | Rejection]] = []
    for line, row in rows:
        if isinstance(row, Rejection):
            decided.append((Origin(line, None), row))
        else:
            decided.append((Origin(line, row), _accepted(accept, row)))
        if len(decided) >= BULK_BATCH_ROWS:
            break
    return decided


def _accepted(accept: Callable[[Mapping[str, Any]], T], row: Mapping[str, Any]) -> T | Rejection:
    try:
        return accept(row)
    except Rejection as rejection:
        return rejection
