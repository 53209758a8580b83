"""Schedule: reminders are written once, with the accounts, recipients and contacts that they bring.

Reminders are inserted first, and what a conflict leaves out brings nothing along. Rows whose `to` is an
id alone come after those that bring addresses, so that a recipient may be introduced and used in one
batch. The numbers of accounts are remembered once they are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import orjson

from duly.core.comparing import compare
from duly.core.model import NewContact, NewReminder, Scheduled
from duly.errors import StoreError
from duly.stores.bisect import write_all
from duly.stores.postgres.arrays import Packed, bools, byteas, ints, texts, times, uuids
from duly.stores.postgres.connect import Connections, Transaction
from duly.stores.rounds import rounds

__all__ = [
    "Accounts",
    "add_contacts",
    "add_recipients",
    "addresses_text",
    "contact_columns",
    "keep_own",
    "quiet_hours_text",
    "schedule",
]

Answers = dict[bytes, Scheduled]


class Accounts:
    """The numbers of accounts by name, as far as they are known to be committed."""

    LIMIT_NAMES = 100_000

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def known(self) -> dict[str, int]:
        """A copy, to be added to while a transaction runs."""
        return dict(self._numbers) if len(self._numbers) < self.LIMIT_NAMES else {}

    def learn(self, numbers: dict[str, int]) -> None:
        """Remember what a committed transaction has seen."""
        self._numbers = numbers


async def schedule(connections: Connections, accounts: Accounts, rows: Sequence[NewReminder]) -> list[Scheduled]:
    """See Store.schedule. A row that the database refuses is named in the StoreError."""

    async def write(part: Sequence[NewReminder]) -> list[Scheduled]:
        numbers = accounts.known()
        async with connections.transaction() as transaction:
            answers = await _schedule(transaction, numbers, part)
        accounts.learn(numbers)
        return answers

    return [answer for part in await write_all(rows, write, _refuse) for answer in part]


def _refuse(row: NewReminder) -> NoReturn:
    raise StoreError(f"account {row.account}, key {row.key}: the database cannot hold this reminder; shorten it")


async def _schedule(tx: Transaction, numbers: dict[str, int], rows: Sequence[NewReminder]) -> list[Scheduled]:
    """Distinct ids first; the same id again in a later round, when the first is there to be compared with."""
    answers = [Scheduled.CONFLICT] * len(rows)
    for places in rounds(range(len(rows)), lambda place: rows[place].id):
        decided = await _schedule_distinct(tx, numbers, [rows[place] for place in places])
        for place in places:
            answers[place] = decided.get(rows[place].id, Scheduled.CONFLICT)
    return answers


async def _schedule_distinct(tx: Transaction, numbers: dict[str, int], rows: Sequence[NewReminder]) -> Answers:
    ordered = sorted(rows, key=lambda row: row.id)
    await _number_accounts(tx, numbers, ordered)
    answers = await _add_with_addresses(tx, numbers, [row for row in ordered if row.contacts])
    answers |= await _add_by_reference(tx, numbers, [row for row in ordered if not row.contacts])
    await keep_own(tx, [row for row in ordered if answers.get(row.id) is Scheduled.CREATED])
    compared = await _compare(tx, [row for row in ordered if answers.get(row.id) is not Scheduled.CREATED])
    return answers | {one: _reachable(answers.get(one), answer) for one, answer in compared.items()}


def _reachable(missing: Scheduled | None, compared: Scheduled) -> Scheduled:
    """A newer version has to reach somebody, as a new reminder has."""
    return missing if missing is not None and compared is Scheduled.NEWER else compared


async def _number_accounts(tx: Transaction, numbers: dict[str, int], rows: Sequence[NewReminder]) -> None:
    """Learn the numbers of the rows' accounts; make those that come with addresses."""
    unknown = {row.account for row in rows} - numbers.keys()
    if not unknown:
        return
    made = sorted({row.account for row in rows if row.contacts} & unknown)
    if made:
        await tx.send("add_accounts", texts(made))
    numbers.update(await tx.rows("account_ids", texts(sorted(unknown))))


async def _add_with_addresses(tx: Transaction, numbers: dict[str, int], rows: Sequence[NewReminder]) -> Answers:
    created = await _add_reminders(tx, numbers, rows)
    new = [row for row in rows if row.id in created]
    if new:
        await add_recipients(tx, numbers, new)
        await add_contacts(tx, numbers, new)
    return dict.fromkeys(created, Scheduled.CREATED)


async def _add_by_reference(tx: Transaction, numbers: dict[str, int], rows: Sequence[NewReminder]) -> Answers:
    """Rows whose recipient must be there, with an address for each channel."""
    if not rows:
        return {}
    found = await tx.rows("recipient_addresses", uuids(sorted({row.recipient for row in rows})))
    missing = _unreachable(dict(found), rows)
    created = await _add_reminders(tx, numbers, [row for row in rows if row.id not in missing])
    return missing | dict.fromkeys(created, Scheduled.CREATED)


def _unreachable(addresses: dict[bytes, dict[str, str]], rows: Iterable[NewReminder]) -> Answers:
    missing: Answers = {}
    for row in rows:
        reachable = addresses.get(row.recipient)
        if reachable is None:
            missing[row.id] = Scheduled.NO_RECIPIENT
        elif not all(channel in reachable for channel in row.channels):
            missing[row.id] = Scheduled.NO_ADDRESS
    return missing


async def _compare(tx: Transaction, rows: Sequence[NewReminder]) -> Answers:
    """What is there already is compared by the hash of the body as first submitted."""
    if not rows:
        return {}
    found = await tx.rows("submitted", uuids([row.id for row in rows]))
    stored = {identity: submitted for identity, *submitted in found}
    return {row.id: compare(row, *stored[row.id]) for row in rows if row.id in stored}


# --- columns -------------------------------------------------------------------------------------


async def _add_reminders(tx: Transaction, numbers: dict[str, int], rows: Sequence[NewReminder]) -> set[bytes]:
    """Insert what is not there; returns the ids that are new."""
    if not rows:
        return set()
    found = await tx.rows("add_reminders", *_reminder_columns(numbers, rows))
    return {identity for (identity,) in found}


def _reminder_columns(numbers: dict[str, int], rows: Sequence[NewReminder]) -> list[Packed]:
    return [
        uuids([row.id for row in rows]),
        ints(numbers[row.account] for row in rows),
        texts(row.key for row in rows),
        byteas(row.body_hash for row in rows),
        uuids([row.recipient for row in rows]),
        bools(bool(row.contacts) for row in rows),
        texts(addresses_text(row) for row in rows),
        texts(",".join(row.channels) for row in rows),
        texts(row.template for row in rows),
        texts(row.data for row in rows),
        texts(row.to for row in rows),
        texts(row.notify_at for row in rows),
        texts(row.zone for row in rows),
        texts(row.deadline for row in rows),
        times(row.deadline_at for row in rows),
        texts(row.late for row in rows),
        texts(row.lane for row in rows),
        texts(row.purpose for row in rows),
        ints(row.event_version for row in rows),
        times(row.next_due_at for row in rows),
        texts(row.schedule for row in rows),
        texts(row.next_label for row in rows),
        bools(row.follows_recipient for row in rows),
        texts(row.zone_data for row in rows),
        texts(row.missed for row in rows),
        texts(row.grace for row in rows),
        texts(row.late_until for row in rows),
        texts(row.group for row in rows),
        texts(row.template_version for row in rows),
        texts(quiet_hours_text(row) for row in rows),
    ]


async def add_recipients(tx: Transaction, numbers: dict[str, int], rows: Iterable[NewReminder]) -> None:
    """The first reminder that names a recipient writes him."""
    firsts: dict[bytes, NewReminder] = {}
    for row in rows:
        firsts.setdefault(row.recipient, row)
    new = [firsts[identity] for identity in sorted(firsts)]
    columns = [
        uuids([row.recipient for row in new]),
        ints(numbers[row.account] for row in new),
        texts(row.recipient_ref for row in new),
        texts(row.recipient_name for row in new),
        texts(row.recipient_zone for row in new),
        texts(row.recipient_locale for row in new),
        texts(addresses_text(row) for row in new),
        texts(quiet_hours_text(row) for row in new),
    ]
    await tx.send("add_recipients", *columns)


async def keep_own(tx: Transaction, rows: Iterable[NewReminder]) -> None:
    """What written reminders say of their recipients, where these are known otherwise."""
    said = [row for row in rows if row.recipient_name or row.recipient_zone or row.recipient_locale]
    if said:
        await tx.send(
            "keep_own",
            uuids([row.id for row in said]),
            texts(row.recipient_name for row in said),
            texts(row.recipient_zone for row in said),
            texts(row.recipient_locale for row in said),
        )


async def add_contacts(tx: Transaction, numbers: dict[str, int], rows: Iterable[NewReminder]) -> None:
    """The rows' contacts, those that are new."""
    found: dict[bytes, tuple[NewContact, int]] = {}
    for row in rows:
        found.update((contact.id, (contact, numbers[row.account])) for contact in row.contacts)
    await tx.send("add_contacts", *contact_columns([found[identity] for identity in sorted(found)]))


def contact_columns(contacts: Sequence[tuple[NewContact, int]]) -> list[Any]:
    """The columns of `add_contacts`: contacts in key order, each with its account's number."""
    return [
        uuids([contact.id for contact, _ in contacts]),
        ints(account for _, account in contacts),
        texts(contact.channel for contact, _ in contacts),
        texts(contact.address for contact, _ in contacts),
        uuids([contact.endpoint for contact, _ in contacts]),
    ]


def quiet_hours_text(row: NewReminder) -> str | None:
    """The windows that came with a reminder, as JSON text."""
    return orjson.dumps(row.recipient_quiet_hours).decode() if row.recipient_quiet_hours else None


def addresses_text(row: NewReminder) -> str:
    """Inline addresses by channel, as JSON text."""
    return orjson.dumps({str(contact.channel): contact.address for contact in row.contacts}).decode()
