"""Slots: how many requests a transport may have in its hands, in all and for each host.

A slot is taken before a delivery begins and given back when its outcome is durable, so that nothing begins
which cannot be sent at once. This is counting and nothing else: no clock, no waiting, no I/O. A host is
whatever the transport calls one (for HTTP "host:port"); its count is forgotten when it falls to zero, so
the table never holds more entries than there are slots in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

__all__ = ["Slots"]


class Slots:
    """`capacity` slots in all, at most `per_host` of them for one host. Both are at least 1."""

    def __init__(self, capacity: int, per_host: int) -> None:
        if capacity < 1 or per_host < 1:
            raise ValueError(f"capacity ({capacity}) and per_host ({per_host}) must both be at least 1")
        self.capacity = capacity
        self.per_host = per_host
        self._used = 0
        self._by_host: Counter[str] = Counter()

    def room(self) -> int:
        """How many slots are free in all."""
        return self.capacity - self._used

    def reserve(self, hosts: Iterable[str]) -> list[bool]:
        """Take a slot for each host that has one free; one answer per host, in order."""
        return [self._take(host) for host in hosts]

    def release(self, hosts: Iterable[str]) -> None:
        """Free one slot for each host. Raises ValueError for a slot that was never taken: a bug of the caller."""
        for host in hosts:
            self._give_back(host)

    def _take(self, host: str) -> bool:
        if self._used >= self.capacity or self._by_host[host] >= self.per_host:
            return False
        self._used += 1
        self._by_host[host] += 1
        return True

    def _give_back(self, host: str) -> None:
        left = self._by_host[host] - 1
        if left < 0:
            raise ValueError("a slot was released that nobody holds: release each reserved destination exactly once")
        self._used -= 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]
