"""The installation under fire: a folder, a configuration, and Duly's commands run in it as processes of their own.

Every receiver is an endpoint of its own, so that one that asks for a pause stops no other. Few deliveries
are in a worker's hands at once and leases are short, so that a kill leaves little in doubt and what it
leaves moves on within seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from soak.stub import LOOK_UPS, Promises

__all__ = ["ACCOUNT", "RECEIVERS_OF_A_KIND", "Installation", "Kind", "path_of"]

ACCOUNT: Final = "soak"
RECEIVERS_OF_A_KIND: Final = 4
LEASE_SECONDS: Final = 8
TIMEOUT_SECONDS: Final = 2
SETTLING_SECONDS: Final = 2
#: Public, and worth nothing: it signs what goes to a receiver on loopback.
SECRET: Final = "whsec_c29hay1zb2FrLXNvYWstc29hay1zb2FrLXNvYWs="

TOML: Final = f"""\
lease_seconds = {LEASE_SECONDS}

[providers.hooks]
kind = "webhook"
secret = "env:SOAK_SECRET"
timeout_seconds = {TIMEOUT_SECONDS}
allow_private_networks = true
concurrency = 6

[accounts.{ACCOUNT}]
on_doubt = "hold"

[templates.note]
subject = "Note {{{{ data.number }}}}"
text = "Hello {{{{ recipient.name }}}}, this is note {{{{ data.number }}}}."
"""


class Kind(StrEnum):
    """What a receiver promises."""

    KEYED = "keyed"
    LOOKUP = "lookup"
    NOTHING = "nothing"


def path_of(kind: Kind, number: int) -> str:
    """The path of a receiver."""
    return f"/{kind}/{number % RECEIVERS_OF_A_KIND}"


class Installation:
    """A configuration for receivers at `port`, on the database `url`."""

    promises: Final = Promises(TIMEOUT_SECONDS, SETTLING_SECONDS)

    def __init__(self, folder: Path, url: str, port: int) -> None:
        self.folder = folder
        self.file = folder / "duly.toml"
        self.text = TOML + "".join(_endpoints(port))
        self.environment = {"DULY_DATABASE": url, "SOAK_SECRET": SECRET}
        self._root = f"http://127.0.0.1:{port}"
        self.file.write_text(self.text, encoding="utf-8")

    def url(self, path: str) -> str:
        """The address of a receiver."""
        return self._root + path

    def command(self, *arguments: str) -> list[str]:
        """A command of Duly's, for `subprocess`."""
        return [sys.executable, "-m", "duly", *arguments, "--config", str(self.file)]


def _endpoints(port: int) -> Iterator[str]:
    look_ups = f"http://127.0.0.1:{port}{LOOK_UPS}{{delivery}}"
    promised = {
        Kind.KEYED: "deduplicates = true",
        Kind.LOOKUP: f'lookup_url = "{look_ups}"\nsettling_seconds = {SETTLING_SECONDS}',
        Kind.NOTHING: "deduplicates = false",
    }
    for kind, promise in promised.items():
        for number in range(RECEIVERS_OF_A_KIND):
            url = f"http://127.0.0.1:{port}{path_of(kind, number)}"
            yield f'\n[endpoints.{kind}-{number}]\nurl = "{url}"\n{promise}\n'
