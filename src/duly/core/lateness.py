"""What is sent after its deadline, where the reminder asks for that: late, and marked so.

With `late = send_marked` or `summarize` a delivery's last moment is its `late_until`, and its `deadline` only says
from when on it is late. The mark is made when the bytes are, so it is fixed at the first begin: a retry of the same
bytes says what the first attempt said.
"""

from __future__ import annotations

from datetime import datetime

from duly.core.deadlines import deadline_of
from duly.core.model import Claimed

__all__ = ["mark_late"]


def mark_late(row: Claimed, now: datetime) -> Claimed:
    """The row, with how long after its due time it is sent if that is late."""
    if row.late_after is None or now < deadline_of(row.due_at, row.late_after, None):
        return row
    return row._replace(late=now - row.due_at)
