"""An installation of each dialect, and the receiving side beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import DIALECTS, Installation, settle_in


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
