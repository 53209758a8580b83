"""Read-only views of a PostgreSQL ledger: ports.Views, on the connections of the store.

A state that is not final is looked up in the open work, so that the list of held deliveries costs the
same in a ledger of ten years.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from duly.core import keys
from duly.core.moments import instant
from duly.core.states import OPEN
from duly.errors import NotFound
from duly.ports import Filters
from duly.stores import documents, obstacles
from duly.stores.loader import load
from duly.stores.postgres.connect import Connections, Row, Transaction
from duly.stores.postgres.consent import page_start

__all__ = ["PostgresViews"]

ID_BYTES: Final = 16
INVARIANT: Final = "invariant_"
FINDING: Final = "finding_"


class PostgresViews:
    """ports.Views over PostgreSQL. Made by `PostgresStore.views`, and closed with the store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def deliveries(self, filters: Filters) -> list[dict[str, Any]]:
        """See Views.deliveries."""
        statement = "list_open" if filters.status in OPEN else "list"
        async with self._connections.transaction() as tx:
            cursor = await tx.send(statement, filters.status, filters.account, filters.channel, filters.limit)
        return [_document(documents.LINE, row) for row in await cursor.fetchall()]

    async def status(self) -> dict[str, Any]:
        """See Views.status."""
        async with self._connections.transaction() as tx:
            states = [*await tx.rows("status_open"), *await tx.rows("status_final")]
            lanes, budgets = await tx.rows("status_lanes"), await tx.rows("status_budgets")
            failing = await tx.rows("status_failing")
            reminders, standing = await tx.row("status_reminders"), await tx.rows("guard_standing")
        return {
            "states": _counts(states),
            "lanes": _counts(lanes),
            "failing": [_document(documents.FAILING, row) for row in failing],
            "budgets": [_document(documents.BUDGET, row) for row in budgets],
            "reminders": _document(documents.WAITING, reminders),
            "guard": _document(documents.GUARD, standing[0]) if standing else None,
        }

    async def find(self, identity: str, account: str | None) -> tuple[str, bytes]:
        """See Views.find. Raises NotFound."""
        async with self._connections.transaction() as tx:
            found = await _find(tx, identity, account)
        if found is None:
            raise NotFound(_nobody(identity, account))
        return found

    async def has_account(self, name: str) -> bool:
        """See Views.has_account."""
        async with self._connections.transaction() as tx:
            return bool((await tx.row("find_account", name))[0])

    async def show_delivery(self, identity: bytes) -> dict[str, Any]:
        """See Views.show_delivery. Raises NotFound."""
        async with self._connections.transaction() as tx:
            rows = await tx.rows("show_delivery", identity.hex())
            folded = await tx.rows("show_folded", identity.hex())
            attempts = await tx.rows("show_attempts", identity.hex())
            events = await tx.rows("show_events", identity.hex())
            if not rows:
                raise NotFound(f"no delivery has the id {keys.show(identity)}")
            *columns, contact = rows[0]
            shown = _document(documents.DELIVERY, tuple(columns))
            consent = await _said_against(tx, shown, contact)
        return documents.delivery(
            shown,
            [_document(documents.LINE, row) for row in folded],
            [_document(documents.ATTEMPT, row) for row in attempts],
            [_document(documents.EVENT, row) for row in events],
            consent,
        )

    async def show_reminder(self, identity: bytes) -> dict[str, Any]:
        """See Views.show_reminder. Raises NotFound."""
        async with self._connections.transaction() as tx:
            rows = await tx.rows("show_reminder", identity.hex())
            lines = await tx.rows("list_of_reminder", rows[0][-1], identity.hex()) if rows else []
            events = await tx.rows("show_reminder_events", identity.hex())
            in_the_way = await _in_the_way(tx, identity)
        if not rows:
            raise NotFound(f"no reminder has the id {keys.show(identity)}")
        return documents.reminder(
            _document(documents.REMINDER, rows[0][:-1]),
            [_document(documents.LINE, line) for line in lines],
            [_document(documents.EVENT, event) for event in events],
            in_the_way,
        )

    async def submission(self, identity: bytes) -> dict[str, Any]:
        """See Views.submission. Raises NotFound."""
        async with self._connections.transaction() as tx:
            rows = await tx.rows("submission", identity.hex())
        if not rows:
            raise NotFound(f"no reminder has the id {keys.show(identity)}")
        return documents.submission(_document(documents.SUBMISSION, rows[0]))

    async def group(self, account: str, group: str, after: bytes, limit: int) -> list[bytes]:
        """See Views.group."""
        async with self._connections.transaction() as tx:
            return [identity for (identity,) in await tx.rows("group_of", account, group, after.hex(), limit)]

    async def holds(self, account: str | None, limit: int) -> list[dict[str, Any]]:
        """See Views.holds."""
        async with self._connections.transaction() as tx:
            cursor = await tx.send("holds", account, limit)
        return [_document(documents.HOLD, row) for row in await cursor.fetchall()]

    async def guard(self) -> dict[str, Any]:
        """See Views.guard."""
        async with self._connections.transaction() as tx:
            guards, covered = await tx.send("guards"), await tx.send("guard_covered")
        return documents.guards(
            [_document(documents.GUARD, row) for row in await guards.fetchall()],
            [_document(documents.COVERED, row) for row in await covered.fetchall()],
        )

    async def forgotten(self, endpoints: Sequence[bytes]) -> list[dict[str, Any]]:
        """See Views.forgotten."""
        async with self._connections.transaction() as tx:
            cursor = await tx.send("guard_forgotten", [endpoint.hex() for endpoint in endpoints])
        return [_document(documents.FORGOTTEN, row) for row in await cursor.fetchall()]

    async def consent(self, contact: bytes) -> dict[str, Any]:
        """See Views.consent."""
        async with self._connections.transaction() as tx:
            return await _consent(tx, contact)

    async def consents(self, account: str, after: dict[str, Any] | None, limit: int) -> list[dict[str, Any]]:
        """See Views.consents."""
        return await self._listed("consents", documents.CONSENTS, account, *page_start(after), limit)

    async def recipients(self, account: str, after: str | None, limit: int) -> list[dict[str, Any]]:
        """See Views.recipients."""
        return await self._listed("recipients", documents.RECIPIENT, account, after or "", limit)

    async def recipient(self, account: str, ref: str) -> dict[str, Any] | None:
        """See Views.recipient."""
        return next(iter(await self._listed("recipient_by_ref", documents.RECIPIENT, account, ref)), None)

    async def accounts(self, limit: int) -> list[dict[str, Any]]:
        """See Views.accounts."""
        return await self._listed("accounts", documents.ACCOUNT, limit)

    async def paused_templates(self, limit: int) -> list[dict[str, Any]]:
        """See Views.paused_templates."""
        return await self._listed("paused_templates", documents.PAUSED_TEMPLATE, limit)

    async def pinned_templates(self) -> list[dict[str, Any]]:
        """See Views.pinned_templates."""
        return await self._listed("pinned_templates", documents.PINNED_TEMPLATE)

    async def invariants(self) -> list[tuple[str, int]]:
        """See Views.invariants."""
        return [(name, await self._count(INVARIANT + name)) for name in _named(INVARIANT)]

    async def findings(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """See Views.findings."""
        values = {"provider_not_configured": [list(providers)]}
        return [(name, await self._count(FINDING + name, *values.get(name, []))) for name in _named(FINDING)]

    async def _listed(self, statement: str, words: Sequence[str], *values: Any) -> list[dict[str, Any]]:
        async with self._connections.transaction() as tx:
            cursor = await tx.send(statement, *values)
        return [_document(words, row) for row in await cursor.fetchall()]

    async def _count(self, statement: str, *values: Any) -> int:
        """A transaction of its own: each has the whole of the server's time limit."""
        async with self._connections.transaction() as tx:
            count: int = (await tx.row(statement, *values))[0]
        return count


def _named(prefix: str) -> list[str]:
    """The statements of that kind, without their prefix."""
    return sorted(name.removeprefix(prefix) for name in load("postgres") if name.startswith(prefix))


async def _find(tx: Transaction, identity: str, account: str | None) -> tuple[str, bytes] | None:
    """An id of ours first, then the caller's key."""
    parsed = keys.parse(identity)
    for kind in ("delivery", "reminder"):
        if parsed is not None and await tx.rows(f"find_{kind}", parsed.hex(), account):
            return kind, parsed
    found: list[Row] = [] if account is None else await tx.rows("find_key", identity, account)
    return ("reminder", found[0][0]) if found else None


async def _consent(tx: Transaction, contact: bytes) -> dict[str, Any]:
    standing = await tx.rows("show_consent", contact.hex())
    history = await tx.rows("show_consent_history", contact.hex(), documents.HISTORY_ROWS_MAX)
    return {
        "standing": [_document(documents.CONSENT, row) for row in standing],
        "history": [_document(documents.CONSENT_EVENT, row) for row in history],
    }


async def _said_against(tx: Transaction, shown: Mapping[str, Any], contact: bytes) -> list[dict[str, Any]]:
    if obstacles.silence_of(shown) is None:
        return []
    said = await _consent(tx, contact)
    return obstacles.said_against(shown, said["standing"], said["history"])


async def _in_the_way(tx: Transaction, reminder: bytes) -> list[dict[str, Any]]:
    rows = await tx.rows("show_ahead", reminder.hex())
    if not rows:
        return []
    ((account, account_paused, template_paused, channels, found),) = rows
    ((namespace,),) = await tx.rows("namespace")
    addresses, objections = found or {}, dict[str, str | None]()
    for channel in channels:
        contact = keys.contact_id(namespace, account, channel, addresses.get(channel, ""))
        ((objection,),) = await tx.rows("show_objection", reminder.hex(), channel, contact.hex())
        objections[channel] = objection or (None if channel in addresses else obstacles.NO_ADDRESS)
    return obstacles.in_the_way(objections, account_paused=account_paused, template_paused=template_paused)


def _nobody(identity: str, account: str | None) -> str:
    if account is None:
        return f"no reminder or delivery has the id {identity!r}; to look up your own key, add its account"
    return f"account {account!r} has no reminder or delivery {identity!r}"


def _document(words: Sequence[str], row: Row) -> dict[str, Any]:
    return {word: _shown(value) for word, value in zip(words, row, strict=True)}


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, bytes):
        return keys.show(value) if len(value) == ID_BYTES else value.hex()
    return value


def _counts(rows: Iterable[Row]) -> dict[str, Any]:
    return {
        word: {"count": count, "oldest_age_seconds": None if age is None else max(0.0, age)}
        for word, count, age in rows
    }
