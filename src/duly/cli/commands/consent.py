"""`duly consent`: who may be written to, about what, and who said so. Every change is recorded with its reason."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from duly.cli import output
from duly.cli.bulk import PAGE_ROWS, AccountName, File, Format, Strict, import_file, pages, source_of, tell
from duly.cli.surface import Surface, WhyOption, command, operator, stated
from duly.cli.words import require_account

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from duly.core.consent import Said
    from duly.core.model import NewContact
    from duly.intake import ConsentIntake
    from duly.ports import NewConsent, Store
    from duly.runtime.bulk import Answer
    from duly.runtime.config import Config

__all__ = ["register"]

OTHER: Final = "any other"
COUNTS: Final = ("rows", "recorded", "already", "kept_out", "rejected")
EXPORTED: Final = ("address", "channel", "purpose", "kind", "at", "source", "reason")

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="An e-mail address, a number like +1..., or a URL.")]
ChannelOption = Annotated[str | None, typer.Option("--channel", help="Where the address does not tell it.")]
PurposeOption = Annotated[str, typer.Option("--purpose", metavar="P|all", help="One purpose, or all of them.")]
HardStop = Annotated[bool, typer.Option("--even-security", help="With all purposes: security messages too.")]


class Whom(NamedTuple):
    """An address as it was typed, of an account; the channel where it was said."""

    address: str
    account: str
    channel: str | None


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Who may be written to, and about what.", no_args_is_help=True)
    command(group)(show)
    command(group, "opt-out")(opt_out)
    command(group, "opt-in")(opt_in)
    command(group)(suppress)
    command(group)(lift)
    command(group, "import")(import_)
    command(group)(export)
    app.add_typer(group, name="consent")


def show(surface: Surface, address: Address, account: AccountName, channel: ChannelOption = None) -> None:
    """Show what stands about an address, what that means for each purpose, and what was said."""
    shown = asyncio.run(_shown(surface.config(), Whom(address, account, channel)))
    surface.result(shown, _text(shown))


def opt_out(
    surface: Surface,
    address: Address,
    account: AccountName,
    why: WhyOption,
    purpose: PurposeOption = "all",
    channel: ChannelOption = None,
    even_security: HardStop = False,
) -> None:
    """Record that somebody wants no more messages: of one purpose, or of all but security."""
    _said(surface, "opt_out", Whom(address, account, channel), purpose, why, even_security=even_security)


def opt_in(
    surface: Surface,
    address: Address,
    account: AccountName,
    why: WhyOption,
    purpose: PurposeOption = "all",
    channel: ChannelOption = None,
    even_security: HardStop = False,
) -> None:
    """Record that somebody wants messages again: it ends his opt-out of the same scope."""
    _said(surface, "opt_in", Whom(address, account, channel), purpose, why, even_security=even_security)


def suppress(
    surface: Surface,
    address: Address,
    account: AccountName,
    why: WhyOption,
    purpose: PurposeOption = "all",
    channel: ChannelOption = None,
) -> None:
    """Let nothing go to an address until it is lifted, whatever its owner says; all purposes include security."""
    _said(surface, "manual", Whom(address, account, channel), purpose, why)


def lift(
    surface: Surface,
    address: Address,
    account: AccountName,
    why: WhyOption,
    purpose: PurposeOption = "all",
    channel: ChannelOption = None,
) -> None:
    """End what bounces, complaints and operators have suppressed. An opt-out stays."""
    _said(surface, "lift", Whom(address, account, channel), purpose, why)


def import_(
    surface: Surface, file: File, account: AccountName, strict: Strict = False, file_format: Format = None
) -> None:
    """Take statements from a file: columns address and kind. Safe to run again.

    A row without a purpose is about all of them: an opt-out spares security, a bounce or a complaint nothing. Bad
    rows go to FILE.rejected.jsonl, with the reason.
    """
    document, where = asyncio.run(_import(surface, surface.config(), file, account, file_format))
    tell(surface, document, where, strict=strict)


def export(surface: Surface, account: AccountName) -> None:
    """Write what stands in an account as JSONL, in the form that `import` takes."""
    asyncio.run(_export(surface.config(), account))


# --- one address ---------------------------------------------------------------------------------


def _said(
    surface: Surface,
    word: str,
    whom: Whom,
    purpose: str,
    why: str,
    *,
    even_security: bool = False,
) -> None:
    from duly.core.consent import Kind, Said
    from duly.intake import read_purpose

    kind = Kind(word)
    scope = read_purpose(kind, _label("purpose", purpose), even_security=even_security)
    told = asyncio.run(_record(surface, whom, Said(kind, scope, None, f"operator {operator()}", stated(why))))
    lines = [f"{told['kind']} of {told['purpose']}: {told['result']}", *map(_still, told["still_silenced"])]
    surface.result(told, "\n".join(map(output.plain, lines)))


async def _record(surface: Surface, whom: Whom, said: Said) -> dict[str, Any]:
    from duly.core.consent import Verdict
    from duly.errors import InputError
    from duly.ports import NewConsent
    from duly.runtime.bootstrap import open_store

    config = surface.config()
    async with open_store(config) as store:
        contact = _contact(await store.namespace(), whom)
        if not (whom.account in config.accounts or await store.views().has_account(whom.account)):
            surface.note(f"account {whom.account} is new: it is made; check the name if you did not expect that")
        (verdict,) = await store.record_consent(operator(), whom.account, [NewConsent(contact, said)])
        standing = (await store.views().consent(contact.id))["standing"]
    if verdict is Verdict.KEPT_OUT:
        raise InputError("the address is suppressed, which no opt-in ends: see `consent show`, then `consent lift` it")
    done = {"kind": str(said.kind), "purpose": said.scope, "result": str(verdict)}
    return {**_head(whom, contact), **done, "still_silenced": _still_silenced(said, standing)}


def _still_silenced(said: Said, standing: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of what somebody wants to have opened, what other statements keep shut: by each, which purposes."""
    from duly.core.consent import ALL, EVERYTHING, SECURITY, Kind

    if said.kind not in (Kind.OPT_IN, Kind.LIFT):
        return []
    meant = {said.scope} if said.scope not in (ALL, EVERYTHING) else None
    shut: dict[tuple[str, str], list[str]] = {}
    for purpose, code in _purposes(standing).items():
        if code is None or purpose not in (meant or {purpose}) or (purpose, said.scope) == (SECURITY, ALL):
            continue
        scopes = (EVERYTHING, purpose, ALL)
        by = min((one for one in standing if one["code"] == code and one["purpose"] in scopes), key=_rank(scopes))
        shut.setdefault((by["kind"], by["purpose"]), []).append(purpose)
    return [{"purposes": purposes, "kind": kind, "scope": scope} for (kind, scope), purposes in shut.items()]


def _rank(scopes: Sequence[str]) -> Callable[[Mapping[str, Any]], int]:
    return lambda one: scopes.index(one["purpose"])


def _still(one: Mapping[str, Any]) -> str:
    """What is still silenced, by what, and the way out."""
    from duly.core.consent import ALL, EVERYTHING, Kind

    ways = {ALL: "without --purpose", EVERYTHING: "with --even-security"}
    way = f"`duly consent opt-in` {ways.get(one['scope'], 'with --purpose ' + one['scope'])}"
    if one["kind"] != Kind.OPT_OUT:
        way = "`duly consent lift`"
    verb = "is" if len(one["purposes"]) == 1 else "are"
    return (
        f"{', '.join(one['purposes'])} {verb} still silenced, by the {one['kind']} of {one['scope']}; {way} ends that"
    )


async def _shown(config: Config, whom: Whom) -> dict[str, Any]:
    from duly.runtime.bootstrap import open_store

    async with open_store(config) as store:
        await require_account(store.views(), config, whom.account)
        contact = _contact(await store.namespace(), whom)
        found = await store.views().consent(contact.id)
    return {**_head(whom, contact), "purposes": _purposes(found["standing"]), **found}


def _head(whom: Whom, contact: NewContact) -> dict[str, str]:
    """Of whom something is told. The address itself is not repeated."""
    from duly.core import keys

    return {"account": whom.account, "channel": str(contact.channel), "contact": keys.show(contact.id)}


def _contact(namespace: str, whom: Whom) -> NewContact:
    """Raises InputError, which never repeats the address."""
    from duly.core.model import Channel
    from duly.errors import InputError
    from duly.intake import contact_of

    _label("account", whom.account)
    if whom.channel not in (None, *Channel):
        raise InputError(f"--channel: it is {', '.join(Channel)}")
    return contact_of(namespace, whom.account, whom.address, Channel(whom.channel) if whom.channel else None)


def _label(name: str, text: str) -> str:
    """A name as intake takes it. Raises InputError."""
    from duly.intake.fields import need
    from duly.intake.submission import ACCOUNT_CHARACTERS_MAX, PURPOSE_CHARACTERS_MAX

    return need({name: text}, name, ACCOUNT_CHARACTERS_MAX if name == "account" else PURPOSE_CHARACTERS_MAX)


def _purposes(standing: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """The objection to each purpose that is known or named, and to any other; null where there is none."""
    from duly.core.consent import ALL, EVERYTHING, KNOWN_PURPOSES, Entry, Kind, entries_of, objection

    known = entries_of(Entry(Kind(one["kind"]), one["purpose"], None, "", "", "", one["code"]) for one in standing)
    named = sorted({one["purpose"] for one in standing} - {ALL, EVERYTHING, *KNOWN_PURPOSES})
    return {
        **{purpose: objection(known, purpose) for purpose in (*KNOWN_PURPOSES, *named)},
        OTHER: objection(known, ""),
    }


def _text(shown: Mapping[str, Any]) -> str:
    from duly.core.explain import explain_reason

    lines = [
        f"{output.plain(purpose)}: {'may be sent' if code is None else f'not sent, because {explain_reason(code)}'}"
        for purpose, code in shown["purposes"].items()
    ]
    parts = [
        f"account {output.plain(shown['account'])}, {shown['channel']}, contact {shown['contact']}",
        "\n".join(lines),
    ]
    for part in ("standing", "history"):
        if shown[part]:
            titles = [title for title in shown[part][0] if title not in ("recorded_at", "code")]
            parts.append(f"{part}\n{output.table(titles, shown[part])}")
    return "\n\n".join(parts)


# --- many ----------------------------------------------------------------------------------------


async def _import(
    surface: Surface, config: Config, file: str, account: str, file_format: str | None
) -> tuple[dict[str, int], str]:
    from duly.intake import CONSENT_TABLE, ConsentIntake

    _label("account", account)

    async def prepare(
        store: Store,
    ) -> tuple[Callable[[Mapping[str, Any]], NewConsent], Callable[[Sequence[NewConsent]], Awaitable[list[Answer]]]]:
        now = (await store.due(0)).now
        checks: ConsentIntake = ConsentIntake(await store.namespace(), account, source_of(file), now)
        actor = operator()

        async def write(rows: Sequence[NewConsent]) -> list[Answer]:
            return [(str(verdict),) for verdict in await store.record_consent(actor, account, rows)]

        return checks.accept, write

    counts, where = await import_file(surface, config, file, CONSENT_TABLE, prepare, file_format)
    return {word: counts[word] for word in COUNTS}, where


async def _export(config: Config, account: str) -> None:
    import orjson

    from duly.runtime.bootstrap import open_views

    async with open_views(config) as views:
        await require_account(views, config, account)
        async for page in pages(lambda after: views.consents(account, after, PAGE_ROWS), lambda row: row):
            lines = [orjson.dumps({name: row[name] for name in EXPORTED}).decode() for row in page]
            output.write_text("\n".join(lines))
