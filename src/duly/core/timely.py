"""When a delivery came, how late it was, and when it ended, as sentences of `explain`.

What was past already when its reminder was submitted, or changed last, could not have been sent in time: no tick is to
blame for it. What is sent late all the same says so; what is folded into a summary is not sent by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.core.folding import PREFIX
from duly.core.moments import is_before
from duly.core.postponed import last_moment
from duly.core.spoken import Place, begun, told_at, told_moment

__all__ = ["came_late", "ended", "lateness", "taken_in"]


def taken_in(shown: Mapping[str, Any]) -> str | None:
    """When its reminder came, or was changed last before it: behind its due time. A summary comes when it is made."""
    taken = shown.get("revised_at") or shown.get("submitted_at")
    late = taken is not None and is_before(shown["due_at"], taken) and not shown["reminder"].startswith(PREFIX)
    return taken if late else None


def came_late(shown: Mapping[str, Any], place: Place) -> str:
    """That nobody could have sent it in time."""
    taken = taken_in(shown)
    if taken is None:
        return ""
    came = "changed" if shown.get("revised_at") else "submitted"
    return f"Its reminder was {came} {told_at(taken, place)}, when that was past."


def ended(shown: Mapping[str, Any], place: Place) -> str:
    """When it ended, and by which deadline where that is why."""
    ended_at = shown.get("finished_at")
    if ended_at is None:
        return ""
    when, accepted = told_at(ended_at, place), [one for one in shown["attempts"] if one["outcome"] == "accepted"]
    if accepted:
        return f"It was accepted {told_at(accepted[0]['finished_at'], place)}."
    if shown["status"] == "expired":
        return f"{begun(last_moment(shown))} was {told_moment(shown['deadline_at'], place)}, and it expired {when}."
    return f"That was recorded {when}." if shown["status"] == "sent" else f"It ended {when}."


def lateness(shown: Mapping[str, Any], place: Place) -> list[str]:
    """Since when it is late, where it is sent all the same. What is in a summary is not sent by itself."""
    late_from, ended = shown.get("late_from"), shown["next_action"] == "nothing"
    if late_from is None or shown.get("summary"):
        return []
    when = told_moment(late_from, place)
    if shown["attempts"]:
        told = f"It was late since {when}, and said so." if ended else f"It is late since {when}, and says so."
        return [] if is_before(shown["attempts"][0]["started_at"], late_from) else [told]
    if ended:
        return []
    begins = f"It is late since {when}" if _is_past(late_from, shown) else f"From {when} on it is late"
    return [f"{begins}, and says so when it is sent."]


def _is_past(moment: str, shown: Mapping[str, Any]) -> bool:
    """Whether a moment is past; False where nobody said when it is told."""
    return "told_at" in shown and not is_before(shown["told_at"], moment)
