"""One submission that is tried out: from a file or a pipe, its recipient from the ledger where one asks for that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.runtime.config import Config

__all__ = ["FromLedger", "read_submission"]

FromLedger = Annotated[
    bool, typer.Option("--from-ledger", help="Look the recipient up in the ledger, by to.id. Only reads.")
]


def read_submission(file: str, ledger: Config | None) -> Mapping[str, Any]:
    """The only submission of a file. `ledger`: where its recipient is looked up; None: nowhere."""
    from duly.intake import read_single

    raw = read_single(file)
    if ledger is None:
        return raw
    from duly.runtime.known_recipient import with_recipient

    return asyncio.run(with_recipient(ledger, raw))
