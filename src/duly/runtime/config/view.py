"""The effective values as an operator may see them: secrets masked, each with where it came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from duly.runtime.config.layers import Key
from duly.runtime.config.model import Config
from duly.runtime.config.problems import show_key

__all__ = ["document", "lines"]


def document(config: Config) -> dict[str, Any]:
    """The effective values as plain data, in the nesting of the file, secrets masked."""
    return config.model_dump(mode="json", by_alias=True)


def lines(config: Config) -> Iterator[tuple[str, str, str]]:
    """Each effective value as (key, value as TOML writes it, origin), in the order of the document."""
    for key, value in _leaves(document(config), ()):
        yield (
            show_key(key),
            "(not set)" if value is None else json.dumps(value, ensure_ascii=False),
            _origin(config, key),
        )


def _leaves(value: Any, key: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*key, name))
    else:
        yield key, value


def _origin(config: Config, key: Key) -> str:
    origin = config.origins.get(key)
    if origin is None:
        return "default"
    return f"environment: {origin.name}" if origin.variable else "file"
