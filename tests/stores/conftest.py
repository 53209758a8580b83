"""Where the suite's ledgers come from: a SQLite file per test, and one PostgreSQL for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.stores.ledgers import Harness, PostgresHarness, SqliteHarness

DIALECTS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres_harness() -> Iterator[PostgresHarness]:
    """One database on a PostgreSQL of our own; without a server these tests are skipped, and say so."""
    if find_spec("psycopg") is None or find_spec("duly.stores.postgres.store") is None:
        pytest.skip("PostgreSQL is not tested: its driver is not installed (pip install 'duly[postgres]')")
    from tests.stores.postgres_server import postgres_or_skip  # noqa: PLC0415 - needs the driver

    with postgres_or_skip() as url:
        yield PostgresHarness(url)


@pytest.fixture(params=DIALECTS)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """A maker of empty ledgers, of each dialect in turn."""
    if request.param == "sqlite":
        return SqliteHarness(tmp_path)
    chosen: PostgresHarness = request.getfixturevalue("postgres_harness")
    return chosen
