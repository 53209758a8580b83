"""The shape of a flat table, where a file holds something else than reminders."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Table"]


class Table(NamedTuple):
    """Which columns a table may have, and which it must have. No column has parts."""

    columns: frozenset[str]
    needed: tuple[str, ...]
    bare: str = ""  # what to do with a list that has one column and no header
