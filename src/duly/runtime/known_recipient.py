"""A recipient who is named by his id, for a submission that is only tried out: who he is says the ledger.

He is looked up in the submission's own account, and nothing is written. What the submission says itself goes before,
as it does when it is sent; beside an address of its own it takes none of his.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.core.text import one_line
from duly.errors import InputError
from duly.runtime.bootstrap import open_views
from duly.runtime.config import Config

__all__ = ["with_recipient"]

SHOWN_CHARACTERS_MAX: Final = 60

_ADDRESSES: Final = frozenset({"email", "phone", "webhook"})
_TAKEN: Final = ("name", "zone", "locale", *sorted(_ADDRESSES))


async def with_recipient(config: Config, submitted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The submission, with what is known of its recipient. Raises InputError if nobody goes by his id there."""
    account, to = submitted.get("account"), submitted.get("to")
    ref = to.get("id") if isinstance(to, Mapping) else None
    if not isinstance(to, Mapping) or not isinstance(account, str) or not isinstance(ref, str):
        raise InputError("--from-ledger: to look somebody up takes account and to.id, as texts")
    async with open_views(config) as views:
        found = await views.recipient(account, ref)
    if found is None:
        raise InputError(f"--from-ledger: account {_shown(account)} has no recipient {_shown(ref)!r}")
    said = {field: value for field, value in to.items() if value is not None}
    left = [
        field for field in _TAKEN if found[field] is not None and not (field in _ADDRESSES and _ADDRESSES & said.keys())
    ]
    return {**submitted, "to": {field: found[field] for field in left} | said}


def _shown(text: str) -> str:
    return one_line(text, SHOWN_CHARACTERS_MAX)
