"""What is sent after its deadline says so, where its reminder asks for that."""

from __future__ import annotations

from datetime import timedelta

from duly.core.lateness import mark_late
from tests.core.values import NOW, claimed


def test_what_comes_after_its_deadline_is_marked() -> None:
    """From the deadline on the row says by how much it is behind its due time."""
    row = claimed(due_at=NOW, late_after="PT1H")
    assert mark_late(row, NOW + timedelta(minutes=59)) is row
    assert mark_late(row, NOW + timedelta(hours=1)).late == timedelta(hours=1)
    assert mark_late(row, NOW + timedelta(hours=3)).late == timedelta(hours=3)


def test_a_deadline_may_be_an_instant() -> None:
    """It is read as it was submitted."""
    row = claimed(due_at=NOW, late_after=(NOW + timedelta(hours=2)).isoformat())
    assert mark_late(row, NOW + timedelta(hours=1)) is row
    assert mark_late(row, NOW + timedelta(hours=2)).late == timedelta(hours=2)


def test_without_a_policy_nothing_is_marked() -> None:
    """Such a row is never sent late."""
    row = claimed()
    assert mark_late(row, NOW + timedelta(days=9)) is row
