"""`duly list`, `status`, `show` and `explain`: read-only, over the views of the ledger."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.surface import AccountOption, Identity, LimitOption, Surface, command
from duly.cli.words import counted, failing_text, guard_line, require_account

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.ports import Filters
    from duly.runtime.config import Config

__all__ = ["register"]

Status = Annotated[str | None, typer.Option("--status", help="One state, such as waiting or sent.")]
ChannelName = Annotated[str | None, typer.Option("--channel", help="email, sms or webhook.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app, "list")
    def list_(
        surface: Surface,
        status: Status = None,
        account: AccountOption = None,
        channel: ChannelName = None,
        limit: LimitOption = 100,
    ) -> None:
        """List deliveries, newest first."""
        from duly.ports import Filters

        _check("--status", status, _states())
        _check("--channel", channel, _channels())
        rows = asyncio.run(_deliveries(surface.config(), Filters(status, account, channel, limit)))
        surface.result({"deliveries": rows}, _table(rows))

    @command(app)
    def status(surface: Surface) -> None:
        """Count deliveries by state, with the oldest age of each."""
        found = asyncio.run(_status(surface.config()))
        surface.result(found, _status_text(found))

    @command(app)
    def show(surface: Surface, identity: Identity, account: AccountOption = None) -> None:
        """Show a reminder or a delivery with its timeline."""
        _, shown = asyncio.run(_shown(surface.config(), identity, account))
        surface.result(shown, output.fields(shown))

    @command(app)
    def explain(surface: Surface, identity: Identity, account: AccountOption = None) -> None:
        """Say in one paragraph why it was, was not, or is not yet sent."""
        from duly.core.explain import explain_delivery, explain_reminder
        from duly.intake import zones

        kind, shown, deliveries = asyncio.run(_told(surface.config(), identity, account))
        if kind == "delivery":
            text = explain_delivery(shown, zones.known)
        else:
            text = explain_reminder(shown, deliveries, zones.known)
        surface.result({"id": shown["id"], "explanation": text}, "\n".join(map(output.plain, text.splitlines())))


def _check(option: str, value: str | None, allowed: Sequence[str]) -> None:
    from duly.errors import InputError

    if value is not None and value not in allowed:
        raise InputError(f"{option}: {output.plain(value)[:60]} is not one of {', '.join(allowed)}")


def _states() -> list[str]:
    from duly.core.states import State

    return [str(state) for state in State]


def _channels() -> list[str]:
    from duly.core.model import Channel

    return [str(channel) for channel in Channel]


# --- reading -------------------------------------------------------------------------------------


async def _deliveries(config: Config, filters: Filters) -> list[dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        await require_account(views, config, filters.account)
        return await views.deliveries(filters)


async def _status(config: Config) -> dict[str, Any]:
    """The ledger's status, each endpoint with the name that the configuration has for it."""
    from duly.core import keys
    from duly.runtime.bootstrap import endpoint_names, open_store

    async with open_store(config) as store:
        found = await store.views().status()
        named = {keys.show(key): name for key, name in endpoint_names(config, await store.namespace()).items()}
    budgets = [{**budget, "endpoint_name": named.get(budget["endpoint"])} for budget in found["budgets"]]
    return {**found, "budgets": budgets}


async def _shown(config: Config, identity: str, account: str | None) -> tuple[str, dict[str, Any]]:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        kind, found = await views.find(identity, account)
        show = views.show_delivery if kind == "delivery" else views.show_reminder
        return kind, await show(found)


async def _told(config: Config, identity: str, account: str | None) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """What is asked about and, of a reminder, its latest deliveries."""
    from duly.runtime.bootstrap import open_views
    from duly.runtime.explaining import read

    async with open_views(config) as views:
        return await read(views, config, (identity, account), datetime.now(UTC))


# --- text ----------------------------------------------------------------------------------------

COLUMNS = ("id", "account", "reminder", "occurrence", "channel", "status", "reason", "attempts", "due_at")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "no deliveries (duly status tells what is still to come)"
    return output.table(COLUMNS, rows)


DOOR = ("provider", "endpoint", "reason", "blocked_until", "failures")


def _status_text(found: Mapping[str, Any]) -> str:
    """States, what is yet to come, and every open circuit."""
    rows = [(state, one["count"], output.age(one["oldest_age_seconds"])) for state, one in found["states"].items()]
    parts = [guard_line(found["guard"])] if found["guard"] else []
    parts.append(output.columns(("state", "count", "oldest"), rows) if rows else "no deliveries yet")
    coming = found["reminders"]
    if coming["count"]:
        reminders = counted(coming["count"], "reminder", "reminders")
        parts.append(f"{reminders} not yet ticked, the next due at {coming['next_due_at']}")
    if found["failing"]:
        parts.append(failing_text(found["failing"]))
    if circuits := [_door(budget) for budget in found["budgets"] if budget["circuit"]]:
        parts.append(f"open circuits\n{output.columns(DOOR, circuits)}")
    return "\n\n".join(parts)


def _door(budget: Mapping[str, Any]) -> list[Any]:
    """A circuit as a row: the endpoint by its configured name, where it has one."""
    from duly.core import keys

    only = budget["endpoint"] == keys.show(keys.NO_ENDPOINT)  # of a provider that has no other
    named = {**budget, "endpoint": "-" if only else budget["endpoint_name"] or budget["endpoint"]}
    return [named[column] for column in DOOR]
