"""The ledger as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Filters", "Views"]


class Filters(NamedTuple):
    """What `duly list` may narrow by."""

    status: str | None = None
    account: str | None = None
    channel: str | None = None
    limit: int = 100


class Views(Protocol):
    """Read-only views, as plain data ready for JSON: ids shown, times RFC 3339 in UTC ending in Z."""

    async def deliveries(self, filters: Filters) -> list[dict[str, Any]]:
        """Newest first: id, account, reminder, occurrence, channel, status, reason, attempts, due_at."""
        ...

    async def status(self) -> dict[str, Any]:
        """`states` (each `count, oldest_age_seconds`), `lanes`, `failing` (what was attempted and waits or is in doubt,
        counted by provider), `budgets`, `reminders` (`count, next_due_at`), `guard` (the open one or null).
        """
        ...

    async def find(self, identity: str, account: str | None) -> tuple[str, bytes]:
        """("reminder" | "delivery", id) for a shown id, or a caller's key with its account. Raises NotFound."""
        ...

    async def has_account(self, name: str) -> bool:
        """Whether any reminder was ever taken for an account of that name."""
        ...

    async def show_delivery(self, identity: bytes) -> dict[str, Any]:
        """A delivery with its timeline, in the words of the surface. `recipient` is the caller's own id of him;
        `restored` whether an open one is in doubt of a restore (null for a final one, of which its events tell).
        """
        ...

    async def show_reminder(self, identity: bytes) -> dict[str, Any]:
        """A reminder with its deliveries, and the events that concern all of them."""
        ...

    async def submission(self, identity: bytes) -> dict[str, Any]:
        """A reminder as the API takes it, without what was not said. Raises NotFound.

        Where it follows its recipient, its zone is `recipient`, and `to` says the zone that he has now.
        """
        ...

    async def group(self, account: str, group: str, after: bytes, limit: int) -> list[bytes]:
        """The reminders of an account's group, page by page in the order of their ids. `after`: the last of the page
        before, at first 16 zero bytes.
        """
        ...

    async def holds(self, account: str | None, limit: int) -> list[dict[str, Any]]:
        """Held deliveries, oldest first: `id, account, reminder, occurrence, channel, provider, reason, attempts,
        held_since, age_seconds, alarmed, next_at, deadline_at`.
        """
        ...

    async def guard(self) -> dict[str, Any]:
        """The restore guards: `open` (the open one or null), `guards` (all, newest first) and `covered`: for the
        open rows in doubt of a restore, each provider's and state's `count` and `oldest_due_at`.
        """
        ...

    async def forgotten(self, endpoints: Sequence[bytes]) -> list[dict[str, Any]]:
        """Open rows in doubt of a restore, in groups whose doubt began in the same minute: `provider, endpoint`
        (null for others than these)`, account, state, granted, closed, deadline_passed, age_seconds` (of the oldest
        doubt)`, count`.
        """
        ...

    async def consent(self, contact: bytes) -> dict[str, Any]:
        """What stands about an address, and what was said: `standing` (each `kind, purpose, code, at, source, reason,
        actor, recorded_at`) and `history`, newest first, at most 1,000. Both are empty for one that nobody knows.
        """
        ...

    async def consents(self, account: str, after: dict[str, Any] | None, limit: int) -> list[dict[str, Any]]:
        """What stands in an account, page by page in the order of the contacts' ids: `contact, kind, purpose, channel,
        address, at, source, reason`. `after`: the last row of the page before.
        """
        ...

    async def recipients(self, account: str, after: str | None, limit: int) -> list[dict[str, Any]]:
        """The recipients of an account that are not deleted, page by page in the order of their ids: `id, name, email,
        phone, webhook, zone, locale, quiet_hours` (windows as they are written, or null). `after`: the last id of the
        page before.
        """
        ...

    async def recipient(self, account: str, ref: str) -> dict[str, Any] | None:
        """One recipient of an account by the caller's own id, as `recipients` shows him; None if nobody goes by it."""
        ...

    async def accounts(self, limit: int) -> list[dict[str, Any]]:
        """The accounts by name: `account, paused, created_at`."""
        ...

    async def paused_templates(self, limit: int) -> list[dict[str, Any]]:
        """The templates that are paused: `template, since, actor, reason`."""
        ...

    async def pinned_templates(self) -> list[dict[str, Any]]:
        """How many reminders with occurrences to come are pinned to which version, by name and version: `template,
        version` (null: to none)`, reminders`.
        """
        ...

    async def invariants(self) -> list[tuple[str, int]]:
        """Each invariant that SQL can check, and how many rows break it."""
        ...

    async def findings(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """What breaks no invariant and still wants somebody, each with its number of rows: `guard_open`,
        `hold_past_its_alarm`, `lease_not_taken_back` (for over a minute), `provider_not_configured` (open rows of
        providers other than these).
        """
        ...
