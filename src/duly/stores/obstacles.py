"""What stands in the way of a delivery or of a reminder to come, from the rows of either database.

The code is the one that admission would give; for what silences an address, the statement behind it is found: the
entry that stands, or, for a delivery that has ended, the latest statement of that kind from before its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from duly.core.consent import ALL, EVERYTHING, Kind, code_of
from duly.core.moments import is_before

__all__ = ["NO_ADDRESS", "in_the_way", "said_against", "silence_of"]

NO_ADDRESS: Final = "no_address"
RECIPIENT_DELETED: Final = "recipient_deleted"
#: Codes that some statement about the address has led to.
_SILENCES: Final = ("complained", "bounced", "suppressed", "opted_out")
_WORDS: Final = ("kind", "purpose", "at", "source", "reason", "actor", "recorded_at")


def silence_of(columns: Mapping[str, Any]) -> str | None:
    """The code by which its address is silenced; None where nothing that was said stands in its way."""
    code = columns["obstacle"] or columns["reason"] or ""
    code = code.removesuffix("_in_doubt")
    return code if code.startswith(_SILENCES) else None


def said_against(
    columns: Mapping[str, Any], standing: Sequence[Mapping[str, Any]], history: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The statement behind the code (CONSENT, CONSENT_EVENT; the history newest first), alone; none if it is lost."""
    code, until = silence_of(columns), columns["finished_at"]
    scopes = (columns["purpose"], ALL, EVERYTHING)
    found = [
        {word: one[word] for word in _WORDS}
        for one in (*standing, *history)
        if one["purpose"] in scopes
        and code_of(Kind(one["kind"]), one["purpose"]) == code
        and (until is None or not is_before(until, one["recorded_at"]))
    ]
    return found[:1]


def in_the_way(
    objections: Mapping[str, str | None], *, account_paused: bool, template_paused: bool
) -> list[dict[str, Any]]:
    """What stands in the way of a reminder to come (`channel`, null for all of them; `reason`).

    `objections` go by channel.
    """
    pauses = {"account_paused": account_paused, "template_paused": template_paused}
    paused = [{"channel": None, "reason": code} for code, is_so in pauses.items() if is_so]
    if RECIPIENT_DELETED in objections.values():
        return [{"channel": None, "reason": RECIPIENT_DELETED}, *paused]
    refused = [{"channel": channel, "reason": code} for channel, code in objections.items() if code is not None]
    return [*refused, *paused]
