"""libcurl's connections, seen from outside: which host each leads to, and which the other side has closed.

libcurl looks for dead connections in its pool at most once a second. In between it would write a request to a
connection that its receiver closed a moment ago, and the request would be unknown although nobody can have
read it. We are told of every close at once. While a host has a connection that is closed over there and still
open here, its requests are given fresh ones.
"""

from __future__ import annotations

from duly.transports.readiness import Readiness

__all__ = ["Connections"]


class Connections:
    """The sockets of one pool of connections. Descriptors are used again, so the books never outgrow them."""

    def __init__(self) -> None:
        self._readiness = Readiness()
        self._hosts: dict[int, str] = {}
        self._ended: dict[str, set[int]] = {}

    def fileno(self) -> int:
        """The descriptor that is readable while there is news of any connection."""
        return self._readiness.fileno()

    def opened(self, descriptor: int, host: str) -> None:
        """Watch a new socket. Raises OSError if it cannot be watched."""
        former = self._hosts.pop(descriptor, None)
        if former is not None:
            self._ended.get(former, set()).discard(descriptor)
        self._readiness.watch(descriptor)
        self._hosts[descriptor] = host

    def look(self) -> None:
        """Take note of all news."""
        for descriptor in self._readiness.news():
            self._ended.setdefault(self._hosts[descriptor], set()).add(descriptor)

    def has_ended(self, host: str) -> bool:
        """Whether a connection to this host is closed over there and still open here."""
        ended = self._ended.get(host)
        if ended is None:
            return False
        still_open = {descriptor for descriptor in ended if self._readiness.watches(descriptor)}
        if still_open:
            self._ended[host] = still_open
        else:
            del self._ended[host]
        return bool(still_open)

    def close(self) -> None:
        """Stop watching."""
        self._readiness.close()
