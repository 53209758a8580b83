"""The SMTP transport as a port: time, slots, closing, and whole mails in numbers."""

from __future__ import annotations

import asyncio
import time
from email.parser import BytesParser
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.handlers import Sink as KeepingNothing
from aiosmtpd.smtp import SMTP, Envelope, Session

from duly.core.model import Outcome
from duly.ports import Request, Sent
from duly.testing.mail_sink import SILENCE, MailSink
from duly.transports.smtp import SmtpTransport
from duly.transports.smtp_connection import MESSAGES_PER_CONNECTION_MAX
from tests.core.values import NOW
from tests.transports.mailing import (
    LATER,
    PROVIDER,
    count,
    gather,
    mail,
    on_each_loop,  # noqa: F401 - used by being here
    prepared,
    run,
    send,
    transport,
    until,
)

# --- in time -------------------------------------------------------------------------------------


def test_what_is_too_late_does_not_start() -> None:
    """Past its moment no transaction begins, and the connection stays for the next."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            (late,) = await send(sender, mail(), start_before=time.monotonic() - 1)
            assert (late.error, late.sent, late.phase, count(sink, "MAIL")) == ("too_late", Sent.NOTHING, "mail", 0)
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.connections) == (250, 1)

    run(test())


def test_what_became_too_late_before_the_content_is_cut() -> None:
    """The moment passes while the server thinks about DATA: the content does not leave, and nothing was taken."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, reading=lambda: float(count(sink, "DATA"))) as sender:
            (late,) = await send(sender, mail(), start_before=0.5)
            assert (late.error, late.sent, late.phase) == ("too_late", Sent.NOTHING, "data")
            (answer,) = await send(sender, mail())
            assert (answer.status, sink.accepted, sink.connections) == (250, 1, 2)

    run(test())


def test_the_end_is_read_from_the_given_clock() -> None:
    """A completion carries the reading at which its answer was complete."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, reading=lambda: 42.0) as sender:
            await sender.start([Request(7, mail(), LATER)])
            (done,) = await gather(sender, 1)
            assert (done.token, done.finished) == (7, 42.0)

    run(test())


# --- slots and the end ---------------------------------------------------------------------------


def test_slots_are_the_capacity() -> None:
    """A slot is taken by reserve and free again by release, whatever the destination."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=2) as sender:
            assert sender.room() == 2
            assert sender.reserve(["a@x.example", "b@y.example", "c@z.example"]) == [True, True, False]
            assert await sender.wait_for_room(0.01) == 0
            asyncio.get_running_loop().call_later(0.02, sender.release, ["a@x.example"])
            assert await sender.wait_for_room(5.0) == 1

    run(test())


@pytest.mark.parametrize("options", [{"timeout_seconds": 0.0}, {"connect_timeout_seconds": 0.0}, {"capacity": 0}])
def test_a_bound_must_be_positive(options: dict[str, Any]) -> None:
    """A transport that could never send is not made."""
    with pytest.raises(ValueError, match=r"positive|at least 1"):
        SmtpTransport(reading=time.monotonic, host="localhost", port=25, security="none", **options)


def test_nothing_under_way_is_no_answer() -> None:
    """Waiting for answers that cannot come ends when the time is over, with none."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            assert await sender.completed(10, 0.01) == []

    run(test())


def test_the_limit_holds() -> None:
    """No more answers are given at once than were asked for; the others wait."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=5) as sender:
            await sender.start([Request(number, mail(), LATER) for number in range(5)])
            await until(lambda: sink.accepted == 5)
            await asyncio.sleep(0.05)
            assert [len(await sender.completed(2, 1.0)) for _ in range(3)] == [2, 2, 1]

    run(test())


def test_closing_tells_the_truth() -> None:
    """What waits for the dot's reply may have been taken; what waits to connect, or for a connection, was not."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink, capacity=2) as sender:
            await sender.start([Request(0, mail("silent@example.com"), LATER)])
            await until(lambda: sink.accepted == 1)
            sink.replies["connect"] = SILENCE
            await sender.start([Request(1, mail(), LATER), Request(2, mail(), LATER)])
            await until(lambda: sink.connections == 2)
            await asyncio.gather(sender.close(), sender.close())
            done = {one.token: one.answer for one in await gather(sender, 3)}
            assert [done[token].sent for token in range(3)] == [Sent.SOME, Sent.NOTHING, Sent.NOTHING]
            assert [done[token].error for token in range(3)] == ["reset", "reset", "connect"]
            await sender.close()
            assert await sender.completed(10, 0.01) == []

    run(test())


def test_nothing_starts_after_closing() -> None:
    """A closed transport answers that nothing left, and opens no connection."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await sender.close()
            await sender.start([Request(1, mail(), LATER)])
            (done,) = await gather(sender, 1)
            assert (done.answer.sent, done.answer.error, sink.connections) == (Sent.NOTHING, "connect", 0)

    run(test())


def test_a_request_given_to_an_idle_connection_survives_closing() -> None:
    """Handed over and closed in the same breath: it completes all the same, and nothing left."""

    async def test() -> None:
        async with MailSink() as sink, transport(sink) as sender:
            await send(sender, mail())
            await sender.start([Request(9, mail(), LATER)])
            await sender.close()
            (done,) = await gather(sender, 1)
            assert (done.token, done.answer.sent, sink.accepted) == (9, Sent.NOTHING, 1)

    run(test())


# --- the whole ----------------------------------------------------------------------------------


def test_many_mails_arrive_once_each() -> None:
    """Hundreds at once over few connections: every recipient has the own mail once, and every answer accepts."""

    async def test() -> None:
        mails = [prepared(number) for number in range(300)]
        async with MailSink() as sink, transport(sink, capacity=8) as sender:
            await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
            done = await gather(sender, 300)
        results = [PROVIDER.classify(one.answer, NOW) for one in done]
        assert {result.outcome for result in results} == {Outcome.ACCEPTED}
        assert len({result.request_id for result in results}) == 300
        assert sink.messages == {one.recipient: [one.message] for one in mails}
        assert sink.connections <= 8 + 300 // MESSAGES_PER_CONNECTION_MAX

    run(test())


def test_moods_at_once_do_not_mix() -> None:
    """Every answer belongs to its own mail, however the neighbours fare on the same connections."""
    expected = {"ana": 250, "gone": 550, "spam": 554, "full": 552, "closes421": 421, "dropped": None}

    async def test() -> None:
        locals_ = [local for _ in range(20) for local in expected]
        async with MailSink() as sink, transport(sink, capacity=4) as sender:
            mails = [prepared(number, local) for number, local in enumerate(locals_)]
            await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
            done = await gather(sender, len(mails))
        assert [one.answer.status for one in sorted(done)] == [expected[local] for local in locals_]
        assert sum(map(len, sink.messages.values())) == 40

    run(test())


@pytest.mark.parametrize("ending", ["server", "close"])
@pytest.mark.parametrize("accepted", [1, 10, 25, 60])
def test_a_cut_amid_traffic_tells_the_truth(accepted: int, ending: str) -> None:
    """Whoever cuts and whenever: every mail has one answer, none arrives twice, and "nothing" means not there."""

    async def test() -> None:
        mails = [prepared(number) for number in range(100)]
        async with MailSink() as sink, transport(sink, capacity=8) as sender:
            await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
            await until(lambda: sink.accepted >= accepted)
            if ending == "close":
                await sender.close()
            else:
                sink.cut_connections()
            done = {one.token: one.answer for one in await gather(sender, 100)}
        assert sorted(done) == list(range(100))
        assert all(len(kept) == 1 for kept in sink.messages.values())
        denied = {mails[token].recipient for token, answer in done.items() if answer.sent is Sent.NOTHING}
        said = {mails[token].recipient for token, answer in done.items() if answer.status == 250}
        assert any(answer.status is None for answer in done.values())
        assert denied.isdisjoint(sink.messages)
        assert said <= sink.messages.keys()

    run(test())


class Keeping(KeepingNothing):
    """A handler of aiosmtpd that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[Envelope] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: ARG002, N802
        """Keep the envelope with its content."""
        self.kept.append(envelope)
        return "250 2.0.0 Ok: queued as AIOSMTPD"


def test_an_independent_server_understands_us() -> None:
    """aiosmtpd, which knows nothing of us, gets the same bytes, and its answer is understood."""

    async def test() -> None:
        keeper = Keeping()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(keeper, enable_SMTPUTF8=True, loop=loop), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        sender = SmtpTransport(reading=time.monotonic, host=host, port=port, security="none", capacity=4)
        mails = [*map(prepared, range(20)), mail("josé@example.com", "Subject: é\r\n\r\n.\r\né\r\n".encode())]
        await sender.start([Request(number, one, LATER) for number, one in enumerate(mails)])
        done = await gather(sender, len(mails))
        await sender.close()
        server.close()
        await asyncio.sleep(0.05)
        assert {PROVIDER.classify(one.answer, NOW).request_id for one in done} == {"AIOSMTPD"}
        assert {(kept.rcpt_tos[0], kept.content) for kept in keeper.kept} == {
            (one.recipient, one.message) for one in mails
        }
        parsed = BytesParser(policy=default).parsebytes(mails[3].message)
        assert parsed["Subject"] == "Nº 3"

    run(test())
