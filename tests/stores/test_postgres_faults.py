"""Every error of the server and of its driver becomes one of ours, in one line, without what is nobody's business."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from duly.errors import DulyError, NotFound, SchemaError, StoreError, StoreUnavailable
from duly.stores.bisect import DataRefused
from duly.stores.postgres.faults import mapped, translate

PLACE = "database app on db.example.com"

BY_CODE = {
    "08006": StoreUnavailable,  # connection failure
    "25006": StoreUnavailable,  # a standby
    "40001": StoreUnavailable,  # serialisation failure
    "40P01": StoreUnavailable,  # deadlock
    "53100": StoreUnavailable,  # disk full
    "53300": StoreUnavailable,  # too many connections
    "55P03": StoreUnavailable,  # lock timeout
    "57014": StoreUnavailable,  # statement timeout
    "57P01": StoreUnavailable,  # shutdown
    "57P03": StoreUnavailable,  # starting up
    "58030": StoreUnavailable,  # input and output
    "42P01": SchemaError,  # undefined table
    "42703": SchemaError,  # undefined column
    "3F000": SchemaError,  # undefined schema
    "22001": DataRefused,  # too long
    "22021": DataRefused,  # NUL
    "23505": DataRefused,  # unique violation
    "54000": DataRefused,  # too large for an index
    "28P01": StoreError,  # wrong password
    "3D000": StoreError,  # no such database
    "42501": StoreError,  # no permission
    "42601": StoreError,  # syntax
    "XX000": StoreError,  # a bug of the server
}

BY_TEXT = {
    'connection failed: FATAL:  password authentication failed for user "duly"': StoreError,
    'connection failed: FATAL:  database "app" does not exist': StoreError,
    'connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1"': StoreError,
    "connection failed: Connection refused\n\tIs the server running?": StoreUnavailable,
    "connection failed: FATAL:  the database system is starting up": StoreUnavailable,
    "server closed the connection unexpectedly": StoreUnavailable,
    "connection timeout expired": StoreUnavailable,
}


def all_errors() -> Iterator[type[psycopg.Error]]:
    """Every class of error that the driver has a code for."""
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, psycopg.Error) and getattr(kind, "sqlstate", None):
            yield kind


@pytest.mark.parametrize(("code", "kind"), BY_CODE.items())
def test_a_code_says_what_it_means(code: str, kind: type[DulyError]) -> None:
    """Each code becomes the error that tells the caller whether to try again, migrate, bisect or give up."""
    assert type(translate(errors.lookup(code)("said so"), PLACE)) is kind


@pytest.mark.parametrize(("text", "kind"), BY_TEXT.items())
def test_without_a_code_the_text_is_read(text: str, kind: type[DulyError]) -> None:
    """A connection that was refused brings no code; what the server said tells a refusal from silence."""
    told = translate(psycopg.OperationalError(text), PLACE)
    assert type(told) is kind
    assert str(told).startswith(PLACE)
    assert "\n" not in str(told)


def test_no_error_crosses_unmapped() -> None:
    """Every error that the driver knows becomes one of the store's."""
    kinds = {type(translate(kind("x"), PLACE)) for kind in all_errors()}
    assert kinds == {StoreUnavailable, StoreError, SchemaError, DataRefused}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), StoreUnavailable),
        (ConnectionResetError("reset"), StoreUnavailable),
        (psycopg.InterfaceError("the connection is closed"), StoreUnavailable),
        (psycopg.ProgrammingError("of the driver"), StoreError),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL"), DataRefused),
        (struct.error("int too large"), DataRefused),
        (OverflowError("too large"), DataRefused),
    ],
)
def test_errors_of_the_client_side(error: Exception, kind: type[DulyError]) -> None:
    """What fails before or beside the server is mapped too."""
    with pytest.raises(DulyError) as caught, mapped(PLACE):
        raise error
    assert type(caught.value) is kind
    assert caught.value.__suppress_context__


def test_a_password_is_never_shown() -> None:
    """Where the driver's words hold the password, ours do not."""
    error = psycopg.OperationalError('invalid dsn: "host=db password=swordfish"')
    assert "swordfish" not in str(translate(error, PLACE, "swordfish"))


def test_an_encoding_error_does_not_quote_the_text() -> None:
    """A text that cannot be encoded is refused without being quoted."""
    with pytest.raises(DataRefused) as caught, mapped(PLACE):
        "ana@example.com \ud800".encode()
    assert "ana" not in str(caught.value)


def test_our_own_errors_pass() -> None:
    """An error of our tree goes through as it is."""
    with pytest.raises(NotFound, match="nobody"), mapped(PLACE):
        raise NotFound("nobody")
