"""`duly serve`: a link of a real mail silences its purpose, who means no good stops nobody, and it ends well."""

from __future__ import annotations

import email
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from duly.testing.mail_sink import MailSink
from tests.end_to_end.installation import ACCOUNT, Installation, reminder, settle_on, wait_until
from tests.end_to_end.visiting import Answer, Server, link_of, offer_links, serving

if TYPE_CHECKING:
    from tests.stores.postgres_server import Cluster

ANA: Final = "prvt-ana@prvt.example.com"
LINK: Final = link_of(ANA)
ONE_CLICK: Final = b"List-Unsubscribe=One-Click"
AT_ONCE: Final = 50
SLOW: Final = 20
ANSWERED_SECONDS: Final = 11.0
#: Sooner than who is slow is given up, also on a busy machine.
SOON_SECONDS_MAX: Final = 8.0
#: By then a request that was sent has come in; nothing tells that it has before it is answered.
ARRIVED_SECONDS: Final = 2.0


def knows_ana(duly: Installation) -> None:
    """An installation with links, and a reminder for Ana that is not due for a long time."""
    offer_links(duly)
    duly.take([reminder("later", email=ANA, due_in=9e6, purpose="marketing")])


def stands(duly: Installation) -> list[tuple[str, str, str]]:
    """What was said about Ana: kind, purpose, source."""
    shown = duly.told("consent", "show", ANA, "--account", ACCOUNT)
    return [(one["kind"], one["purpose"], one["source"]) for one in shown["history"]]


@contextmanager
def locked(duly: Installation) -> Iterator[sqlite3.Connection]:
    """The SQLite file with another writer in it."""
    with closing(sqlite3.connect(duly.folder / "duly.db", isolation_level=None, timeout=15)) as other:
        other.execute("begin immediate")
        yield other


def test_a_link_of_a_mail_silences_its_purpose(duly: Installation, sink: MailSink) -> None:
    """The link in a mail that arrived, pressed fifty times beside a worker, is recorded once and binds what follows."""
    offer_links(duly)
    duly.take([reminder("first", email=ANA, purpose="marketing")])
    with duly.running("up") as up, serving(duly) as server:
        wait_until(lambda: sink.accepted, "the mail")
        link = _link(sink.messages[ANA][0])
        assert link == f"https://r.example.com{LINK}"
        assert "<form" in server.ask("GET", LINK).body
        with ThreadPoolExecutor(AT_ONCE) as visitors:
            answers = list(visitors.map(lambda _: server.ask("POST", LINK, ONE_CLICK), range(AT_ONCE)))
        assert {one.status for one in answers} == {200}
        duly.take([reminder("second", email=ANA, purpose="marketing"), reminder("third", email=ANA)])
        wait_until(lambda: duly.states() == {"sent": 2, "suppressed": 1}, "what follows is decided")
        served = server.program.end(signal.SIGTERM)
        assert up.end(signal.SIGTERM).code == 0
    assert (served.code, served.document["requests"], served.document["unsubscribed"]) == (0, AT_ONCE + 1, 1)
    assert stands(duly) == [("opt_out", "marketing", "unsubscribe")]
    assert duly.ledger()["second"]["reason"] == "opted_out_of_marketing"
    assert len(served.events("request")) == AT_ONCE + 1
    assert LINK.rpartition("/")[2] not in served.out + served.err


def _link(mail: bytes) -> str:
    headers = email.message_from_bytes(mail)
    assert headers["List-Unsubscribe-Post"] == ONE_CLICK.decode()
    return "".join(str(headers["List-Unsubscribe"]).split()).strip("<>")


def test_who_means_no_good_stops_nobody(duly_on_sqlite: Installation) -> None:
    """Malformed and endless requests are refused, slow ones wait, and everybody else is answered meanwhile."""
    knows_ana(duly_on_sqlite)
    with serving(duly_on_sqlite) as server, ExitStack() as slow:
        for number in range(SLOW):
            visitor = slow.enter_context(server.connect())
            visitor.sendall(f"POST {LINK} HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n".encode()[: 20 + 5 * number])
        assert _refused(server.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 no HTTP at all\r\n\r\n"))
        assert _refused(server.send(b"GET /mail/u/\0 HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert _refused(server.send("GET /mail/u/ü HTTP/1.1\r\nHost: x\r\n\r\n".encode()))
        assert _refused(server.send(b"GET /mail/u/" + b"A" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"))
        wrong = ("%00", "%C3%BC", "%FF", "%2e%2e%2f", "A" * 9_000)
        pages = {server.ask("GET", f"/mail/u/{one}")[::2] for one in wrong}
        assert [status for status, _ in pages] == [404]
        started = time.monotonic()
        assert server.ask("POST", LINK).status == 200
        assert time.monotonic() - started < SOON_SECONDS_MAX
        assert server.program.end(signal.SIGTERM, seconds=30).code == 0


def _refused(answer: bytes) -> bool:
    """Answered with a status that begins with 4, or cut off before the whole of it was taken."""
    return answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_a_body_is_not_waited_for(duly_on_sqlite: Installation) -> None:
    """A link acts before its body came; one that says that it is too long is refused, and changes nothing."""
    knows_ana(duly_on_sqlite)
    with serving(duly_on_sqlite) as server:
        long = f"POST {LINK} HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"
        assert server.send(long.encode()).startswith(b"HTTP/1.1 413")
        assert stands(duly_on_sqlite) == []
        with server.connect() as visitor:
            visitor.sendall(f"POST {LINK} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            assert visitor.recv(1_000).startswith(b"HTTP/1.1 200")
        assert server.program.end(signal.SIGTERM).document["unsubscribed"] == 1


def test_a_signal_lets_a_request_finish(duly_on_sqlite: Installation) -> None:
    """A wish that waits for the database when the signal comes is recorded and answered, and nobody new is let in."""
    knows_ana(duly_on_sqlite)
    with serving(duly_on_sqlite) as server, ThreadPoolExecutor(1) as visitor:
        with locked(duly_on_sqlite):
            asked = visitor.submit(server.ask, "POST", LINK)
            time.sleep(ARRIVED_SECONDS)
            server.program.ask(signal.SIGTERM)
            wait_until(lambda: _is_closed(server), "it does not listen any more")
            assert not asked.done()
        assert asked.result().status == 200
        served = server.program.end()
    assert (served.code, served.document["unsubscribed"]) == (0, 1)
    assert len(served.events("server_draining")) == 1
    assert stands(duly_on_sqlite) == [("opt_out", "marketing", "unsubscribe")]


def _is_closed(server: Server) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_second_signal_leaves_at_once(duly_on_sqlite: Installation) -> None:
    """Who asks twice does not wait for a request: exit code 130, and nothing was recorded."""
    knows_ana(duly_on_sqlite)
    with serving(duly_on_sqlite) as server, server.connect() as visitor, locked(duly_on_sqlite) as other:
        visitor.sendall(f"POST {LINK} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        time.sleep(ARRIVED_SECONDS)
        server.program.ask(signal.SIGINT)
        wait_until(lambda: "server_draining" in server.program.said, "draining")
        assert server.program.end(signal.SIGINT, seconds=SOON_SECONDS_MAX).code == 130
        other.execute("rollback")
    assert stands(duly_on_sqlite) == []


def test_health_alone(duly_on_sqlite: Installation) -> None:
    """Without [unsubscribe] the server says on one line that it has no links, and serves health."""
    with serving(duly_on_sqlite) as server:
        answers = [server.ask(*one) for one in (("GET", "/livez"), ("GET", "/readyz"), ("POST", LINK))]
        assert [one.status for one in answers] == [200, 200, 404]
        (line,) = [line for line in server.program.said.splitlines() if line.startswith("duly: ")]
        assert line.endswith("for health alone: without [unsubscribe] there are no links to answer")
        assert server.program.end(signal.SIGINT).code == 0


def test_what_keeps_it_from_starting_is_one_line(duly: Installation) -> None:
    """A port in use, a host that is not here, or pending migrations: exit code 1, and a line that says what to do."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        told = [duly.run("serve", "--port", port, code=1), duly.run("serve", "--host", "192.0.2.1", code=1)]
    duly.change("delete from duly_migration where number > 1")
    told.append(duly.run("serve", "--json", code=1))
    assert [(run.out, len(run.complaints)) for run in told] == [("", 1)] * 3
    assert f"nobody can listen on 127.0.0.1, port {port}: Address already in use" in told[0].err
    assert "192.0.2.1" in told[1].err
    assert "duly migrate apply" in told[2].err


@pytest.mark.parametrize("host", ["", "hôtel", "a" * 70, "ho\tst"])
def test_a_host_that_is_none_is_one_line(duly_on_sqlite: Installation, host: str) -> None:
    """What is empty, not ASCII, or no name at all: exit code 1, and a line that says what to write."""
    told = duly_on_sqlite.run("serve", "--host", host, "--port", "0", code=1)
    assert (told.out, len(told.complaints)) == ("", 1)
    assert "--host" in told.err


@pytest.mark.heavy
def test_a_frozen_database_is_not_waited_for(own_cluster: Cluster, tmp_path: Path) -> None:
    """While PostgreSQL is stopped as it stands, every answer comes within eleven seconds, and a drain ends too."""
    from tests.stores.postgres_server import fresh_database  # noqa: PLC0415 - needs the driver

    with fresh_database(own_cluster.url) as url:
        duly = settle_on(url, tmp_path)
        knows_ana(duly)
        with serving(duly) as server, ThreadPoolExecutor(2) as visitors:
            assert server.ask("GET", "/readyz").status == 200
            with frozen(own_cluster):
                began = time.monotonic()
                answers = list(visitors.map(lambda one: server.ask(*one), [("POST", LINK), ("GET", "/readyz")]))
                waited = time.monotonic() - began
                asked = visitors.submit(server.ask, "POST", LINK)
                time.sleep(ARRIVED_SECONDS)
                served = server.program.end(signal.SIGTERM, seconds=25)
                assert asked.result().status == 503
            assert [one.status for one in answers] == [503, 503]
            assert waited < ANSWERED_SECONDS
            assert served.code == 0


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """PostgreSQL with every process of it stopped as it stands."""
    everybody = [cluster.pid]
    os.kill(cluster.pid, signal.SIGSTOP)  # first, so that it starts nobody any more
    children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text(encoding="ascii").split()
    try:
        for pid in map(int, children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                everybody.append(pid)
        yield
    finally:
        for pid in reversed(everybody):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_it_outlives_its_database(own_cluster: Cluster, tmp_path: Path) -> None:
    """While PostgreSQL is away a wish is asked to come again, and the server is not ready; then all is as before."""
    from tests.stores.postgres_server import fresh_database  # noqa: PLC0415 - needs the driver

    with fresh_database(own_cluster.url) as url:
        duly = settle_on(url, tmp_path)
        knows_ana(duly)
        with serving(duly) as server:
            assert server.ask("GET", "/readyz").status == 200
            own_cluster.stop(signal.SIGINT)
            away: list[Answer] = [server.ask("POST", LINK), server.ask("GET", "/readyz"), server.ask("GET", "/livez")]
            own_cluster.start()
            back = [server.ask("GET", "/readyz"), server.ask("POST", LINK)]
            served = server.program.end(signal.SIGTERM)
        assert [one.status for one in away] == [503, 503, 200]
        assert "retry-after" in away[0].headers
        assert away[1].body.count("\n") == 1
        assert [one.status for one in back] == [200, 200]
        assert served.document["unsubscribed"] == 1
        assert stands(duly) == [("opt_out", "marketing", "unsubscribe")]
