"""`duly recipients`: people in bulk, and one of them who is deleted, or closed to one channel."""

from __future__ import annotations

import asyncio
import csv
import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from duly.cli import output
from duly.cli.bulk import FORMATS, PAGE_ROWS, AccountName, File, Format, Strict, import_file, pages, tell
from duly.cli.surface import Surface, WhyOption, command, operator, stated
from duly.cli.words import require_account

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from duly.ports import RecipientChange, Store, Upserted
    from duly.runtime.bulk import Answer
    from duly.runtime.config import Config

__all__ = ["register"]

COUNTS: Final = ("rows", "created", "changed", "same", "rejected", "zone_changed", "retimed")
EXPORTED: Final = ("id", "name", "email", "phone", "webhook", "zone", "locale", "quiet_hours")

RecipientName = Annotated[str, typer.Argument(metavar="ID", help="Your own id of the recipient.")]
ChannelName = Annotated[str, typer.Option("--channel", help="email, sms or webhook.")]
ExportFormat = Annotated[str, typer.Option("--format", metavar="jsonl|csv")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="The people that reminders are for.", no_args_is_help=True)
    command(group, "import")(import_)
    command(group)(export)
    command(group)(delete)
    command(group)(disable)
    command(group)(enable)
    app.add_typer(group, name="recipients")


def import_(
    surface: Surface, file: File, account: AccountName, strict: Strict = False, file_format: Format = None
) -> None:
    """Write recipients, or change those that are there. Bad rows go to FILE.rejected.jsonl. Safe to run again."""
    document, where = asyncio.run(_import(surface, surface.config(), file, account, file_format))
    tell(surface, document, where, strict=strict)


def export(surface: Surface, account: AccountName, form: ExportFormat = "jsonl") -> None:
    """Write the recipients of an account in the form that `import` takes."""
    from duly.errors import InputError

    if form not in FORMATS:
        raise InputError(f"--format: {form!r} is not one of {', '.join(FORMATS)}")
    asyncio.run(_export(surface.config(), account, form))


def delete(surface: Surface, recipient: RecipientName, account: AccountName, why: WhyOption) -> None:
    """Mark a recipient deleted: nothing is sent to him any more, and his reminders produce nothing."""
    done = asyncio.run(_delete(surface.config(), recipient, account, stated(why)))
    surface.result(done, "deleted" if done["changed"] else "deleted before")


def disable(
    surface: Surface, recipient: RecipientName, channel: ChannelName, account: AccountName, why: WhyOption
) -> None:
    """Let nothing go to a recipient by one channel."""
    done = asyncio.run(_disable(surface.config(), recipient, channel, account, stated(why), disabled=True))
    surface.result(done, f"{channel} is disabled" + ("" if done["changed"] else ", as before"))


def enable(
    surface: Surface, recipient: RecipientName, channel: ChannelName, account: AccountName, why: WhyOption
) -> None:
    """Open a channel of a recipient again."""
    done = asyncio.run(_disable(surface.config(), recipient, channel, account, stated(why), disabled=False))
    surface.result(done, f"{channel} is enabled" + ("" if done["changed"] else ", as before"))


# --- one recipient -------------------------------------------------------------------------------


async def _delete(config: Config, recipient: str, account: str, why: str) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        identity = await _named(store, config, recipient, account)
        with _known(recipient, account):
            changed = await store.delete_recipient(operator(), why, identity)
    return {"account": account, "id": recipient, "changed": changed}


async def _disable(
    config: Config, recipient: str, channel: str, account: str, why: str, *, disabled: bool
) -> dict[str, Any]:
    from duly.core.model import Channel
    from duly.errors import InputError
    from duly.runtime.bootstrap import open_store

    if channel not in tuple(Channel):
        raise InputError(f"--channel: it is {', '.join(Channel)}")
    async with open_store(config) as store:
        identity = await _named(store, config, recipient, account)
        with _known(recipient, account):
            changed = await store.disable_channel(operator(), why, identity, Channel(channel), disabled=disabled)
    return {"account": account, "id": recipient, "channel": channel, "disabled": disabled, "changed": changed}


async def _named(store: Store, config: Config, recipient: str, account: str) -> bytes:
    from duly.core import keys

    await require_account(store.views(), config, account)
    return keys.recipient_id(await store.namespace(), account, recipient)


@contextmanager
def _known(recipient: str, account: str) -> Iterator[None]:
    """Say in the caller's words that nobody goes by that id."""
    from duly.errors import NotFound

    try:
        yield
    except NotFound:
        name = output.plain(recipient)[:60]
        raise NotFound(f"account {output.plain(account)} has no recipient {name!r}: nothing was changed") from None


# --- many ----------------------------------------------------------------------------------------


async def _import(
    surface: Surface, config: Config, file: str, account: str, file_format: str | None
) -> tuple[dict[str, int], str]:
    from duly.flows.rezone import Change, rezone
    from duly.intake import RECIPIENT_TABLE, RecipientIntake, zones
    from duly.intake.fields import need
    from duly.intake.submission import ACCOUNT_CHARACTERS_MAX

    need({"account": account}, "account", ACCOUNT_CHARACTERS_MAX)
    retimed = 0

    async def prepare(
        store: Store,
    ) -> tuple[
        Callable[[Mapping[str, Any]], RecipientChange], Callable[[Sequence[RecipientChange]], Awaitable[list[Answer]]]
    ]:
        checks = RecipientIntake(await store.namespace(), account)
        actor = operator()

        async def write(rows: Sequence[RecipientChange]) -> list[Answer]:
            nonlocal retimed
            answers = await store.upsert_recipients(actor, account, rows)
            # All whose zone a row names: of an import that broke off here, the next run finds their zones the same.
            named = [row.id for row in rows if "zone" in row.fields]
            if named:
                retimed += (await rezone(store, zones.known, Change(zones.version(), actor, named))).moved
            return list(map(_answer, answers))

        return checks.accept, write

    counts, where = await import_file(surface, config, file, RECIPIENT_TABLE, prepare, file_format)
    return {word: counts[word] for word in COUNTS} | {"retimed": retimed}, where


def _answer(one: Upserted) -> Answer:
    from duly.intake import Rejection
    from duly.ports import Upsert

    if one.what is Upsert.DELETED:
        return Rejection("this recipient was deleted, and stays so; a new one needs another id", "id")
    return (str(one.what), "zone_changed") if one.zone_changed else (str(one.what),)


async def _export(config: Config, account: str, form: str) -> None:
    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        await require_account(views, config, account)
        if form == "csv":
            output.write_text(",".join(EXPORTED))
        async for page in pages(lambda after: views.recipients(account, after, PAGE_ROWS), lambda row: row["id"]):
            output.write_text(_csv(page) if form == "csv" else _jsonl(page))


def _jsonl(page: Sequence[Mapping[str, Any]]) -> str:
    import orjson

    return "\n".join([orjson.dumps({name: row[name] for name in EXPORTED}).decode() for row in page])


def _csv(page: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    rows = csv.DictWriter(text, EXPORTED, lineterminator="\n")
    rows.writerows({**row, "quiet_hours": "|".join(row["quiet_hours"] or ())} for row in page)
    return text.getvalue().removesuffix("\n")
