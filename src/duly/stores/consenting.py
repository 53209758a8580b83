"""What a batch of statements about addresses changes, worked out before anything is written.

A store locks the contacts, reads what stands and which statements it has heard before, lets `plan` decide, and
writes the plan in the same transaction. Both databases do it in these steps; only their SQL differs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from duly.core import keys
from duly.core.consent import (
    ALL,
    EVERYTHING,
    SECURITY,
    Entry,
    Kind,
    Known,
    Said,
    Verdict,
    hard_stop,
    hear,
    objection,
    silences_some,
)
from duly.ports import NewConsent

__all__ = ["OTHER_PURPOSES", "Heard", "Plan", "Standing", "Told", "consent_id", "identities", "plan"]

#: Stands for any purpose that no entry names. No reminder has it.
OTHER_PURPOSES: Final = ""


class Heard(NamedTuple):
    """A statement for the history, under its derived id."""

    id: bytes
    contact: bytes
    said: Said


class Standing(NamedTuple):
    """What a claim reads of a contact from now on."""

    contact: bytes
    suppressed: str | None
    silenced: bool


class Told(NamedTuple):
    """What open deliveries of a contact and purpose (None: any but `others`) are told: the objection from now on."""

    contact: bytes
    purpose: str | None
    others: list[str]
    reason: str | None


class Plan(NamedTuple):
    """What to write: one verdict for each row, the history, entries that stand or end, contacts, and who is told."""

    verdicts: list[Verdict]
    heard: list[Heard]
    put: list[tuple[bytes, Entry]]
    ended: list[tuple[bytes, Kind, str]]
    contacts: list[Standing]
    told: list[Told]


def identities(rows: Sequence[NewConsent]) -> list[bytes]:
    """The ids of the imported statements: one that is known has been heard before."""
    return [consent_id(row.contact.id, row.said) for row in rows if row.said.imported]


def plan(
    rows: Sequence[NewConsent], before: Mapping[bytes, Known], seen: Container[bytes], actor: str, now: datetime
) -> Plan:
    """Hear the rows in their order. `before`: what stands of each contact; `seen`: ids of what was heard before."""
    after, heard = dict(before), dict[bytes, Heard]()
    verdicts = [_hear(row, after, heard, seen, actor, now) for row in rows]
    touched = [(one, before.get(one, {}), after[one]) for one in sorted({one.contact for one in heard.values()})]
    return Plan(
        verdicts,
        list(heard.values()),
        [put for changed in touched for put in _put(*changed)],
        [ended for changed in touched for ended in _ended(*changed)],
        [Standing(contact, hard_stop(known), silences_some(known)) for contact, _, known in touched],
        [told for changed in touched for told in _told(*changed)],
    )


def _hear(
    row: NewConsent,
    after: dict[bytes, Known],
    heard: dict[bytes, Heard],
    seen: Container[bytes],
    actor: str,
    now: datetime,
) -> Verdict:
    """Hear one row: what stands, and what was heard, is brought up to date."""
    contact, said = row.contact.id, row.said if row.said.imported else row.said._replace(at=now)
    identity = consent_id(contact, said)
    if said.imported and (identity in seen or identity in heard):
        return Verdict.ALREADY
    verdict, after[contact] = hear(after.get(contact, {}), said, actor)
    if verdict is Verdict.RECORDED:
        heard[identity] = Heard(identity, contact, said)
    return verdict


def consent_id(contact: bytes, said: Said) -> bytes:
    """The id of a statement, derived from what it says: the same again is the same."""
    at = said.at.isoformat() if said.at else ""
    return keys.derive("consent", contact.hex(), said.kind, said.scope, at, said.source, said.reason)


def _put(contact: bytes, before: Known, after: Known) -> list[tuple[bytes, Entry]]:
    return [(contact, entry) for key, entry in after.items() if before.get(key) != entry]


def _ended(contact: bytes, before: Known, after: Known) -> list[tuple[bytes, Kind, str]]:
    return [(contact, *key) for key in before if key not in after]


def _told(contact: bytes, before: Known, after: Known) -> list[Told]:
    """The purposes whose answer changed."""
    named = sorted({scope for _, scope in (*before, *after)} - {ALL, EVERYTHING} | {SECURITY})
    answers = [(purpose, objection(before, purpose), objection(after, purpose)) for purpose in (*named, OTHER_PURPOSES)]
    return [Told(contact, purpose or None, named, now) for purpose, was, now in answers if was != now]
