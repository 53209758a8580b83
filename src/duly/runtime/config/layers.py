"""The layers laid over each other: one plain table, and for every value where it came from.

A variable's name is matched against what is there: `DULY_PROVIDERS__MY_HOOKS__SECRET` means
`providers.my-hooks.secret` if the file has a provider of that name, and makes `providers.my_hooks` if not.
The walk goes no deeper than keys do, so that a file nested without end costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from duly.runtime.config.values import EnvText, Secret

__all__ = ["PREFIX", "Key", "Layers", "Origin", "overlay", "wrap_secrets"]

Key = tuple[str, ...]

PREFIX: Final = "DULY_"
NOT_KEYS: Final = ("DULY_CONFIG", "DULY_DEBUG")
NOT_KEYS_PREFIX: Final = "DULY_TEST_"
SECRET_KEYS: Final = ("secret", "password")
DEPTH_MAX: Final = 4  # accounts, a name, caps, a purpose


class Origin(NamedTuple):
    """Where a value came from: the file, or the environment variable of that name."""

    name: str
    variable: bool


@dataclass(slots=True)
class Layers:
    """The merged table, the origin of each value, and what is wrong so far."""

    table: dict[str, Any]
    name: str  # of the file, as the operator knows it
    origins: dict[Key, Origin] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    more_problems: int = 0  # counted only: a list without end helps nobody

    def __post_init__(self) -> None:
        self.origins.update((key, Origin(self.name, variable=False)) for key in _leaves(self.table, ()))

    def origin(self, key: Key) -> Origin:
        """Where a value came from; a key that nobody wrote is missed in the file."""
        return self.origins.get(key) or Origin(self.name, variable=False)


def _leaves(table: Mapping[str, Any], above: Key) -> Iterator[Key]:
    for name, value in table.items():
        key = (*above, name)
        if isinstance(value, dict) and len(key) < DEPTH_MAX:
            yield from _leaves(value, key)
        else:
            yield key


# --- the environment -----------------------------------------------------------------------------


def overlay(layers: Layers, environ: Mapping[str, str]) -> None:
    """Lay `DULY_...` variables over the table. Variables that a secret refers to are not keys."""
    referred = _referred(layers.table) | {value[4:] for value in environ.values() if value.startswith("env:")}
    for name in sorted(environ):
        folded = name.upper()
        if not folded.startswith(PREFIX) or folded in NOT_KEYS or folded.startswith(NOT_KEYS_PREFIX):
            continue
        if name not in referred:
            _lay(layers, name, environ[name])


def _referred(table: Mapping[str, Any]) -> set[str]:
    texts = (text for _, holder, name in _secret_places(table) for text in _listed(holder[name]))
    return {text[4:] for text in texts if isinstance(text, str) and text.startswith("env:")}


def _lay(layers: Layers, variable: str, value: str) -> None:
    *above, last = variable[len(PREFIX) :].split("__")
    table: Any = layers.table
    key: Key = ()
    for part in above:
        name = _match(layers, variable, part, table)
        key = (*key, name)
        if name not in table:
            table[name] = {}
            layers.origins[key] = Origin(variable, variable=True)
        table = table[name]
        if not isinstance(table, dict):
            layers.problems.append(f"{variable}: unknown key; {'.'.join(key)} is not a table")
            return
    _put(layers, table, (*key, _match(layers, variable, last, table)), variable, value)


def _put(layers: Layers, table: dict[str, Any], key: Key, variable: str, value: str) -> None:
    earlier = layers.origin(key)
    if earlier.variable:
        layers.problems.append(f"{variable}: {earlier.name} gives the same key; keep one of them")
        return
    table[key[-1]] = EnvText(value)
    layers.origins[key] = Origin(variable, variable=True)


def _match(layers: Layers, variable: str, part: str, table: Mapping[str, Any]) -> str:
    wanted = _fold(part)
    matches = [name for name in table if _fold(name) == wanted]
    if len(matches) > 1 and part.lower() not in matches:
        layers.problems.append(f"{variable}: may mean {' or '.join(sorted(matches))}; rename one of them")
    return matches[0] if len(matches) == 1 else part.lower()


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())


# --- secrets -------------------------------------------------------------------------------------


def wrap_secrets(layers: Layers, folder: Path, environ: Mapping[str, str]) -> list[Secret]:
    """Put every secret of the table into a `Secret`, which knows its key. Other types stay, to be refused."""
    wrapped: list[Secret] = []
    for key, holder, name in list(_secret_places(layers.table)):
        texts = _listed(holder[name])
        names = [".".join(key) if len(texts) == 1 else f"{'.'.join(key)}[{place}]" for place in range(len(texts))]
        found = [
            Secret(at, str(text), folder, environ) if isinstance(text, str) else text
            for at, text in zip(names, texts, strict=True)
        ]
        holder[name] = found if len(found) != 1 else found[0]
        wrapped.extend(item for item in found if isinstance(item, Secret))
    return wrapped


def _secret_places(table: Mapping[str, Any]) -> Iterator[tuple[Key, dict[str, Any], str]]:
    for key, holder in _holders(table):
        for name in SECRET_KEYS:
            if isinstance(holder, dict) and name in holder:
                yield (*key, name), holder, name


def _holders(table: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    """What may hold a secret, and its key."""
    for group in ("providers", "endpoints"):
        entries = table.get(group)
        for entry, holder in entries.items() if isinstance(entries, dict) else ():
            yield (group, entry), holder
    yield ("unsubscribe",), table.get("unsubscribe")


def _listed(value: Any) -> list[Any]:
    if isinstance(value, EnvText) and value.startswith("["):
        try:
            return list(json.loads(value))
        except ValueError:
            return [value]
    return value if isinstance(value, list) else [value]
