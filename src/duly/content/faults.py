"""Why a rendering failed, in one line that names the template's own words and never a value of the data.

Jinja2 says "'dict object' has no attribute 'unit'". Which of the template's chains that was, `data.unit`
or `item.unit`, is found by looking at what the template mentions and what the row has. A name that the
template does not spell out (`data[data.kind]`) is a value of the data, and is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import jinja2
from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from duly.content.language import NotPrintable, TooMuch
from duly.content.look import Look, Mention, Path
from duly.content.times import NotATime, UnknownStyle, is_moment

__all__ = ["describe"]

#: The file name that Jinja2 gives to compiled text.
_TEMPLATE_FILE: Final = "<template>"


def describe(error: Exception, template: jinja2.Template, look: Look, names: Mapping[str, Any]) -> tuple[str, str]:
    """The place, as in ", line 3" (empty if unknown), and the reason."""
    line = _line(error.__traceback__, template)
    return (f", line {line}" if line else ""), _reason(error, look, names, line)


def _line(traceback: TracebackType | None, template: jinja2.Template) -> int:
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _TEMPLATE_FILE:
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return line


def _reason(error: Exception, look: Look, names: Mapping[str, Any], line: int) -> str:
    match error:
        case TooMuch() | UnknownStyle():
            return str(error)
        case NotPrintable():
            return _not_printable(_nearest(look.printed, line), names)
        case NotATime():
            return _not_a_time(_nearest(look.timed, line), names)
        case SecurityError():
            return "it asks for something that the sandbox keeps away"
        case UndefinedError():
            return _undefined(str(error), _nearest(look.mentions, line), names)
    return f"it fails with this data ({type(error).__name__})"


def _nearest(mentions: tuple[Mention, ...], line: int) -> list[Path]:
    """The chains, those of the failing line first."""
    return [mention.path for mention in sorted(mentions, key=lambda mention: mention.line != line)]


def _not_printable(printed: list[Path], names: Mapping[str, Any]) -> str:
    for path in printed:
        if _gap(path, names):
            return f"{_spell(path)} is missing"
        if _value(path, names) is None:
            return f"{_spell(path)} is null, and it is printed"
    return "null, or a method, is printed"


def _not_a_time(timed: list[Path], names: Mapping[str, Any]) -> str:
    if ("starts_at",) in timed and names.get("starts_at") is None:
        return "starts_at is null: this reminder has no anchor; give it starts_at and before"
    wrong = (path for path in timed if _gap(path, names) is None and _is_no_moment(path, names))
    place = next(map(_spell, wrong), "what it shows as a time")
    return f"{place} is not a time; write one like 2026-12-01T09:00:00-05:00"


def _is_no_moment(path: Path, names: Mapping[str, Any]) -> bool:
    """What a name of the template's own stands for is not known any more: it is suspected."""
    return path[0] not in names or not is_moment(_value(path, names))


def _undefined(message: str, mentions: list[Path], names: Mapping[str, Any]) -> str:
    kind, _, text = message.partition(": ")
    if kind == "hint":
        return text
    for path in mentions:
        gap = _gap(path, names)
        if gap and str(gap[-1]) == text:
            return f"{_spell(gap)} is missing"
    for path in mentions:
        if text in map(str, path[1:]) and path[0] not in names:
            return f"{_spell(path)} is missing"
    return "a name that it looks up is missing"


def _gap(path: Path, names: Mapping[str, Any]) -> Path | None:
    """The shortest beginning of the chain that the row does not have; None if it has all, or cannot be asked."""
    value: Any = names
    for length, name in enumerate(path, 1):
        if value is None:
            return path[:length]
        if not isinstance(value, (dict, list)):
            return None
        try:
            value = value[name]  # type: ignore[index]
        except (LookupError, TypeError):
            return path[:length] if length > 1 else None
    return None


def _value(path: Path, names: Mapping[str, Any]) -> Any:
    """What stands there, as far as it is known: a name of the template's own, such as a loop's, is not any more."""
    value: Any = names
    for name in path:
        if not isinstance(value, (dict, list)):
            return value
        try:
            value = value[name]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _spell(path: Path) -> str:
    return ".".join(map(str, path))
