"""Why a row was not taken."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

from duly.errors import InputError

__all__ = ["Rejection", "did_you_mean", "nearest_or_all"]

COMPARED_CHARACTERS_MAX: Final = 64
COMPARED_WORDS_MAX: Final = 1_000
WORDS_NAMED_MAX: Final = 10
MISTAKES_CACHED_MAX: Final = 256


class Rejection(InputError):
    """One row is wrong. `reason` says what to do, `field` names where; `text` is the row if it could not be read."""

    def __init__(self, reason: str, field: str | None = None, text: str | None = None) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field
        self.text = text


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The end of a complaint that knows better, or nothing."""
    near = _nearest(wrong[:COMPARED_CHARACTERS_MAX], tuple(islice(known, COMPARED_WORDS_MAX)))
    return f'; did you mean "{near}"?' if near else ""


def nearest_or_all(wrong: str, known: Iterable[str]) -> str:
    """The end of a complaint: the nearest of the known words or, where none is near, the first ten of all."""
    words = sorted(islice(known, COMPARED_WORDS_MAX))
    if near := did_you_mean(wrong, words):
        return near
    if not words:
        return "; there is none"
    more = f" and {len(words) - WORDS_NAMED_MAX} more" if len(words) > WORDS_NAMED_MAX else ""
    return f"; there are {', '.join(words[:WORDS_NAMED_MAX])}{more}"


@lru_cache(MISTAKES_CACHED_MAX)
def _nearest(wrong: str, known: tuple[str, ...]) -> str | None:
    """Comparing is slow, and the same mistake stands in every row of a file."""
    return next(iter(difflib.get_close_matches(wrong, known, n=1)), None)
