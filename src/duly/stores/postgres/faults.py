"""What PostgreSQL's and the driver's errors mean: the one place where they are mapped.

    no answer      connection lost or refused, timeouts, shutdown, start-up, failover,     StoreUnavailable
                   out of connections, memory or disk, deadlock: it may be tried again
    no schema      undefined table, column or schema                                       SchemaError
    bad data       a value that a column cannot hold                                       DataRefused
    a refusal      wrong credentials, no such database, no permission, anything else       StoreError

The codes are those of appendix A of PostgreSQL's manual
(https://www.postgresql.org/docs/current/errcodes-appendix.html). A connection that is refused brings no
code, only the server's text, so there the text is read. The error's own text is one line: what the
server said first, without its DETAIL, which quotes rows, and without the password.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from duly.core.text import one_line
from duly.errors import DulyError, SchemaError, StoreError, StoreUnavailable
from duly.stores.bisect import DataRefused

__all__ = ["mapped", "translate"]

LINE_CHARACTERS_MAX: Final = 300

#: Classes (two characters) and codes (five) after which the same call may succeed.
_NO_ANSWER: Final = frozenset(
    {
        "08",  # connection exception
        "25006",  # read-only transaction: a standby, or a primary that is being replaced
        "25P03",  # idle-in-transaction timeout
        "25P04",  # transaction timeout
        "40",  # rolled back: deadlock, serialisation
        "53",  # out of memory, disk or connections
        "55P03",  # lock timeout
        "57",  # statement timeout, shutdown, crash recovery, start-up
        "58",  # the server's own input and output
    }
)
_NO_SCHEMA: Final = frozenset({"3F000", "42P01", "42703"})
_BAD_DATA: Final = frozenset({"22", "23", "54"})
#: What a server says when it will not let us in, whatever we do next.
_REFUSALS: Final = ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry",
                    "is not permitted to log in", "permission denied", "server does not support SSL")  # fmt: skip


@contextmanager
def mapped(place: str, password: str | None = None) -> Iterator[None]:
    """Turn the driver's errors into ours. `place` names the database; `password` is never shown."""
    try:
        yield
    except DulyError:
        raise
    except (psycopg.Error, OSError, UnicodeEncodeError, struct.error, OverflowError) as error:
        raise translate(error, place, password) from None


def translate(error: Exception, place: str, password: str | None = None) -> DulyError:
    """The error of our tree, its text one line. TimeoutError is an OSError, so it counts as no answer."""
    kind, advice = _meaning(error)
    said = _first_words(error)
    if password:
        said = said.replace(password, "...")
    return kind(f"{place}: {said}{advice}")


def _meaning(error: Exception) -> tuple[type[DulyError], str]:
    """The class of our tree, and what to do, if the server's own words do not say it."""
    if isinstance(error, (UnicodeEncodeError, struct.error, OverflowError, psycopg.DataError)):
        return DataRefused, ""
    if isinstance(error, OSError):
        return StoreUnavailable, ""
    code = getattr(error, "sqlstate", None)
    return _by_code(code) if code else _by_text(error)


def _by_code(code: str) -> tuple[type[DulyError], str]:
    if code in _NO_SCHEMA:
        return SchemaError, "; run `duly migrate apply`"
    if _NO_ANSWER & {code, code[:2]}:
        return StoreUnavailable, ""
    return (DataRefused, "") if code[:2] in _BAD_DATA else (StoreError, "")


def _by_text(error: Exception) -> tuple[type[DulyError], str]:
    """No code: the connection was lost, or never made."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return StoreError, ""
    refused = any(words in str(error) for words in _REFUSALS)
    return (StoreError, "; check the database's URL") if refused else (StoreUnavailable, "")


def _first_words(error: Exception) -> str:
    """One line. Of an encoding error only its kind: its text quotes the value."""
    if isinstance(error, UnicodeEncodeError):
        return "a text holds a character that UTF-8 cannot carry"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    diagnosis = getattr(error, "diag", None)
    said = (diagnosis.message_primary if diagnosis else None) or str(error) or type(error).__name__
    return one_line(said, LINE_CHARACTERS_MAX)
