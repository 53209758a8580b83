"""The HTTP transport as a port: connections, slots, batches, waiting, closing, and failures of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from duly.errors import ConfigError
from duly.ports import Answer, Request
from duly.transports.http import HttpTransport, host_of
from tests.transports.raw_server import OK, RawServer, Received, answering
from tests.transports.sending import (
    NEVER,
    answers,
    landed,
    one_answer,
    post,
    transport,
    unknown,
    unsent,
    with_transport,
)


@pytest.fixture
def server() -> Iterator[RawServer]:
    """A receiver that says 200 to everything, until a test gives it another script."""
    with RawServer(answering(OK)) as running:
        yield running


# --- connections, bounds, batches ------------------------------------------------------------------


def test_a_connection_is_used_again(server: RawServer) -> None:
    """Requests one after the other share one connection."""

    async def use(over: HttpTransport) -> None:
        for _ in range(20):
            assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use)
    assert (server.connections, len(server.received)) == (1, 20)


def test_a_host_never_has_more_connections_than_its_share(server: RawServer) -> None:
    """Slots are counted by host, and even requests without a slot do not open more connections."""

    def slowly(peer: socket.socket, _received: Received) -> None:
        time.sleep(0.03)
        peer.sendall(OK)

    async def use(over: HttpTransport) -> None:
        assert over.reserve([server.url(f"/{n}") for n in range(6)]) == [True] * 4 + [False] * 2
        assert over.reserve([server.url(host="localhost")]) == [True]
        assert over.room() == 11
        found = await answers(over, *(post(server.url()) for _ in range(12)))
        assert {answer.status for answer in found} == {200}

    server.script = slowly
    with_transport(use, capacity=16, per_host=4)
    assert server.open_at_most == 4


def test_two_hosts_do_not_wait_for_each_other(server: RawServer) -> None:
    """One receiver that is silent costs the other nothing."""
    with RawServer(answering(b"")) as silent:

        async def use(over: HttpTransport) -> None:
            await over.start([Request(0, post(silent.url()), NEVER)])
            await over.start([Request(token, post(server.url()), NEVER) for token in range(1, 9)])
            came: list[int] = []
            while len(came) < 8:
                came += [completion.token for completion in await over.completed(10, 2)]
            assert sorted(came) == list(range(1, 9))

        with_transport(use)


def test_a_large_batch_comes_back_whole(server: RawServer) -> None:
    """Three hundred at once, more than turns are kept close together for: each has its own answer."""
    server.script = lambda peer, one: peer.sendall(
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(one.body), one.body)
    )

    async def use(over: HttpTransport) -> None:
        found = await answers(over, *(post(server.url(), b"%d" % n) for n in range(300)))
        assert [answer.body for answer in found] == [b"%d" % n for n in range(300)]

    with_transport(use, capacity=300, per_host=300)
    assert max(server.bodies().values()) == 1


def test_completed_keeps_to_its_limit_and_its_time(server: RawServer) -> None:
    """No more than `limit` come at once, the rest comes next, and with nothing to come the wait ends."""

    async def use(over: HttpTransport) -> None:
        began = time.monotonic()
        assert await over.completed(10, 0.05) == []
        assert 0.04 < time.monotonic() - began < 10
        await over.start([Request(token, post(server.url()), NEVER) for token in range(5)])
        await asyncio.sleep(0.2)
        sizes = [len(await over.completed(2, 1)) for _ in range(3)]
        assert sizes == [2, 2, 1]

    with_transport(use)


def test_completed_lingers_for_those_that_come_close_behind(server: RawServer) -> None:
    """After the first answer it waits a little for more, but not when nothing is left in the air."""

    def staggered(peer: socket.socket, received: Received) -> None:
        time.sleep(int(received.body) * 0.02)
        peer.sendall(OK)

    async def use(over: HttpTransport) -> None:
        await over.start([Request(token, post(server.url(), b"%d" % token), NEVER) for token in range(4)])
        began = time.monotonic()
        assert len(await over.completed(10, 30)) == 4
        assert time.monotonic() - began < 8

    server.script = staggered
    with_transport(use, linger_seconds=9)


def test_a_wait_for_room_ends_when_a_slot_is_released(server: RawServer) -> None:
    """Waiting for room ends by a release, or by its time."""

    async def use(over: HttpTransport) -> None:
        urls = [server.url(), server.url()]
        assert over.reserve(urls) == [True, True]
        assert await over.wait_for_room(0.02) == 0
        asyncio.get_running_loop().call_later(0.02, over.release, urls[:1])
        began = time.monotonic()
        assert await over.wait_for_room(30) == 1
        assert time.monotonic() - began < 10

    with_transport(use, capacity=2)


def test_destinations_are_counted_by_host_and_port() -> None:
    """Slots belong to host and port, however the URL is written; what is no URL shares one count."""
    assert host_of("https://Hooks.Example/a?b") == "hooks.example:443"
    assert host_of("HTTP://user:pw@hooks.example:8080") == "hooks.example:8080"
    assert host_of("http://[2001:db8::1]/") == "2001:db8::1:80"
    assert host_of("nonsense") == host_of("http://:80/") == ""


# --- closing, and failures of our own --------------------------------------------------------------


def test_closing_cuts_what_is_under_way_by_its_evidence(server: RawServer) -> None:
    """A request that was written is unknown; one that had no connection yet was not sent."""
    server.script = answering(b"")
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts, and never speaks TLS

        async def use() -> list[Answer]:
            over = transport()
            mute_url = f"https://127.0.0.1:{mute.getsockname()[1]}/"
            await over.start([Request(0, post(server.url()), NEVER), Request(1, post(mute_url), NEVER)])
            await asyncio.sleep(0.2)
            await over.close()
            await over.close()
            await over.start([Request(2, post(server.url()), NEVER)])
            return await landed(over, 3)

        written, connecting, afterwards = asyncio.run(use())
    assert unknown("reset", written)
    assert unsent("connect", connecting)
    assert unsent("connect", afterwards)
    assert len(server.received) == 1


def test_closing_what_never_started_is_fine() -> None:
    """A transport that sent nothing can be closed, twice, and wakes nobody for nothing."""

    async def use() -> None:
        over = transport()
        await over.close()
        await over.close()
        assert await over.completed(1, 0.01) == []

    asyncio.run(use())


def test_closing_leaves_no_thread_and_no_connection(server: RawServer) -> None:
    """After closing, the receiver sees its connections end, and no thread of ours is left."""
    before = threading.active_count()
    assert one_answer(post(server.url())).status == 200
    deadline = time.monotonic() + 30
    while (server.open_now or threading.active_count() > before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.open_now == 0
    assert threading.active_count() <= before


def test_a_failure_of_libcurls_machinery_loses_no_request(server: RawServer) -> None:
    """Everything in the air ends as unknown, and the transport goes on."""
    server.script = answering(b"")

    async def use(over: HttpTransport) -> None:
        await over.start([Request(token, post(server.url()), NEVER) for token in range(3)])
        assert over._turns is not None
        over._turns._multi.close()
        assert all(unknown("protocol", answer) for answer in await landed(over, 3))
        server.script = answering(OK)
        assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use)


def test_a_request_that_libcurl_does_not_take_was_not_sent(server: RawServer) -> None:
    """What could not be put in the air was not sent, and has an answer; the next one is sent."""

    async def use(over: HttpTransport) -> None:
        assert (await answers(over, post(server.url())))[0].status == 200
        assert over._turns is not None
        over._turns._multi.close()
        assert unsent("protocol", (await answers(over, post(server.url())))[0])
        assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use)


@pytest.mark.parametrize(
    "settings",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": -1},
        {"connect_timeout_seconds": 0},
        {"body_limit": -1},
        {"ca_file": "/nowhere/at/all.pem"},
    ],
)
def test_wrong_settings_are_refused_when_it_is_made(settings: dict[str, object]) -> None:
    """A number out of range or a missing file is one clear line, before anything is sent."""
    with pytest.raises(ConfigError, match=r"seconds|bytes|ca_file"):
        transport(**settings)
