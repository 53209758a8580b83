"""Deliveries per second: the ideal loop and `duly work --until-idle` by turns, on the same rows.

Each round has a fresh copy of the ledger and a fresh stub, and both programs are processes of their own.
Afterwards the ledger and the stub must agree: every delivery sent, one request each, and the same bytes
frozen by both.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.grounds import Ground, Ledger
from bench.installation import SECRET, Installation, reminders
from bench.programs import Failed, Ran, reserved_port, run, stub
from bench.readings import busy_seconds

__all__ = ["measure_work"]

Deliver = Callable[[Ledger], Ran]


class Round(NamedTuple):
    """One program's run."""

    per_second: float  # by the program's own count and clock
    per_second_in_window: float  # by the ledger's times: from the first begin to the last answer
    worker_us: float  # CPU per delivery, start-up included
    database_us: float  # of the server, if there is one
    stub_us: float
    others_cores: float  # that something else on the machine kept busy meanwhile
    fingerprint: str


def measure_work(ground: Ground, installation: Installation, rounds: int, rows: int) -> dict[str, Any]:
    """Figures of both and their ratio. Raises Failed where a loop lost, repeated or changed anything."""
    with reserved_port() as port, ground.empty() as ready:
        installation.migrate(ready)
        installation.fill(ready, reminders(rows, port))
        installation.tick(ready)
        ready.analyze()
        ideal, duly = [], []
        for _ in range(rounds):
            ideal.append(_round(ground, ready, port, rows, _ideal))
            duly.append(_round(ground, ready, port, rows, lambda ledger: _duly(installation, ledger)))
    _refuse_differences([*ideal, *duly])
    return {
        "rows": rows,
        "rounds": rounds,
        "slots": installation.slots,
        "ideal": _figures(ideal),
        "duly": _figures(duly),
        **_ratios(duly, ideal),
    }


def _ideal(ledger: Ledger) -> Ran:
    return run([sys.executable, "-m", "bench.ideal", ledger.url, "--secret", SECRET], {})


def _duly(installation: Installation, ledger: Ledger) -> Ran:
    return installation.duly(ledger, "work", "--until-idle")


def _round(ground: Ground, ready: Ledger, port: int, rows: int, deliver: Deliver) -> Round:
    with ground.copy(ready) as ledger, stub(port) as receiver:
        database_before, busy_before = ground.cpu_seconds(), busy_seconds()
        ran = deliver(ledger)
        database = ground.cpu_seconds() - database_before
        received = receiver.cpu_seconds()
        others = busy_seconds() - busy_before - database - received - ran.cpu_seconds
        _refuse_losses(ledger.counts(), receiver.counts(), ran.document["sent"], rows)
        return Round(
            rows / ran.document["seconds"],
            rows / ledger.window_seconds(),
            ran.cpu_seconds / rows * 1e6,
            database / rows * 1e6,
            received / rows * 1e6,
            max(0.0, others / ran.wall_seconds),
            ledger.fingerprint(),
        )


def _refuse_losses(counted: dict[str, int], received: dict[str, int], sent: int, rows: int) -> None:
    """Every delivery sent, with one attempt, one answer and one request."""
    wanted = {"attempts": rows, "accepted": rows, "frozen": rows, "sent": rows, "open": 0}
    if sent != rows or counted != wanted:
        raise Failed(f"of {rows} deliveries the program says that it sent {sent}; the ledger holds {counted}")
    if (received["requests"], received["accepted"]) != (rows, rows):
        raise Failed(f"of {rows} deliveries the stub says: {received}")


def _refuse_differences(rounds: Sequence[Round]) -> None:
    if len({one.fingerprint for one in rounds}) != 1:
        raise Failed("the two loops did not write the same bytes; compare bench/ideal with the webhook provider")


def _figures(rounds: Sequence[Round]) -> dict[str, Any]:
    return {
        "per_second": _spread([one.per_second for one in rounds]),
        "per_second_in_window": _spread([one.per_second_in_window for one in rounds]),
        "cpu_us": {
            "worker": round(statistics.median(one.worker_us for one in rounds)),
            "database": round(statistics.median(one.database_us for one in rounds)),
            "stub": round(statistics.median(one.stub_us for one in rounds)),
        },
        "others_cores": round(statistics.median(one.others_cores for one in rounds), 2),
    }


def _spread(values: Sequence[float]) -> dict[str, int]:
    return {"median": round(statistics.median(values)), "min": round(min(values)), "max": round(max(values))}


def _ratios(duly: Sequence[Round], ideal: Sequence[Round]) -> dict[str, float]:
    """Duly's median over the ideal loop's."""

    def ratio(word: str) -> float:
        ours, theirs = (statistics.median(float(getattr(one, word)) for one in rounds) for rounds in (duly, ideal))
        return round(ours / theirs, 2)

    return {"ratio": ratio("per_second"), "ratio_in_window": ratio("per_second_in_window")}
