"""Purposes are words, and words are misspelt: which known one may be meant."""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Final

__all__ = ["meant"]

#: How much two words must have in common: of six letters one may differ.
NEAR_RATIO_MIN: Final = 0.85
WORDS_CACHED_MAX: Final = 4_096


@lru_cache(WORDS_CACHED_MAX)
def meant(purpose: str, known: frozenset[str]) -> str | None:
    """The known purpose that differs from this one by its case or by a letter or two; None if it is known itself."""
    if purpose in known:
        return None
    folded = {word.casefold(): word for word in sorted(known)}
    near = difflib.get_close_matches(purpose.casefold(), folded, n=1, cutoff=NEAR_RATIO_MIN)
    return folded[near[0]] if near else None
