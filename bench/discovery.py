"""Tick: how long it takes until everything that is due is a delivery; and how much memory a backlog costs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from bench.grounds import Ground, Ledger
from bench.installation import Installation, mixed_reminders, reminders
from bench.programs import Failed, Ran, stub

__all__ = ["measure_backlog", "measure_schedules", "measure_tick"]

#: How long `duly work` works on the backlog before it is asked to end.
WORK_SECONDS: Final = 8.0
TICK_RUNS_MAX: Final = 20
NOBODY_LISTENS: Final = 9  # a port for URLs that are not called


def measure_tick(ground: Ground, installation: Installation, rows: int) -> dict[str, Any]:
    """Seconds for `duly tick`, by its own clock, and its largest resident size."""
    with ground.empty() as ledger:
        installation.migrate(ledger)
        installation.fill(ledger, reminders(rows, NOBODY_LISTENS))
        return _tick(installation, ledger, rows)


def measure_backlog(ground: Ground, installation: Installation, rows: int) -> dict[str, Any]:
    """The same, and then the largest resident size of `duly work` with all of it pending."""
    with ground.empty() as ledger, stub() as receiver:
        installation.migrate(ledger)
        installation.fill(ledger, reminders(rows, receiver.port))
        ticked = _tick(installation, ledger, rows)
        worked = installation.duly(ledger, "work", terminate_after=WORK_SECONDS)
        _refuse_loose_ends(ledger.counts(), worked.document["sent"])
        return {**ticked, "work": {"sent": worked.document["sent"], "peak_mib": _mib(worked.peak_bytes)}}


def measure_schedules(ground: Ground, installation: Installation, rows: int) -> dict[str, Any]:
    """Seconds for `duly tick` where a tenth of the reminders is due, and they repeat, or not, in many ways."""
    now, due = datetime.now(UTC), rows // 10
    with ground.empty() as ledger:
        installation.migrate(ledger)
        installation.fill(ledger, mixed_reminders(rows, due, now), now)
        return {**_tick(installation, ledger, due), "reminders": rows}


def _tick(installation: Installation, ledger: Ledger, rows: int) -> dict[str, Any]:
    """Tick until nothing is due: one run is bounded."""
    runs: list[Ran] = []
    while not runs or runs[-1].document["remaining"]:
        if len(runs) == TICK_RUNS_MAX:
            raise Failed(f"after {TICK_RUNS_MAX} runs of duly tick more is still due")
        runs.append(installation.duly(ledger, "tick"))
    created = sum(one.document["created"] for one in runs)
    if created != rows:
        raise Failed(f"{rows} reminders were due, and duly tick created {created} deliveries")
    seconds = sum(one.document["seconds"] for one in runs)
    return {
        "rows": rows,
        "runs": len(runs),
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
        "peak_mib": max(_mib(one.peak_bytes) for one in runs),
    }


def _refuse_loose_ends(counted: dict[str, int], sent: int) -> None:
    """A worker that was asked to end has answers for all that it began."""
    if not counted["attempts"] == counted["accepted"] == counted["sent"] == sent:
        raise Failed(f"duly work was asked to end, says that it sent {sent}, and the ledger holds {counted}")


def _mib(size: int) -> int:
    return round(size / 2**20)
