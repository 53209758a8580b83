"""`duly cancel`: whoever commits first wins; what was sent, or is being sent, is said, not hidden.

The answer to a cancel is `cancelled` where it prevented something, or finds nothing yet; `already_sending` where all it
can prevent is another try; `already_cancelled` and `already_ended` where nothing is left and nothing comes. Only
`already_sent` is a refusal: what should not be sent was sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from duly.cli import output
from duly.cli.surface import WHY_CHARACTERS_MAX, AccountOption, Surface, WhyOption, command, operator
from duly.cli.words import counted, require_account

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from duly.ports import Cancelled, Views
    from duly.runtime.config import Config

__all__ = ["register"]

GROUP_PAGE_ROWS: Final = 1_000
ALREADY_SENT: Final = "already_sent"
BEFORE: Final = "it was cancelled before"
#: Answer -> how the text begins, where it is not that it was cancelled just now.
BEGINNINGS: Final = {
    "already_cancelled": BEFORE,
    "already_ended": "it had ended, and nothing was left to cancel",
}

Wanted = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Our id, or your idempotency key with --account.", show_default=False),
]
Group = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="Instead of ID: all of a group, with --account.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app)
    def cancel(
        surface: Surface,
        identity: Wanted = None,
        account: AccountOption = None,
        group: Group = None,
        why: WhyOption = "cancelled",
    ) -> None:
        """Cancel a reminder with its open deliveries, one delivery, or all reminders of a group."""
        from duly.core.text import one_line
        from duly.errors import InputError

        reason = one_line(why, WHY_CHARACTERS_MAX) or "cancelled"
        if identity is not None and group is None:
            _tell(surface, asyncio.run(_cancel(surface.config(), identity, account, reason)))
            return
        if group is None or identity is not None:
            raise InputError("name one: the ID of a reminder or a delivery, or --group with --account")
        if account is None:
            raise InputError("--group: it belongs to an account; give --account too")
        told = asyncio.run(_cancel_group(surface.config(), group, account, reason))
        surface.result(told, _group_text(told))


async def _cancel(config: Config, identity: str, account: str | None, reason: str) -> Cancelled:
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        kind, found = await store.views().find(identity, account)
        return await store.cancel(
            operator(),
            reason,
            reminder=found if kind == "reminder" else None,
            delivery=found if kind == "delivery" else None,
        )


async def _cancel_group(config: Config, group: str, account: str, reason: str) -> dict[str, int]:
    """One after the other: what is cancelled stays so, and a run that was stopped is run again."""
    from duly.errors import NotFound
    from duly.ports import Cancelled
    from duly.runtime.bootstrap import open_store

    reminders, counts = 0, Cancelled(0, 0, 0, 0)
    async with open_store(config) as store:
        await require_account(store.views(), config, account)
        async for reminder in _members(store.views(), group, account):
            done = await store.cancel(operator(), reason, reminder=reminder, delivery=None)
            reminders, counts = reminders + 1, Cancelled._make(map(sum, zip(counts, done, strict=True)))
    if not reminders:
        raise NotFound(
            f"--group: no reminder of account {output.plain(account)} belongs to {output.plain(group)[:60]!r}"
        )
    return {"reminders": reminders, **counts._asdict()}


async def _members(views: Views, group: str, account: str) -> AsyncIterator[bytes]:
    after = bytes(16)
    while page := await views.group(account, group, after, GROUP_PAGE_ROWS):
        for reminder in page:
            yield reminder
        after = page[-1]


def _tell(surface: Surface, done: Cancelled) -> None:
    told = {"answer": _answer(done), **done._asdict()}
    sent = told["answer"] == ALREADY_SENT
    if not sent or surface.as_json:
        surface.result(told, _text(told))
    if sent:
        surface.note(f"it was already sent, and nothing was left to cancel{_deliveries(told)}")
        raise typer.Exit(1)


def _answer(done: Cancelled) -> str:
    if done.cancelled or done.stopped:
        return "cancelled"
    if done.sending or done.in_doubt:
        return "already_sending"
    if done.before:
        return "already_cancelled"
    if done.sent:
        return ALREADY_SENT
    return "already_ended" if done.final else "cancelled"


def _text(done: Mapping[str, Any]) -> str:
    begin = BEGINNINGS.get(done["answer"], BEFORE if done["before"] else "cancelled")
    return f"{begin}{_stopped(done)}{_deliveries(done) or '; it had no deliveries yet'}"


def _group_text(done: Mapping[str, Any]) -> str:
    """How many were cancelled now, how many before, and what became of the deliveries of all of them."""
    before, now = done["before"], done["reminders"] - done["before"]
    begin = f"{counted(now, 'reminder', 'reminders')} cancelled" if now else "no reminder cancelled"
    if before:
        begin += f", {before} {'was' if before == 1 else 'were'} cancelled before"
    return f"{begin}{_stopped(done)}{_deliveries(done) or '; no deliveries yet'}"


def _stopped(done: Mapping[str, Any]) -> str:
    return ", and no further occurrence comes" if done["stopped"] and _deliveries(done) else ""


def _deliveries(done: Mapping[str, Any]) -> str:
    """What became of each of them, as the end of a sentence; nothing where there are none."""
    words = [
        (done["cancelled"], "will not be sent"),
        (done["sending"], "already sending: the ledger will show what came of it"),
        (done["in_doubt"], "in doubt: may have been accepted, will not be sent again"),
        (done["sent"], "already sent"),
        (done["final"] - done["sent"], "final before"),
    ]
    parts = [f"{count} {text}" for count, text in words if count]
    return f"; deliveries: {'; '.join(parts)}" if parts else ""
