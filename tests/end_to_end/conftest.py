"""An installation of each dialect, and the receiving side beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import DIALECTS, Installation, settle_in

if TYPE_CHECKING:
    from tests.stores.postgres_server import Cluster


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook receiver."""
    with beside(Receiver()) as running:
        yield running


@pytest.fixture
def sink() -> Iterator[MailSink]:
    """A mail server."""
    with beside(MailSink()) as running:
        yield running


@pytest.fixture(params=DIALECTS)
def duly(request: pytest.FixtureRequest, tmp_path: Path, sink: MailSink) -> Iterator[Installation]:
    """An installation on each database in turn."""
    with settle_in(request.param, tmp_path, sink.url) as installed:
        yield installed


@pytest.fixture
def duly_on_sqlite(tmp_path: Path, sink: MailSink) -> Iterator[Installation]:
    """An installation on SQLite, for what does not depend on the database."""
    with settle_in("sqlite", tmp_path, sink.url) as installed:
        yield installed


@pytest.fixture
def duly_on_postgres(tmp_path: Path, sink: MailSink) -> Iterator[Installation]:
    """An installation on PostgreSQL, for what needs several programs at once."""
    with settle_in("postgres", tmp_path, sink.url) as installed:
        yield installed


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[Cluster]:
    """A durable PostgreSQL of these tests' own, to be crashed and started again."""
    pytest.importorskip("psycopg", reason="PostgreSQL is not tested: its driver is not installed")
    from tests.stores.postgres_server import REQUIRED, NoServer, cluster  # noqa: PLC0415 - needs the driver

    with ExitStack() as stack:
        try:
            own = stack.enter_context(cluster(durable=True))
        except NoServer as error:
            give_up = pytest.fail if os.environ.get(REQUIRED) else pytest.skip
            give_up(f"no PostgreSQL to crash: {error}")
        yield own
