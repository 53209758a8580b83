"""The ledger in PostgreSQL. Needs the extra `postgres`, which brings psycopg."""

from duly.stores.postgres.store import PostgresStore
from duly.stores.postgres.views import PostgresViews

__all__ = ["PostgresStore", "PostgresViews"]
