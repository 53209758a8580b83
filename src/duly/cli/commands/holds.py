"""`duly holds`: deliveries that may have been accepted, where nobody can be asked and an operator must decide.

What an operator decides is recorded with his name, his reason and what was known at that moment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import AccountOption, Identity, LimitOption, Surface, WhyOption, command, operator, stated
from duly.cli.words import require_account

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.core.limits import Limits
    from duly.core.model import Doubtful, HoldPolicy
    from duly.ports import Views
    from duly.runtime.config import Config

__all__ = ["register"]

COLUMNS = ("id", "account", "reminder", "occurrence", "channel", "provider", "reason", "attempts", "held_since")
VERDICTS = ("sent", "resend", "close")

UNKEPT = "no attempt is on record, so no bytes are kept"
TWICE = "though that may be the second time"

Verdict = Annotated[
    str,
    typer.Argument(
        metavar="|".join(VERDICTS),
        help=f"sent: it was accepted. resend: send it again, {TWICE}. close: unconfirmed.",
    ),
]


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
    surface.result(shown, f"{_hold_text(shown['hold'])}\n\n{output.fields(shown)}")


def decide(
    surface: Surface, identity: Identity, verdict: Verdict, why: WhyOption, account: AccountOption = None
) -> None:
    """Decide about one held delivery, for the record."""
    if verdict not in VERDICTS:
        raise typer.BadParameter(f"decide {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}", param_hint="VERDICT")
    decided = asyncio.run(_decided(surface.config(), identity, account, verdict, stated(why)))
    surface.result(decided, f"{decided['id']} is {decided['status']} now")


# --- reading and deciding ------------------------------------------------------------------------


async def _held(config: Config, account: str | None, limit: int) -> list[dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        await require_account(views, config, account)
        return await views.holds(account, limit)


async def _shown(config: Config, identity: str, account: str | None) -> dict[str, Any]:
    from duly.core.limits import Limits
    from duly.runtime.bootstrap import ConfiguredPolicies, limits, open_store
    from duly.runtime.explaining import as_told

    async with open_store(config) as store:
        views = store.views()
        delivery = await _meant(views, identity, account)
        now, row = await store.held(delivery)
        shown = await views.show_delivery(delivery)
        told = await as_told(views, config, shown, now)
        guarded = (await views.guard())["open"] is not None
    policy = ConfiguredPolicies(config).hold(row.account)
    hold = {
        **_known(row, now, told),
        **_follows(row, now, policy, limits(config).get(row.provider, Limits())),
        "resend": _resend(row, now, guarded=guarded),
    }
    return {"hold": hold, **shown}


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


# --- what an operator needs to know --------------------------------------------------------------


def _known(row: Doubtful, now: datetime, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Who was to be told what, and why nobody knows whether he was. Never an address."""
    from duly.core.explain import explain_delivery
    from duly.intake import zones

    return {
        "recipient": shown["recipient"],
        "template": shown["template"],
        "explanation": explain_delivery(shown, zones.known),
        "held_since": row.since,
        "age_seconds": round((now - row.since).total_seconds(), 3),
        "unknown_attempts": row.unknown,
        "restored": row.restored,
        "bytes_kept": row.frozen is not None,
        "refused": row.refused,
    }


def _follows(row: Doubtful, now: datetime, policy: HoldPolicy, limits: Limits) -> dict[str, Any]:
    """What follows if nobody decides, by the account's policy as it is configured now."""
    ends_at = row.since + policy.ends_after
    return {
        "alarmed": row.alarmed,
        "alarm_at": row.since + min(policy.alarm_after, policy.ends_after),
        "ends_at": ends_at,
        "then": str(policy.then),
        "at_its_end": _at_its_end(row, max(now, ends_at), policy, limits),
    }


def _at_its_end(row: Doubtful, ends_at: datetime, policy: HoldPolicy, limits: Limits) -> str:
    from duly.core.explain import explain_reason
    from duly.core.ladder import forbids_sending
    from duly.core.model import OnDoubt

    if policy.then is not OnDoubt.RESEND:
        return "it is closed: unconfirmed, and not sent again"
    why_not = forbids_sending(row, ends_at, limits)
    if why_not is None:
        return f"it is sent again, {TWICE}"
    return f"it is closed: unconfirmed, and not sent again, because {explain_reason(why_not)}"


def _resend(row: Doubtful, now: datetime, *, guarded: bool) -> str:
    """What the decision `resend` would do now."""
    from duly.flows.holds import hopeless

    why_not = hopeless(row, now)
    if why_not is not None:
        return f"is refused: {why_not}"
    after = " after `duly restore close`" if guarded else ""
    if row.frozen is None:
        return f"{UNKEPT}: it is rendered anew from the same data and leaves under the same key{after}, {TWICE}"
    return f"the same bytes leave once more under the same key{after}, {TWICE}"


# --- text ----------------------------------------------------------------------------------------


def _hold_text(hold: Mapping[str, Any]) -> str:
    """The story first; then each fact on a line, in words where a bare value would mislead."""
    facts = {name: value for name, value in hold.items() if name not in ("explanation", "age_seconds", "bytes_kept")}
    facts["held_for"] = output.age(hold["age_seconds"])
    facts["bytes_kept"] = "yes" if hold["bytes_kept"] else "no: see resend"
    moments = {name: output.second(value) for name, value in facts.items() if name.endswith(("_at", "_since"))}
    return f"{output.plain(hold['explanation'])}\n\n{output.fields({**facts, **moments})}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "nothing is held"
    cells = [
        [*(row[name] for name in COLUMNS), output.age(row["age_seconds"]), "raised" if row["alarmed"] else ""]
        for row in rows
    ]
    return output.columns((*COLUMNS, "age", "alarm"), cells)
