"""`python -m bench.ideal URL --secret whsec_...`: deliver everything that is ready, then print what it took."""

from __future__ import annotations

import argparse
import json
import os
import time

from bench.ideal.loop import Ledger, work
from bench.ideal.message import SUBJECT, TEMPLATE, TEXT, Signer
from duly.content import Template

PROVIDER = "hooks"
LEASE_SECONDS = 60.0


def main() -> None:
    """Print one line of JSON: `sent` and `seconds`."""
    parser = argparse.ArgumentParser(prog="python -m bench.ideal")
    parser.add_argument("database", help="postgresql://... or sqlite:///...")
    parser.add_argument("--secret", required=True)
    chosen = parser.parse_args()
    started = time.monotonic()
    ledger = _open(chosen.database, f"ideal:{os.getpid()}", Template(TEMPLATE, SUBJECT, TEXT).version)
    sent = work(ledger, Signer(chosen.secret))
    print(json.dumps({"sent": sent, "seconds": round(time.monotonic() - started, 3)}))


def _open(database: str, worker: str, version: str) -> Ledger:
    if database.startswith("sqlite:///"):
        from bench.ideal.sqlite import SqliteLedger

        return SqliteLedger(database.removeprefix("sqlite:///"), PROVIDER, worker, LEASE_SECONDS, version)
    from bench.ideal.postgres import PostgresLedger

    return PostgresLedger(database, PROVIDER, worker, LEASE_SECONDS, version)


if __name__ == "__main__":
    main()
