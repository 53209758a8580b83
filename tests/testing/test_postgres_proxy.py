"""The proxy does to a connection exactly what it was told, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from duly.testing.postgres_proxy import PostgresProxy

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL is not tested: its driver is not installed")

ADD: Final = "insert into word values ('kept')"
COUNT: Final = "select count(*) from word"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A database with one table."""
    from tests.stores.postgres_server import postgres_or_skip  # noqa: PLC0415 - needs the driver

    with postgres_or_skip() as found:
        with psycopg.connect(found, autocommit=True) as connection:
            connection.execute("create table word (text text)")
        yield found


@pytest.fixture(autouse=True)
def empty(url: str) -> None:
    """No words yet."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate word")


def words(url: str) -> int:
    """How many there are, by the direct way."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(COUNT).fetchone()
    return int(found[0])


async def one_transaction(url: str) -> None:
    """Add a word by way of the proxy, as the store does: all in one pipeline."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
    async with connection, connection.pipeline():
        for statement in ("begin", ADD, "commit"):
            await connection.execute(statement, ())


def play(url: str, story: Callable[[PostgresProxy, str], Awaitable[Any]]) -> Any:
    """Tell a story to a proxy before the database."""

    async def told() -> Any:
        async with PostgresProxy.before(url) as proxy:
            return await story(proxy, proxy.url(url))

    return asyncio.run(told())


def test_untold_it_only_carries(url: str) -> None:
    """Without an order everything passes, both ways."""

    async def story(proxy: PostgresProxy, way: str) -> None:
        await one_transaction(way)
        assert proxy.lost == []

    play(url, story)
    assert words(url) == 1


@pytest.mark.parametrize("happens", [True, False])
def test_a_commit_is_lost_after_it_happened_or_before(url: str, happens: bool) -> None:
    """Either way the connection is gone, and only the database knows whether it committed; the next one passes."""

    async def story(proxy: PostgresProxy, way: str) -> None:
        proxy.lose_commit(ADD, happens=happens)
        with pytest.raises(psycopg.OperationalError):
            await one_transaction(way)
        assert proxy.lost == [ADD]
        await one_transaction(way)

    play(url, story)
    assert words(url) == 1 + happens


def test_only_the_named_statement_is_meant(url: str) -> None:
    """A transaction without it is left alone."""

    async def story(proxy: PostgresProxy, way: str) -> None:
        proxy.lose_commit("select 1", happens=False)
        await one_transaction(way)
        assert proxy.lost == []

    play(url, story)
    assert words(url) == 1


def test_a_statement_is_held_up(url: str) -> None:
    """It arrives, so much later; once."""

    async def story(proxy: PostgresProxy, way: str) -> float:
        proxy.hold_up(ADD, 0.3)
        started = time.monotonic()
        await one_transaction(way)
        assert proxy.held == [ADD]
        return time.monotonic() - started

    assert play(url, story) >= 0.3
    assert words(url) == 1


def test_a_cut_ends_connections_and_lets_none_through_until_it_is_mended(url: str) -> None:
    """Open ones break, new ones find nobody, and afterwards all is well."""

    async def story(proxy: PostgresProxy, way: str) -> None:
        connection = await psycopg.AsyncConnection.connect(way)
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(COUNT)
        await connection.close()
        with pytest.raises(psycopg.OperationalError):
            await one_transaction(way)
        proxy.mend()
        await one_transaction(way)

    play(url, story)
    assert words(url) == 1
