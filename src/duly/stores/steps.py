"""Migrations as values: what there is, what is applied, and what that means. Pure but for reading the files.

A migration is a numbered file, `migrations/<dialect>/0001_name.sql`, with the same number and meaning in
every dialect. Once it is applied anywhere it is never edited: a change is a new file. The database keeps a
checksum of each that it has seen, so that an edit is noticed.

A schema is compared as a description: one line of text per table, column, index, constraint and view.
What it should be is read from an empty schema on which all migrations were run, never from a list by hand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from duly.errors import SchemaError

__all__ = [
    "Applied",
    "Description",
    "Migration",
    "Step",
    "check_namespace",
    "drift",
    "migrations",
    "pending",
    "problems",
    "require_current",
]

_FILE: Final = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")

#: What stands where, by its name: `column work.state` -> `text not null`.
Description = Mapping[str, str]


#: A ledger is the memory that stops duplicates: somebody who mistyped its name must not just make another.
NEW_LEDGER: Final = "check `database`, or make a new one, that remembers nothing, with `duly migrate apply`"


class Step(NamedTuple):
    """A migration that is pending, or was applied just now."""

    number: int
    name: str


class Migration(NamedTuple):
    """A migration of this program."""

    number: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the script, in hex."""
        return hashlib.sha256(self.script.encode()).hexdigest()

    @property
    def step(self) -> Step:
        """Its number and name."""
        return Step(self.number, self.name)


class Applied(NamedTuple):
    """A migration as the database remembers it."""

    number: int
    name: str
    checksum: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """All migrations of a dialect, in order. Raises ValueError where the numbers have a gap or a double."""
    folder = resources.files("duly.stores").joinpath("migrations", dialect)
    named = sorted((match, file) for file in folder.iterdir() if (match := _number_and_name(file.name)))
    found = tuple(Migration(number, name, file.read_text(encoding="utf-8")) for (number, name), file in named)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {dialect} are not numbered 1, 2, 3 and so on")
    return found


def _number_and_name(file: str) -> tuple[int, str] | None:
    match = _FILE.fullmatch(file)
    return (int(match[1]), match[2]) if match else None


def pending(known: Sequence[Migration], applied: Iterable[Applied]) -> list[Migration]:
    """What is not applied yet, in order. Raises SchemaError where an applied one was changed."""
    changed = _changed(known, applied)
    if changed:
        raise SchemaError(changed[0])
    done = {one.number for one in applied}
    return [migration for migration in known if migration.number not in done]


def require_current(known: Sequence[Migration], applied: Sequence[Applied], place: str) -> None:
    """Raise SchemaError if anything is pending or was changed. A later version's migration is no hindrance."""
    if not applied:
        raise SchemaError(f"{place}: migrations are pending, no ledger is there yet; {NEW_LEDGER}")
    if pending(known, applied):
        raise SchemaError(f"{place}: migrations are pending: run `duly migrate apply`")


def problems(known: Sequence[Migration], applied: Sequence[Applied]) -> list[str]:
    """What keeps the database's history from being this program's, one line each."""
    done = {one.number for one in applied}
    numbers = {migration.number for migration in known}
    missing = [f"migration {one.number:04} {one.name} is pending: run `duly migrate apply`"
               for one in known if one.number not in done]  # fmt: skip
    foreign = [f"migration {one.number:04} {one.name} is of a later version of Duly: upgrade this one"
               for one in applied if one.number not in numbers]  # fmt: skip
    return missing + _changed(known, applied) + foreign


def _changed(known: Iterable[Migration], applied: Iterable[Applied]) -> list[str]:
    checksums = {one.number: one.checksum for one in applied}
    return [
        f"migration {one.number:04} {one.name} was changed after it was applied: restore the file"
        for one in known
        if checksums.get(one.number, one.checksum) != one.checksum
    ]


def check_namespace(given: str | None, stored: str) -> None:
    """Raise SchemaError where a namespace was given that is not the database's own."""
    if given is not None and given != stored:
        raise SchemaError(
            "namespace: this database belongs to another installation; use its own duly.toml, or another database"
        )


def drift(expected: Description, live: Description) -> list[str]:
    """How the live schema differs from what it should be, one line each. Tables that are not ours do not count."""
    ours = {_table(name) for name in expected}
    missing = [f"{name} is missing" for name in expected if name not in live]
    other = [f"{name} is {live[name]!r} and should be {text!r}"
             for name, text in expected.items() if live.get(name, text) != text]  # fmt: skip
    more = [f"{name} is not part of this schema" for name in live if name not in expected and _table(name) in ours]
    return missing + other + more


def _table(name: str) -> str:
    """`work` of `column work.state`."""
    return name.split(" ", 1)[1].split(".", 1)[0]
