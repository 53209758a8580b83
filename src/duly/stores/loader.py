"""Named statements: SQL lives in `sql/<dialect>/*.sql`, and code asks for it by name.

A statement begins after a line `-- name: claim` and ends before the next one. Whole lines of comment say
why, and are not sent to the server. A text whose name begins with `part_` is no statement by itself: it is a
rule that several statements obey, each of which holds it as `{part_...}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

__all__ = ["load", "merged", "statements"]

_NAME_LINE: Final = re.compile(r"^-- name:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_PART: Final = re.compile(r"\{(part_[a-z0-9_]+)\}")
_COMMENT_LINE: Final = re.compile(r"^[ \t]*--.*\n?", re.MULTILINE)


@cache
def load(dialect: str) -> Mapping[str, str]:
    """All statements of a dialect, by name. Raises ValueError for a name that is twice there, wrong or empty."""
    folder = resources.files("duly.stores").joinpath("sql", dialect)
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return merged(dialect, [(file.name, file.read_text(encoding="utf-8")) for file in files])


def merged(dialect: str, files: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The statements of several files, given as (name, text), with their parts put in."""
    found: dict[str, str] = {}
    for file, text in files:
        for name, statement in statements(text):
            if name in found:
                raise ValueError(f"{dialect}/{file}: the statement {name!r} is there twice")
            found[name] = statement
    return MappingProxyType({name: _whole(dialect, name, found) for name in found if not name.startswith("part_")})


def _whole(dialect: str, name: str, texts: Mapping[str, str]) -> str:
    """A statement with its parts in their places. Raises ValueError for a part that is not there."""

    def part(match: re.Match[str]) -> str:
        if match[1] not in texts:
            raise ValueError(f"{dialect}: the statement {name!r} holds the part {match[1]!r}, which is not there")
        return texts[match[1]]

    return _PART.sub(part, texts[name])


def statements(text: str) -> Iterator[tuple[str, str]]:
    """The (name, statement) pairs of one file. Raises ValueError for a name or a statement that is empty."""
    _, *parts = _NAME_LINE.split(text)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        statement = _COMMENT_LINE.sub("", body).strip().removesuffix(";")
        if not _NAME.fullmatch(name) or not statement:
            raise ValueError(f"the statement {name!r} has no name that can be used, or no text")
        yield name, statement
