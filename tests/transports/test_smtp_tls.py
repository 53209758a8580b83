"""TLS and AUTH: what is demanded is not given up, and credentials do not travel in the clear."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from duly.ports import Answer, Sent
from duly.testing.mail_sink import MailSink
from tests.transports.mailing import (
    count,
    mail,
    on_each_loop,  # noqa: F401 - used by being here
    run,
    send,
    transport,
)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of this run."""
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment trusts the authority, as an operator with a private one would say it."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


def server_tls(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    """TLS of a server of that name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def attempt_over_tls(sink: MailSink, **options: Any) -> Answer:
    """One mail over a new connection."""
    answers: list[Answer] = []

    async def test() -> None:
        async with sink, transport(sink, **options) as sender:
            answers.extend(await send(sender, mail()))

    run(test())
    return answers[0]


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(("security", "implicit"), [("none", False), ("starttls", False), ("tls", True)])
def test_mail_travels_over_tls(authority: trustme.CA, security: str, *, implicit: bool) -> None:
    """STARTTLS where it is offered or demanded, TLS from the first byte where that is: greeted again, and accepted."""
    sink = MailSink(tls=server_tls(authority), implicit_tls=implicit)
    assert attempt_over_tls(sink, security=security).status == 250
    assert count(sink, "EHLO") == (1 if implicit else 2)
    assert count(sink, "STARTTLS") == (0 if implicit else 1)


@pytest.mark.parametrize(("security", "implicit"), [("starttls", False), ("tls", True)])
def test_an_unknown_certificate_is_refused(authority: trustme.CA, security: str, *, implicit: bool) -> None:
    """Nobody vouches for the certificate: no mail, and the answer says so."""
    answer = attempt_over_tls(MailSink(tls=server_tls(authority), implicit_tls=implicit), security=security)
    assert (answer.error, answer.sent, answer.phase) == ("tls", Sent.NOTHING, "tls")
    assert "certificate verify failed" in answer.detail


@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_host_is_refused(authority: trustme.CA) -> None:
    """A valid certificate must also be this server's."""
    answer = attempt_over_tls(MailSink(tls=server_tls(authority, "other.example.com")), security="starttls")
    assert (answer.error, answer.sent, answer.phase) == ("tls", Sent.NOTHING, "tls")


def test_a_relay_on_this_machine_needs_no_authority(authority: trustme.CA) -> None:
    """Where nothing is demanded and the relay is on loopback, its self-made certificate will do."""
    sink = MailSink(tls=server_tls(authority))
    assert attempt_over_tls(sink).status == 250
    assert count(sink, "STARTTLS") == 1


def test_a_demand_for_tls_is_not_given_up() -> None:
    """STARTTLS is demanded and not offered: no mail."""
    answer = attempt_over_tls(MailSink(), security="starttls")
    assert (answer.error, answer.sent, answer.phase) == ("tls", Sent.NOTHING, "tls")


def test_tls_towards_a_plain_server_fails() -> None:
    """The server does not speak TLS: no mail, and no endless wait."""
    answer = attempt_over_tls(MailSink(), security="tls", timeout_seconds=1.0)
    assert (answer.error, answer.sent) == ("tls", Sent.NOTHING)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("secure", [True, False])
def test_credentials_are_given(authority: trustme.CA, *, secure: bool) -> None:
    """After TLS, or without it on this machine, the relay learns who we are, and takes the mail."""
    sink = MailSink(tls=server_tls(authority) if secure else None, credentials=("duly", "s3cret"))
    security = "starttls" if secure else "none"
    assert attempt_over_tls(sink, security=security, username="duly", password="s3cret").status == 250
    assert "AUTH ***" in sink.commands


def test_wrong_credentials_are_an_answer() -> None:
    """The relay's refusal is told with its code and its phase, after one try."""
    sink = MailSink(credentials=("duly", "s3cret"))
    answer = attempt_over_tls(sink, username="duly", password="wrong")
    assert (answer.status, answer.phase, answer.sent) == (535, "auth", Sent.NOTHING)
    assert count(sink, "AUTH") == 1


def test_credentials_for_a_relay_that_asks_for_none() -> None:
    """AUTH is not offered: nothing was taken, and the phase says what is wrong."""
    answer = attempt_over_tls(MailSink(), username="duly", password="s3cret")
    assert (answer.error, answer.phase, answer.sent) == ("protocol", "auth", Sent.NOTHING)


def test_a_connection_that_failed_to_authenticate_is_not_used() -> None:
    """The second mail is refused like the first, instead of slipping through unauthenticated."""

    async def test() -> None:
        sink = MailSink()
        async with sink, transport(sink, username="duly", password="s3cret") as sender:
            answers = [*await send(sender, mail()), *await send(sender, mail())]
        assert [answer.phase for answer in answers] == ["auth", "auth"]
        assert count(sink, "MAIL") == 0

    run(test())
