"""Columns travel to the server as it stores them, and come back as they were."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.stores.postgres.arrays import Packed, bools, byteas, floats, ints, texts, times, uuids
from duly.stores.postgres.connect import Connection, Target, connect
from tests.stores.postgres_server import postgres_or_skip

INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
FLOATS = st.floats(allow_nan=False)


class Echo:
    """A server that sends back what it was sent, one element per row."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.connection: Connection = self.runner.run(connect(Target.of(url)))

    def __call__(self, kind: str, packed: Packed) -> list[Any]:
        return self.runner.run(self._ask(kind, packed))

    async def _ask(self, kind: str, packed: Packed) -> list[Any]:
        cursor = self.connection.cursor(binary=True)
        await cursor.execute(
            f"select u.x from unnest($1::{kind}[]) with ordinality u (x, n) order by n".encode(),  # noqa: S608 - a type
            [packed],
        )
        return [value for (value,) in await cursor.fetchall()]

    def close(self) -> None:
        """Hang up."""
        self.runner.run(self.connection.close())
        self.runner.close()


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    """A connection with the store's types."""
    with postgres_or_skip() as url:
        found = Echo(url)
        yield found
        found.close()


@given(column=st.lists(st.binary(min_size=16, max_size=16), max_size=9))
def test_ids(echo: Echo, column: list[bytes]) -> None:
    """Ids of 16 bytes are uuids on the server, and 16 bytes again."""
    assert echo("uuid", uuids(column)) == column


@given(column=st.lists(st.none() | INTS, max_size=9))
def test_numbers(echo: Echo, column: list[int | None]) -> None:
    """Whole numbers and nulls come back."""
    assert echo("int", ints(column)) == column


@given(column=st.lists(st.none() | FLOATS, max_size=9))
def test_fractions(echo: Echo, column: list[float | None]) -> None:
    """Fractions, infinities and nulls come back."""
    assert echo("float8", floats(column)) == column


@given(column=st.lists(st.booleans(), max_size=9))
def test_truths(echo: Echo, column: list[bool]) -> None:
    """True and false come back."""
    assert echo("bool", bools(column)) == column


@given(column=st.lists(st.none() | TEXTS, max_size=9))
def test_words(echo: Echo, column: list[str | None]) -> None:
    """Texts of any script and nulls come back."""
    assert echo("text", texts(column)) == column


@given(column=st.lists(st.none() | st.binary(max_size=40), max_size=9))
def test_bytes(echo: Echo, column: list[bytes | None]) -> None:
    """Bytes of any kind and nulls come back."""
    assert echo("bytea", byteas(column)) == column


@given(column=st.lists(st.none() | TIMES, max_size=9))
def test_moments(echo: Echo, column: list[datetime | None]) -> None:
    """Moments and nulls come back to the microsecond, in UTC."""
    found = echo("timestamptz", times(column))
    assert found == column
    assert all(moment is None or moment.tzinfo is UTC for moment in found)
