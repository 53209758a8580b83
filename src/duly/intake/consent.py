"""Statements about addresses, from a file: who opted out or in, what bounced, who complained.

    address, kind                      needed; kind is opt_out, opt_in, bounce, complaint or manual
    channel, purpose, at, source, reason   may be left out

`purpose` is one of them, or `all` (the default): then `scope_of` says what that means for the kind. `all+security`
is the hard stop. `at` is an instant; without it nobody knows when it was said, which keeps silence in doubt. Source
and reason are prose: control characters become spaces. A lift is an operator's, and never stands in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from duly.core.consent import ALL, EVERYTHING, Kind, Said, scope_of
from duly.core.model import Channel
from duly.core.moments import parse_time
from duly.core.text import one_line
from duly.intake.addresses import URL_CHARACTERS_MAX
from duly.intake.contacts import contact_of
from duly.intake.fields import choice, kind, known, label, need
from duly.intake.purposes import Purposes
from duly.intake.rejected import set_aside
from duly.intake.rejection import Rejection
from duly.intake.submission import PURPOSE_CHARACTERS_MAX
from duly.intake.tables import Table
from duly.ports import NewConsent

__all__ = ["CONSENT_TABLE", "ConsentIntake", "read_purpose"]

SOURCE_CHARACTERS_MAX: Final = 200
REASON_CHARACTERS_MAX: Final = 500
KIND_CHARACTERS_MAX: Final = 20
TIME_CHARACTERS_MAX: Final = 64
#: Clocks differ; more than this is not a clock.
AHEAD_MAX: Final = timedelta(minutes=5)

CONSENT_TABLE: Final = Table(
    frozenset({"address", "channel", "purpose", "kind", "at", "source", "reason"}),
    ("address", "kind"),
    "for a list of bare addresses say what they are, as in: "
    "(echo address,kind; sed 's/$/,opt_out/' FILE) | duly consent import - --format csv --account A",
)
_KINDS: Final = tuple(str(one) for one in Kind if one is not Kind.LIFT)
#: One that is a known scope but for its case would silence nothing.
_SCOPES: Final = Purposes(of_all=(ALL, EVERYTHING))


class ConsentIntake:
    """Checks the rows of one file for one account. `now` is the database's time when the import began."""

    def __init__(self, namespace: str, account: str, source: str, now: datetime) -> None:
        self._namespace, self._account = namespace, account
        self._source = source
        self._latest = now + AHEAD_MAX

    def accept(self, raw: Mapping[str, Any]) -> NewConsent:
        """Check one row. Raises Rejection, and nothing else, whatever the object holds."""
        row = known(set_aside(raw), CONSENT_TABLE.columns)
        address = need(row, "address", URL_CHARACTERS_MAX)
        chosen = choice(row, "channel", Channel, "")
        contact = contact_of(self._namespace, self._account, address, Channel(chosen) if chosen else None)
        said = Said(
            _kind(row),
            read_purpose(_kind(row), label(row, "purpose", PURPOSE_CHARACTERS_MAX)),
            self._at(row),
            _prose(row, "source", SOURCE_CHARACTERS_MAX) or self._source,
            _prose(row, "reason", REASON_CHARACTERS_MAX) or "imported",
            imported=True,
        )
        return NewConsent(contact, said)

    def _at(self, row: Mapping[str, Any]) -> datetime | None:
        text = label(row, "at", TIME_CHARACTERS_MAX)
        if text is None:
            return None
        try:
            at = parse_time(text)
        except ValueError as error:
            raise Rejection(str(error), "at") from None
        if at.tzinfo is None:
            raise Rejection("is a local time; add an offset to it, like 2026-12-01T09:00:00Z", "at")
        if at > self._latest:
            raise Rejection("lies in the future; write when it was said, or leave it out", "at")
        return at


def read_purpose(said: Kind, purpose: str | None, *, even_security: bool = False) -> str:
    """The scope of a statement about a purpose (None: all). Raises Rejection."""
    if purpose is not None:
        _SCOPES.check("", purpose)
    if purpose == EVERYTHING:
        purpose, even_security = ALL, True
    if purpose not in (None, ALL) and said in (Kind.BOUNCE, Kind.COMPLAINT):
        raise Rejection(f"a {said} is about the address, and not about one purpose; leave it out", "purpose")
    if even_security and purpose not in (None, ALL):
        raise Rejection("the hard stop is of all purposes; leave the purpose out", "purpose")
    return scope_of(said, purpose, even_security=even_security)


def _kind(row: Mapping[str, Any]) -> Kind:
    need(row, "kind", KIND_CHARACTERS_MAX)
    return Kind(choice(row, "kind", _KINDS, ""))


def _prose(row: Mapping[str, Any], name: str, characters_max: int) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Rejection(f"must be text, not {kind(value)}", name)
    if len(value) > characters_max:
        raise Rejection(f"is longer than {characters_max} characters; shorten it", name)
    return one_line(value, characters_max)
