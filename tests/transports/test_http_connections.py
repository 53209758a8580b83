"""Closed connections are known by their sockets, and forgotten when libcurl closes its end."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from duly.transports.http_connections import Connections

HOST = "hooks.example:443"


@pytest.fixture
def connections() -> Iterator[Connections]:
    watched = Connections()
    yield watched
    watched.close()


def test_a_connection_that_is_open_on_both_sides_has_not_ended(connections: Connections) -> None:
    """Data that arrives is no end."""
    here, there = socket.socketpair()
    with here, there:
        connections.opened(here.fileno(), HOST)
        there.send(b"hello")
        connections.look()
        assert not connections.has_ended(HOST)


def test_a_connection_that_was_closed_over_there_has_ended_until_it_is_closed_here(connections: Connections) -> None:
    """The end holds for its own host only, as long as our side is open, and is told once."""
    here, there = socket.socketpair()
    connections.opened(here.fileno(), HOST)
    there.close()
    connections.look()
    connections.look()
    assert connections.has_ended(HOST)
    assert not connections.has_ended("other.example:443")
    here.close()
    assert not connections.has_ended(HOST)


def test_a_descriptor_that_is_used_again_starts_afresh(connections: Connections) -> None:
    """The next socket under the same number is not taken for the one that ended."""
    here, there = socket.socketpair()
    number = here.fileno()
    connections.opened(number, HOST)
    there.close()
    connections.look()
    here.close()
    again, peer = socket.socketpair()
    with again, peer:
        assert number in (again.fileno(), peer.fileno())
        connections.opened(number, "other.example:443")
        connections.look()
        assert not connections.has_ended(HOST)
        assert not connections.has_ended("other.example:443")


def test_what_is_no_socket_cannot_be_watched(connections: Connections) -> None:
    """A number that is not open is refused, so that nobody waits for news of it."""
    with pytest.raises(OSError, match="descriptor"):
        connections.opened(999_999, HOST)
