"""What the server asks of the database. Every call has an end: whoever asked over HTTP is answered by then.

A call that was given up may have happened. So nothing is promised for it, and it can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from duly.errors import SchemaError, StoreUnavailable
from duly.flows.unsubscribe import opt_out
from duly.ports import Store
from duly.stores import migrate

__all__ = ["ANSWER_SECONDS_MAX", "Ledger"]

ANSWER_SECONDS_MAX: Final = 10.0


class Ledger:
    """The ledger behind the routers. `url` is the database's, `actor` who records what is said here.

    `recorded` counts the opt-outs that said something new.
    """

    def __init__(self, store: Store, url: str, actor: str, seconds: float = ANSWER_SECONDS_MAX) -> None:
        self._store, self._url, self._actor, self._seconds = store, url, actor, seconds
        self.recorded = 0

    async def ready(self) -> None:
        """Raise DulyError, which says why, where the database does not answer or migrations are pending."""
        async with _within(self._seconds):
            await self._store.namespace()
            if await migrate.plan(self._url):
                raise SchemaError("migrations are pending: run `duly migrate apply`")

    async def opt_out(self, contact: bytes, purpose: str) -> None:
        """Record it. Raises NotFound, or another DulyError: then it may not be recorded."""
        async with _within(self._seconds):
            new = await opt_out(self._store, self._actor, contact, purpose)
        self.recorded += new


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise StoreUnavailable(f"the database has not answered within {seconds:g} s") from None
