"""What a submission is to the reminder that has its key already."""

from __future__ import annotations

import pytest

from duly.core.comparing import compare
from duly.core.model import Scheduled
from duly.testing.builders import new_reminder
from tests.core.values import NOW


@pytest.mark.parametrize(
    ("version", "recorded", "answer"),
    [
        (None, None, Scheduled.CONFLICT),
        (None, 1, Scheduled.CONFLICT),
        (0, None, Scheduled.NEWER),
        (2, 1, Scheduled.NEWER),
        (1, 1, Scheduled.OLDER),
        (1, 2, Scheduled.OLDER),
    ],
)
def test_another_body_is_judged_by_its_version(version: int | None, recorded: int | None, answer: Scheduled) -> None:
    """Only a higher version is newer; without one, another body is a conflict."""
    assert compare(new_reminder("r", NOW, event_version=version), b"another", recorded) is answer


def test_the_same_body_is_there_already() -> None:
    """Whatever versions say."""
    new = new_reminder("r", NOW)
    assert compare(new, new.body_hash, 7) is Scheduled.ALREADY
