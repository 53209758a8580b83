"""Options that several programs of the benchmark read in the same way."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

__all__ = ["listed"]


def listed(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """For `argparse`: reads words with commas between them, and refuses one that is not known."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        if unknown := set(words) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
        return words

    return parse
