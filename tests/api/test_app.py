"""What the application answers, and what it says about that."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import pytest
from structlog.testing import capture_logs

from duly.api.app import application, links_path
from duly.api.edge import BODY_BYTES_MAX, Edge
from duly.api.ledger import Ledger
from duly.core.model import Channel
from duly.core.unsubscribe import token
from duly.errors import StoreError
from duly.flows.unsubscribe import NOT_RECORDED
from duly.ports import Store
from duly.runtime.bootstrap import unsubscribe_secrets
from duly.runtime.config import parse
from duly.runtime.telemetry import ServerTelemetry
from duly.stores.sqlite import SqliteStore
from duly.testing.builders import contact, new_reminder
from duly.testing.unsteady import UnsteadyStore
from tests.api.asking import Answer, ask
from tests.stores.ledgers import create_sqlite

T = TypeVar("T")

SECRET: Final = b"a secret of thirty-two bytes ...."
MAILBOX: Final = contact("acme", Channel.EMAIL, "prvt-ana@example.com")
OURS: Final = token(SECRET, MAILBOX.id, "marketing")
NOBODYS: Final = token(SECRET, bytes(16), "marketing")
LINK: Final = f"/u/{OURS}"

TOML: Final = """
database = "sqlite:///ledger.db"
"""
UNSUBSCRIBE: Final = f"""
[unsubscribe]
url = "%s"
secret = "{SECRET.decode()}"
"""
PROTECTED: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

WITHOUT_LIBRARIES: Final = """
import sys
sys.modules["uvicorn"] = None
sys.argv = ["duly", "serve"]
from duly.cli import main
main()
"""


class Server(NamedTuple):
    """An application over a ledger that knows one mailbox."""

    edge: Edge
    ledger: Ledger
    store: UnsteadyStore

    async def ask(self, method: str, path: str = LINK, **headers: str) -> Answer:
        """One request."""
        return await ask(self.edge, method, path, {name.replace("_", "-"): text for name, text in headers.items()})

    async def said(self) -> list[dict[str, Any]]:
        """What was said about the mailbox."""
        told = await self.store.views().consent(MAILBOX.id)
        return list(told["history"])


def play(
    folder: Path,
    visit: Callable[[Server], Awaitable[T]],
    *,
    url: str | None = "https://r.example.com/u",
    seconds: float = 30.0,
) -> tuple[T, list[Any]]:
    """Run a visit; what it returns, and what was logged meanwhile."""
    create_sqlite(folder / "ledger.db")

    async def played() -> T:
        config = parse(TOML + (UNSUBSCRIBE % url if url else ""), folder / "duly.toml", {})
        real = await SqliteStore.open(folder / "ledger.db")
        addresses = {Channel.EMAIL: MAILBOX.address}
        await real.schedule([new_reminder("r", datetime.now(UTC), channels=(Channel.EMAIL,), addresses=addresses)])
        store = UnsteadyStore(real)
        ledger = Ledger(cast("Store", store), config.database.reveal(), "serve@here", seconds)
        log, reading = ServerTelemetry(), asyncio.get_running_loop().time
        edge = Edge(application(config, unsubscribe_secrets(config), ledger, log), log, reading)
        try:
            return await visit(Server(edge, ledger, store))
        finally:
            await real.close()

    with capture_logs() as lines:
        done = asyncio.run(played())
    return done, lines


def asked(folder: Path, method: str, path: str = LINK, **headers: str) -> Answer:
    """The answer to one request."""

    async def visit(server: Server) -> Answer:
        return await server.ask(method, path, **headers)

    return play(folder, visit)[0]


# --- links ---------------------------------------------------------------------------------------


def test_a_link_is_looked_at_and_then_used(tmp_path: Path) -> None:
    """GET and HEAD change nothing; each POST is answered, and the first one is recorded with its source and actor."""

    async def visit(server: Server) -> tuple[list[int], list[Any], list[Any], int]:
        looks = [(await server.ask(method)).status for method in ("GET", "HEAD")]
        before = await server.said()
        posts = [(await server.ask("POST")).status for _ in range(2)]
        return looks + posts, before, await server.said(), server.ledger.recorded

    (statuses, before, after, recorded), _ = play(tmp_path, visit)
    assert statuses == [200] * 4
    assert before == []
    ((kind, purpose, source, actor),) = [(one["kind"], one["purpose"], one["source"], one["actor"]) for one in after]
    assert (kind, purpose, source, actor) == ("opt_out", "marketing", "unsubscribe", "serve@here")
    assert recorded == 1


@pytest.mark.parametrize(
    "path", ["", "forged", OURS[:-1], f"{OURS}/", f"x/{OURS}", f"{OURS}\0", "\0", "ü\ud800", "\r\n"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_no_token_of_ours_gets_one_page(tmp_path: Path, method: str, path: str) -> None:
    """Whatever stands where the token should be, the page and its status are the same."""
    wrong, nobodys = asked(tmp_path, method, f"/u/{path}"), asked(tmp_path, "POST", f"/u/{NOBODYS}")
    assert wrong == nobodys
    assert wrong.status == 404
    assert "not ours" in wrong.body


def test_a_contact_that_nobody_knows_is_told(tmp_path: Path) -> None:
    """Whose link it was cannot be said, but that a wish was not heard is in the log."""

    async def visit(server: Server) -> int:
        return (await server.ask("POST", f"/u/{NOBODYS}")).status

    status, lines = play(tmp_path, visit)
    assert status == 404
    assert [(line["event"], line.get("why", "")[:24]) for line in lines] == [
        ("opt_out_not_recorded", "no contact has the id aa"),
        ("request", ""),
    ]


def test_a_token_that_never_ends_is_no_token(tmp_path: Path) -> None:
    """A megabyte is refused as anything else is."""
    assert asked(tmp_path, "POST", "/u/" + "A" * 1_000_000).status == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "post"])
@pytest.mark.parametrize(("path", "allowed"), [(LINK, {"GET", "HEAD", "POST"}), ("/readyz", {"GET", "HEAD"})])
def test_another_method_is_refused(tmp_path: Path, method: str, path: str, allowed: set[str]) -> None:
    """The answer is 405, and says which methods there are."""
    answer = asked(tmp_path, method, path)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://r.example.com", f"/{OURS}"),
        ("https://r.example.com/u/", f"/u/{OURS}"),
        ("https://r.example.com/a/b%20c/d", f"/a/b c/d/{OURS}"),
    ],
)
def test_links_are_answered_under_the_path_of_their_url(tmp_path: Path, url: str, path: str) -> None:
    """The path of the public URL is that of the server; a root takes nothing from what else is served."""

    async def visit(server: Server) -> list[tuple[int, str]]:
        answers = [await server.ask("GET", one) for one in (path, "/livez", "/elsewhere/x")]
        return [(one.status, one.body.partition("\n")[0]) for one in answers]

    answers, _ = play(tmp_path, visit, url=url)
    assert answers[:2] == [(200, "<!doctype html>"), (200, "alive")]
    assert answers[2][0] == 404


def test_without_links_there_is_health(tmp_path: Path) -> None:
    """Without [unsubscribe] no link is answered, whatever its token."""

    async def visit(server: Server) -> list[int]:
        return [(await server.ask(*one)).status for one in (("POST", LINK), ("GET", "/livez"), ("GET", "/readyz"))]

    assert play(tmp_path, visit, url=None)[0] == [404, 200, 200]
    assert links_path(parse(TOML, tmp_path / "duly.toml", {})) is None


# --- the database is away ------------------------------------------------------------------------


def test_a_wish_that_is_not_heard_is_not_promised(tmp_path: Path) -> None:
    """While the database is away a POST is asked to come again; looking still works, and so does the next POST."""

    async def visit(server: Server) -> list[Answer]:
        server.store.away = True
        answers = [await server.ask("POST"), await server.ask("GET")]
        server.store.refuse("record_consent", StoreError("database ledger.db: its disk is full"))
        server.store.away = False
        return [*answers, await server.ask("POST"), await server.ask("POST")]

    (away, look, refused, heard), lines = play(tmp_path, visit)
    for answer in (away, refused):
        assert (answer.status, answer.body) == NOT_RECORDED
        assert int(answer.headers["retry-after"]) > 0
    assert (look.status, heard.status) == (200, 200)
    told = [line["why"] for line in lines if line["event"] == "opt_out_not_recorded"]
    assert told == ["the database did not answer (contact)", "database ledger.db: its disk is full"]


def test_a_database_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    """A lock that somebody keeps costs a visitor a bounded time, and then he is asked to come again."""

    async def visit(server: Server) -> Answer:
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            answer = await server.ask("POST")
            other.execute("rollback")
        return answer

    answer, lines = play(tmp_path, visit, seconds=0.5)
    assert answer.status == 503
    assert lines[0]["why"] == "the database has not answered within 0.5 s"


@pytest.mark.parametrize(("method", "path"), [("POST", LINK), ("GET", "/readyz")])
def test_a_driver_that_hangs_over_its_own_cancel_is_not_waited_for(tmp_path: Path, method: str, path: str) -> None:
    """A call that is given up is answered then, though it takes long to end; its late error is nobody's."""
    hanging: list[asyncio.Task[Any]] = []
    ended = asyncio.Event()

    async def hang() -> None:
        hanging.append(cast("asyncio.Task[Any]", asyncio.current_task()))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await ended.wait()
            raise StoreError("it has ended in its own way") from None

    async def visit(server: Server) -> Answer:
        for call in ("contact", "namespace"):
            server.store.before(call, hang)
        answer = await asyncio.wait_for(server.ask(method, path), 60)
        assert not hanging[0].done()
        ended.set()
        await asyncio.wait(hanging, timeout=60)
        assert hanging[0].done()
        return answer

    assert play(tmp_path, visit, seconds=0.2)[0].status == 503


def test_who_waits_while_the_server_leaves_is_asked_to_come_again(tmp_path: Path) -> None:
    """A request that is cut gets 503 and not 500, and its call is let go."""

    async def visit(server: Server) -> Answer:
        server.store.before("contact", lambda: asyncio.sleep(60))
        asked = asyncio.ensure_future(server.ask("POST"))
        await asyncio.sleep(0.1)
        asked.cancel()
        return await asked

    answer, lines = play(tmp_path, visit)
    assert (answer.status, answer.headers["retry-after"], answer.headers["connection"]) == (503, "60", "close")
    assert PROTECTED.items() <= answer.headers.items()
    assert [(line["event"], line["status"]) for line in lines] == [("request", 503)]


def test_health_tells_why(tmp_path: Path) -> None:
    """A server without its database, or with an older one, is alive and not ready, and says why on one line."""

    async def visit(server: Server) -> list[Answer]:
        answers = [await server.ask("GET", "/readyz")]
        server.store.away = True
        answers += [await server.ask("GET", "/readyz"), await server.ask("GET", "/livez")]
        server.store.away = False
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
            other.execute("delete from duly_migration where number > 1")
        return [*answers, await server.ask("GET", "/readyz")]

    answers, _ = play(tmp_path, visit)
    assert [(one.status, one.body) for one in answers] == [
        (200, "ready\n"),
        (503, "the database did not answer (namespace)\n"),
        (200, "alive\n"),
        (503, "migrations are pending: run `duly migrate apply`\n"),
    ]


# --- the edge ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "length", "status"),
    [
        ("GET", LINK, 0, 200),
        ("POST", LINK, 0, 200),
        ("GET", "/u/forged", 0, 404),
        ("GET", "/elsewhere", 0, 404),
        ("PUT", LINK, 0, 405),
        ("POST", LINK, BODY_BYTES_MAX + 1, 413),
        ("GET", "/livez", 0, 200),
        ("GET", "/readyz", 0, 200),
    ],
)
def test_every_answer_is_protected(tmp_path: Path, method: str, path: str, length: int, status: int) -> None:
    """No answer is kept, framed, sniffed, or loads anything; none sets a cookie; forms go back here alone."""
    answer = asked(tmp_path, method, path, content_length=str(length))
    assert answer.status == status
    assert PROTECTED.items() <= answer.headers.items()
    assert not {"set-cookie", "server"} & answer.headers.keys()


def test_a_long_body_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    """One byte too many is refused unread and changes nothing; as many as allowed are not read either."""

    async def visit(server: Server) -> tuple[Answer, int, Answer]:
        long = await server.ask("POST", content_length=str(BODY_BYTES_MAX + 1))
        said = len(await server.said())
        return long, said, await server.ask("POST", content_length=str(BODY_BYTES_MAX))

    (long, said, fitting), _ = play(tmp_path, visit)
    assert (long.status, long.headers["connection"], said) == (413, "close", 0)
    assert fitting.status == 200
    assert not long.read
    assert not fitting.read


def test_a_bug_is_answered_and_told_by_its_place(tmp_path: Path) -> None:
    """A request that meets a bug gets 500 and none of its words; the next one is answered."""

    async def visit(server: Server) -> list[Answer]:
        server.store.refuse("contact", RuntimeError(f"no room for {MAILBOX.address}"))
        return [await server.ask("POST"), await server.ask("POST")]

    (failed, fine), lines = play(tmp_path, visit)
    assert (failed.status, fine.status) == (500, 200)
    assert PROTECTED.items() <= failed.headers.items()
    assert "prvt" not in failed.body
    (bug,) = [line for line in lines if line["event"] == "request_failed"]
    assert bug["error"] == "RuntimeError"
    assert re.search(r"unsteady\.py:\d+$", bug["at"])


def test_the_log_names_nobody(tmp_path: Path) -> None:
    """A request is told by method, route, status and seconds; what a visitor made up is not repeated."""

    async def visit(server: Server) -> int:
        for method, path in (("GET", LINK), ("POST", LINK), ("BREW", "/prvt"), ("GET", "/livez")):
            await server.ask(
                method, path, user_agent="prvt", referer="https://prvt.example.com", x_forwarded_for="prvt"
            )
        return server.edge.requests

    requests, lines = play(tmp_path, visit)
    assert requests == 4
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("GET", "/u/{token:path}", 200),
        ("POST", "/u/{token:path}", 200),
        ("other", None, 404),
        ("GET", "/livez", 200),
    ]
    assert all(set(line) == {"event", "log_level", "method", "route", "status", "seconds"} for line in lines)
    text = json.dumps(lines)
    assert OURS not in text
    assert "prvt" not in text


def test_fifty_visitors_at_once_say_one_thing(tmp_path: Path) -> None:
    """A link that is pressed fifty times at once is answered fifty times and recorded once."""

    async def visit(server: Server) -> tuple[set[int], int, int]:
        answers = await asyncio.gather(*(server.ask("POST") for _ in range(50)))
        return {one.status for one in answers}, len(await server.said()), server.ledger.recorded

    assert play(tmp_path, visit)[0] == ({200}, 1, 1)


def test_libraries_that_are_not_installed_are_named(tmp_path: Path) -> None:
    """The server is an extra, and the line says which."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES], cwd=tmp_path, capture_output=True, text=True, timeout=99, check=False
    )
    line = "duly: the server needs its libraries: pip install 'duly[serve]'\n"
    assert (run.returncode, run.stdout, run.stderr) == (1, "", line)
