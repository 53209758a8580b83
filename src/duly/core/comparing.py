"""A submission whose key is there already: the same again, another body, or a version of its own.

A body is compared as first submitted. Where both carry an `event_version`, another body with a higher one is a
newer version, and one that is not higher comes too late: versions never go back.
"""

from __future__ import annotations

from duly.core.model import NewReminder, Scheduled

__all__ = ["compare"]


def compare(new: NewReminder, body_hash: bytes, event_version: int | None) -> Scheduled:
    """What a submission is to the reminder on record, whose body's hash and version are these."""
    if new.body_hash == body_hash:
        return Scheduled.ALREADY
    if new.event_version is None:
        return Scheduled.CONFLICT
    return Scheduled.NEWER if event_version is None or new.event_version > event_version else Scheduled.OLDER
