"""Read-only views of a SQLite ledger: ports.Views, on the reader's connection.

Several statements of one view read one snapshot. A state that is not final is looked up in the open work,
so that the list of held deliveries costs the same in a ledger of ten years.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from duly.core import keys
from duly.core.moments import instant
from duly.core.states import OPEN
from duly.errors import NotFound
from duly.ports import Filters
from duly.stores import documents, obstacles
from duly.stores.loader import load
from duly.stores.sqlite import consent
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.rows import SECOND_US, json_text, moment

if TYPE_CHECKING:
    from duly.stores.sqlite.store import Run

__all__ = ["SqliteViews"]

T = TypeVar("T")
ID_BYTES: Final = 16
INVARIANT: Final = "invariant_"
FINDING: Final = "finding_"


class SqliteViews:
    """ports.Views on a SQLite file. Made by `SqliteStore.views`, and closed with the store."""

    def __init__(self, db: Database, run: Run) -> None:
        self._db, self._run = db, run

    async def deliveries(self, filters: Filters) -> list[dict[str, Any]]:
        """See Views.deliveries."""
        return await self._read(_deliveries, filters)

    async def status(self) -> dict[str, Any]:
        """See Views.status."""
        return await self._read(_status)

    async def find(self, identity: str, account: str | None) -> tuple[str, bytes]:
        """See Views.find."""
        return await self._read(_find, identity, account)

    async def has_account(self, name: str) -> bool:
        """See Views.has_account."""
        return await self._read(_has_account, name)

    async def show_delivery(self, identity: bytes) -> dict[str, Any]:
        """See Views.show_delivery. Raises NotFound."""
        return await self._read(_show_delivery, identity)

    async def show_reminder(self, identity: bytes) -> dict[str, Any]:
        """See Views.show_reminder. Raises NotFound."""
        return await self._read(_show_reminder, identity)

    async def submission(self, identity: bytes) -> dict[str, Any]:
        """See Views.submission. Raises NotFound."""
        return await self._read(_submission, identity)

    async def group(self, account: str, group: str, after: bytes, limit: int) -> list[bytes]:
        """See Views.group."""
        return await self._read(_group, account, group, after, limit)

    async def holds(self, account: str | None, limit: int) -> list[dict[str, Any]]:
        """See Views.holds."""
        return await self._read(_holds, account, limit)

    async def guard(self) -> dict[str, Any]:
        """See Views.guard."""
        return await self._read(_guard)

    async def forgotten(self, endpoints: Sequence[bytes]) -> list[dict[str, Any]]:
        """See Views.forgotten."""
        return await self._read(_forgotten, endpoints)

    async def consent(self, contact: bytes) -> dict[str, Any]:
        """See Views.consent."""
        return await self._read(_consent, contact)

    async def consents(self, account: str, after: dict[str, Any] | None, limit: int) -> list[dict[str, Any]]:
        """See Views.consents."""
        return await self._read(_consents, account, after, limit)

    async def recipients(self, account: str, after: str | None, limit: int) -> list[dict[str, Any]]:
        """See Views.recipients."""
        values = {"account": account, "after": after or "", "limit": limit}
        return await self._read(_listed, "recipients", documents.RECIPIENT, values)

    async def recipient(self, account: str, ref: str) -> dict[str, Any] | None:
        """See Views.recipient."""
        values = {"account": account, "ref": ref}
        return next(iter(await self._read(_listed, "recipient_by_ref", documents.RECIPIENT, values)), None)

    async def accounts(self, limit: int) -> list[dict[str, Any]]:
        """See Views.accounts."""
        return await self._read(_listed, "accounts", documents.ACCOUNT, {"limit": limit})

    async def paused_templates(self, limit: int) -> list[dict[str, Any]]:
        """See Views.paused_templates."""
        return await self._read(_listed, "paused_templates", documents.PAUSED_TEMPLATE, {"limit": limit})

    async def pinned_templates(self) -> list[dict[str, Any]]:
        """See Views.pinned_templates."""
        return await self._read(_listed, "pinned_templates", documents.PINNED_TEMPLATE, {})

    async def invariants(self) -> list[tuple[str, int]]:
        """See Views.invariants."""
        return await self._read(_invariants)

    async def findings(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """See Views.findings."""
        return await self._read(_findings, providers)

    def _read(self, view: Callable[..., T], *arguments: Any) -> Awaitable[T]:
        return self._run(partial(_in_snapshot, self._db, view, *arguments))


def _in_snapshot(db: Database, view: Callable[..., T], *arguments: Any) -> T:
    with db.reading():
        return view(db, *arguments)


def _document(words: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {word: _shown(word, value) for word, value in zip(words, row, strict=True)}


def _shown(word: str, value: Any) -> Any:
    if value is None:
        return None
    if documents.is_moment(word):
        return instant(moment(value))
    if word in ("evidence", "quiet_hours"):
        return orjson.loads(value)
    if word in documents.FLAGS:
        return bool(value)
    if isinstance(value, bytes):
        return keys.show(value) if len(value) == ID_BYTES else value.hex()
    return value


def _deliveries(db: Database, filters: Filters) -> list[dict[str, Any]]:
    statement = "list_open" if filters.status in OPEN else "list"
    return [_document(documents.LINE, row) for row in db.rows(statement, **filters._asdict())]


def _status(db: Database) -> dict[str, Any]:
    return {
        "states": _counts(db, "status_open") | _counts(db, "status_final"),
        "lanes": _counts(db, "status_lanes"),
        "failing": [_document(documents.FAILING, row) for row in db.rows("status_failing")],
        "budgets": [_document(documents.BUDGET, row) for row in db.rows("status_budgets")],
        "reminders": _document(documents.WAITING, db.rows("status_reminders")[0]),
        "guard": next((_document(documents.GUARD, row) for row in db.rows("guard_standing")), None),
    }


def _counts(db: Database, statement: str) -> dict[str, Any]:
    now = db.now()
    return {
        word: {"count": count, "oldest_age_seconds": None if since is None else max(0, now - since) / SECOND_US}
        for word, count, since in db.rows(statement)
    }


def _has_account(db: Database, name: str) -> bool:
    return bool(db.value("find_account", name=name))


def _find(db: Database, identity: str, account: str | None) -> tuple[str, bytes]:
    parsed = keys.parse(identity)
    for kind in ("delivery", "reminder"):
        if parsed is not None and db.row(f"find_{kind}", id=parsed, account=account):
            return kind, parsed
    found = None if account is None else db.value("find_key", key=identity, account=account)
    if found is None:
        raise NotFound(_nobody(identity, account))
    return "reminder", found


def _nobody(identity: str, account: str | None) -> str:
    if account is None:
        return f"no reminder or delivery has the id {identity!r}; to look up your own key, add its account"
    return f"account {account!r} has no reminder or delivery {identity!r}"


def _show_delivery(db: Database, identity: bytes) -> dict[str, Any]:
    row = db.row("show_delivery", id=identity)
    if row is None:
        raise NotFound(f"no delivery has the id {keys.show(identity)}")
    *columns, contact = row
    shown = _document(documents.DELIVERY, columns)
    attempts = [_document(documents.ATTEMPT, row) for row in db.rows("show_attempts", id=identity)]
    events = [_document(documents.EVENT, row) for row in db.rows("show_events", id=identity)]
    folded = [_document(documents.LINE, row) for row in db.rows("show_folded", id=identity)]
    return documents.delivery(shown, folded, attempts, events, _said_against(db, shown, contact))


def _said_against(db: Database, shown: Mapping[str, Any], contact: bytes) -> list[dict[str, Any]]:
    if obstacles.silence_of(shown) is None:
        return []
    said = _consent(db, contact)
    return obstacles.said_against(shown, said["standing"], said["history"])


def _show_reminder(db: Database, identity: bytes) -> dict[str, Any]:
    row = db.row("show_reminder", id=identity)
    if row is None:
        raise NotFound(f"no reminder has the id {keys.show(identity)}")
    *columns, account = row
    deliveries = db.rows("list_of_reminder", account=account, reminder=identity)
    return documents.reminder(
        _document(documents.REMINDER, columns),
        [_document(documents.LINE, line) for line in deliveries],
        [_document(documents.EVENT, event) for event in db.rows("show_reminder_events", id=identity)],
        _in_the_way(db, identity),
    )


def _in_the_way(db: Database, reminder: bytes) -> list[dict[str, Any]]:
    row = db.row("show_ahead", id=reminder)
    if row is None:
        return []
    account, account_paused, template_paused, channels, found = row
    namespace, addresses, objections = db.value("namespace"), orjson.loads(found or "{}"), dict[str, str | None]()
    for channel in orjson.loads(channels):
        contact = keys.contact_id(namespace, account, channel, addresses.get(channel, ""))
        objection = db.value("show_objection", id=reminder, channel=channel, contact=contact)
        objections[channel] = objection or (None if channel in addresses else obstacles.NO_ADDRESS)
    paused = {"account_paused": bool(account_paused), "template_paused": bool(template_paused)}
    return obstacles.in_the_way(objections, **paused)


def _submission(db: Database, identity: bytes) -> dict[str, Any]:
    row = db.row("submission", id=identity)
    if row is None:
        raise NotFound(f"no reminder has the id {keys.show(identity)}")
    columns = dict(zip(documents.SUBMISSION, row, strict=True))
    return documents.submission(columns | {word: orjson.loads(columns[word]) for word in ("to", "channels", "data")})


def _group(db: Database, account: str, group: str, after: bytes, limit: int) -> list[bytes]:
    values = {"account": account, "group": group, "after": after, "limit": limit}
    return [reminder for (reminder,) in db.rows("group_of", **values)]


def _holds(db: Database, account: str | None, limit: int) -> list[dict[str, Any]]:
    return [_document(documents.HOLD, row) for row in db.rows("holds", account=account, limit=limit)]


def _consent(db: Database, contact: bytes) -> dict[str, Any]:
    return {
        "standing": [_document(documents.CONSENT, row) for row in consent.standing(db, contact)],
        "history": [_document(documents.CONSENT_EVENT, row) for row in consent.history(db, contact)],
    }


def _consents(db: Database, account: str, after: dict[str, Any] | None, limit: int) -> list[dict[str, Any]]:
    return [_document(documents.CONSENTS, row) for row in consent.consents(db, account, after, limit)]


def _listed(db: Database, statement: str, words: Sequence[str], values: dict[str, Any]) -> list[dict[str, Any]]:
    return [_document(words, row) for row in db.rows(statement, **values)]


def _guard(db: Database) -> dict[str, Any]:
    return documents.guards(
        [_document(documents.GUARD, row) for row in db.rows("guards")],
        [_document(documents.COVERED, row) for row in db.rows("guard_covered")],
    )


def _forgotten(db: Database, endpoints: Sequence[bytes]) -> list[dict[str, Any]]:
    rows = db.rows("guard_forgotten", endpoints=json_text([endpoint.hex() for endpoint in endpoints]))
    return [_document(documents.FORGOTTEN, row) for row in rows]


def _invariants(db: Database) -> list[tuple[str, int]]:
    return [(name, db.value(INVARIANT + name)) for name in _named(INVARIANT)]


def _findings(db: Database, providers: Sequence[str]) -> list[tuple[str, int]]:
    values = {"provider_not_configured": {"providers": json_text(providers)}}
    return [(name, db.value(FINDING + name, **values.get(name, {}))) for name in _named(FINDING)]


def _named(prefix: str) -> list[str]:
    """The statements of that kind, without their prefix."""
    return sorted(name.removeprefix(prefix) for name in load("sqlite") if name.startswith(prefix))
