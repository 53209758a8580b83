"""The fields of a submission, and how one of them is read: strictly, bounded, and with a reason if refused.

Types are taken as they are: `4411` is not text, and `"3"` is not a number. Null and empty text are the
same as absent. Names of things (keys, accounts, ids) keep every character they have, so what could not be
recorded or would break a line is refused in them, never removed: two keys must not become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from duly.core import text
from duly.intake.rejection import Rejection, did_you_mean

__all__ = ["FIELDS", "RECIPIENT_FIELDS", "choice", "known", "label", "need", "number", "shown"]

FIELDS: Final = frozenset(
    {
        "idempotency_key",
        "account",
        "to",
        "channels",
        "fallback",
        "template",
        "data",
        "notify_at",
        "starts_at",
        "before",
        "zone",
        "repeat",
        "missed",
        "grace",
        "deadline",
        "late",
        "late_until",
        "group",
        "lane",
        "purpose",
        "event_version",
    }
)
RECIPIENT_FIELDS: Final = frozenset({"id", "name", "email", "phone", "webhook", "zone", "locale", "quiet_hours"})
SHOWN_CHARACTERS_MAX: Final = 40

_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def known(value: Any, names: frozenset[str], field: str | None = None) -> Mapping[str, Any]:
    """An object that holds known fields only, without its nulls. Raises Rejection."""
    if not isinstance(value, Mapping):
        raise Rejection(f"must be an object, not {kind(value)}", field)
    if not names.issuperset(value):
        raise _unknown(value, names, field)
    if None in value.values():
        return {name: part for name, part in value.items() if part is not None}
    return value


def label(row: Mapping[str, Any], name: str, characters_max: int, prefix: str = "") -> str | None:
    """A name of something, on one line; None if it is absent. Raises Rejection."""
    value = row.get(name)
    if value is None or value == "":
        return None
    field = prefix + name
    if not isinstance(value, str):
        raise Rejection(f"must be text, not {kind(value)}", field)
    if len(value) > characters_max:
        raise Rejection(f"is longer than {characters_max:,} characters; shorten it", field)
    _check_characters(value, field)
    return value


def need(row: Mapping[str, Any], name: str, characters_max: int) -> str:
    """As `label`, and it must be there. Raises Rejection."""
    value = label(row, name, characters_max)
    if value is None:
        raise Rejection("is missing", name)
    return value


def choice(row: Mapping[str, Any], name: str, known_words: Iterable[str], default: str) -> str:
    """One of a few words. Raises Rejection."""
    value = label(row, name, SHOWN_CHARACTERS_MAX)
    if value is None:
        return default
    words = list(known_words)
    if value not in words:
        raise Rejection(f"must be {' or '.join(words)}{did_you_mean(value, words)}", name)
    return value


def number(row: Mapping[str, Any], name: str, largest: int) -> int | None:
    """A whole number from 0, or None if it is absent. Raises Rejection."""
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Rejection(f"must be a whole number, not {kind(value)}", name)
    if not 0 <= value <= largest:
        raise Rejection(f"must lie between 0 and {largest:,}", name)
    return value


def kind(value: Any) -> str:
    """What JSON calls it."""
    return "null" if value is None else _KINDS.get(type(value), f"a Python {type(value).__name__}")


def shown(value: object) -> str:
    """A foreign word in our own sentence: short and on one line."""
    return text.one_line(str(value), SHOWN_CHARACTERS_MAX)


def _check_characters(value: str, field: str) -> None:
    if value.isascii() and value.isprintable() and value[0] != " " and value[-1] != " ":
        return
    if text.has_controls(value) or not text.is_recordable(value):
        raise Rejection("holds a control character, a line break or half a surrogate pair; take it out", field)
    if value != value.strip():
        raise Rejection("has blanks around it; take them away", field)


def _unknown(value: Mapping[Any, Any], names: frozenset[str], field: str | None) -> Rejection:
    stranger = next(name for name in value if name not in names)
    path = f"{field}.{shown(stranger)}" if field else shown(stranger)
    return Rejection(f"there is no such field{did_you_mean(shown(stranger), sorted(names))}", path)
