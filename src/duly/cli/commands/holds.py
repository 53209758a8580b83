"""`duly holds`: deliveries that may have been accepted, where nobody can be asked and an operator must decide.

What an operator decides is recorded with his name, his reason and what was known at that moment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import AccountOption, Identity, LimitOption, Surface, command, operator, stated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.core.model import Doubtful, HoldPolicy
    from duly.ports import Views
    from duly.runtime.config import Config

__all__ = ["register"]

COLUMNS = ("id", "account", "reminder", "occurrence", "channel", "provider", "reason", "attempts", "held_since")
VERDICTS = ("sent", "resend", "close")

Verdict = Annotated[
    str,
    typer.Argument(
        metavar="|".join(VERDICTS),
        help="sent: it was accepted. resend: send it again, though that may be the second time. close: unconfirmed.",
    ),
]
Why = Annotated[str, typer.Option("--why", help="The reason, for the record.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Deliveries that need an operator's decision.", no_args_is_help=True)
    command(group, "list")(list_)
    command(group)(show)
    command(group)(decide)
    app.add_typer(group, name="holds")


def list_(surface: Surface, account: AccountOption = None, limit: LimitOption = 100) -> None:
    """List what is held, oldest first."""
    rows = asyncio.run(_held(surface.config(), account, limit))
    surface.result({"holds": rows}, _table(rows))


def show(surface: Surface, identity: Identity, account: AccountOption = None) -> None:
    """Show one held delivery: its timeline, and what is known about it."""
    shown = asyncio.run(_shown(surface.config(), identity, account))
    surface.result(shown, f"{output.fields(shown['hold'])}\n\n{output.fields(shown)}")


def decide(surface: Surface, identity: Identity, verdict: Verdict, why: Why, account: AccountOption = None) -> None:
    """Decide about one held delivery, for the record."""
    if verdict not in VERDICTS:
        raise typer.BadParameter(f"decide {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}", param_hint="VERDICT")
    decided = asyncio.run(_decided(surface.config(), identity, account, verdict, stated(why)))
    surface.result(decided, f"{decided['id']} is {decided['status']} now")


# --- reading and deciding ------------------------------------------------------------------------


async def _held(config: Config, account: str | None, limit: int) -> list[dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        return await views.holds(account, limit)


async def _shown(config: Config, identity: str, account: str | None) -> dict[str, Any]:
    from duly.runtime.bootstrap import ConfiguredPolicies, open_store

    async with open_store(config) as store:
        views = store.views()
        delivery = await _meant(views, identity, account)
        now, row = await store.held(delivery)
        hold = _hold(row, now, ConfiguredPolicies(config).hold(row.account))
        return {"hold": hold, **await views.show_delivery(delivery)}


async def _decided(config: Config, identity: str, account: str | None, verdict: str, why: str) -> dict[str, Any]:
    from duly.core import keys
    from duly.flows import holds
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        delivery = await _meant(store.views(), identity, account)
        state = await holds.decide_hold(store, delivery, holds.Verdict(verdict), why, operator())
    return {"id": keys.show(delivery), "verdict": verdict, "status": str(state)}


async def _meant(views: Views, identity: str, account: str | None) -> bytes:
    """The one delivery that is meant: a reminder may stand for the only one of its deliveries that is held."""
    kind, found = await views.find(identity, account)
    if kind == "delivery":
        return found
    shown = await views.show_reminder(found)
    held = [line["id"] for line in shown["deliveries"] if line["status"] == "held"]
    return (await views.find(_only(held, shown["idempotency_key"]), None))[1]


def _only(held: Sequence[str], reminder: str) -> str:
    """Raises InputError unless there is exactly one."""
    from duly.errors import InputError

    name = output.plain(reminder)[:60]
    if not held:
        raise InputError(f"reminder {name}: none of its deliveries is held; `duly show` tells where they stand")
    if len(held) > 1:
        raise InputError(f"reminder {name}: {len(held)} of its deliveries are held; name one: {', '.join(held)}")
    return held[0]


def _hold(row: Doubtful, now: datetime, policy: HoldPolicy) -> dict[str, Any]:
    """What is known, and what follows if nobody decides."""
    return {
        "held_since": row.since,
        "age_seconds": round((now - row.since).total_seconds(), 3),
        "alarmed": row.alarmed,
        "ends_at": row.since + policy.ends_after,
        "then": str(policy.then),
        "unknown_attempts": row.unknown,
        "bytes_kept": row.frozen is not None,
        "refused": row.refused,
    }


# --- text ----------------------------------------------------------------------------------------


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "nothing is held"
    cells = [
        [*(row[name] for name in COLUMNS), output.age(row["age_seconds"]), "raised" if row["alarmed"] else ""]
        for row in rows
    ]
    return output.columns((*COLUMNS, "age", "alarm"), cells)
