"""The HTTP transport against real sockets: what is sent, what comes back, and how far a failure got."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from duly.ports import Answer, HttpRequest, Mail, Request, Sent
from duly.transports.http import HttpTransport
from tests.transports.raw_server import OK, RawServer, Received, answering, reset
from tests.transports.sending import NEVER, answers, one_answer, post, unknown, unsent, with_transport

NOWHERE = "http://127.0.0.1:1/"


@pytest.fixture
def server() -> Iterator[RawServer]:
    """A receiver that says 200 to everything, until a test gives it another script."""
    with RawServer(answering(OK)) as running:
        yield running


# --- what is sent ----------------------------------------------------------------------------------


def test_a_request_arrives_as_it_was_given(server: RawServer) -> None:
    """Path, headers and body arrive unchanged, with a length, and with nothing that asks for a second step."""
    answer = one_answer(post(server.url("/a?b=c"), b'{"x": 1}', (("Content-Type", "application/json"), ("X-One", "1"))))
    assert (answer.status, answer.body, answer.error) == (200, b"ok", None)
    (received,) = server.received
    lines = received.head.lower().split(b"\r\n")
    assert received.head.startswith(b"POST /a?b=c HTTP/1.1\r\n")
    assert received.body == b'{"x": 1}'
    assert {b"content-type: application/json", b"x-one: 1", b"content-length: 8"} <= set(lines)
    assert b"user-agent: duly/" in received.head.lower()
    assert not any(line.startswith((b"expect", b"transfer-encoding", b"upgrade")) for line in lines)


def test_an_empty_body_and_an_empty_header_are_sent(server: RawServer) -> None:
    """No body is a length of nothing, no value is a header without one, and no content type is made up."""
    assert one_answer(post(server.url(), b"", (("X-Empty", ""),))).status == 200
    lines = server.received[0].head.lower().split(b"\r\n")
    assert b"content-length: 0" in lines
    assert b"x-empty:" in lines
    assert not any(line.startswith(b"content-type") for line in lines)


def test_a_long_body_arrives_whole_and_without_asking_first(server: RawServer) -> None:
    """A body that takes many reads arrives whole and without pauses, and no interim answer is asked for."""
    body = bytes(range(256)) * 8192
    began = time.monotonic()
    assert one_answer(post(server.url(), body)).status == 200
    assert time.monotonic() - began < 10
    assert server.received[0].body == body
    assert b"expect" not in server.received[0].head.lower()


@pytest.mark.parametrize(
    "content",
    [
        post("http://127.0.0.1:1/a\r\nX-Smuggled: 1"),
        post("http://127.0.0.1:1/\x00"),
        post("http://127.0.0.1:1/a b"),
        post("http://127.0.0.1:1/\u00fc"),
        post("ftp://127.0.0.1:1/"),
        post("file:///etc/passwd"),
        post("127.0.0.1:1/"),
        post(""),
        post("http://"),
        post("http://127.0.0.1:99999/"),
        post("http://[::1/"),
        post("http://127.0.0.1:1/" + "a" * 5000),
        post(NOWHERE, headers=(("x-one", "1\r\nx-smuggled: 1"),)),
        post(NOWHERE, headers=(("x-one", "1\nx-smuggled: 1"),)),
        post(NOWHERE, headers=(("x-one", "1\x002"),)),
        post(NOWHERE, headers=(("x-one", "\u20ac"),)),
        post(NOWHERE, headers=(("x-one\r\nx-smuggled", "1"),)),
        post(NOWHERE, headers=(("x one", "1"),)),
        post(NOWHERE, headers=(("x-one:", "1"),)),
        post(NOWHERE, headers=(("", "1"),)),
        post(NOWHERE, headers=(("Transfer-Encoding", "chunked"),)),
        post(NOWHERE, headers=(("content-length", "5"),)),
        post(NOWHERE, headers=(("Expect", "100-continue"),)),
        post(NOWHERE, headers=(("Host", "elsewhere.example"),)),
        Mail("a@example.com", "b@example.com", b"", ""),
    ],
)
def test_what_cannot_be_sent_as_it_stands_is_refused(content: HttpRequest | Mail) -> None:
    """Line breaks, blanks, other protocols and headers of the transport's own are refused, and nothing leaves."""
    answer = one_answer(content)
    assert unsent("protocol", answer)
    assert "smuggled" not in answer.detail


def test_a_refused_request_does_not_hold_up_its_neighbours(server: RawServer) -> None:
    """In one batch the good are sent and the bad are refused, each under its own token."""

    async def use(over: HttpTransport) -> list[Answer]:
        return await answers(over, post(server.url()), post("nonsense"), post(server.url()))

    assert [answer.status for answer in with_transport(use)] == [200, None, 200]


# --- what comes back -------------------------------------------------------------------------------


def test_headers_come_back_with_names_in_lower_case(server: RawServer) -> None:
    """Names are in lower case, values without blanks around, repeated headers joined, trailers left out."""
    server.script = answering(
        b"HTTP/1.1 202 Fine\r\nX-Request-ID:  abc \r\nVia: a\r\nVIA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.body) == (202, b"ok")
    assert answer.headers == {"x-request-id": "abc", "via": "a, b", "transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    "status", [200, 204, 301, 302, 307, 308, 400, 401, 407, 409, 410, 417, 421, 425, 429, 500, 503]
)
def test_every_final_status_is_an_answer_and_nothing_follows(server: RawServer, status: int) -> None:
    """Whatever the status asks for (go elsewhere, authenticate, expect less), one request was made and that is all."""
    more = b"location: /elsewhere\r\nwww-authenticate: Digest realm=x, nonce=y\r\nproxy-authenticate: Basic\r\n"
    server.script = answering(b"HTTP/1.1 %d X\r\n%scontent-length: 0\r\n\r\n" % (status, more))
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.error, answer.detail) == (status, None, "")
    assert len(server.received) == 1


def test_interim_answers_are_skipped(server: RawServer) -> None:
    """1xx are not answers: the status and the headers are those of the final one."""
    server.script = answering(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"
    )
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.headers) == (201, {"content-length": "0"})


def test_a_long_body_is_cut_and_the_status_stays(server: RawServer) -> None:
    """Past the limit nothing more is read; what came is kept, and a 2xx is still a 2xx."""
    server.script = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"a" * 300_000)
    answer = one_answer(post(server.url()), body_limit=1000)
    assert (answer.status, answer.body, answer.error) == (200, b"a" * 1000, None)
    assert answer.detail == "body cut at 1000 bytes"


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf", 200, b"half"),
        (b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", 503, b"half"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 200, b""),
        (b"HTTP/1.1 202 OK\r\nx-request-id: a", 202, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 200, b""),
    ],
)
def test_an_answer_that_ends_early_is_still_an_answer(server: RawServer, raw: bytes, status: int, body: bytes) -> None:
    """Once a final status line has come the receiver has decided; a torn body or head does not undo that."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)

    server.script = script
    answer = one_answer(post(server.url()))
    assert (answer.status, answer.body, answer.error) == (status, body, None)


def test_a_body_that_never_ends_is_still_an_answer(server: RawServer) -> None:
    """A body that only drips is cut by the timeout, and the status stays."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(100):
            peer.sendall(b"a")
            time.sleep(0.02)

    server.script = script
    answer = one_answer(post(server.url()), timeout_seconds=0.3)
    assert (answer.status, answer.error) == (200, None)
    assert 1 <= len(answer.body) < 1000
    assert answer.detail == "answer cut short: no answer in time"


@pytest.mark.parametrize(
    "head", [b"x-long: " + b"a" * 400_000, b"x-a: 1\r\n" * 60_000, (b"x-a: " + b"a" * 900 + b"\r\n") * 100]
)
def test_headers_are_bounded(server: RawServer, head: bytes) -> None:
    """Headers without end are neither kept nor waited for, and the status stays."""
    server.script = answering(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
    answer = one_answer(post(server.url()), timeout_seconds=3)
    assert answer.status == 200
    assert sum(map(len, answer.headers.values())) <= 32 * 1024


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\nhello",
    ],
)
def test_garbage_is_unknown(server: RawServer, raw: bytes) -> None:
    """A request went out and what came back is no HTTP answer: nobody knows what the receiver did."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)

    server.script = script
    assert unknown("protocol", one_answer(post(server.url())))


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 20", b"HTTP/1.1 100 Continue\r\n\r\n"])
@pytest.mark.parametrize("rudely", [False, True])
def test_a_connection_that_ends_before_a_final_status_is_unknown(server: RawServer, raw: bytes, rudely: bool) -> None:
    """No status line, half of one, or only an interim one: the request may have been taken."""

    def script(peer: socket.socket, _received: Received) -> None:
        peer.sendall(raw)
        time.sleep(0.02)
        if rudely:
            reset(peer)
        else:
            peer.shutdown(socket.SHUT_RDWR)

    server.script = script
    assert unknown("reset", one_answer(post(server.url())))


def test_interim_answers_without_end_are_bounded(server: RawServer) -> None:
    """A receiver that sends nothing but 1xx is cut off, and nobody knows what it did."""

    def script(peer: socket.socket, _received: Received) -> None:
        while True:
            peer.sendall(b"HTTP/1.1 103 Early Hints\r\nlink: " + b"a" * 500 + b"\r\n\r\n")

    server.script = script
    answer = one_answer(post(server.url()))
    assert answer.sent is Sent.SOME
    assert (answer.status, answer.error) == (None, "reset")


# --- how far a failure got -------------------------------------------------------------------------


def test_no_answer_in_time_is_unknown(server: RawServer) -> None:
    """The request was taken and the answer did not come: timeout, and some of it was sent."""
    server.script = answering(b"")
    began = time.monotonic()
    assert unknown("timeout", one_answer(post(server.url()), timeout_seconds=0.2))
    assert 0.15 < time.monotonic() - began < 10


def test_a_status_line_that_drips_is_unknown(server: RawServer) -> None:
    """Half a status line when the time is up says nothing."""

    def script(peer: socket.socket, _received: Received) -> None:
        for byte in b"HTTP/1.1 200 OK":
            peer.sendall(bytes([byte]))
            time.sleep(0.05)

    server.script = script
    assert unknown("timeout", one_answer(post(server.url()), timeout_seconds=0.3))


def test_a_connection_that_is_not_accepted_in_time_was_not_sent() -> None:
    """A receiver whose queue of connections is full: the connect timeout ends it, long before the total one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = listener.getsockname()
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(where)
        began = time.monotonic()
        answer = one_answer(post(f"http://127.0.0.1:{where[1]}/"), connect_timeout_seconds=0.3, timeout_seconds=9)
        took = time.monotonic() - began
        for one in crowd:
            one.close()
    assert unsent("timeout", answer)
    assert 0.25 < took < 8


def test_a_refused_connection_was_not_sent() -> None:
    """Nobody listens: nothing was sent, and the reason is named."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = one_answer(post(f"http://127.0.0.1:{unused.getsockname()[1]}/"))
    assert unsent("connect", answer)
    assert "ECONNREFUSED" in answer.detail


def test_a_name_that_does_not_resolve_was_not_sent() -> None:
    """A name that does not exist (RFC 6761, 6.4): nothing was sent, and the detail does not repeat the name."""
    answer = one_answer(post("http://nobody.invalid/"))
    assert unsent("dns", answer)
    assert "nobody" not in answer.detail


def test_a_request_past_its_time_is_not_started(server: RawServer) -> None:
    """The clock is read right before a request starts; at or past its time it does not."""
    reading = 100.0
    assert unsent("too_late", one_answer(post(server.url()), start_before=100.0, reading=lambda: reading))
    assert one_answer(post(server.url()), start_before=100.5, reading=lambda: reading).status == 200
    assert len(server.received) == 1


def test_a_connection_that_comes_too_late_carries_no_request(server: RawServer) -> None:
    """The clock is read once more when the request is about to be written: names and connections take their time."""
    readings = iter([99.0])
    answer = one_answer(post(server.url()), start_before=100.0, reading=lambda: next(readings, 101.0))
    assert unsent("too_late", answer)
    assert server.received == []


def test_the_reading_when_it_finished_is_the_clocks(server: RawServer) -> None:
    """`finished` is what the given clock says, not the machine's."""

    async def use(over: HttpTransport) -> float:
        await over.start([Request(7, post(server.url()), NEVER)])
        (completion,) = await over.completed(10, 5)
        assert completion.token == 7
        return completion.finished

    assert with_transport(use, reading=lambda: 1234.5) == 1234.5


# --- addresses inside ------------------------------------------------------------------------------

INSIDE = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0", "user:pass@127.0.0.1"]


@pytest.mark.parametrize("host", INSIDE)
def test_an_address_inside_is_refused(server: RawServer, host: str) -> None:
    """However it is written, and also behind a name, an address inside is not connected to."""
    assert unsent("refused_address", one_answer(post(server.url(host=host)), allow_private_networks=False))
    assert server.connections == 0


def test_loopback_is_refused_over_ipv6_too() -> None:
    """The guard reads IPv6 addresses as well."""
    with RawServer(answering(OK), host="::1") as inside:
        url = f"http://[::1]:{inside.port}/"
        assert unsent("refused_address", one_answer(post(url), allow_private_networks=False))
        assert inside.connections == 0
        assert one_answer(post(url)).status == 200


def test_an_address_inside_is_reached_where_that_is_allowed(server: RawServer) -> None:
    """With private networks allowed a name that leads to loopback is reached."""
    assert one_answer(post(server.url(host="localhost"))).status == 200


def test_no_proxy_is_taken_from_the_environment(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment would see every body, and would be connected to instead of the receiver."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert one_answer(post(server.url())).status == 200
    assert server.received[0].head.startswith(b"POST /hook ")
