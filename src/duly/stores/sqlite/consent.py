"""Consent: statements about addresses are heard under the writer's turn, so that what was read is still so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from duly.core import keys
from duly.core.consent import Entry, Kind, Known, Said, Verdict, entries_of
from duly.core.model import Channel, NewContact
from duly.errors import NotFound
from duly.ports import NewConsent
from duly.stores.consenting import Plan, Told, identities, plan
from duly.stores.documents import HISTORY_ROWS_MAX
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database

__all__ = ["account_of", "consents", "contact", "history", "record", "standing"]

FIRST_PAGE: Final = {"contact": keys.show(keys.NO_ENDPOINT), "purpose": "", "kind": ""}


def contact(db: Database, identity: bytes) -> tuple[str, NewContact]:
    """See Store.contact. Raises NotFound."""
    with db.reading():
        found = db.row("contact_known", id=identity)
    if found is None:
        raise NotFound(f"no contact has the id {keys.show(identity)}")
    account, channel, address, endpoint = found
    return account, NewContact(identity, Channel(channel), address, endpoint)


def record(db: Database, actor: str, account: str, rows: Sequence[NewConsent]) -> list[Verdict]:
    """See Store.record_consent."""
    with db.writing():
        number = account_of(db, account)
        add_contacts(db, number, [row.contact for row in rows])
        before = {contact: _known(db, number, contact) for contact in {row.contact.id for row in rows}}
        seen = {identity for identity in identities(rows) if db.value("consent_heard", id=identity)}
        decided = plan(rows, before, seen, actor, stored.moment(db.now()))
        _write(db, number, actor, decided)
    return decided.verdicts


def account_of(db: Database, name: str) -> int:
    """The number of an account, which is made where it is not there."""
    number = db.value("account_id", name=name)
    return int(db.value("account_add", name=name) if number is None else number)


def add_contacts(db: Database, account: int, contacts: Sequence[NewContact]) -> None:
    """Write the contacts that are not there."""
    db.change_each("contact_add", [(one.id, account, one.channel.value, one.address, one.endpoint) for one in contacts])


def _known(db: Database, account: int, contact: bytes) -> Known:
    found = db.rows("consent_standing", account=account, contact=contact)
    return entries_of(_entry(*row) for row in found)


def _entry(kind: str, scope: str, at: int | None, *rest: Any) -> Entry:
    return Entry(Kind(kind), scope, stored.maybe_moment(at), *rest)


def _write(db: Database, account: int, actor: str, decided: Plan) -> None:
    db.change_each("consent_note", [_note(account, actor, one.id, one.contact, one.said) for one in decided.heard])
    db.change_each("consent_end", [(account, contact, kind.value, scope) for contact, kind, scope in decided.ended])
    db.change_each("consent_put", [_put(account, contact, entry) for contact, entry in decided.put])
    db.change_each("contact_stand", [(one.suppressed, int(one.silenced), one.contact) for one in decided.contacts])
    if decided.told:
        db.change("consent_tell", told=stored.json_text([_told(one) for one in decided.told]), actor=actor)


def _note(account: int, actor: str, identity: bytes, contact: bytes, said: Said) -> tuple[Any, ...]:
    at = stored.maybe_micros(said.at)
    return (identity, account, contact, said.kind.value, said.scope, at, said.source, said.reason, actor)


def _put(account: int, contact: bytes, entry: Entry) -> tuple[Any, ...]:
    at = stored.maybe_micros(entry.at)
    return (account, contact, entry.kind.value, entry.scope, at, entry.source, entry.reason, entry.actor, entry.code)


def _told(one: Told) -> list[Any]:
    return [one.contact.hex(), one.purpose, one.others, one.reason]


# --- views ---------------------------------------------------------------------------------------


def standing(db: Database, contact: bytes) -> list[tuple[Any, ...]]:
    """What stands about an address, in the order of documents.CONSENT."""
    return db.rows("show_consent", contact=contact)


def history(db: Database, contact: bytes) -> list[tuple[Any, ...]]:
    """What was said about an address, in the order of documents.CONSENT_EVENT."""
    return db.rows("show_consent_history", contact=contact, limit=HISTORY_ROWS_MAX)


def consents(db: Database, account: str, after: dict[str, Any] | None, limit: int) -> list[tuple[Any, ...]]:
    """A page of what stands in an account, in the order of documents.CONSENTS."""
    last = after or FIRST_PAGE
    contact = keys.parse(last["contact"])
    return db.rows("consents", account=account, contact=contact, scope=last["purpose"], kind=last["kind"], limit=limit)
