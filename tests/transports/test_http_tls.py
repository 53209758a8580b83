"""TLS against real sockets: who is trusted, what a failure proves, and that a connection is still used again."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from duly.ports import Answer, Sent
from duly.transports.http import HttpTransport
from tests.transports.raw_server import OK, RawServer, Received, answering, reset
from tests.transports.sending import answers, one_answer, post, unsent, with_transport


class Certificate(NamedTuple):
    """A self-signed certificate, and a server's context with it."""

    file: str
    context: ssl.SSLContext


def certificate(folder: Path, names: str, *options: str) -> Certificate:
    """Made with the openssl command, for the names given."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    where = ("-keyout", str(key), "-out", str(cert), "-subj", "/CN=receiver", "-addext", f"subjectAltName={names}")
    subprocess.run(["openssl", "req", "-x509", *curve, *where, *options], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return Certificate(str(cert), context)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For the name and the address of loopback."""
    return certificate(tmp_path_factory.mktemp("ours"), "IP:127.0.0.1,DNS:localhost")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For another name."""
    return certificate(tmp_path_factory.mktemp("other"), "DNS:elsewhere.example")


@pytest.fixture
def server(ours: Certificate) -> Iterator[RawServer]:
    """A receiver with our certificate that says 200."""
    with RawServer(answering(OK), tls=ours.context) as running:
        yield running


def test_a_trusted_receiver_is_sent_to_and_its_connection_kept(server: RawServer, ours: Certificate) -> None:
    """With its certificate trusted a receiver gets its requests over one connection, by HTTP/1.1."""

    async def use(over: HttpTransport) -> None:
        for _ in range(5):
            assert (await answers(over, post(server.url())))[0].status == 200

    with_transport(use, ca_file=ours.file)
    assert (server.connections, len(server.received)) == (1, 5)
    assert server.received[0].head.startswith(b"POST /hook HTTP/1.1\r\n")


def test_a_self_signed_receiver_is_not_sent_to(server: RawServer) -> None:
    """A certificate that nobody vouches for ends it before anything is sent, and the verdict is named."""
    answer = one_answer(post(server.url()))
    assert unsent("tls", answer)
    assert "verify result 18" in answer.detail  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
    assert server.received == []


def test_a_certificate_for_another_name_is_not_sent_to(other: Certificate) -> None:
    """A trusted certificate of somebody else ends it before anything is sent."""
    with RawServer(answering(OK), tls=other.context) as impostor:
        assert unsent("tls", one_answer(post(impostor.url(host="localhost")), ca_file=other.file))
        assert impostor.received == []


def test_old_protocol_versions_are_not_spoken(ours: Certificate, tmp_path: Path) -> None:
    """Below TLS 1.2 (RFC 8996) there is no connection, and nothing was sent."""
    old = certificate(tmp_path, "IP:127.0.0.1").context
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with RawServer(answering(OK), tls=old) as outdated:
        assert unsent("tls", one_answer(post(outdated.url()), ca_file=ours.file))
        assert outdated.received == []


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x28", b""])
def test_a_receiver_that_does_not_speak_tls_was_not_sent_to(words: bytes) -> None:
    """Plain words, an alert or a hang-up instead of a handshake: nothing was sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"

        async def use(over: HttpTransport) -> Answer:
            sending = asyncio.create_task(answers(over, post(url)))
            peer, _ = await asyncio.to_thread(listener.accept)
            with peer:
                peer.recv(10_000)
                peer.sendall(words)
            return (await sending)[0]

        answer = with_transport(use)
    assert answer.error in {"tls", "connect"}
    assert answer.sent is Sent.NOTHING


def test_a_handshake_that_hangs_ends_with_the_connect_timeout() -> None:
    """A receiver that accepts and says nothing: the connect timeout ends it, and nothing was sent."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"https://127.0.0.1:{mute.getsockname()[1]}/"
        began = time.monotonic()
        answer = one_answer(post(url), connect_timeout_seconds=0.3, timeout_seconds=9)
    assert unsent("timeout", answer)
    assert 0.25 < time.monotonic() - began < 8


def test_a_warm_connection_that_dies_after_the_request_is_not_tried_again(server: RawServer, ours: Certificate) -> None:
    """One attempt is one request under TLS too."""
    ends = [lambda peer: peer.shutdown(socket.SHUT_RDWR), reset]

    def script(peer: socket.socket, received: Received) -> None:
        if received.body == b"warm":
            peer.sendall(OK)
        else:
            ends[len(server.received) // 2 % 2](peer)

    async def use(over: HttpTransport) -> None:
        for n in range(20):
            assert (await answers(over, post(server.url(), b"warm")))[0].status == 200
            (answer,) = await answers(over, post(server.url(), b"%d" % n))
            assert (answer.error, answer.sent) == ("reset", Sent.SOME)

    server.script = script
    with_transport(use, ca_file=ours.file)
    assert [server.bodies()[b"%d" % n] for n in range(20)] == [1] * 20
