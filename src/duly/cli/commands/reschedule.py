"""`duly reschedule ID`: a reminder at other times. What was sent stays sent, and is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from duly.cli import output
from duly.cli.surface import AccountOption, Identity, Surface, WhyOption, command, operator, stated
from duly.cli.words import left_out_text, reminder_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.intake import Rejection
    from duly.runtime.config import Config
    from duly.runtime.rescheduling import NewTimes, Order, Rescheduled

__all__ = ["register"]

#: The field of a submission -> the option that says it.
OPTIONS: Final[Mapping[str, str]] = {
    "notify_at": "--at",
    "zone": "--zone",
    "repeat": "--repeat",
    "starts_at": "--starts-at",
    "before": "--before",
    "deadline": "--deadline",
}
#: Why nothing was changed.
REFUSALS: Final[Mapping[str, str]] = {
    "already_sent": "it was already sent, and nothing was changed; --again sends it once more, by name",
    "already_sending": "it is already being sent, or may have been sent, and nothing was changed; --again sends it once"
    " more, by name",
    "cancelled": "it was cancelled, and stays so; submit it under a new key",
    "under_guard": "its next occurrence may have been sent before a backup was restored, so it stays where it is; see"
    " `duly restore plan`",
    "not_newer": "it was not changed",
    "changed": "a newer version of it has just come in, and nothing was changed; try again",
}

At = Annotated[str | None, typer.Option("--at", metavar="TIME", help="When it fires, or from when --repeat counts.")]
Zone = Annotated[str | None, typer.Option("--zone", metavar="ZONE", help="Where local times are read, or `recipient`.")]
Repeat = Annotated[str | None, typer.Option("--repeat", metavar="RULE", help="An RRULE or a cron expression.")]
StartsAt = Annotated[str | None, typer.Option("--starts-at", metavar="TIME", help="The anchor of --before.")]
Before = Annotated[list[str] | None, typer.Option("--before", metavar="PT24H", help="So long before; may be repeated.")]
Deadline = Annotated[str | None, typer.Option("--deadline", metavar="PT8H|TIME", help="Until when it is of use.")]
Again = Annotated[bool, typer.Option("--again", help="Send what was sent once more, as another occurrence.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app)(reschedule)


def reschedule(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    surface: Surface,
    identity: Identity,
    why: WhyOption,
    account: AccountOption = None,
    at: At = None,
    zone: Zone = None,
    repeat: Repeat = None,
    starts_at: StartsAt = None,
    before: Before = None,
    deadline: Deadline = None,
    again: Again = False,
) -> None:
    """Let a reminder fire at other times: at one, by a rule, or before an anchor."""
    from duly.runtime.rescheduling import NewTimes, Order

    times = NewTimes(at, zone, repeat, starts_at, tuple(before or ()), deadline)
    _check(times)
    done = asyncio.run(_reschedule(surface.config(), identity, account, times, Order(operator(), stated(why), again)))
    _tell(surface, done)


def _check(times: NewTimes) -> None:
    """Raises InputError."""
    from duly.errors import InputError

    if times.at is None and times.repeat is None and times.starts_at is None:
        raise InputError("say when: --at TIME, --repeat RULE, or --starts-at TIME with --before")
    if times.starts_at is not None and (times.at or times.repeat):
        raise InputError("--starts-at: it stands beside --before alone; leave out --at and --repeat")
    if times.before and times.starts_at is None:
        raise InputError("--before: it counts back from an anchor; give --starts-at")


async def _reschedule(config: Config, identity: str, account: str | None, times: NewTimes, order: Order) -> Rescheduled:
    from duly.errors import InputError
    from duly.intake import Intake, Rejection
    from duly.runtime.bootstrap import account_zones, channels, open_store, templates
    from duly.runtime.rescheduling import reschedule
    from duly.runtime.versions import keep

    compiled = templates(config)
    async with open_store(config) as store:
        reminder = await reminder_named(store.views(), identity, account)
        intake = Intake(await store.namespace(), compiled, channels(config), account_zones(config).get)
        await keep(store, compiled)
        try:
            return await reschedule(store, intake, reminder, times, order)
        except Rejection as rejection:
            raise InputError(_refusal(rejection)) from None


def _refusal(rejection: Rejection) -> str:
    """In the words of the command line, where the operator said it."""
    option = OPTIONS.get(rejection.field or "")
    if option is not None:
        return f"{option}: {rejection.reason}"
    return f"as it was submitted it cannot be taken any more: {rejection}"


def _tell(surface: Surface, done: Rescheduled) -> None:
    from duly.core.revising import Revised

    moved = done.answer is Revised.MOVED
    if moved or surface.as_json:
        surface.result(_document(done), _text(done))
    if not moved:
        surface.note(REFUSALS[done.answer])
        raise typer.Exit(1)


def _document(done: Rescheduled) -> dict[str, Any]:
    return {
        "answer": str(done.answer),
        "label": done.label,
        "local": _local(done),
        "utc": done.due_at,
        "zone": done.zone,
        "left_out": list(done.left_out),
        "at_once": list(done.at_once),
        "expired": list(done.expired),
    }


def _local(done: Rescheduled) -> str | None:
    from duly.intake import zones

    clocks = None if done.zone is None else zones.known(done.zone)
    if done.due_at is None or clocks is None:
        return None
    return done.due_at.astimezone(clocks).replace(tzinfo=None).isoformat()


def _text(done: Rescheduled) -> str:
    utc = output.second(done.due_at) if done.due_at else ""
    local = _local(done)
    where = f"{local} in {output.plain(done.zone)} ({utc})" if local else utc
    text = f"moved: {output.plain(done.label)} is due at {where}"
    if done.left_out:
        text += f"; {left_out_text(done.left_out)} (--again asks for it)"
    if done.at_once:
        text += f"\nit is past, and goes out at once: {', '.join(done.at_once)}"
    if done.expired:
        text += f"\nits deadline has passed, and nothing comes of it: {', '.join(done.expired)}"
    return text
