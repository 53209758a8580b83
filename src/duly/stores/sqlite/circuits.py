"""The doors before an endpoint, as answers move them: Retry-After, an opened circuit, an all-clear.

An answer that says again what opened the circuit changes nothing while its door is shut: requests that
left before it opened say nothing new, and a probe was counted when it was granted (core/budget.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from duly.core.budget import BEHIND_CIRCUIT, circuit_seconds
from duly.core.model import Signal, SignalKind
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.rows import SECOND_US, json_text

__all__ = ["hear", "probe_circuits"]


def hear(db: Database, provider: str, signal: Signal) -> None:
    """Write down what an answer said about its endpoint."""
    match signal.kind:
        case SignalKind.BLOCK:
            _block(db, provider, signal)
        case SignalKind.OPEN:
            _open(db, provider, signal)
        case SignalKind.CLOSE:
            _close(db, provider, signal)


def _block(db: Database, provider: str, signal: Signal) -> None:
    until = db.now() + round(signal.seconds * SECOND_US)
    db.change("circuit_block", provider=provider, endpoint=signal.endpoint, until=until, reason=signal.reason)


def _open(db: Database, provider: str, signal: Signal) -> None:
    failures: int = db.value("circuit_failures", provider=provider, endpoint=signal.endpoint) or 0
    until = db.now() + round(circuit_seconds(signal.seconds, failures) * SECOND_US)
    db.change("circuit_open", provider=provider, endpoint=signal.endpoint, until=until, reason=signal.reason)


def _close(db: Database, provider: str, signal: Signal) -> None:
    if db.change("circuit_close", provider=provider, endpoint=signal.endpoint):
        _wake(db, provider, signal.endpoint)


def _wake(db: Database, provider: str, endpoint: bytes) -> None:
    """Let what waits behind the circuit come forward: rows that it put off, and those whose answer opened it."""
    db.change("circuit_wake", provider=provider, endpoint=endpoint, reasons=json_text(list(BEHIND_CIRCUIT)))


def probe_circuits(db: Database, providers: Sequence[str]) -> int:
    """See Store.probe_circuits."""
    with db.writing():
        opened = [row for provider in providers for row in db.rows("circuits_open", provider=provider)]
        for provider, endpoint in opened:
            db.change("circuit_probe", provider=provider, endpoint=endpoint)
            _wake(db, provider, endpoint)
    return len(opened)
