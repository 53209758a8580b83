"""Import: rows per second of `duly import` on a JSONL file, half e-mail and half webhook."""

from __future__ import annotations

from typing import Any

import orjson

from bench.grounds import Ground
from bench.installation import Installation, reminders
from bench.programs import Failed

__all__ = ["measure_import"]

NOBODY_LISTENS = 9  # a port for URLs that are not called


def measure_import(ground: Ground, installation: Installation, rows: int) -> dict[str, Any]:
    """Rows per second, by the wall clock of the whole command, start-up included; and its largest resident size."""
    file = installation.folder / "reminders.jsonl"
    with file.open("wb") as stream:
        stream.writelines(orjson.dumps(row) + b"\n" for row in reminders(rows, NOBODY_LISTENS, mail_too=True))
    installation.use_mail_too()
    with ground.empty() as ledger:
        installation.migrate(ledger)
        ran = installation.duly(ledger, "import", str(file))
    if (ran.document["created"], ran.document["rejected"]) != (rows, 0):
        raise Failed(f"of {rows} rows duly import says: {ran.document}")
    return {
        "rows": rows,
        "seconds": round(ran.wall_seconds, 2),
        "rows_per_second": round(rows / ran.wall_seconds),
        "peak_mib": round(ran.peak_bytes / 2**20),
    }
