"""`duly next FILE`: when a reminder will fire, before anybody is given it. No database is needed.

With `--from-ledger` a recipient who is named by his id is looked up there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from duly.cli import output
from duly.cli.submitted import FromLedger, read_submission
from duly.cli.surface import Surface, command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

    from duly.core.schedule import Slot

__all__ = ["register"]

OCCURRENCES_MAX: Final = 1_000
ADDRESSES: Final = ("email", "phone", "webhook")

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A reminder as JSON, or the first of JSONL; - reads standard input.")
]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help="From when on; now if it is left out.")]
Count = Annotated[int, typer.Option("--count", min=1, max=OCCURRENCES_MAX, help="How many at most.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "next")(next_)


def next_(surface: Surface, file: File, begin: From = None, count: Count = 10, from_ledger: FromLedger = False) -> None:
    """Print the coming occurrences of a reminder: label, local time and UTC."""
    from datetime import UTC, datetime
    from itertools import islice

    from duly.core.schedule import slots_since
    from duly.intake import find_zone, read_schedule

    raw, now = read_submission(file, surface.config() if from_ledger else None), datetime.now(UTC)
    if not from_ledger:
        _refuse_somebody(raw)
    when = read_schedule(raw, _account_zone(surface, raw.get("account")), now)
    zone = UTC if when.zone is None else find_zone(when.zone, "zone")
    coming = slots_since(when.schedule, zone, now if begin is None else _moment(begin, zone))
    found = [_occurrence(slot, zone) for slot in islice(coming, count)]
    name = when.zone or "UTC"
    surface.result({"zone": name, "occurrences": found}, _text(name, found))


def _refuse_somebody(raw: Mapping[str, Any]) -> None:
    """In his own zone, whom his id alone names, is a guess here. Raises InputError."""
    from duly.errors import InputError
    from duly.intake.when import RECIPIENT

    to = raw.get("to")
    if raw.get("zone") != RECIPIENT or not isinstance(to, dict) or to.get("id") is None:
        return
    if all(to.get(field) is None for field in ("zone", *ADDRESSES)):
        raise InputError("to: it is an id alone, and only the ledger knows his zone; add --from-ledger, or to.zone")


def _account_zone(surface: Surface, account: object) -> str | None:
    """What the configuration says, if there is one here."""
    from pathlib import Path

    from duly.runtime.config import FILE_NAME, named_file

    if named_file(surface.config_path, os.environ) is None and not Path(FILE_NAME).is_file():
        return None
    found = surface.config().accounts.get(account) if isinstance(account, str) else None
    return found.zone if found else None


def _moment(text: str, zone: tzinfo) -> datetime:
    """`--from`: an instant, or a local time in the reminder's zone."""
    from duly.core.moments import parse_time, to_utc
    from duly.errors import InputError

    try:
        moment = parse_time(text)
    except ValueError as error:
        raise InputError(f"--from: {error}") from None
    return to_utc(moment, zone) if moment.tzinfo is None else moment


def _occurrence(slot: Slot, zone: tzinfo) -> dict[str, Any]:
    local = slot.due_at.astimezone(zone).replace(tzinfo=None, fold=0)
    return {"label": slot.label, "local": local.isoformat(), "utc": slot.due_at}


def _text(zone: str, found: list[dict[str, Any]]) -> str:
    if not found:
        return "it does not fire any more"
    rows = [(one["label"], one["local"], output.second(one["utc"])) for one in found]
    return output.columns(("LABEL", f"LOCAL, {zone}", "UTC"), rows)
