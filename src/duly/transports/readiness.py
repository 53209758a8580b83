"""Which sockets have news, told through one descriptor.

Each socket is watched once, when it is opened, for both directions and by edge: the kernel reports a change,
not a condition. So no request costs a system call of its own to be watched, and a peer that closes an idle
connection is reported once and never again. The watcher is itself a descriptor that an event loop can watch.
The kernel forgets a socket when it is closed, so there is nothing to take back.
"""

from __future__ import annotations

import select
import sys
from typing import Final

__all__ = ["Readiness"]

_EVENTS_MAX: Final = 1024

if sys.platform == "linux":
    _BOTH_WAYS: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
    _ENDED: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR

    class Readiness:
        """Watches sockets with epoll."""

        def __init__(self) -> None:
            self._poll = select.epoll()

        def fileno(self) -> int:
            """The descriptor that is readable while there is news."""
            return self._poll.fileno()

        def watch(self, descriptor: int) -> None:
            """Report every change of this socket until it is closed. Raises OSError if that cannot be."""
            self._poll.register(descriptor, _BOTH_WAYS)

        def watches(self, descriptor: int) -> bool:
            """Whether the socket that was watched under this number is still open."""
            try:
                self._poll.modify(descriptor, _BOTH_WAYS)
            except OSError:
                return False
            return True

        def news(self) -> list[int]:
            """Take note of all news; it is not told again. Returns the sockets that the other side has closed."""
            return [descriptor for descriptor, event in self._poll.poll(0, _EVENTS_MAX) if event & _ENDED]

        def close(self) -> None:
            """Stop watching."""
            self._poll.close()

else:

    class Readiness:
        """Watches sockets with kqueue (macOS, the BSDs)."""

        def __init__(self) -> None:
            self._queue = select.kqueue()

        def fileno(self) -> int:
            """The descriptor that is readable while there is news."""
            return self._queue.fileno()

        def watch(self, descriptor: int) -> None:
            """Report every change of this socket until it is closed. Raises OSError if that cannot be."""
            flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR
            wanted = (select.KQ_FILTER_READ, select.KQ_FILTER_WRITE)
            self._queue.control([select.kevent(descriptor, kind, flags) for kind in wanted], 0)

        def watches(self, descriptor: int) -> bool:
            """Whether the socket that was watched under this number is still open."""
            try:
                self._queue.control([select.kevent(descriptor, select.KQ_FILTER_READ, select.KQ_EV_ENABLE)], 0)
            except OSError:
                return False
            return True

        def news(self) -> list[int]:
            """Take note of all news; it is not told again. Returns the sockets that the other side has closed."""
            return [
                event.ident for event in self._queue.control(None, _EVENTS_MAX, 0) if event.flags & select.KQ_EV_EOF
            ]

        def close(self) -> None:
            """Stop watching."""
            self._queue.close()
