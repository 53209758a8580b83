"""Outages of a real database and of the way to it: longer than a lease, one-sided, for good, and for want of disk.

Half of the deliveries go to a receiver that drops repeats, and half to one that promises nothing. Whatever happens,
the first accepts each once, and the second is asked at most once.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from duly.stores.loader import load
from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import Installation, Run, Shown, attempts, reminder, settle_on, wait_until
from tests.end_to_end.recovering import ACCEPTED, LOST, asked, promises_nothing
from tests.end_to_end.small_disk import SmallDisk, small_disk

if TYPE_CHECKING:
    from duly.testing.postgres_proxy import PostgresProxy
    from tests.stores.postgres_server import Cluster

EACH: Final = 40  # deliveries to each of the two receivers
LEASE_SECONDS: Final = 4.5
AWAY_SECONDS: Final = LEASE_SECONDS + 1.0
AT_ONCE: Final = 6
DRAIN_SECONDS_MAX: Final = 20.0


class Site(NamedTuple):
    """An installation whose deliveries are ready, and the receiver that they go to."""

    duly: Installation
    receiver: Receiver

    @property
    def shy_requests(self) -> dict[str, int]:
        """How often the receiver that promises nothing was asked, by delivery."""
        requests = self.receiver.received("slow", "shy")
        return dict(Counter(request.headers["webhook-id"] for request in requests))

    def under_way(self) -> None:
        """Wait until requests to both receivers are."""
        counts = (self.receiver.count("slow"), self.receiver.count("slow", "shy"))
        wait_until(
            lambda: self.receiver.count("slow") > counts[0] + 5 and self.receiver.count("slow", "shy") > counts[1] + 5,
            "requests to both",
        )

    def require_promises(self, ledger: Mapping[str, Shown]) -> None:
        """Nobody who drops repeats was left out or accepted twice, and nobody else was asked twice."""
        keyed = sorted(one["id"] for key, one in ledger.items() if key.startswith("keyed"))
        accepted = Counter(self.receiver.accepted)
        assert len(ledger) == 2 * EACH
        assert {ledger[f"keyed-{number}"]["status"] for number in range(EACH)} == {"sent"}
        assert [accepted[one] for one in keyed] == [1] * EACH
        assert max(self.shy_requests.values()) == 1


@contextmanager
def site(url: str, folder: Path, lease_seconds: float = LEASE_SECONDS) -> Iterator[Site]:
    """Fill an empty database."""
    folder.mkdir()
    with beside(Receiver(slow_seconds=0.2)) as receiver:
        duly = settle_on(url, folder)
        duly.settings |= {
            "DULY_LEASE_SECONDS": str(lease_seconds),
            "DULY_PROVIDERS__HOOKS__CONCURRENCY": str(AT_ONCE),
        }
        urls = {"keyed": receiver.url("slow"), "shy": promises_nothing(duly, receiver.url("slow", "shy"))}
        duly.take(reminder(f"{kind}-{n}", webhook=url) for n in range(EACH) for kind, url in urls.items())
        duly.told("tick")
        yield Site(duly, receiver)


@contextmanager
def database(own: Cluster) -> Iterator[str]:
    """An empty database on the server that may be crashed."""
    from tests.stores.postgres_server import fresh_database  # noqa: PLC0415 - needs the driver

    with fresh_database(own.url) as url:
        yield url


def states(ledger: Mapping[str, Shown], kind: str) -> Counter[str]:
    """How many of one receiver's deliveries stand where."""
    return Counter(one["status"] for key, one in ledger.items() if key.startswith(kind))


def told(one: Shown) -> tuple[str, Any]:
    """Where a delivery stands, and what became of each request for it."""
    return one["status"], asked(one)


# --- gone for longer than a lease ----------------------------------------------------------------


class Gone(NamedTuple):
    """A server that stayed away, a worker that waited for it, and one that was asked to leave meanwhile."""

    waited: Site
    run: Run
    left: Site
    exit: Run
    exit_seconds: float


@pytest.fixture(scope="module")
def gone(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gone]:
    """The server crashes while requests are under way, and comes back when every lease has ended."""
    folder = tmp_path_factory.mktemp("gone")
    with ExitStack() as stack:
        waited = stack.enter_context(site(stack.enter_context(database(own_cluster)), folder / "waited"))
        left = stack.enter_context(site(stack.enter_context(database(own_cluster)), folder / "left"))
        waiting = stack.enter_context(waited.duly.running("work", "--until-idle", "--json"))
        leaving = stack.enter_context(left.duly.running("work", "--json"))
        left.under_way()
        waited.under_way()
        own_cluster.stop(signal.SIGQUIT)
        stopped = time.monotonic()
        done = leaving.end(signal.SIGTERM)
        seconds = time.monotonic() - stopped
        time.sleep(max(0.0, AWAY_SECONDS - seconds))
        own_cluster.start()
        yield Gone(waited, waiting.end(), left, done, seconds)


@pytest.mark.heavy
def test_gone_for_longer_than_a_lease(gone: Gone) -> None:
    """Answers in hand are recorded when the server is back, however late: everything is sent, and nothing twice."""
    ledger = gone.waited.duly.ledger()
    gone.waited.require_promises(ledger)
    assert states(ledger, "shy") == {"sent": EACH}
    assert (gone.run.code, len(gone.run.events("database_away"))) == (0, 1)


@pytest.mark.heavy
def test_a_drain_ends_without_its_database(gone: Gone) -> None:
    """Asked to leave meanwhile, a worker leaves in good time, and says how many outcomes it could not record."""
    assert gone.exit.code == 0
    assert gone.exit_seconds < DRAIN_SECONDS_MAX
    (line,) = gone.exit.events("left_unrecorded")
    assert 0 < line["requests"] <= AT_ONCE


@pytest.mark.heavy
def test_what_a_drain_left_unrecorded_is_found_out(gone: Gone) -> None:
    """Its attempts are unknown: the receiver that drops repeats is asked again, and an operator about the other."""
    gone.left.duly.run("work", "--until-idle")
    ledger = gone.left.duly.ledger()
    gone.left.require_promises(ledger)
    in_doubt = [one for one in ledger.values() if LOST in attempts(one)]
    assert {told(one) for one in in_doubt} <= {("sent", (LOST, ACCEPTED)), ("held", (LOST,))}
    assert 0 < len(in_doubt) <= AT_ONCE


# --- one worker is cut off -----------------------------------------------------------------------


@contextmanager
def by_proxy(own: Cluster) -> Iterator[PostgresProxy]:
    """A way to the server that can be cut."""
    from duly.testing.postgres_proxy import PostgresProxy  # noqa: PLC0415 - only here

    with beside(PostgresProxy.before(own.url)) as proxy:
        yield proxy


def elsewhere(duly: Installation, folder: Path, url: str) -> Installation:
    """The same installation on another machine, with another way to its database."""
    folder.mkdir()
    other = Installation(folder, url)
    other.settings = duly.settings
    return other


def test_a_worker_that_was_cut_off_still_tells(own_cluster: Cluster, tmp_path: Path) -> None:
    """Another one takes its rows over; when it is back, its late answers are recorded, and end what was held."""
    with database(own_cluster) as url, by_proxy(own_cluster) as proxy, site(url, tmp_path / "here") as here:
        far = elsewhere(here.duly, tmp_path / "far", proxy.url(url))
        with far.running("work", "--json") as cut_off:
            here.under_way()
            proxy.cut()
            here.duly.run("work", "--until-idle")
            before = here.duly.ledger()
            proxy.mend()
            wait_until(lambda: "held" not in here.duly.states(), "the late answers")
            assert cut_off.end(signal.SIGTERM).code == 0
        held = [key for key, one in before.items() if told(one) == ("held", (LOST,))]
        after = here.duly.ledger()
        here.require_promises(after)
        assert held
        assert {told(after[key]) for key in held} == {("sent", (ACCEPTED,))}


def test_slow_outcomes_keep_their_leases(own_cluster: Cluster, tmp_path: Path) -> None:
    """Outcomes that the database takes long to record are nobody else's business, also while their worker drains."""
    slow = load("postgres")["settle"]
    with database(own_cluster) as url, by_proxy(own_cluster) as proxy, site(url, tmp_path / "here") as here:
        far = elsewhere(here.duly, tmp_path / "far", proxy.url(url))
        with far.running("work", "--json") as draining, far.running("work", "--until-idle") as working:
            here.under_way()
            proxy.hold_up(slow, AWAY_SECONDS)
            proxy.hold_up(slow, AWAY_SECONDS)
            wait_until(lambda: len(proxy.held) == 2, "outcomes of both")
            draining.ask(signal.SIGTERM)
            here.duly.run("work", "--until-idle")
            assert (draining.end().code, working.end().code) == (0, 0)
        ledger = here.duly.ledger()
        here.require_promises(ledger)
        assert {told(one) for one in ledger.values()} == {("sent", (ACCEPTED,))}
        assert here.receiver.requests == 2 * EACH


# --- failover ------------------------------------------------------------------------------------


def query(url: str, *statements: str) -> list[Any]:
    """Run statements; the last one's rows."""
    import psycopg  # noqa: PLC0415 - only where it is installed

    with psycopg.connect(url, autocommit=True) as connection:
        cursors = [connection.execute(statement.encode()) for statement in statements]
        return cursors[-1].fetchall() if cursors[-1].description else []


@contextmanager
def crashed(own: Cluster) -> Iterator[None]:
    """The server is gone while the block runs."""
    own.stop(signal.SIGQUIT)
    try:
        yield
    finally:
        own.start()


def test_a_failover(own_cluster: Cluster, tmp_path: Path) -> None:
    """A replica that missed the last seconds is promoted: nothing leaves until an operator says so, and none twice."""
    from tests.stores.postgres_server import standby  # noqa: PLC0415 - needs the driver

    with ExitStack() as stack:
        url, proxy = stack.enter_context(database(own_cluster)), stack.enter_context(by_proxy(own_cluster))
        here = stack.enter_context(site(proxy.url(url), tmp_path / "here"))
        with here.duly.running("work") as worker:
            here.under_way()
            worker.end(signal.SIGTERM)
        replica = stack.enter_context(standby(own_cluster))
        query(replica.url, "alter system set primary_conninfo = ''", "select pg_reload_conf()")
        worker = stack.enter_context(here.duly.running("work"))
        here.under_way()
        stack.enter_context(crashed(own_cluster))
        query(replica.url, "select pg_promote()")
        proxy.server_port = replica.port

        requests = here.receiver.requests
        assert here.duly.run("work", "--until-idle").events("restore_guard_open")
        assert here.receiver.requests == requests

        here.duly.run("restore", "close", "--why", "a failover", "--submitted-again")
        here.duly.run("work", "--until-idle")
        assert worker.end(signal.SIGTERM).code == 0
        ledger = here.duly.ledger()
    here.require_promises(ledger)
    assert here.receiver.duplicates_dropped
    assert set(states(ledger, "shy")) == {"sent", "held"}


# --- a full disk ---------------------------------------------------------------------------------


@contextmanager
def database_on(disk: SmallDisk, own: Cluster) -> Iterator[str]:
    """An empty database whose tables lie on this disk."""
    own.own(disk.folder)
    name = f"duly_small_{time.monotonic_ns()}"
    query(own.url, f"create tablespace {name} location '{disk.folder}'", f"create database {name} tablespace {name}")
    try:
        yield own.url.removesuffix("/postgres") + f"/{name}"
    finally:
        query(own.url, f"drop database {name} with (force)", f"drop tablespace {name}")


def test_a_full_disk(own_cluster: Cluster, tmp_path: Path) -> None:
    """While tables cannot grow the worker waits with its outcomes; with room again it goes on, and sends each once."""
    with (
        small_disk(24) as disk,
        database_on(disk, own_cluster) as url,
        site(url, tmp_path / "here", lease_seconds=60) as here,
        here.duly.running("work", "--until-idle", "--json") as worker,
    ):
        here.under_way()
        disk.fill()
        wait_until(lambda: "database_away" in worker.said, "it notices")
        time.sleep(1)
        disk.empty()
        run = worker.end()
        ledger = here.duly.ledger()
        here.require_promises(ledger)
        assert {told(one) for one in ledger.values()} == {("sent", (ACCEPTED,))}
        assert [line["why"] for line in run.events("database_away") if "No space left" in line["why"]]
