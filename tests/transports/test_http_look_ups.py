"""GETs over the same transport: no body, one request each, and the same guards as for a POST."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from duly.core.keys import show
from duly.core.model import Attempt, Look, LookKind, Outcome
from duly.ports import Answer, HttpRequest, Sent
from duly.providers.webhook import WebhookProvider
from duly.testing.receiver import Receiver
from duly.transports.http import HttpTransport
from duly.transports.http_exchange import Exchange
from tests.providers.conformance import CONTENT, DOUBTFUL, NOW, ROW, SECRET, webhook
from tests.transports.raw_server import OK, RawServer, Received, answering, reset
from tests.transports.sending import answers, one_answer, post, unknown, unsent, with_transport

ROUNDS = 50
BODY_BYTES_MAX = 64 * 1024


@pytest.fixture
def server() -> Iterator[RawServer]:
    """A receiver that says 200 to everything, until a test gives it another script."""
    with RawServer(answering(OK)) as running:
        yield running


def get(url: str, body: bytes = b"", method: str = "GET") -> HttpRequest:
    """A look-up."""
    return HttpRequest(url, (("accept", "application/json"), ("webhook-id", "lookup_abc_1")), body, method)


def shut(peer: socket.socket) -> None:
    """End the connection in an orderly way."""
    peer.shutdown(socket.SHUT_RDWR)


def test_a_look_up_arrives_as_a_get_without_a_body(server: RawServer) -> None:
    """Path and headers arrive unchanged, and nothing announces a body."""
    server.script = answering(b"HTTP/1.1 404 Not Found\r\nRetry-After: 3\r\ncontent-length: 2\r\n\r\n{}")
    answer = one_answer(get(server.url("/deliveries/abc?x=1")))
    assert (answer.status, answer.headers["retry-after"], answer.body, answer.error) == (404, "3", b"{}", None)
    (received,) = server.received
    assert received.head.startswith(b"GET /deliveries/abc?x=1 HTTP/1.1\r\n")
    lines = received.head.lower().split(b"\r\n")
    assert {b"accept: application/json", b"webhook-id: lookup_abc_1"} <= set(lines)
    assert not any(line.startswith((b"content-", b"transfer-encoding", b"expect")) for line in lines)


class Unread(Exchange):
    """Notes when libcurl reads a body."""

    reads = 0

    def _on_read(self, room: int) -> bytes:
        self.reads += 1
        return super()._on_read(room)


def test_no_body_is_read_for_a_look_up(server: RawServer) -> None:
    """The callback that reads bodies is asked for a POST, and never for a GET on the same handle."""

    async def use(over: HttpTransport) -> list[int]:
        turns = over._on_loop()
        assert turns is not None
        watched = Unread(over._settings, over._reading, turns.connections.opened, turns.restless)
        over._idle.append(watched)
        counted: list[int] = []
        for content in (get(server.url()), post(server.url(), b"{}"), get(server.url())):
            assert (await answers(over, content))[0].status == 200
            counted.append(watched.reads)
        return counted

    before, sent, after = with_transport(use)
    assert before == 0
    assert after == sent > 0


def test_posts_and_look_ups_take_turns_on_one_connection(server: RawServer) -> None:
    """A handle that sent the one sends the other next, whole and in its own way."""

    async def use(over: HttpTransport) -> None:
        for turn in range(10):
            assert (await answers(over, post(server.url("/in"), b"%d" % turn)))[0].status == 200
            assert (await answers(over, get(server.url("/deliveries/1"))))[0].status == 200

    with_transport(use)
    sent = [(received.head.split(b" ")[0], received.body) for received in server.received]
    assert sent == list(itertools.chain(*(((b"POST", b"%d" % turn), (b"GET", b"")) for turn in range(10))))
    assert server.connections == 1


@pytest.mark.parametrize(
    "content",
    [
        get("http://127.0.0.1:1/", b"{}"),
        get("http://127.0.0.1:1/", method="DELETE"),
        get("http://127.0.0.1:1/", method="get"),
        get("http://127.0.0.1:1/", method=""),
        get("http://127.0.0.1:1/", method="GET / HTTP/1.1\r\nX-Smuggled: 1\r\n\r\n"),
    ],
)
def test_other_methods_and_bodies_are_refused(server: RawServer, content: HttpRequest) -> None:
    """Nothing leaves, and the handle sends what comes next as if nothing had been."""

    async def use(over: HttpTransport) -> list[Answer]:
        return [*await answers(over, content), *await answers(over, post(server.url())), *await answers(over, content)]

    refused, sent, again = with_transport(use)
    assert unsent("protocol", refused)
    assert unsent("protocol", again)
    assert "Smuggled" not in refused.detail
    assert (sent.status, server.received[0].head.split(b" ")[0]) == (200, b"POST")


@pytest.mark.parametrize("end", [shut, reset])
def test_a_look_up_is_never_made_twice(server: RawServer, end: Callable[[socket.socket], None]) -> None:
    """A warm connection that dies once the GET was read: one arrived, and none is made in its stead."""
    paths: list[bytes] = []

    def script(peer: socket.socket, received: Received) -> None:
        if received.number == 0 and received.head.startswith(b"POST"):
            peer.sendall(OK)
            return
        paths.append(received.head.split(b" ")[1])
        time.sleep(len(paths) % 5 * 0.0005)
        end(peer)

    async def use(over: HttpTransport) -> list[Answer]:
        found: list[Answer] = []
        for n in range(ROUNDS):
            assert (await answers(over, post(server.url())))[0].status == 200
            found += await answers(over, get(server.url(f"/{n}")))
        return found

    server.script = script
    found = with_transport(use)
    assert paths == [b"/%d" % n for n in range(ROUNDS)]
    assert {(answer.error, answer.sent, answer.status) for answer in found} == {("reset", Sent.SOME, None)}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server: RawServer, status: int) -> None:
    """Also a GET goes to one place: where it leads is the answer, and nobody goes there."""
    server.script = answering(b"HTTP/1.1 %d X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n" % status)
    answer = one_answer(get(server.url()))
    assert (answer.status, answer.headers["location"]) == (status, "/elsewhere")
    assert len(server.received) == 1


def test_what_is_kept_of_an_answer_is_bounded(server: RawServer) -> None:
    """Of a body without end 64 KiB are kept, and the status stays."""
    server.script = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"a" * 300_000)
    answer = one_answer(get(server.url()))
    assert (answer.status, answer.body, answer.error) == (200, b"a" * BODY_BYTES_MAX, None)


def test_an_address_inside_is_not_asked(server: RawServer) -> None:
    """Where messages may not go, questions do not go either."""
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        assert unsent("refused_address", one_answer(get(server.url(host=host)), allow_private_networks=False))
    assert server.connections == 0


def test_a_silent_receiver_is_not_waited_for_longer(server: RawServer) -> None:
    """The timeout of the provider ends a question as it ends a message."""
    server.script = answering(b"")
    began = time.monotonic()
    assert unknown("timeout", one_answer(get(server.url()), timeout_seconds=0.2))
    assert 0.15 < time.monotonic() - began < 10


def test_a_look_up_past_its_time_is_not_started(server: RawServer) -> None:
    """A question that is asked too late is not asked."""
    answer = one_answer(get(server.url()), start_before=100.0, reading=lambda: 100.0)
    assert unsent("too_late", answer)
    assert server.received == []


def test_a_lost_answer_is_found_again() -> None:
    """The provider's own question, over this transport, finds what the receiver took and never answered."""

    async def use(over: HttpTransport) -> list[Look]:
        async with Receiver(secrets=[SECRET], lookup=True, settling_seconds=0.3) as receiver:
            provider = webhook(lookup_url=receiver.lookup_url("busy-ok"))
            frozen = provider.freeze(ROW._replace(address=receiver.url("lost")), CONTENT, NOW)
            (answer,) = await answers(over, provider.request(frozen, Attempt(show(ROW.id), 1, NOW)))
            assert provider.classify(answer, NOW).outcome is Outcome.UNKNOWN
            looks = [await look(over, provider) for _ in range(2)]
            await asyncio.sleep(0.3)
            return [*looks, await look(over, provider)]

    async def look(over: HttpTransport, provider: WebhookProvider) -> Look:
        (answer,) = await answers(over, provider.look(DOUBTFUL, LookKind.KEY, NOW))
        return provider.seen(DOUBTFUL, LookKind.KEY, answer, NOW)

    busy, missed, found = with_transport(use, timeout_seconds=0.2)
    assert (busy, missed, found) == (Look(None, retry_after=1.0), Look(False), Look(True, "accepted-1"))
