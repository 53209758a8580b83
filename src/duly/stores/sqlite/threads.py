"""Where the synchronous core runs in a real process: on a thread of its own, so that asyncio never waits.

SQLite's statements hold Python's global lock only while Python itself runs: during a commit's fsync the
event loop goes on. One thread is the ledger's one writer; another reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["OwnThread"]

T = TypeVar("T")


class OwnThread:
    """Runs calls one after the other on one thread. A call that was started is finished, also if nobody waits."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """The call's result, later."""
        return asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """Let the thread go once its calls are done."""
        self._pool.shutdown(wait=False)
