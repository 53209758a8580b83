"""The limits of delivery, each with its unit in its name. Configuration may change them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

__all__ = ["DEATHS_MAX", "LEASE_MARGIN_SECONDS", "MOST_SUSPECT", "Limits"]

#: A lease must outlast the longest provider timeout by this much.
LEASE_MARGIN_SECONDS: Final = 2.0
#: How suspect a delivery can become of having killed its worker: then it is claimed alone.
MOST_SUSPECT: Final = 3
#: So many workers may die while they hold a delivery alone.
DEATHS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """How often and how long a delivery is tried."""

    attempts_max: int = 100
    backoff_first_seconds: float = 1.0
    backoff_ceiling_seconds: float = 900.0
    retry_after_ceiling_seconds: float = 3600.0
    circuit_first_seconds: float = 5.0
    pause_look_seconds: float = 60.0
    busy_endpoint_seconds: float = 1.0
    busy_summary_seconds: float = 1.0
    key_window_margin: timedelta = timedelta(minutes=1)
    misses_needed: int = 2  # look-ups in vain, a settling time apart, before they cover an attempt
    look_seconds: float = 5.0  # before a look-up that proved nothing is repeated, at first
    looking_longest: timedelta = timedelta(days=1)  # for how long a provider that does not answer is asked
