"""Duly delivers reminders that are due at a moment, and keeps a ledger that tells the truth.

Importing it costs nothing: names are looked up when they are first asked for.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  it takes longer than all the rest of `import duly`

    return version("duly")
