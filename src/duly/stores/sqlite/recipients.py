"""Recipients in bulk, and what is done to a recipient, an account or a template, each under the writer's turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from duly.core import keys
from duly.core.model import Channel
from duly.errors import NotFound
from duly.ports import RecipientChange, Upsert, Upserted
from duly.stores.recipients import Kept, changed_fields, contacts, merged, tells_time_anew, upserted
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.consent import account_of, add_contacts

__all__ = ["delete", "disable", "pause_account", "pause_template", "upsert"]


def upsert(db: Database, actor: str, account: str, rows: Sequence[RecipientChange]) -> list[Upserted]:
    """See Store.upsert_recipients."""
    with db.writing():
        number = account_of(db, account)
        moved: set[bytes] = set()
        answers = [_upsert_one(db, number, actor, row, moved) for row in rows]
        if moved:
            db.change("recipients_wake", recipients=stored.json_text([one.hex() for one in sorted(moved)]))
        living = [row for row, answer in zip(rows, answers, strict=True) if answer.what is not Upsert.DELETED]
        add_contacts(db, number, contacts(living))
    return answers


def _upsert_one(db: Database, account: int, actor: str, row: RecipientChange, moved: set[bytes]) -> Upserted:
    """Write one row; whose quiet hours may end at another moment now is added to `moved`."""
    found = db.row("recipient_kept", id=row.id)
    if found is None:
        return _create(db, account, actor, row)
    name, zone, locale, addresses, quiet_hours, deleted = found
    if deleted:
        return Upserted(row.id, Upsert.DELETED)
    before = Kept(name, zone, locale, orjson.loads(addresses), orjson.loads(quiet_hours or "[]"))
    after = merged(before, row)
    changed = changed_fields(before, after)
    if tells_time_anew(changed):
        moved.add(row.id)
    if changed:
        db.change_one("recipient_change", *_values(after), row.id)
        db.change_one("operation_add", account, row.id, None, "recipient_changed", actor, _named(changed))
    return upserted(row.id, changed)


def _create(db: Database, account: int, actor: str, row: RecipientChange) -> Upserted:
    new = merged(Kept(), row)
    values = dict(zip(("name", "zone", "locale", "addresses", "quiet_hours"), _values(new), strict=True))
    db.change("recipient_add", id=row.id, account=account, ref=row.ref, **values)
    db.change_one(
        "operation_add", account, row.id, None, "recipient_created", actor, _named(changed_fields(Kept(), new))
    )
    return Upserted(row.id, Upsert.CREATED)


def _values(kept: Kept) -> tuple[Any, ...]:
    return (kept.name, kept.zone, kept.locale, stored.json_text(dict(kept.addresses)), kept.quiet_hours_text)


def _named(fields: Sequence[str]) -> str:
    return f"import: {', '.join(fields) or 'no field'}"


# --- a recipient ---------------------------------------------------------------------------------


def delete(db: Database, actor: str, reason: str, recipient: bytes) -> bool:
    """See Store.delete_recipient."""
    with db.writing():
        account, deleted, _ = _seen(db, recipient)
        if not deleted:
            db.change("recipient_delete", id=recipient)
            _tell(db, actor, "recipient_deleted", recipient, None)
            db.change_one("operation_add", account, recipient, None, "recipient_deleted", actor, reason)
    return not deleted


def disable(db: Database, actor: str, reason: str, recipient: bytes, channel: Channel, *, disabled: bool) -> bool:
    """See Store.disable_channel."""
    with db.writing():
        account, _, known = _seen(db, recipient)
        before = set(orjson.loads(known or "[]"))
        after = before | {channel.value} if disabled else before - {channel.value}
        if after != before:
            db.change("recipient_disable", id=recipient, disabled=stored.json_text(sorted(after)) if after else None)
            word = "channel_disabled" if disabled else "channel_enabled"
            _tell(db, actor, word, recipient, channel)
            db.change_one("operation_add", account, recipient, None, f"{channel}_{word}", actor, reason)
    return after != before


def _seen(db: Database, recipient: bytes) -> tuple[int, bool, str | None]:
    found = db.row("recipient_seen", id=recipient)
    if found is None:
        raise NotFound(f"no recipient has the id {keys.show(recipient)}: nothing was changed")
    account, deleted, disabled = found
    return account, bool(deleted), disabled


def _tell(db: Database, actor: str, word: str, recipient: bytes, channel: Channel | None) -> None:
    kind = "allowed" if word == "channel_enabled" else "suppressed"
    by = channel.value if channel else None
    db.change("recipient_tell", id=recipient, channel=by, kind=kind, actor=actor, reason=word)


# --- accounts and templates ----------------------------------------------------------------------


def pause_account(db: Database, actor: str, reason: str, account: str, *, paused: bool) -> bool:
    """See Store.pause_account."""
    with db.writing():
        number = db.value("account_id", name=account)
        if number is None:
            raise NotFound(f"no account is called {account!r}: nothing was changed")
        changed = db.change("account_pause", id=number, paused=int(paused))
        if changed:
            word = "account_paused" if paused else "account_resumed"
            db.change_one("operation_add", number, None, None, word, actor, reason)
        if changed and not paused:
            db.change("account_wake", id=number)
    return bool(changed)


def pause_template(db: Database, actor: str, reason: str, template: str, *, paused: bool) -> bool:
    """See Store.pause_template."""
    with db.writing():
        if paused:
            changed = db.change("template_pause", template=template, actor=actor, reason=reason)
        else:
            changed = db.change("template_resume", template=template)
        if changed:
            word = "template_paused" if paused else "template_resumed"
            db.change_one("operation_add", None, None, template, word, actor, reason)
    return bool(changed)
