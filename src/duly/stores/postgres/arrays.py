"""Columns of a batch as PostgreSQL arrays, in the server's own binary form.

A statement takes a batch as one array per column and unnests them. The driver can dump Python lists,
but looks at every element; these functions know their column's type and do little more than join bytes.
The form is that of `array_recv` (src/backend/utils/adt/arrayfuncs.c): the number of dimensions, whether
there are nulls, the element's type, then length and lower bound, then each element as its length in
bytes (-1: null) and its bytes. The statement casts the parameter (`$1::uuid[]`), which names the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from struct import Struct
from typing import Final

__all__ = ["POSTGRES_EPOCH", "Packed", "bools", "byteas", "floats", "ints", "texts", "times", "uuids"]

#: Timestamps are microseconds from here (src/include/datatype/timestamp.h).
POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)

_BOOL, _BYTEA, _INT4, _TEXT, _FLOAT8, _TIMESTAMPTZ, _UUID = 16, 17, 23, 25, 701, 1184, 2950
_HEADER: Final = Struct(">iiIii").pack
_LENGTH: Final = Struct(">i").pack
_INT: Final = Struct(">ii").pack
_FLOAT: Final = Struct(">id").pack
_MOMENT: Final = Struct(">iq").pack
_NULL: Final = _LENGTH(-1)
_SIXTEEN: Final = _LENGTH(16)
_TRUE, _FALSE = _LENGTH(1) + b"\x01", _LENGTH(1) + b"\x00"


class Packed(bytes):
    """A parameter that is already in binary form."""

    __slots__ = ()


def uuids(column: Sequence[bytes]) -> Packed:
    """16-byte ids as uuid[]."""
    return _array(_UUID, len(column), _SIXTEEN + _SIXTEEN.join(column) if column else b"")


def ints(column: Iterable[int | None]) -> Packed:
    """As int[]."""
    return _joined(_INT4, [_NULL if value is None else _INT(4, value) for value in column])


def floats(column: Iterable[float | None]) -> Packed:
    """As float8[]."""
    return _joined(_FLOAT8, [_NULL if value is None else _FLOAT(8, value) for value in column])


def bools(column: Iterable[bool]) -> Packed:
    """As bool[]."""
    return _joined(_BOOL, [_TRUE if value else _FALSE for value in column])


def texts(column: Iterable[str | None]) -> Packed:
    """As text[]. Raises UnicodeEncodeError for a lone surrogate."""
    return byteas((None if value is None else value.encode() for value in column), _TEXT)


def byteas(column: Iterable[bytes | None], kind: int = _BYTEA) -> Packed:
    """As bytea[]."""
    return _joined(kind, [_NULL if value is None else _LENGTH(len(value)) + value for value in column])


def times(column: Iterable[datetime | None]) -> Packed:
    """Aware datetimes as timestamptz[]."""
    return _joined(_TIMESTAMPTZ, [_NULL if value is None else _MOMENT(8, _microseconds(value)) for value in column])


def _microseconds(moment: datetime) -> int:
    since = moment - POSTGRES_EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _joined(kind: int, elements: list[bytes]) -> Packed:
    return _array(kind, len(elements), b"".join(elements))


def _array(kind: int, length: int, elements: bytes) -> Packed:
    return Packed(_HEADER(1, 1, kind, length, 1) + elements)
