"""The one error tree. Nothing else crosses a port.

    DulyError                     every error a user can meet; its text is one line that says what to do
    ├── ConfigError               duly.toml or the environment is wrong
    ├── InputError                a file, row, address or argument is wrong
    ├── NotFound                  no such reminder or delivery
    ├── SchemaError               migrations are pending, or an applied one was changed
    ├── StoreError                the database answered, and refused
    └── StoreUnavailable          the database did not answer; the call may or may not have happened

Outcomes of deliveries are values, not exceptions. An exception that is not in this tree is a bug.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "DulyError",
    "InputError",
    "NotFound",
    "SchemaError",
    "StoreError",
    "StoreUnavailable",
    "Unrenderable",
    "VersionUnknown",
]


class DulyError(Exception):
    """The root: its text is one line, names the key, row or field, and says what to do."""


class ConfigError(DulyError):
    """The configuration is missing, unreadable or wrong."""


class InputError(DulyError):
    """Something the caller gave us (a file, a row, an address, an argument) is wrong."""


class NotFound(InputError):
    """No reminder or delivery goes by that name."""


class SchemaError(DulyError):
    """The database's schema is not the one that this program needs."""


class StoreError(DulyError):
    """The database answered, and refused: wrong credentials, no such database, a constraint."""


class StoreUnavailable(DulyError):
    """The database did not answer. A commit that was under way may have happened."""


class Unrenderable(DulyError):
    """A template cannot be rendered with this data. The text is the reason that views show."""


class VersionUnknown(DulyError):
    """A row was promised by a version of its template that is not at hand here. It may be elsewhere, or later."""
