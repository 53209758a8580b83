"""The threads: claim, one batch ahead | freeze and begin | post | settle. Each has its own connection."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from queue import Queue, SimpleQueue
from typing import Final, Protocol

from bench.ideal.message import Message, Row, Signer, freeze
from bench.ideal.posts import Landed, Posts

__all__ = ["BATCH_ROWS", "Ledger", "work"]

BATCH_ROWS: Final = 500
IN_FLIGHT: Final = 128
SWITCH_SECONDS: Final = 0.0002  # how long a thread may keep the interpreter from the one that posts


class Ledger(Protocol):
    """A database. Each method is called from one thread only, one commit each."""

    def claim(self, rows_max: int) -> list[Row]:
        """Lease ready rows."""
        ...

    def begin(self, messages: Sequence[Message]) -> list[Message]:
        """Write attempts and frozen bytes; returns those that may be sent, numbered."""
        ...

    def settle(self, landed: Sequence[Landed]) -> int:
        """Record acceptance; returns how many rows are now sent."""
        ...


def work(ledger: Ledger, signer: Signer) -> int:
    """Deliver everything that is ready; returns how many were recorded as sent."""
    sys.setswitchinterval(SWITCH_SECONDS)
    claimed: Queue[list[Row]] = Queue(1)
    begun: Queue[list[Message] | None] = Queue(1)
    landed: SimpleQueue[list[Landed] | None] = SimpleQueue()
    sent: list[int] = []
    threads = [
        _thread(lambda: _claim(ledger, claimed)),
        _thread(lambda: _begin(ledger, claimed, begun)),
        _thread(lambda: sent.append(_settle(ledger, landed))),
    ]
    Posts(IN_FLIGHT, signer, landed.put).run(begun)
    landed.put(None)
    for thread in threads:
        thread.join()
    return sum(sent)


def _thread(run: Callable[[], None]) -> threading.Thread:
    """A thread whose failure ends the program."""

    def guarded() -> None:
        try:
            run()
        except BaseException:  # noqa: BLE001 - whatever it is, the others would wait for it
            traceback.print_exc()
            os._exit(1)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    return thread


def _claim(ledger: Ledger, claimed: Queue[list[Row]]) -> None:
    while True:
        rows = ledger.claim(BATCH_ROWS)
        claimed.put(rows)
        if not rows:
            return


def _begin(ledger: Ledger, claimed: Queue[list[Row]], begun: Queue[list[Message] | None]) -> None:
    while rows := claimed.get():
        begun.put(ledger.begin([freeze(row) for row in rows]))
    begun.put(None)


def _settle(ledger: Ledger, landed: SimpleQueue[list[Landed] | None]) -> int:
    """Settle whatever has landed meanwhile, in one commit."""
    sent = 0
    while (batch := landed.get()) is not None:
        end = False
        while not landed.empty() and len(batch) < BATCH_ROWS and not end:
            more = landed.get()
            end = more is None
            batch += more or ()
        sent += ledger.settle(batch)
        if end:
            break
    return sent
