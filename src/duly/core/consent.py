"""Consent: who wants to hear what, what follows from what was said, and why an address is left alone.

What is known about an address (a contact) is a set of entries, at most one of each kind and scope. Two
families never touch each other:

- *choices* are the person's: an opt-out, or the opt-in that ends it. Of one scope the later of both stands.
- *suppressions* are about the address: it bounced, its owner complained, an operator silenced it. They
  stand until an operator lifts them. No opt-in ends one.

A scope is one purpose, `all` (every purpose but `security`: a password reset is no advertising), or
`all+security`. A bounce and a complaint are always of `all+security`: an address that takes nothing takes no
security message either.

Silence is cheap to begin and hard to end. An opt-out of unknown time counts as the latest, an opt-in of unknown time
as the earliest; at the same time the opt-out wins. An opt-in that somebody imports is kept out by an opt-out that
it does not clearly follow; one that is said to us now follows everything. Applied in any order, the same
statements with known times lead to the same entries.

`objection` is the rule that admission obeys. The databases have it in SQL as well (the part `objection` of their
statements), because a claim asks it for every row; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "ALL",
    "EVERYTHING",
    "KNOWN_PURPOSES",
    "SECURITY",
    "SUPPRESSIONS",
    "Entry",
    "Kind",
    "Known",
    "Said",
    "Verdict",
    "code_of",
    "entries_of",
    "hard_stop",
    "hear",
    "objection",
    "scope_of",
    "silences_some",
]

SECURITY: Final = "security"
#: Purposes are free text; these three are known.
KNOWN_PURPOSES: Final = ("service", "marketing", SECURITY)
#: Scopes that are no purpose.
ALL: Final = "all"
EVERYTHING: Final = "all+security"


class Kind(StrEnum):
    """What was said about an address. `lift` ends suppressions, and is the only one that never stands."""

    OPT_OUT = "opt_out"
    OPT_IN = "opt_in"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    MANUAL = "manual"
    LIFT = "lift"


#: In the order in which they are told.
SUPPRESSIONS: Final = (Kind.COMPLAINT, Kind.BOUNCE, Kind.MANUAL)
_RANKS: Final[Mapping[Kind, int]] = {kind: rank for rank, kind in enumerate((*SUPPRESSIONS, Kind.OPT_OUT))}
_CODES: Final[Mapping[Kind, str]] = {
    Kind.COMPLAINT: "complained",
    Kind.BOUNCE: "bounced",
    Kind.MANUAL: "suppressed",
    Kind.OPT_OUT: "opted_out",
}
_OPTED_OUT_OF: Final[Mapping[str, str]] = {
    "service": "opted_out_of_service",
    "marketing": "opted_out_of_marketing",
    "security": "opted_out_of_security",
}
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


class Entry(NamedTuple):
    """Something that stands. `at` None: nobody knows when it was said. `code` None: it silences nothing."""

    kind: Kind
    scope: str
    at: datetime | None
    source: str
    reason: str
    actor: str
    code: str | None


class Said(NamedTuple):
    """A statement about an address. `imported`: it was said to somebody else, some time ago."""

    kind: Kind
    scope: str
    at: datetime | None
    source: str
    reason: str
    imported: bool = False


class Verdict(StrEnum):
    """What became of a statement."""

    RECORDED = "recorded"
    ALREADY = "already"  # it says nothing new
    KEPT_OUT = "kept_out"  # an opt-in that must not end what stands: nothing was changed


#: The entries of one contact, by kind and scope.
Known: TypeAlias = Mapping[tuple[Kind, str], Entry]


def entries_of(entries: Iterable[Entry]) -> Known:
    """Entries as `hear` and `objection` take them."""
    return {(entry.kind, entry.scope): entry for entry in entries}


def scope_of(kind: Kind, purpose: str | None, *, even_security: bool = False) -> str:
    """The scope of a statement about a purpose, or about all of them (None).

    What is said about the address and not about a purpose is of `all+security`. A bounce, a complaint and what lifts
    them always is; so is what an operator suppresses, unless he names a purpose.
    """
    if kind in (Kind.BOUNCE, Kind.COMPLAINT):
        return EVERYTHING
    if purpose not in (None, ALL):
        return purpose or ALL
    return EVERYTHING if even_security or kind in (Kind.MANUAL, Kind.LIFT) else ALL


# --- what follows from a statement ---------------------------------------------------------------


def hear(known: Known, said: Said, actor: str) -> tuple[Verdict, Known]:
    """What a statement changes: the verdict, and the entries that stand then."""
    match said.kind:
        case Kind.LIFT:
            return _lift(known, said)
        case Kind.OPT_IN:
            return _opt_in(known, said, actor)
        case Kind.OPT_OUT:
            return _opt_out(known, said, actor)
    return _stand(known, said, actor)


def _lift(known: Known, said: Said) -> tuple[Verdict, Known]:
    """Ends every suppression, or those of one purpose; never an opt-out, which is not ours to end."""
    ended = {key for key in known if key[0] in SUPPRESSIONS and said.scope in (ALL, EVERYTHING, key[1])}
    if not ended:
        return Verdict.ALREADY, known
    return Verdict.RECORDED, {key: entry for key, entry in known.items() if key not in ended}


def _opt_in(known: Known, said: Said, actor: str) -> tuple[Verdict, Known]:
    if any(kind in SUPPRESSIONS and scope in (said.scope, EVERYTHING) for kind, scope in known):
        return Verdict.KEPT_OUT, known
    against, standing = known.get((Kind.OPT_OUT, said.scope)), known.get((Kind.OPT_IN, said.scope))
    if against is not None and said.imported and _earliest(said.at) <= _latest(against.at):
        return Verdict.KEPT_OUT, known
    if against is None and standing is not None and _earliest(said.at) <= _earliest(standing.at):
        return Verdict.ALREADY, known
    return Verdict.RECORDED, _put(known, said, actor, instead=Kind.OPT_OUT)


def _opt_out(known: Known, said: Said, actor: str) -> tuple[Verdict, Known]:
    """One that is older than a standing opt-in is recorded, and silences nothing."""
    against = known.get((Kind.OPT_IN, said.scope))
    if against is not None and said.imported and _latest(said.at) < _earliest(against.at):
        return Verdict.RECORDED, known
    return _stand(known, said, actor)


def _stand(known: Known, said: Said, actor: str) -> tuple[Verdict, Known]:
    """It stands, unless one of its kind and scope does that is at least as late."""
    standing = known.get((said.kind, said.scope))
    if standing is not None and (not said.imported or _latest(said.at) <= _latest(standing.at)):
        return Verdict.ALREADY, known
    return Verdict.RECORDED, _put(known, said, actor, instead=Kind.OPT_IN)


def _put(known: Known, said: Said, actor: str, *, instead: Kind) -> Known:
    """The entries with this one, and without the other choice of its scope if this is one."""
    kept = dict(known)
    if said.kind in (Kind.OPT_IN, Kind.OPT_OUT):
        kept.pop((instead, said.scope), None)
    code = code_of(said.kind, said.scope)
    kept[said.kind, said.scope] = Entry(said.kind, said.scope, said.at, said.source, said.reason, actor, code)
    return kept


def _earliest(at: datetime | None) -> datetime:
    return at or _EARLIEST


def _latest(at: datetime | None) -> datetime:
    return at or _LATEST


# --- what silences -------------------------------------------------------------------------------


def code_of(kind: Kind, scope: str) -> str | None:
    """The reason code by which an entry silences; None for what silences nothing.

    A purpose that is not known is not named: its text is the caller's, and a reason code is one of a few words.
    """
    if kind is Kind.OPT_OUT and scope not in (ALL, EVERYTHING):
        return _OPTED_OUT_OF.get(scope, "opted_out_of_purpose")
    return _CODES.get(kind)


def objection(known: Known, purpose: str, *, deleted: bool = False, disabled: bool = False) -> str | None:
    """Why a message of that purpose may not go there, as a reason code; None if it may.

    `deleted`: its recipient was; `disabled`: this channel of his. Then what silences everything, then what silences
    the purpose, then what silences all of them.
    """
    if deleted:
        return "recipient_deleted"
    if disabled:
        return "channel_disabled"
    return hard_stop(known) or _first(known, purpose) or (None if purpose == SECURITY else _first(known, ALL))


def hard_stop(known: Known) -> str | None:
    """Why nothing at all may go there, whatever its purpose; None if something may."""
    return _first(known, EVERYTHING)


def silences_some(known: Known) -> bool:
    """Whether some purposes are silenced by themselves."""
    return any(entry.code is not None and entry.scope != EVERYTHING for entry in known.values())


def _first(known: Known, scope: str) -> str | None:
    return next((entry.code for entry in _of_scope(known, scope)), None)


def _of_scope(known: Known, scope: str) -> Iterator[Entry]:
    """What silences that scope, the gravest first."""
    silencing = [entry for entry in known.values() if entry.scope == scope and entry.code is not None]
    yield from sorted(silencing, key=lambda entry: _RANKS[entry.kind])
