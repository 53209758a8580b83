"""Recipients in bulk, and what is done to a recipient, an account or a template.

Each locks first what a begin that comes at the same moment locks too, in key order, so that one waits for the other:
whoever commits first wins. A recipient who is not there is inserted; only those who are there are read and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from duly.core.keys import show
from duly.core.model import Channel
from duly.errors import NotFound
from duly.ports import RecipientChange, Upsert, Upserted
from duly.stores.postgres.arrays import Packed, texts, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.postgres.consent import account_of, add_contacts
from duly.stores.recipients import Kept, changed_fields, contacts, merged, tells_time_anew, upserted
from duly.stores.rounds import rounds

__all__ = ["delete", "disable", "pause_account", "pause_template", "upsert"]


class Changed(NamedTuple):
    """A recipient of whom something changed: what is kept from now on, and the names of the fields."""

    id: bytes
    kept: Kept
    fields: list[str]


async def upsert(connections: Connections, actor: str, account: str, rows: Sequence[RecipientChange]) -> list[Upserted]:
    """See Store.upsert_recipients. Of an id that is there twice, the second row finds what the first has written."""
    answers: dict[int, Upserted] = {}
    async with connections.transaction() as tx:
        number = await account_of(tx, account)
        for places in rounds(range(len(rows)), lambda place: rows[place].id):
            ordered = sorted(places, key=lambda place: rows[place].id)
            told = await _upsert_distinct(tx, number, actor, [rows[place] for place in ordered])
            answers.update(zip(ordered, told, strict=True))
        living = [row for place, row in enumerate(rows) if answers[place].what is not Upsert.DELETED]
        await add_contacts(tx, number, contacts(living))
    return [answers[place] for place in range(len(rows))]


async def _upsert_distinct(
    tx: Transaction, account: int, actor: str, rows: Sequence[RecipientChange]
) -> list[Upserted]:
    new = [Changed(row.id, kept, changed_fields(Kept(), kept)) for row in rows for kept in [merged(Kept(), row)]]
    refs = texts(row.ref for row in rows)
    created = {
        one for (one,) in await tx.rows("upsert_new", account, uuids([row.id for row in rows]), refs, *_kept(new))
    }
    changed, told = await _compare(tx, [row for row in rows if row.id not in created])
    if changed:
        await tx.send("recipients_change", uuids([one.id for one in changed]), *_kept(changed))
    if moved := [one.id for one in changed if tells_time_anew(one.fields)]:
        await tx.send("recipients_wake", uuids(moved))
    await _note(tx, account, actor, "recipient_created", [one for one in new if one.id in created])
    await _note(tx, account, actor, "recipient_changed", changed)
    return [told.get(row.id) or Upserted(row.id, Upsert.CREATED) for row in rows]


async def _compare(tx: Transaction, rows: Sequence[RecipientChange]) -> tuple[list[Changed], dict[bytes, Upserted]]:
    """Those who are there, locked and compared: what changes, and what became of each."""
    if not rows:
        return [], {}
    ids = uuids([row.id for row in rows])
    found = {one: (Kept(*kept), deleted) for one, *kept, deleted in await tx.rows("recipients_kept", ids)}
    changes: list[Changed] = []
    told: dict[bytes, Upserted] = {}
    for row in rows:
        before, deleted = found[row.id]
        after = before if deleted else merged(before, row)
        fields = changed_fields(before, after)
        told[row.id] = Upserted(row.id, Upsert.DELETED) if deleted else upserted(row.id, fields)
        if fields:
            changes.append(Changed(row.id, after, fields))
    return changes, told


def _kept(rows: Sequence[Changed]) -> list[Packed]:
    return [
        texts(row.kept.name for row in rows),
        texts(row.kept.zone for row in rows),
        texts(row.kept.locale for row in rows),
        texts(orjson.dumps(dict(row.kept.addresses)).decode() for row in rows),
        texts(row.kept.quiet_hours_text for row in rows),
    ]


async def _note(tx: Transaction, account: int, actor: str, kind: str, rows: Sequence[Changed]) -> None:
    if not rows:
        return
    reasons = texts(f"import: {', '.join(row.fields) or 'no field'}" for row in rows)
    kinds = texts(kind for _ in rows)
    await tx.send("operations_add", account, actor, uuids([row.id for row in rows]), kinds, reasons)


# --- a recipient ---------------------------------------------------------------------------------


async def delete(connections: Connections, actor: str, reason: str, recipient: bytes) -> bool:
    """See Store.delete_recipient. Raises NotFound."""
    async with connections.transaction() as tx:
        account, deleted, _ = await _lock(tx, recipient)
        if not deleted:
            await tx.send("delete_recipient", recipient.hex())
            await tx.send("recipient_tell", recipient.hex(), None, "suppressed", actor, "recipient_deleted")
            await tx.send("operation_add", account, recipient.hex(), None, "recipient_deleted", actor, reason)
    return not deleted


async def disable(
    connections: Connections, actor: str, reason: str, recipient: bytes, channel: Channel, *, disabled: bool
) -> bool:
    """See Store.disable_channel. Raises NotFound."""
    async with connections.transaction() as tx:
        account, _, known = await _lock(tx, recipient)
        before = set(known or [])
        after = before | {channel.value} if disabled else before - {channel.value}
        if after != before:
            await tx.send("disable_channels", recipient.hex(), texts(sorted(after)) if after else None)
            kind, word = ("suppressed", "channel_disabled") if disabled else ("allowed", "channel_enabled")
            await tx.send("recipient_tell", recipient.hex(), channel.value, kind, actor, word)
            await tx.send("operation_add", account, recipient.hex(), None, f"{channel}_{word}", actor, reason)
    return after != before


async def _lock(tx: Transaction, recipient: bytes) -> tuple[int, bool, list[str] | None]:
    found = await tx.rows("lock_recipient", recipient.hex())
    if not found:
        raise NotFound(f"no recipient has the id {show(recipient)}: nothing was changed")
    account, deleted, disabled = found[0]
    return account, deleted, disabled


# --- accounts and templates ----------------------------------------------------------------------


async def pause_account(connections: Connections, actor: str, reason: str, account: str, *, paused: bool) -> bool:
    """See Store.pause_account. Raises NotFound."""
    async with connections.transaction() as tx:
        changed = await tx.rows("pause_account", account, paused)
        known = changed or await tx.rows("account_ids", texts([account]))
        for (number,) in changed:
            word = "account_paused" if paused else "account_resumed"
            await tx.send("operation_add", number, None, None, word, actor, reason)
            if not paused:
                await tx.send("wake_account", number)
    if not known:
        raise NotFound(f"no account is called {account!r}: nothing was changed")
    return bool(changed)


async def pause_template(connections: Connections, actor: str, reason: str, template: str, *, paused: bool) -> bool:
    """See Store.pause_template."""
    async with connections.transaction() as tx:
        if paused:
            changed = await tx.rows("pause_template", template, actor, reason)
        else:
            changed = await tx.rows("resume_template", template)
        if changed:
            word = "template_paused" if paused else "template_resumed"
            await tx.send("operation_add", None, None, template, word, actor, reason)
    return bool(changed)
