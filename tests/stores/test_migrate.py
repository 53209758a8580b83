"""Migrations: what is pending, applied once by whoever comes first, and checked against what should be there."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.errors import ConfigError, SchemaError
from duly.stores import migrate
from duly.stores.postgres import PostgresStore
from duly.stores.sqlite import SqliteStore
from duly.stores.steps import Applied, Migration, Step, drift, migrations, pending, problems
from tests.stores.postgres_server import postgres_or_skip

FIRST = Step(1, "ledger")
DIALECTS = ("sqlite", "postgres")


@pytest.fixture(params=DIALECTS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each dialect."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ledger.db'}"
        return
    with postgres_or_skip() as empty:
        yield empty


def change(url: str, sql: str) -> list[Any]:
    """Run one statement; returns its rows."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            found = database.execute(sql).fetchall()
        database.close()
        return found
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def apply(url: str, namespace: str | None = "n") -> list[Step]:
    """Apply what is pending."""
    return asyncio.run(migrate.apply(url, namespace, by="tests"))


# --- plan and apply ------------------------------------------------------------------------------


def test_an_empty_database_has_all_pending(url: str) -> None:
    """A plan lists every migration and changes nothing."""
    assert asyncio.run(migrate.plan(url))[0] == FIRST
    assert asyncio.run(migrate.plan(url))[0] == FIRST
    if url.startswith("sqlite"):
        assert not Path(url.removeprefix("sqlite:///")).exists()


def test_apply_brings_everything_and_is_repeatable(url: str) -> None:
    """What is pending is applied once; after that nothing is pending and nothing is wrong."""
    assert apply(url)[0] == FIRST
    assert apply(url) == []
    assert asyncio.run(migrate.plan(url)) == []
    assert asyncio.run(migrate.verify(url)) == []
    assert change(url, "select number, name, applied_by from duly_migration where number = 1") == [
        (1, "ledger", "tests")
    ]


def test_several_apply_at_once(url: str) -> None:
    """Of several that apply at the same time, one applies each migration, and the others find it there."""

    async def act() -> list[list[Step]]:
        return await asyncio.gather(*(migrate.apply(url, "n", by=f"peer-{peer}") for peer in range(4)))

    applied = [step for steps in asyncio.run(act()) for step in steps]
    assert sorted(applied) == [migration.step for migration in migrations("sqlite")]


def test_a_fresh_schema_is_the_migrated_one(url: str) -> None:
    """Running all migrations at once and one after the other gives the same schema."""
    apply(url)
    schema = migrate._schema(url)

    async def both() -> list[str]:
        return drift(await schema.fresh(migrations(schema.dialect)), await schema.live())

    assert asyncio.run(both()) == []


def test_the_dialects_have_the_same_migrations() -> None:
    """Every migration has the same number and name in every dialect."""
    first, second = (tuple(one.step for one in migrations(dialect)) for dialect in DIALECTS)
    assert first == second


# --- the namespace -------------------------------------------------------------------------------


def test_a_namespace_is_made_where_none_is_given(url: str) -> None:
    """Without a namespace one is made, of 32 hex digits, and stays."""
    apply(url, None)
    ((made,),) = change(url, "select namespace from installation")
    assert len(bytes.fromhex(made)) == 16
    apply(url, None)
    assert change(url, "select namespace from installation") == [(made,)]


def test_another_namespace_is_refused(url: str) -> None:
    """A namespace that is not the database's own is a SchemaError, and changes nothing."""
    apply(url, "ours")
    with pytest.raises(SchemaError, match="another installation"):
        apply(url, "theirs")
    assert apply(url, "ours") == []
    assert change(url, "select namespace from installation") == [("ours",)]


# --- verify --------------------------------------------------------------------------------------


async def opened(url: str) -> None:
    """What every process does first."""
    store = PostgresStore if url.startswith("postgres") else SqliteStore
    ledger = await store.open(url.removeprefix("sqlite:///"))
    await ledger.close()


def test_an_empty_database_is_not_current(url: str) -> None:
    """Where migrations are pending, opening is refused with the command that mends it."""
    with pytest.raises(SchemaError, match="duly migrate apply"):
        asyncio.run(opened(url))
    assert "is pending" in asyncio.run(migrate.verify(url))[0]


def test_a_migrated_database_is_current(url: str) -> None:
    """Where everything is applied, opening is not refused."""
    apply(url)
    assert asyncio.run(opened(url)) is None


def test_a_changed_migration_is_noticed(url: str) -> None:
    """A migration that was edited after it was applied stops plan, apply and opening."""
    apply(url)
    change(url, "update duly_migration set checksum = 'other' where number = 1")
    assert "was changed after it was applied" in asyncio.run(migrate.verify(url))[0]
    for stopped in (migrate.plan(url), migrate.apply(url, None, by="tests"), opened(url)):
        with pytest.raises(SchemaError, match="was changed"):
            asyncio.run(stopped)


def test_a_later_versions_migration_is_told_and_tolerated(url: str) -> None:
    """A migration of a later version is named by verify; processes of this one may go on."""
    apply(url)
    change(url, "insert into duly_migration (number, name, checksum, applied_by) values (900, 'later', 'c', 'b')")
    assert asyncio.run(migrate.verify(url)) == ["migration 0900 later is of a later version of Duly: upgrade this one"]
    assert asyncio.run(opened(url)) is None


def test_drift_is_told(url: str) -> None:
    """A column more, a column less and an index less are each told in one line."""
    apply(url)
    change(url, "alter table contact add column favourite text")
    change(url, "drop index event_reminder")
    change(url, "drop view ledger")
    change(url, "alter table delivery drop column receipt_state")
    told = asyncio.run(migrate.verify(url))
    assert "column contact.favourite is not part of this schema" in told
    assert "index event.event_reminder is missing" in told
    assert "column delivery.receipt_state is missing" in told
    assert "view ledger is missing" in told
    assert all("\n" not in line for line in told)


def test_tables_of_others_do_not_count(url: str) -> None:
    """An application's own tables in the same database are nobody's drift."""
    apply(url)
    change(url, "create table invoices (id integer primary key, work text)")
    assert asyncio.run(migrate.verify(url)) == []


def test_a_foreign_url_is_refused() -> None:
    """A URL of another database is a ConfigError that says what to write."""
    with pytest.raises(ConfigError, match="postgresql://"):
        asyncio.run(migrate.plan("mysql://somewhere/duly"))


# --- the values ----------------------------------------------------------------------------------

ONE, TWO = Migration(1, "one", "create"), Migration(2, "two", "alter")


def seen(*known: Migration) -> list[Applied]:
    """The database's memory of these migrations."""
    return [Applied(one.number, one.name, one.checksum) for one in known]


def test_pending_is_what_was_not_seen() -> None:
    """Migrations that the database has not seen are pending, in order."""
    assert pending((ONE, TWO), []) == [ONE, TWO]
    assert pending((ONE, TWO), seen(ONE)) == [TWO]
    assert pending((ONE, TWO), seen(ONE, TWO)) == []


def test_a_gap_is_pending_too() -> None:
    """A migration that was skipped is pending, whatever came after it."""
    assert pending((ONE, TWO), seen(TWO)) == [ONE]
    assert problems((ONE, TWO), seen(TWO)) == ["migration 0001 one is pending: run `duly migrate apply`"]


def test_drift_names_both_sides() -> None:
    """A definition that differs is told with what it is and what it should be."""
    told = drift(
        {"column work.state": "text not null", "table work": ""}, {"column work.state": "text", "table work": ""}
    )
    assert told == ["column work.state is 'text' and should be 'text not null'"]
