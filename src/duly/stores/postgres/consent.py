"""Consent: statements about addresses are heard with their contacts locked, so that they and a begin take turns.

Contacts are written and locked in key order, then everything about them is read: what a lock waited for is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from duly.core.consent import Entry, Kind, Known, Said, Verdict, entries_of
from duly.core.keys import NO_ENDPOINT, parse, show
from duly.core.model import Channel, NewContact
from duly.errors import NotFound
from duly.ports import NewConsent
from duly.stores.consenting import Plan, identities, plan
from duly.stores.postgres.arrays import Packed, bools, texts, times, uuids
from duly.stores.postgres.connect import Connections, Row, Transaction
from duly.stores.postgres.intake import contact_columns

__all__ = ["account_of", "add_contacts", "contact", "page_start", "record"]


async def contact(connections: Connections, identity: bytes) -> tuple[str, NewContact]:
    """See Store.contact. Raises NotFound."""
    async with connections.transaction() as tx:
        found = await tx.rows("contact_known", identity.hex())
    if not found:
        raise NotFound(f"no contact has the id {show(identity)}")
    ((account, channel, address, endpoint),) = found
    return account, NewContact(identity, Channel(channel), address, endpoint)


async def record(connections: Connections, actor: str, account: str, rows: Sequence[NewConsent]) -> list[Verdict]:
    """See Store.record_consent."""
    if not rows:
        return []
    async with connections.transaction() as tx:
        number = await account_of(tx, account)
        contacts = {row.contact.id: row.contact for row in rows}
        ordered = sorted(contacts)
        await add_contacts(tx, number, [contacts[identity] for identity in ordered])
        await tx.rows("lock_contacts", uuids(ordered))
        seen = {identity for (identity,) in await tx.rows("consent_heard", uuids(identities(rows)))}
        ((now,),) = await tx.rows("clock")
        decided = plan(rows, await _known(tx, number, ordered), seen, actor, now)
        await _write(tx, number, actor, decided)
    return decided.verdicts


async def account_of(tx: Transaction, name: str) -> int:
    """The number of an account, which is made where it is not there."""
    found = await tx.rows("account_ids", texts([name]))
    if not found:
        await tx.send("add_accounts", texts([name]))
        found = await tx.rows("account_ids", texts([name]))
    ((_, number),) = found
    return int(number)


async def add_contacts(tx: Transaction, account: int, contacts: Sequence[NewContact]) -> None:
    """Write the contacts that are not there. They come in key order."""
    if contacts:
        await tx.send("add_contacts", *contact_columns([(contact, account) for contact in contacts]))


async def _known(tx: Transaction, account: int, contacts: Sequence[bytes]) -> dict[bytes, Known]:
    standing: dict[bytes, list[Entry]] = {}
    for contact, kind, *rest in await tx.rows("consent_standing", account, uuids(contacts)):
        standing.setdefault(contact, []).append(Entry(Kind(kind), *rest))
    return {contact: entries_of(entries) for contact, entries in standing.items()}


async def _write(tx: Transaction, account: int, actor: str, decided: Plan) -> None:
    await _note(tx, account, actor, [(one.id, one.contact, one.said) for one in decided.heard])
    if decided.ended:
        contacts, kinds, scopes = zip(*decided.ended, strict=True)
        await tx.send("consent_end", account, uuids(contacts), texts(kinds), texts(scopes))
    await _put(tx, account, decided.put)
    if decided.contacts:
        ids, suppressed, silenced = zip(*decided.contacts, strict=True)
        await tx.send("contacts_stand", uuids(ids), texts(suppressed), bools(silenced))
    if decided.told:
        await tx.send("consent_tell", *_told_columns(decided), actor)


async def _note(tx: Transaction, account: int, actor: str, heard: Sequence[tuple[bytes, bytes, Said]]) -> None:
    if not heard:
        return
    await tx.send(
        "consent_note",
        account,
        actor,
        uuids([identity for identity, _, _ in heard]),
        uuids([contact for _, contact, _ in heard]),
        texts(said.kind for _, _, said in heard),
        texts(said.scope for _, _, said in heard),
        times(said.at for _, _, said in heard),
        texts(said.source for _, _, said in heard),
        texts(said.reason for _, _, said in heard),
    )


async def _put(tx: Transaction, account: int, entries: Sequence[tuple[bytes, Entry]]) -> None:
    if not entries:
        return
    await tx.send(
        "consent_put",
        account,
        uuids([contact for contact, _ in entries]),
        texts(entry.kind for _, entry in entries),
        texts(entry.scope for _, entry in entries),
        times(entry.at for _, entry in entries),
        texts(entry.source for _, entry in entries),
        texts(entry.reason for _, entry in entries),
        texts(entry.actor for _, entry in entries),
        texts(entry.code for _, entry in entries),
    )


def _told_columns(decided: Plan) -> list[Packed]:
    return [
        uuids([one.contact for one in decided.told]),
        texts(one.purpose for one in decided.told),
        texts(orjson.dumps(one.others).decode() for one in decided.told),
        texts(one.reason for one in decided.told),
    ]


def page_start(after: dict[str, Any] | None) -> Row:
    """Contact, scope and kind after which a page of `consents` begins."""
    if after is None:
        return (NO_ENDPOINT.hex(), "", "")
    return ((parse(after["contact"]) or NO_ENDPOINT).hex(), after["purpose"], after["kind"])
