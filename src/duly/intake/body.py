"""The body of a submission as bytes: its data washed and bounded, and its hash.

Data is prose. NUL and lone surrogates are taken out of it, because no database keeps them and a
mistyped character is no reason to be silent. Numbers that JSON does not have (NaN, infinities) and whole
numbers beyond 64 bits are refused, because they would come back as something else.

orjson refuses most of this while it writes, at no cost. The slow walk is only for data in which the
written bytes show something that it may have let pass: a NUL, a null that was NaN, many brackets.

The hash is SHA-256 over JSON with sorted keys, without nulls outside the data: the order of keys, and
whether a row came as JSONL or as CSV, make no difference.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final

import orjson

from duly.core.text import recordable
from duly.intake.fields import kind, shown
from duly.intake.rejection import Rejection

__all__ = ["body_hash", "read_data", "written"]

DATA_BYTES_MAX: Final = 64 * 1024
DATA_DEPTH_MAX: Final = 20
#: What 64 bits hold, signed or not.
WHOLE_NUMBERS: Final = range(-(2**63), 2**64)

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


def read_data(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The data, washed, and its JSON text. Raises Rejection."""
    data = row.get("data", {})
    if not isinstance(data, dict):
        raise Rejection(f"must be an object, not {kind(data)}", "data")
    encoded = _try(data)
    if encoded is None or _is_suspicious(encoded):
        data = _wash_object(data, "data", 1)
        encoded = _try(data)
    if encoded is None:
        raise Rejection("holds a Python object that JSON does not have", "data")
    if len(encoded) > DATA_BYTES_MAX:
        raise Rejection(f"is {len(encoded):,} bytes of JSON, over {DATA_BYTES_MAX:,}; send a link instead", "data")
    return data, encoded.decode()


def written(value: Mapping[str, Any]) -> str:
    """JSON text with sorted keys, of what has been checked."""
    return orjson.dumps(value, option=_OPTIONS).decode()


def body_hash(row: Mapping[str, Any]) -> bytes:
    """SHA-256 of the checked row, 32 bytes."""
    return hashlib.sha256(orjson.dumps(row, option=_OPTIONS)).digest()


def _try(data: Mapping[str, Any]) -> bytes | None:
    try:
        return orjson.dumps(data, option=_OPTIONS)
    except TypeError:
        return None


def _is_suspicious(encoded: bytes) -> bool:
    brackets = encoded.count(b"{") + encoded.count(b"[")
    return brackets > DATA_DEPTH_MAX or b"\\u0000" in encoded or b"null" in encoded


def _wash(value: Any, path: str, depth: int) -> Any:
    match value:
        case str():
            return recordable(value)
        case dict():
            return _wash_object(value, path, depth)
        case list() | tuple():
            _check_depth(depth, path)
            return [_wash(item, path, depth + 1) for item in value]
        case int() | float():
            _check_number(value, path)
    return value


def _wash_object(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    _check_depth(depth, path)
    washed = {}
    for name, part in value.items():
        if not isinstance(name, str):
            raise Rejection(f"has a key that is not text but {kind(name)}", shown(path))
        washed[recordable(name)] = _wash(part, f"{path}.{name}" if depth == 1 else path, depth + 1)
    return washed


def _check_depth(depth: int, path: str) -> None:
    if depth > DATA_DEPTH_MAX:
        raise Rejection(f"is nested more than {DATA_DEPTH_MAX} deep; make it flatter", shown(path))


def _check_number(value: float, path: str) -> None:
    if isinstance(value, int):
        if value not in WHOLE_NUMBERS:
            raise Rejection("holds a whole number beyond 64 bits; write it as text", shown(path))
    elif not math.isfinite(value):
        raise Rejection("holds NaN or an infinity, which JSON does not have; write null or text", shown(path))
