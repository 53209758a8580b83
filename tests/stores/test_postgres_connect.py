"""How the store meets a database that refuses, falls silent, or comes back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from duly.errors import SchemaError, StoreError, StoreUnavailable
from duly.ports import Filters
from duly.stores import migrate
from duly.stores.postgres import PostgresStore
from duly.testing.builders import NAMESPACE
from tests.stores.ledgers import PostgresHarness
from tests.stores.postgres_server import Cluster, NoServer, cluster


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A server that may be stopped and crashed."""
    try:
        with cluster() as started:
            asyncio.run(migrate.apply(started.url, NAMESPACE, by="tests"))
            yield started
    except NoServer as error:
        pytest.skip(f"PostgreSQL tests did not run: {error}")


def changed(url: str, *, password: str | None = None, database: str | None = None, port: int | None = None) -> str:
    """The URL with another password, database or port."""
    parts = urlsplit(url)
    secret = password or parts.password
    place = f"{parts.username}:{secret}@{parts.hostname}:{port or parts.port}"
    return urlunsplit(parts._replace(netloc=place, path=f"/{database}" if database else parts.path))


def refusal(url: str, kind: type[Exception]) -> str:
    """What opening the store says."""

    async def act() -> None:
        store = await PostgresStore.open(url, connect_timeout=2)
        await store.close()

    with pytest.raises(kind) as caught:
        asyncio.run(act())
    assert type(caught.value) is kind
    return str(caught.value)


def test_a_wrong_password_is_refused_and_not_shown(own: Cluster) -> None:
    """A wrong password is a StoreError, in one line that shows no password."""
    said = refusal(changed(own.url, password="swordfish"), StoreError)
    assert "password authentication failed" in said
    assert "swordfish" not in said
    assert "\n" not in said


def test_a_database_that_is_not_there(own: Cluster) -> None:
    """A database that does not exist is a StoreError that names it."""
    said = refusal(changed(own.url, database="nowhere"), StoreError)
    assert "nowhere" in said
    assert "does not exist" in said


def test_nobody_listens(own: Cluster) -> None:
    """A refused connection is StoreUnavailable: the server may be back soon."""
    said = refusal(changed(own.url, port=1), StoreUnavailable)
    assert "\n" not in said


def test_a_url_that_is_none() -> None:
    """A URL that cannot be read is a StoreError that does not repeat it."""
    said = refusal("postgresql://u:swordfish@[nowhere/name", StoreError)
    assert "swordfish" not in said
    assert "postgresql://user@host" in said


def test_an_empty_database_wants_its_migrations(own: Cluster) -> None:
    """A database without the schema is a SchemaError that says which command makes it."""
    with psycopg.connect(own.url, autocommit=True) as connection:
        connection.execute("create database empty")
    assert "duly migrate apply" in refusal(changed(own.url, database="empty"), SchemaError)


def test_a_lost_connection_is_replaced(own: Cluster) -> None:
    """Calls fail as StoreUnavailable while the server is away, and work again once it is back."""

    async def act() -> None:
        store = await PostgresStore.open(own.url, connect_timeout=2)
        await asyncio.gather(*(store.due_remain() for _ in range(4)))
        own.stop(signal.SIGQUIT)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await store.due_remain()
        own.start()
        assert await store.due_remain() is False
        await store.close()

    asyncio.run(act())


def test_a_connection_that_died_unseen_costs_one_call(own: Cluster) -> None:
    """Where the server came back between two calls, one call fails and the next one works."""

    async def act() -> None:
        store = await PostgresStore.open(own.url, connect_timeout=2)
        await asyncio.gather(*(store.due_remain() for _ in range(4)))
        own.stop()
        own.start()
        with pytest.raises(StoreUnavailable):
            await store.due_remain()
        assert await store.due_remain() is False
        await store.close()

    asyncio.run(act())


def test_a_statement_has_a_time_limit(own: Cluster) -> None:
    """A call that waits too long for a lock is StoreUnavailable, and the store goes on."""

    async def act() -> None:
        store = await PostgresStore.open(own.url, statement_timeout_seconds=0.2)
        blocker = await psycopg.AsyncConnection.connect(own.url)
        await blocker.execute("lock table reminder in access exclusive mode")
        with pytest.raises(StoreUnavailable) as caught:
            await store.due_remain()
        assert "statement timeout" in str(caught.value)
        await blocker.close()
        assert await store.due_remain() is False
        await store.close()

    asyncio.run(act())


def test_a_cancelled_call_leaves_nothing_behind(own: Cluster) -> None:
    """A call that is cancelled while it waits gives up its connection, and the store goes on."""

    async def act() -> None:
        store = await PostgresStore.open(own.url, pool_size=1)
        blocker = await psycopg.AsyncConnection.connect(own.url)
        await blocker.execute("lock table reminder in access exclusive mode")
        waiting = asyncio.ensure_future(store.due_remain())
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await blocker.close()
        assert await store.due_remain() is False
        await store.close()

    asyncio.run(act())


def test_times_are_utc_whatever_the_session_says(postgres_harness: PostgresHarness) -> None:
    """Moments come back in UTC and are shown as such, also where the database's zone is another one."""

    async def act() -> None:
        async with postgres_harness.open() as ledger:
            name = await ledger.value("select current_database()")
            await ledger.change(f'alter database "{name}" set timezone = "Asia/Kathmandu"')
            store = await ledger.another()
            assert str((await store.due(1)).now.tzinfo) == "UTC"
            assert await store.views().deliveries(Filters()) == []
            await ledger.change(f'alter database "{name}" reset timezone')

    asyncio.run(act())


def test_commits_are_durable_whatever_the_database_says(postgres_harness: PostgresHarness) -> None:
    """Within the store's transactions a commit waits for the disk, also where the database would not."""

    async def act() -> Any:
        async with postgres_harness.open() as ledger:
            name = await ledger.value("select current_database()")
            await ledger.change(f'alter database "{name}" set synchronous_commit = off')
            store = await ledger.another()
            async with store._shared.transaction() as tx:
                found = await tx._connection.execute("select current_setting('synchronous_commit')")
                said = await found.fetchone()
            await ledger.change(f'alter database "{name}" reset synchronous_commit')
            return said

    assert asyncio.run(act()) == ("on",)


def test_the_store_leaves_the_session_as_it_was(postgres_harness: PostgresHarness) -> None:
    """Nothing outlives a transaction on its session, so that a transaction pooler may stand in between."""

    async def act() -> None:
        async with postgres_harness.open() as ledger:
            await ledger.store.due_remain()
            ((_, connection),) = ledger.store._shared._idle
            settings = "select current_setting('statement_timeout'), current_setting('jit')"
            kept = await (await connection.execute(settings)).fetchone()
            other = await psycopg.AsyncConnection.connect(ledger.url)
            fresh = await (await other.execute(settings)).fetchone()
            await other.close()
            assert kept == fresh
            held = await (
                await connection.execute("select count(*) from pg_locks where locktype = 'advisory'")
            ).fetchone()
            assert held == (0,)

    asyncio.run(act())
