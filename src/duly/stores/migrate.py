"""Migrate: bring a database's schema to this program's, look what that would do, and check that it holds.

Each migration is one transaction. Programs that apply at the same time wait for each other, with a lock
that ends with the transaction, so that a transaction pooler may stand in between. With the first one
comes the installation's namespace, the root of every derived id: given, or made here, once.
"""

from __future__ import annotations

from typing import Protocol

from duly.errors import ConfigError
from duly.stores.steps import (
    Applied,
    Description,
    Migration,
    Step,
    drift,
    migrations,
    pending,
    problems,
)

__all__ = ["Schema", "Step", "apply", "plan", "verify"]


class Schema(Protocol):
    """A database's schema, as far as migrating needs it."""

    dialect: str

    async def applied(self) -> list[Applied]:
        """The migrations that the database has seen; none if it is empty."""
        ...

    async def apply_next(self, known: tuple[Migration, ...], namespace: str | None, by: str) -> Step | None:
        """Apply the next pending migration and check the namespace, in one transaction; None if nothing was pending."""
        ...

    async def live(self) -> Description:
        """What is there."""
        ...

    async def fresh(self, known: tuple[Migration, ...]) -> Description:
        """What should be there."""
        ...


async def plan(url: str) -> list[Step]:
    """The pending migrations. Changes nothing. Raises SchemaError where an applied one was changed."""
    schema = _schema(url)
    return [migration.step for migration in pending(migrations(schema.dialect), await schema.applied())]


async def apply(url: str, namespace: str | None, by: str) -> list[Step]:
    """Apply what is pending, and return it. Safe to run again, and by several at once.

    `namespace` may be None: the database then keeps the one that it has, or gets a new one. Raises
    SchemaError where it has another one, or an applied migration was changed.
    """
    schema = _schema(url)
    steps: list[Step] = []
    while step := await schema.apply_next(migrations(schema.dialect), namespace, by):
        steps.append(step)
    return steps


async def verify(url: str) -> list[str]:
    """What is wrong with the schema, one line each: pending, changed or unknown migrations, and drift."""
    schema = _schema(url)
    known = migrations(schema.dialect)
    history = problems(known, await schema.applied())
    return history or drift(await schema.fresh(known), await schema.live())


def _schema(url: str) -> Schema:
    """The schema behind a URL. Drivers are imported only where they are used."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        from duly.stores.sqlite.schema import SqliteSchema  # noqa: PLC0415

        return SqliteSchema(rest.removeprefix("/"))
    if scheme not in ("postgresql", "postgres"):
        raise ConfigError("database: write sqlite:///duly.db or postgresql://user@host/name")
    try:
        from duly.stores.postgres.schema import PostgresSchema  # noqa: PLC0415
    except ImportError:
        raise ConfigError("PostgreSQL needs its driver: pip install 'duly[postgres]'") from None
    return PostgresSchema(url)
