"""How many rows a second are read and checked, on one core, without a database.

    python bench/intake.py [--rows 50000]

The rows are JSON Lines, half e-mail and half webhook, every address and every URL a different one, so
that no cache answers. What counts is CPU time, and the median of five runs.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time

from duly.content import Template, TemplateSet
from duly.core.model import Channel
from duly.intake import Intake, Rejection, read

RUNS = 5


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    rates = [rows / _seconds(_file(rows, run)) for run in range(RUNS)]
    rate = statistics.median(rates)
    print(
        f"read and accept: {rate:,.0f} rows/s ({1e6 / rate:.1f} us a row), from {min(rates):,.0f} to {max(rates):,.0f}"
    )


def _seconds(file: bytes) -> float:
    intake = Intake("bench", _templates(), {Channel.EMAIL: "mail", Channel.WEBHOOK: "hooks"}, lambda _: None)
    began = time.process_time()
    for _, row in read(io.BytesIO(file), "jsonl"):
        if isinstance(row, Rejection):
            raise row
        intake.accept(row)
    return time.process_time() - began


def _templates() -> TemplateSet:
    text = "Hello {{ recipient.name }}, we visit unit {{ data.unit }} at {{ data.time }}."
    return TemplateSet({"inspection": Template("inspection", "Inspection on {{ data.day }}", text)})


def _file(rows: int, run: int) -> bytes:
    return "".join(json.dumps(_row(f"{run}-{number}", number)) + "\n" for number in range(rows)).encode()


def _row(name: str, number: int) -> dict[str, object]:
    address = (
        {"email": f"ana-{name}@example.com"} if number % 2 else {"webhook": f"https://app.example.com/hooks/{name}"}
    )
    return {
        "idempotency_key": f"inspection-{name}",
        "account": f"account-{number % 7}",
        "to": {"id": f"recipient-{name}", "name": "Ana", "zone": "America/New_York", "locale": "en", **address},
        "channels": list(address)[:1],
        "template": "inspection",
        "data": {"unit": f"{number}B", "day": "Tuesday", "time": "10:00"},
        "notify_at": "2026-12-01T09:00",
        "zone": "recipient",
        "deadline": "PT8H",
    }


if __name__ == "__main__":
    main()
