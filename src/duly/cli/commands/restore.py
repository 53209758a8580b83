"""`duly restore`: the guard between a restored backup and a second delivery of everything since.

A restored ledger does not know what was sent after the backup. While the guard is open nothing is sent;
what was open, and what was due since the last sign of life, starts in doubt and is reconciled first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duly.cli import output
from duly.cli.commands import outlook
from duly.cli.surface import Surface, WhyOption, command, operator, stated
from duly.cli.words import counted, guard_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from duly.core.model import Capabilities, Guard
    from duly.runtime.config import Config
    from duly.runtime.worker import Plant

__all__ = ["register"]

NEXT = (
    "nothing is sent until the guard is closed; look at `duly restore plan`, submit again what was submitted since"
    ' then, and run `duly restore close --why "..." --submitted-again`'
)
UNSUBMITTED = (
    "reminders, reschedules, cancels, opt-outs, redrives and decisions since {since} must have been submitted again;"
    " when they have been, add --submitted-again"
)

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="RFC 3339 with an offset, earlier than the last sign of life on record."
    ),
]
Submitted = Annotated[
    bool, typer.Option("--submitted-again", help="What was asked for since the backup has been submitted again.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="After a backup was restored: nothing is lost, nothing is sent twice.", no_args_is_help=True
    )
    for step in (open_, plan, close):
        command(group, step.__name__.rstrip("_"))(step)
    app.add_typer(group, name="restore")


def open_(surface: Surface, why: WhyOption, since: Since = None) -> None:
    """Open the guard: nothing is sent, and what may have been sent starts in doubt."""
    before, guard, covered = asyncio.run(_open(surface.config(), stated(why), _moment(since)))
    already = before is not None and before["number"] == guard.number
    told = _already_text(before, guard, covered) if before is not None and already else _opened_text(guard, covered)
    document = {"guard": guard._asdict(), "covered": covered, "next": NEXT, "already": already}
    surface.result(document, f"{output.plain(told)}\n{NEXT}")


def plan(surface: Surface) -> None:
    """Tell what the guard covers, and what will become of it. Changes nothing."""
    found = asyncio.run(_plan(surface.config()))
    surface.result(found, _plan_text(found))


def close(surface: Surface, why: WhyOption, submitted_again: Submitted = False) -> None:
    """Let sending begin again."""
    guard = asyncio.run(_close(surface.config(), stated(why), submitted_again=submitted_again))
    surface.result({"guard": guard._asdict()}, f"guard {guard.number} is closed: sending begins again")


def _moment(text: str | None) -> datetime | None:
    from duly.core.moments import parse_time
    from duly.errors import InputError

    if text is None:
        return None
    try:
        moment = parse_time(text)
    except ValueError as error:
        wrong, _, _ = str(error).partition(";")
        raise InputError(f"--since: {wrong}; write a time like 2026-12-01T09:00:00Z") from None
    if moment.tzinfo is None:
        raise InputError("--since: it has no offset; write a time like 2026-12-01T09:00:00Z")
    return moment


# --- reading and deciding ------------------------------------------------------------------------


async def _open(config: Config, why: str, since: datetime | None) -> tuple[dict[str, Any] | None, Guard, int]:
    """The guard that was open before, the one that is now, and how many deliveries it puts in doubt."""
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        before = (await store.views().guard())["open"]
        guard = await store.open_guard(operator(), why, since)
        return before, guard, sum(line["count"] for line in (await store.views().guard())["covered"])


async def _close(config: Config, why: str, *, submitted_again: bool) -> Guard:
    from duly.errors import InputError
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        guard = (await store.views().guard())["open"]
        if guard is not None and not submitted_again:
            raise InputError(UNSUBMITTED.format(since=guard["since"]))
        return await store.close_guard(operator(), why, guard["number"] if guard else None)


async def _plan(config: Config) -> dict[str, Any]:
    from duly.core import keys
    from duly.runtime.bootstrap import open_plant

    async with open_plant(config, freeze_garbage=False) as plant:
        views = plant.store.views()
        found, names = await views.guard(), plant.endpoint_names
        groups = await views.forgotten(list(names))
        outcomes = outlook.outcomes(groups, plant, config, {keys.show(key): name for key, name in names.items()})
        return {**found, "outcomes": outcomes, "providers": list(_promises(plant, config))}


# --- what will become of it ----------------------------------------------------------------------


def _promises(plant: Plant, config: Config) -> Iterator[dict[str, Any]]:
    """What each provider, and each endpoint with terms of its own, lets us find out."""
    policy = outlook.policy_text(config)
    for name, provider in plant.providers.items():
        yield _promise(name, None, provider.capabilities(""), policy)
        if config.providers[name].channel == "webhook":
            for endpoint, one in config.endpoints.items():
                yield _promise(name, endpoint, provider.capabilities(one.url), policy)


def _promise(provider: str, endpoint: str | None, promise: Capabilities, policy: str) -> dict[str, Any]:
    return {"provider": provider, "endpoint": endpoint, "then": list(_rungs(promise, policy))}


def _rungs(promise: Capabilities, policy: str) -> Iterator[str]:
    """The rungs of the ladder for a delivery that may have been sent, in their order, in words."""
    if promise.lookup_by_id:
        yield "asked for the request id, where one is on record"
    if promise.keyed_for is not None:
        yield f"repeated under the same key, up to {_span(promise.keyed_for)} after it was due"
    if promise.lookup_by_key:
        yield "asked for our key; sent only if it is looked up in vain often enough"
    if promise.echoes_key:
        yield "its own report is awaited"
    if promise.searchable:
        yield "searched for; sent only if it is searched for in vain often enough"
    yield f"else {policy}"


def _span(duration: timedelta) -> str:
    return output.age(duration.total_seconds())


# --- text ----------------------------------------------------------------------------------------


def _opened_text(guard: Guard, covered: int) -> str:
    doubt = counted(covered, "delivery starts in doubt", "deliveries start in doubt")
    return f"guard {guard.number} is open, since {output.second(guard.since)}: {doubt}"


def _already_text(before: Mapping[str, Any], guard: Guard, covered: int) -> str:
    """What an operator finds who opens what is open: whose it is, and what of his wish was done."""
    from duly.core.moments import parse_time

    said = (
        f"guard {guard.number} was open already, opened at {before['opened_at']} by {guard.opened_by} ({before['why']})"
    )
    moved = f"only `since` was moved back, from {before['since']} to {output.second(guard.since)}"
    kept = f"nothing was changed: it is open since {output.second(guard.since)}"
    done = moved if parse_time(before["since"]) > guard.since else kept
    return f"{said}; {done}; {counted(covered, 'delivery is in doubt', 'deliveries are in doubt')}"


def _plan_text(found: Mapping[str, Any]) -> str:
    guard = found["open"]
    parts = ["no guard is open" if guard is None else guard_line(guard)]
    if found["covered"]:
        titles = ("provider", "state", "count", "oldest_due_at")
        parts.append(output.table(titles, found["covered"]))
    if found["outcomes"]:
        titles = ("provider", "endpoint", "outcome", "count")
        parts.append(output.table(titles, found["outcomes"]))
    for one in found["providers"]:
        name = one["provider"] if one["endpoint"] is None else f"{one['provider']}, endpoint {one['endpoint']}"
        parts.append(f"{output.plain(name)}\n" + "\n".join(f"  {step}" for step in one["then"]))
    return "\n\n".join(parts)
