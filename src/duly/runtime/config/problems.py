"""The words of complaints: one line for each problem, naming the file and key, or the variable.

    duly.toml: providers.hooks.secrt: unknown key; did you mean "secret"?
    DULY_LEASE_SECONDS: expected a number, got text

No line quotes a value, because it may be a secret in the wrong place. Names are quoted, cut and escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_core import ErrorDetails

from duly.errors import ConfigError
from duly.runtime.config.fields import did_you_mean, nearest
from duly.runtime.config.layers import PREFIX, Key, Layers
from duly.runtime.config.model import KINDS, Account, Config, Endpoint, Table, Template, Unsubscribe

__all__ = ["complain", "key_of", "line", "refusal", "show_key"]

LINES_MAX: Final = 50
SHOWN_CHARACTERS_MAX: Final = 60
UNION_TAG_PLACE: Final = 2  # providers, name, kind, key
GROUPS: Final[dict[str, type[Table]]] = {
    "endpoints": Endpoint,
    "accounts": Account,
    "templates": Template,
    "unsubscribe": Unsubscribe,
}
HINTS: Final[dict[Key, str]] = {
    ("database",): 'say where the ledger is, such as "sqlite:///duly.db"',
    ("unsubscribe", "secret"): 'write "env:NAME" or "file:PATH", naming where a long random secret is',
    ("secret",): 'write "env:NAME" or "file:PATH", naming where the whsec_ secret is',
}
WORDS: Final = {
    "string_type": "expected text, got {got}",
    "float_type": "expected a number, got {got}",
    "int_type": "expected a whole number, got {got}",
    "int_from_float": "expected a whole number, got {got}",
    "bool_type": "expected true or false, got {got}",
    "is_instance_of": 'expected text, such as "env:NAME", got {got}',
    "time_delta_type": 'expected a duration, such as "P1D", got {got}',
    "tuple_type": "expected a list, got {got}",
    "dict_type": "expected a table, got {got}",
    "model_type": "expected a table, got {got}",
    "model_attributes_type": "expected a table, got {got}",
    "finite_number": "expected a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "longer than {max_length} characters",
    "too_short": "must not be empty",
    "too_long": "more than {max_length} entries",
    "string_pattern_mismatch": "holds letters, digits, '.', '_' and '-' only, at most 64 of them",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "value_error": "{error}",
}


def refusal(layers: Layers) -> ConfigError:
    """The error that says what is wrong, one line each, up to a limit."""
    lines = layers.problems[:LINES_MAX]
    more = len(layers.problems) - len(lines) + layers.more_problems
    return ConfigError("\n".join([*lines, f"and {more} more"] if more else lines))


def line(layers: Layers, key: Key, text: str) -> str:
    """One line about one key, led by the file or the variable that it came from."""
    origin = layers.origin(key)
    return f"{origin.name}: {text}" if origin.variable else f"{origin.name}: {show_key(key)}: {text}"


def show_key(key: Sequence[str]) -> str:
    """The key as TOML writes it, on one line."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", part) else _quoted(part) for part in key)


def _quoted(part: str) -> str:
    return json.dumps(part if len(part) <= SHOWN_CHARACTERS_MAX else part[:SHOWN_CHARACTERS_MAX] + "...")


def key_of(error: ErrorDetails) -> Key:
    """The key that pydantic's location means: without union tags, list places and its mark for keys."""
    parts = [str(part) for part in error["loc"] if not isinstance(part, int)]
    if parts[-1:] == ["[key]"]:
        parts.pop()
    if parts[:1] == ["providers"]:
        del parts[UNION_TAG_PLACE : UNION_TAG_PLACE + 1]
    return (*parts, "kind") if error["type"].startswith("union_tag") else tuple(parts)


def complain(layers: Layers, errors: Sequence[ErrorDetails]) -> None:
    """Add a line for each of pydantic's errors."""
    layers.problems.extend(_line(layers, error) for error in errors[:LINES_MAX])
    layers.more_problems += len(errors[LINES_MAX:])


def _line(layers: Layers, error: ErrorDetails) -> str:
    key = key_of(error)
    if error["type"] == "extra_forbidden":
        return line(layers, key, f"unknown key{_nearest(layers, key)}")
    return line(layers, key, _words(key, error))


def _words(key: Key, error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            hint = HINTS.get(key) or HINTS.get(key[-1:])
            return f"missing; {hint}" if hint else "missing"
        case "union_tag_not_found":
            return f"missing; one of {', '.join(sorted(KINDS))}"
        case "union_tag_invalid":
            tag = str(error.get("ctx", {}).get("tag", ""))
            better = did_you_mean(nearest(tag, KINDS))
            return f"not a kind of this version, which has {' and '.join(sorted(KINDS))}{better}"
        case kind if kind in WORDS:
            return WORDS[kind].format(**error.get("ctx", {}), got=_type_name(error["input"]))
    return error["msg"][:1].lower() + error["msg"][1:]


def _type_name(value: Any) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "a date or time")


# --- what an unknown key may have meant ----------------------------------------------------------


def _nearest(layers: Layers, key: Key) -> str:
    near = nearest(key[-1], _known(layers.table, key[:-1]))
    origin = layers.origin(key)
    if not near or not origin.variable:
        return did_you_mean(near)
    parts = origin.name[len(PREFIX) :].split("__")
    parts[len(key) - 1] = near.upper()
    return f"; did you mean {PREFIX}{'__'.join(parts)}?"


def _known(table: Mapping[str, Any], above: Key) -> list[str]:
    model: type[Table] | None = Config
    if above[:1] == ("providers",):
        model = KINDS.get(str(table["providers"][above[1]].get("kind")))
    elif above:
        model = GROUPS.get(above[0])
    return [info.alias or name for name, info in model.model_fields.items()] if model else []
