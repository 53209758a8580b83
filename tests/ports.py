"""Ports for programs that must be told theirs, and for addresses where nobody may listen.

A port that the system gave and got back may be given to somebody else at any moment: to a double of another test,
to a connection of another process. So these lie below the range from which Linux, macOS and the BSDs give.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from typing import Final

__all__ = ["free_port"]

NOBODYS: Final = range(20_000, 32_000)


def free_port() -> int:
    """A loopback port on which nobody listens, and that nobody is given by chance."""
    dice = random.Random()
    while True:
        port = dice.choice(NOBODYS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
