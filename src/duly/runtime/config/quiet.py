"""The types of an account's quiet hours and caps. As in `fields`, no complaint quotes what was written.

A list may be a single text where it has one entry, and comes from the environment as JSON.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, PlainSerializer

from duly.core import caps, quiet_hours
from duly.core.caps import Cap
from duly.core.quiet_hours import Window
from duly.core.regional_hours import REGIONS
from duly.runtime.config.fields import did_you_mean, nearest, printable
from duly.runtime.config.values import EnvText

__all__ = ["PURPOSES_MAX", "CapField", "Purpose", "Purposes", "QuietHours", "QuietRegion"]

PURPOSE_CHARACTERS_MAX: Final = 50  # as in a reminder
PURPOSES_MAX: Final = 100


def _texts(value: Any, example: str) -> list[str]:
    listed = _listed(value)
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ValueError(f"expected a list of texts, such as {example}")
    return listed


def _listed(value: Any) -> Any:
    if isinstance(value, EnvText) and value.startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return [value] if isinstance(value, str) else value


def _windows(value: Any) -> tuple[Window, ...]:
    return quiet_hours.read_windows(_texts(value, '["21:00-08:00"]'))


def _written(windows: tuple[Window, ...]) -> list[str]:
    return [quiet_hours.written(window) for window in windows]


def _region(name: str) -> str:
    if name not in REGIONS:
        known = did_you_mean(nearest(name, REGIONS)) or f"; there are {', '.join(sorted(REGIONS))}"
        raise ValueError(f"no hours have this name{known}")
    return name


def _purposes(value: Any) -> tuple[str, ...]:
    """A list; from the environment also words with commas between them."""
    words = _texts(value, '["marketing"]')
    if isinstance(value, EnvText) and not value.startswith("["):
        words = [word.strip() for word in value.split(",")]
    return tuple(words)


def _cap(value: Any) -> Cap:
    if not isinstance(value, str):
        raise ValueError('expected text, such as "3/P1D"')  # noqa: TRY004 - pydantic wants a ValueError
    return caps.read_cap(value)


QuietHours = Annotated[
    tuple[InstanceOf[Window], ...], BeforeValidator(_windows), PlainSerializer(_written, return_type=list[str])
]
QuietRegion = Annotated[str, AfterValidator(_region)]
Purpose = Annotated[str, Field(min_length=1, max_length=PURPOSE_CHARACTERS_MAX), AfterValidator(printable)]
Purposes = Annotated[tuple[Purpose, ...], BeforeValidator(_purposes), Field(min_length=1, max_length=PURPOSES_MAX)]
CapField = Annotated[InstanceOf[Cap], BeforeValidator(_cap), PlainSerializer(caps.written, return_type=str)]
