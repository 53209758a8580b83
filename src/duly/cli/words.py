"""Words that several commands share: an open guard, counts, what waits and accounts as an operator names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.cli import output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.ports import Views
    from duly.runtime.config import Config

__all__ = [
    "counted",
    "failing_text",
    "guard_line",
    "left_out_text",
    "paused_line",
    "reminder_named",
    "require_account",
]


def counted(count: int, one: str, many: str) -> str:
    """The count with its noun: `1 delivery`, `2 deliveries`."""
    return f"{count} {one if count == 1 else many}"


def guard_line(guard: Mapping[str, Any]) -> str:
    """An open restore guard, in one line."""
    line = f"guard {guard['number']} is open, since {guard['since']} ({guard['why']}): nothing is sent"
    return output.plain(line)


def left_out_text(labels: Sequence[str]) -> str:
    """Which occurrences a change leaves out, and why."""
    from duly.core.spoken import listed

    few = len(labels) == 1
    were, does = ("was", "does") if few else ("were", "do")
    return f"{listed(labels)} {were} sent before, or may have been, and {does} not come again"


def paused_line(done: Mapping[str, Any]) -> str:
    """What a pause or a resume has come to (`name, paused, changed`)."""
    state = "paused" if done["paused"] else "not paused"
    return f"{output.plain(done['name'])} is {state}" + ("" if done["changed"] else ", as before")


def failing_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """What waits after attempts that failed, as a table: counts alone."""
    names = ("provider", "status", "reason", "count")
    return f"waiting after failed attempts\n{output.columns(names, [[row[name] for name in names] for row in rows])}"


async def reminder_named(views: Views, identity: str, account: str | None) -> bytes:
    """The reminder of an ID of the command line. Raises NotFound, and InputError where it is a delivery's."""
    from duly.errors import InputError

    kind, found = await views.find(identity, account)
    if kind == "delivery":
        raise InputError("ID: it is a delivery; give the id of its reminder, or your own key with --account")
    return found


async def require_account(views: Views, config: Config, name: str | None) -> None:
    """Raises NotFound where nobody goes by that name: nothing is listed of a mistyped account either."""
    from duly.errors import NotFound

    if name is None or name in config.accounts or await views.has_account(name):
        return
    raise NotFound(f"--account: no account is called {output.plain(name)[:60]!r}; none of its reminders was ever taken")
