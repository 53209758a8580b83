"""What the server asks of the database. Every call has an end: whoever asked over HTTP is answered by then.

A call that was given up may have happened. So nothing is promised for it, and it can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from duly.errors import SchemaError, StoreUnavailable
from duly.flows.unsubscribe import opt_out
from duly.ports import Store
from duly.stores import migrate

__all__ = ["ANSWER_SECONDS_MAX", "Ledger"]

T = TypeVar("T")
ANSWER_SECONDS_MAX: Final = 10.0


class Ledger:
    """The ledger behind the routers. `url` is the database's, `actor` who records what is said here.

    `recorded` counts the opt-outs that said something new.
    """

    def __init__(self, store: Store, url: str, actor: str, seconds: float = ANSWER_SECONDS_MAX) -> None:
        self._store, self._url, self._actor, self._seconds = store, url, actor, seconds
        self.recorded = 0
        self._given_up: set[asyncio.Task[Any]] = set()

    async def ready(self) -> None:
        """Raise DulyError, which says why, where the database does not answer or migrations are pending."""
        await self._within(self._look())

    async def opt_out(self, contact: bytes, purpose: str) -> None:
        """Record it. Raises NotFound, or another DulyError: then it may not be recorded."""
        new = await self._within(opt_out(self._store, self._actor, contact, purpose))
        self.recorded += new  # read only now: others have counted meanwhile

    async def _look(self) -> None:
        await self._store.namespace()
        if await migrate.plan(self._url):
            raise SchemaError("migrations are pending: run `duly migrate apply`")

    async def _within(self, call: Coroutine[Any, Any, T]) -> T:
        """What a call brings. One that takes too long is cancelled, and not waited for: a driver may hang over that."""
        pending = asyncio.ensure_future(call)
        try:
            done, _ = await asyncio.wait({pending}, timeout=self._seconds)
        finally:
            if not pending.done():
                self._let_go(pending)
        if not done:
            raise StoreUnavailable(f"the database has not answered within {self._seconds:g} s")
        return pending.result()

    def _let_go(self, pending: asyncio.Task[Any]) -> None:
        """Cancel it, keep it alive until it has ended, and take note of its error, which is nobody's any more."""
        self._given_up.add(pending)
        pending.add_done_callback(self._forget)
        pending.cancel()

    def _forget(self, pending: asyncio.Task[Any]) -> None:
        self._given_up.discard(pending)
        if not pending.cancelled():
            pending.exception()
