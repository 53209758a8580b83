"""Purposes that are likely misspelt: caps, quiet hours and opt-outs of one are none of the other.

A purpose is free text, so that any word may be meant. But one that differs only by its case from a word that the
configuration names, or that everybody knows, is refused; one that is near to such a word is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from duly.core.consent import KNOWN_PURPOSES
from duly.core.purposes import meant
from duly.intake.rejection import Rejection

__all__ = ["Purposes"]


class Purposes:
    """The purposes that are known: of each account those that it names, and those of all."""

    def __init__(self, of_account: Mapping[str, Iterable[str]] | None = None, of_all: Iterable[str] = ()) -> None:
        self._of_all = frozenset({*KNOWN_PURPOSES, *of_all})
        self._of_account = {name: self._of_all.union(words) for name, words in (of_account or {}).items()}

    def check(self, account: str, purpose: str) -> None:
        """Raises Rejection for one that differs from a known one by its case alone."""
        other = meant(purpose, self._known(account))
        if other is not None and other.casefold() == purpose.casefold():
            raise Rejection(f'differs only by case from one that is known; did you mean "{other}"?', "purpose")

    def near(self, account: str, purpose: str) -> str | None:
        """The known one that this may be meant to be; None if it is known, or like none."""
        return meant(purpose, self._known(account))

    def _known(self, account: str) -> frozenset[str]:
        return self._of_account.get(account, self._of_all)
