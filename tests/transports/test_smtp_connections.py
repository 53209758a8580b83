"""Connections: one attempt is one transaction, over a connection that is kept, left and noticed to be gone."""

from __future__ import annotations

import asyncio
import time

from duly.ports import Request, Sent
from duly.testing.mail_sink import CUT, SILENCE, MailSink
from duly.transports.smtp import IDLE_SECONDS, SmtpTransport
from duly.transports.smtp_connection import BETWEEN_TIMEOUT_SECONDS, MESSAGES_PER_CONNECTION_MAX
from tests.transports.mailing import (
    LATER,
    count,
    gather,
    mail,
    on_each_loop,  # noqa: F401 - used by being here
    run,
    run_skipping,
    send,
    skip,
    transport,
    until,
)


def test_connections_are_reused() -> None:
    """Mails one after the other share a connection; mails at once have one each, up to the capacity."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=3) as sender:
            for _ in range(5):
                await send(sender, mail())
            assert sink.connections == 1
            await send(sender, mail(), mail(), mail())
            assert sink.connections == 3
            assert sink.accepted == 8

    run(test())


def test_a_connection_retires_after_so_many_messages() -> None:
    """A connection says good-bye when it has served enough, and the next mail opens another."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            for _ in range(MESSAGES_PER_CONNECTION_MAX):
                await send(sender, mail())
            assert sink.connections == 1
            await send(sender, mail())
            assert (sink.connections, count(sink, "QUIT")) == (2, 1)

    run(test())


def test_a_refused_recipient_does_not_cost_the_connection() -> None:
    """After a refused RCPT the transaction is reset, and the next mail goes over the same connection."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            answers = [*await send(sender, mail("gone@example.com")), *await send(sender, mail())]
            assert [answer.status for answer in answers] == [550, 250]
            assert (sink.connections, count(sink, "RSET")) == (1, 1)

    run(test())


def test_an_idle_connection_that_was_closed_is_noticed() -> None:
    """The server closed it in between: the next mail opens another and is accepted."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            sink.cut_connections()
            await asyncio.sleep(0.05)
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections, count(sink, "MAIL")) == (250, 2, 2)

    run(test())


def test_a_connection_that_stood_idle_is_asked_first() -> None:
    """After a second's idleness a NOOP finds out whether the server still answers; if not, another is opened."""

    async def test() -> None:
        clock = [0.0]
        async with MailSink() as sink, transport(sink, reading=lambda: clock[0]) as sender:
            await send(sender, mail())
            clock[0] = 2.0
            sink.replies["NOOP"] = "421 4.4.2 idle for too long"
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections, count(sink, "NOOP")) == (250, 2, 1)

    run(test())


def test_a_connection_that_dies_under_mail_is_not_tried_again() -> None:
    """A reused connection that breaks at MAIL took nothing; repeating is the ledger's business."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            sink.replies["MAIL"] = CUT
            (answer,) = await send(sender, mail())
            assert (answer.error, answer.sent, answer.phase) == ("reset", Sent.NOTHING, "mail")
            assert (sink.connections, count(sink, "MAIL")) == (1, 2)

    run(test())


def test_the_server_may_leave_at_any_time() -> None:
    """421 in a transaction is a refusal, and the next mail uses a new connection."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            sink.replies["dot"] = "421 4.3.2 closing"
            (first,) = await send(sender, mail())
            del sink.replies["dot"]
            (second,) = await send(sender, mail())
            assert [(first.status, first.phase), second.status] == [(421, "dot"), 250]
            assert sink.connections == 2

    run(test())


def test_a_transport_that_nobody_closed_holds_nothing_up() -> None:
    """A loop that ends with an idle connection ends at once."""

    async def test() -> None:
        async with MailSink() as sink:
            sender = SmtpTransport(reading=time.monotonic, host=sink.host, port=sink.port, security="none")
            await send(sender, mail())

    started = time.monotonic()
    run(test())
    assert time.monotonic() - started < 10


def test_a_connection_that_answered_nonsense_is_not_used_again() -> None:
    """A reply to the dot that is none leaves nobody sure of what comes next."""

    async def test() -> None:
        async with MailSink(replies={"dot": "354 more"}) as sink, transport(sink) as sender:
            (first,) = await send(sender, mail())
            sink.replies.clear()
            (second,) = await send(sender, mail())
            assert (first.error, first.sent, second.status, sink.connections) == ("protocol", Sent.SOME, 250, 2)

    run(test())


def test_idle_connections_leave_before_the_server_drops_them() -> None:
    """A connection that had nothing to do for 20 seconds says good-bye, and the next mail opens another."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            await skip(IDLE_SECONDS - 1)
            assert sink.open_connections == 1
            await skip(1)
            assert (sink.open_connections, count(sink, "QUIT")) == (0, 1)
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections) == (250, 2)

    run_skipping(test())


def test_connections_that_are_not_needed_age() -> None:
    """The connection used last is used next, so that the others can leave."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail(), mail())
            await skip(IDLE_SECONDS - 1)
            for _ in range(2):
                await send(sender, mail())
            await skip(1)
            assert (sink.connections, sink.open_connections) == (2, 1)

    run_skipping(test())


def test_a_mail_for_a_connection_that_is_leaving_is_not_forgotten() -> None:
    """At full capacity, a mail that comes while the only connection says good-bye waits for it and is sent."""

    async def test() -> None:
        async with MailSink(replies={"QUIT": SILENCE}) as sink, transport(sink, capacity=1) as sender:
            await send(sender, mail())
            await skip(IDLE_SECONDS)
            await until(lambda: count(sink, "QUIT") == 1)
            await sender.start([Request(5, mail(), LATER)])
            await skip(BETWEEN_TIMEOUT_SECONDS)
            (done,) = await gather(sender, 1)
            assert (done.token, done.answer.status, sink.connections) == (5, 250, 2)

    run_skipping(test())
