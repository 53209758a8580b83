"""One attempt is one request, whatever happens to the connection.

libcurl by itself repeats a request when a reused connection dies before an answer. Each test here makes it
want to, and counts what really arrives. The answers must agree with the count: a status means that the request
arrived once, sent NOTHING that it did not arrive, and an error with sent SOME says no more than that.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator

import pycurl
import pytest

from duly.ports import Answer, Sent
from duly.transports.http import HttpTransport
from duly.transports.http_exchange import Exchange
from tests.transports.raw_server import OK, RawServer, Received, answering, reset
from tests.transports.sending import answers, one_answer, post, with_transport

ROUNDS = 100
WARM = b"warm"


@pytest.fixture
def server() -> Iterator[RawServer]:
    """A receiver that says 200 to everything, until a test gives it another script."""
    with RawServer(answering(OK)) as running:
        yield running


def shut(peer: socket.socket) -> None:
    """End the connection in an orderly way."""
    peer.shutdown(socket.SHUT_RDWR)


def keeps_the_promise(answer: Answer, arrived: int) -> bool:
    """Whether the evidence agrees with what arrived."""
    if answer.status is not None:
        return arrived == 1
    return arrived == 0 if answer.sent is Sent.NOTHING else arrived <= 1


@pytest.mark.parametrize("end", [shut, reset])
@pytest.mark.parametrize("rest", [b"", b"x" * 600, b"x" * 200_000], ids=["empty", "small", "large"])
def test_a_warm_connection_that_dies_after_the_request_is_not_tried_again(
    server: RawServer, end: Callable[[socket.socket], None], rest: bytes
) -> None:
    """Read whole, then closed: exactly one request arrived, and nobody knows whether it was taken."""
    paths: list[bytes] = []

    def script(peer: socket.socket, received: Received) -> None:
        if received.number == 0 and received.body == WARM:
            peer.sendall(OK)
            return
        paths.append(received.head.split(b" ")[1])
        time.sleep(len(paths) % 5 * 0.0005)
        end(peer)

    async def use(over: HttpTransport) -> list[Answer]:
        found: list[Answer] = []
        for n in range(ROUNDS):
            assert (await answers(over, post(server.url(), WARM)))[0].status == 200
            found += await answers(over, post(server.url(f"/{n}"), rest))
        return found

    server.script = script
    found = with_transport(use)
    assert paths == [b"/%d" % n for n in range(ROUNDS)]
    assert {(answer.error, answer.sent, answer.status) for answer in found} == {("reset", Sent.SOME, None)}


class Credulous(Exchange):
    """Lets libcurl begin as often as it likes: only the guard of the body is left."""

    __slots__ = ()

    def _on_request(self, *_ends: object) -> int:
        self.begun = True
        return pycurl.PREREQFUNC_OK


@pytest.mark.parametrize("end", [shut, reset])
def test_the_body_has_a_guard_of_its_own(server: RawServer, end: Callable[[socket.socket], None]) -> None:
    """Even if libcurl were let, it could not send a body a second time: it cannot be rewound."""

    def script(peer: socket.socket, received: Received) -> None:
        if received.body == WARM:
            peer.sendall(OK)
        else:
            end(peer)

    async def use(over: HttpTransport) -> Answer:
        assert (await answers(over, post(server.url(), WARM)))[0].status == 200
        turns = over._on_loop()
        assert turns is not None
        over._idle.append(Credulous(over._settings, over._reading, turns.connections.opened, turns.restless))
        return (await answers(over, post(server.url(), b"once")))[0]

    server.script = script
    answer = with_transport(use)
    assert (answer.error, answer.sent) == ("reset", Sent.SOME)
    assert server.bodies()[b"once"] == 1


@pytest.mark.parametrize("end", [shut, reset])
def test_a_warm_connection_that_dies_before_the_request_is_honest(
    server: RawServer, end: Callable[[socket.socket], None]
) -> None:
    """The receiver closes a warm connection at about the time of the next request: never two arrive."""

    def script(peer: socket.socket, received: Received) -> None:
        peer.sendall(OK)
        if received.body == WARM:
            time.sleep(received.connection % 7 * 0.0002)
            end(peer)

    async def use(over: HttpTransport) -> list[Answer]:
        found: list[Answer] = []
        for n in range(2 * ROUNDS):
            assert (await answers(over, post(server.url(), WARM)))[0].status == 200
            time.sleep(n % 11 * 0.0002)  # noqa: ASYNC251 - the loop must not see the close before it sends
            found += await answers(over, post(server.url(), b"%d" % n))
        return found

    server.script = script
    found = with_transport(use)
    arrived = server.bodies()
    assert all(keeps_the_promise(answer, arrived[b"%d" % n]) for n, answer in enumerate(found))
    assert any(answer.status == 200 for answer in found)


@pytest.mark.parametrize("end", [shut, reset])
def test_connections_that_died_while_idle_are_not_written_to(
    server: RawServer, end: Callable[[socket.socket], None]
) -> None:
    """A receiver that closes all its idle connections costs nobody a doubt: fresh ones are made, within the bound."""

    def script(peer: socket.socket, received: Received) -> None:
        time.sleep(0.005)
        peer.sendall(OK)
        if received.body == WARM:
            end(peer)

    async def use(over: HttpTransport) -> None:
        for turn in range(5):
            assert {one.status for one in await answers(over, *[post(server.url(), WARM)] * 8)} == {200}
            time.sleep(0.02)  # noqa: ASYNC251 - the closes arrive while the loop is not looking
            marked = [post(server.url(), b"%d-%d" % (turn, n)) for n in range(8)]
            assert {one.status for one in await answers(over, *marked)} == {200}

    server.script = script
    with_transport(use, per_host=8)
    arrived = server.bodies()
    del arrived[WARM]
    assert set(arrived.values()) == {1}
    assert len(arrived) == 40


def test_a_live_connection_is_used_again_after_a_dead_one_was_seen(server: RawServer) -> None:
    """Fresh connections are made only until libcurl has put the dead one away."""

    def script(peer: socket.socket, received: Received) -> None:
        peer.sendall(OK)
        if received.connection == 0:
            shut(peer)

    async def use(over: HttpTransport) -> None:
        deadline = time.monotonic() + 30
        while server.connections < 2 or server.received[-1].number < 10:
            assert time.monotonic() < deadline, "no connection is kept"
            assert (await answers(over, post(server.url())))[0].status == 200
            await asyncio.sleep(0.01)

    server.script = script
    with_transport(use)
    assert server.received[-1].number >= 10


def test_many_warm_connections_that_die_at_once_repeat_nothing(server: RawServer) -> None:
    """Dozens of requests on warm connections, all cut after they were read: each arrived once."""

    def script(peer: socket.socket, received: Received) -> None:
        if received.body == WARM:
            time.sleep(0.01)
            peer.sendall(OK)
        else:
            reset(peer)

    async def use(over: HttpTransport) -> None:
        for turn in range(4):
            assert {one.status for one in await answers(over, *[post(server.url(), WARM)] * 40)} == {200}
            marked = [post(server.url(), b"%d-%d" % (turn, n)) for n in range(40)]
            found = await answers(over, *marked)
            assert {(answer.error, answer.sent) for answer in found} == {("reset", Sent.SOME)}

    server.script = script
    with_transport(use)
    arrived = server.bodies()
    assert arrived.pop(WARM) == 160
    assert len(arrived) == 160
    assert set(arrived.values()) == {1}


def test_a_large_body_that_is_cut_off_is_not_started_again(server: RawServer) -> None:
    """The receiver closes a warm connection in the middle of the body: no second connection is made for it."""
    heads: list[bytes] = []

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(OK)
        heads.append(peer.recv(1000))
        reset(peer)

    async def use(over: HttpTransport) -> None:
        for _ in range(20):
            assert (await answers(over, post(server.url(), WARM)))[0].status == 200
            (answer,) = await answers(over, post(server.url("/large"), b"x" * 3_000_000))
            assert (answer.error, answer.sent) == ("reset", Sent.SOME)

    server.script = script
    with_transport(use)
    assert len(server.received) == 20  # only the warm ones came whole
    assert sum(head.startswith(b"POST /large ") for head in heads) == 20


def test_an_answer_before_the_body_is_whole_is_the_answer() -> None:
    """A receiver that refuses a large body early is heard, and is not asked again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

        async def use(over: HttpTransport) -> Answer:
            sending = asyncio.create_task(answers(over, post(url, b"x" * 3_000_000)))
            peer, _ = await asyncio.to_thread(listener.accept)
            peer.recv(1000)
            peer.sendall(b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            (answer,) = await sending
            peer.close()
            return answer

        answer = with_transport(use)
        listener.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert (answer.status, answer.error) == (413, None)


@pytest.mark.parametrize("number", [b"401", b"407", b"408", b"417", b"421", b"425", b"503"])
def test_no_status_makes_it_ask_again(server: RawServer, number: bytes) -> None:
    """Statuses that invite another try, on a warm connection, with credentials in the URL: one request."""
    invitation = b"www-authenticate: Digest realm=a, nonce=b\r\nproxy-authenticate: Basic\r\nretry-after: 0\r\n"

    def script(peer: socket.socket, received: Received) -> None:
        peer.sendall(OK if received.body == WARM else b"HTTP/1.1 %s X\r\n%s\r\n" % (number, invitation))
        if received.body != WARM:
            shut(peer)

    async def use(over: HttpTransport) -> None:
        url = server.url(host="user:secret@127.0.0.1")
        await answers(over, post(url, WARM))
        assert (await answers(over, post(url, b"once")))[0].status == int(number)

    server.script = script
    with_transport(use)
    assert server.bodies()[b"once"] == 1


def test_a_repeat_would_be_seen_here(server: RawServer) -> None:
    """The server counts a repeat when there is one: two requests with the same body are two."""
    assert one_answer(post(server.url(), b"same")).status == 200
    assert one_answer(post(server.url(), b"same")).status == 200
    assert server.bodies()[b"same"] == 2
