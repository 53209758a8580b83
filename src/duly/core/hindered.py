"""What stands in the way of what is still to be sent, as sentences of `explain`.

Admission is asked only when a delivery's turn comes. Until then something may have happened that will stop it: its
recipient opted out or was deleted, its account, template or reminder was paused or cancelled. `show` brings the code
that admission would give (`obstacle`, and for a reminder `obstacles`), and it is told while it is still to come, with
the statement behind it where there is one (`consent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.core.consent import ALL, EVERYTHING
from duly.core.postponed import PAUSES
from duly.core.spoken import Place, told_at

__all__ = ["hindrance", "hindrances", "said", "unsent_outlook"]

_SCOPES: Final[Mapping[str, str]] = {ALL: "for every purpose but security", EVERYTHING: "for every purpose"}
#: Nothing can be stopped any more, or it is not sent by itself.
_TOO_LATE: Final = frozenset({"sending", "folded"})
_BEFORE_ITS_TURN: Final = frozenset({"ready", "waiting", "leased"})


def said(shown: Mapping[str, Any], place: Place) -> str:
    """The statement about the address: of which purpose it was, when it was made, and where it came from."""
    for one in shown.get("consent") or ():
        recorded = f"at a time that nobody knows, recorded {told_at(one['recorded_at'], place)}"
        when = told_at(one["at"], place) if one["at"] else recorded
        scope = _SCOPES.get(one["purpose"]) or f"for the purpose {one['purpose']}"
        return f" ({scope}, {when}, source: {one['source']})"
    return ""


def hindrance(shown: Mapping[str, Any], place: Place, reasons: Mapping[str, str]) -> str:
    """What stands in a delivery's way, where its own reason does not say so."""
    code = shown.get("obstacle")
    if code is None or shown["status"] in _TOO_LATE or code == str(shown["reason"]).removesuffix("_in_doubt"):
        return ""
    if code in PAUSES:
        return f"Nothing is sent as long as {reasons[code]}."
    never = "It will not be sent" if shown["status"] in _BEFORE_ITS_TURN else "No request leaves for it any more"
    return f"{never}, because {reasons[code]}{said(shown, place)}."


def unsent_outlook(shown: Mapping[str, Any], place: Place, *, in_doubt: bool) -> str | None:
    """What happens next to one that will not be sent; None where it may be, or may have been."""
    code = shown.get("obstacle")
    if code is None or code in PAUSES or in_doubt or shown["status"] not in _BEFORE_ITS_TURN:
        return None
    when = f" {told_at(shown['next_at'], place)}" if shown["next_at"] else ""
    return f"its turn comes{when}, and it ends unsent"


def hindrances(shown: Mapping[str, Any], reasons: Mapping[str, str]) -> list[str]:
    """What stands in the way of a reminder's next occurrence, as things are now."""
    return [_to_come(one, reasons) for one in shown.get("obstacles") or ()]


def _to_come(one: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    if one["reason"] in PAUSES:
        return f"Nothing of it is sent as long as {reasons[one['reason']]}."
    by = f" by {one['channel']}" if one["channel"] else ""
    return f"As things are, nothing of it will be sent{by}, because {reasons[one['reason']]}."
