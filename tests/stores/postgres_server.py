"""A PostgreSQL for tests, benchmarks and the demo: found, or started and thrown away.

In this order: the server that DULY_TEST_POSTGRES names (a URL whose role may create databases, or at
least schemas); a throw-away cluster from installed server binaries; the same after the system's package
manager has installed them, where we are root. Otherwise `NoServer`, with one line that says what to do.

    server()                          the URL of the process's own server (started once, stopped at exit)
    with fresh_database() as url:     an empty database on it, dropped afterwards
    with cluster() as own:            a server of one's own, to be stopped, crashed and started again
    with standby(own) as other:       a second server that follows it, to be promoted

A cluster started here listens on a free loopback port, takes a password, and gives up durability
(fsync off) unless `durable` is asked for: a benchmark must ask, a test need not.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.ports import free_port

__all__ = ["Cluster", "NoServer", "cluster", "fresh_database", "postgres_or_skip", "server", "standby"]

VARIABLE: Final = "DULY_TEST_POSTGRES"
REQUIRED: Final = "DULY_TEST_POSTGRES_REQUIRED"  # set by .ci/run: no server is then a failure, not a skip
START_SECONDS_MAX: Final = 30
STOP_SECONDS_MAX: Final = 15
INSTALL_SECONDS_MAX: Final = 240
PASSWORD: Final = "not-a-secret"
VOLATILE: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
SETTINGS: Final = ("max_connections=100", "shared_buffers=256MB", "max_wal_size=2GB", "log_min_messages=fatal")
FOLDERS: Final = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/*/bin",
)
INSTALLERS: Final = (
    ("apt-get", ("apt-get", "install", "-y", "--no-install-recommends", "postgresql")),
    ("dnf", ("dnf", "install", "-y", "postgresql-server")),
    ("apk", ("apk", "add", "--no-cache", "postgresql")),
)


class NoServer(Exception):
    """There is no PostgreSQL here, and none could be started."""


# --- binaries ------------------------------------------------------------------------------------


def find_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, the newest version first."""
    return next((folder for folder in _candidates() if (folder / "initdb").exists()), None)


def _candidates() -> Iterator[Path]:
    """Folders where server binaries may be."""
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent
    if config := shutil.which("pg_config"):
        yield Path(subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False).stdout.strip())
    for pattern in FOLDERS:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)


@functools.cache  # tried once, not once per test
def install() -> None:
    """Have a server installed. Only root can; where several processes run the tests, the others wait for the first."""
    if os.geteuid() != 0:
        return
    with _one_at_a_time():
        if find_binaries() is None:
            _run_the_first_installer()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    lock = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _run_the_first_installer() -> None:
    """Ask the system's own installer, and only for so long."""
    for program, command in INSTALLERS:
        if shutil.which(program):
            print(f"no PostgreSQL here: trying {' '.join(command)}", file=sys.stderr)
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, env=environment, timeout=INSTALL_SECONDS_MAX, capture_output=True, check=False)
            return


# --- a cluster of our own ------------------------------------------------------------------------


def _unprivileged() -> dict[str, int]:
    """For `subprocess`: whom to become, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid}


class Cluster:
    """A throw-away cluster: its data lives in a temporary folder, and goes when it stops."""

    def __init__(self, binaries: Path, *, durable: bool) -> None:
        self.binaries = binaries
        self._folder = Path(tempfile.mkdtemp(prefix="duly-postgres-"))
        self._port = free_port()
        self._settings = SETTINGS if durable else SETTINGS + VOLATILE
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The maintenance database, as superuser."""
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        return self._port

    @property
    def pid(self) -> int:
        """The server's first process."""
        if self._server is None:
            raise NoServer("the server is not running")
        return self._server.pid

    def create(self) -> None:
        """Make the cluster's files."""
        self.own(self._folder)
        secret = self._folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o644)
        options = ["--username=postgres", f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8", "--no-sync"]
        self._run(["initdb", "-D", str(self._folder / "data"), "--locale=C.UTF-8", *options])

    def copy(self, primary: Cluster) -> None:
        """Make the cluster's files as those of a standby of another cluster, which must run."""
        self.own(self._folder)
        options = ["-R", "-X", "stream", "-c", "fast", "--no-sync"]
        self._run(["pg_basebackup", "-d", primary.url, "-D", str(self._folder / "data"), *options])

    @staticmethod
    def own(folder: Path) -> None:
        """Give a folder to whom the server runs as."""
        owner = _unprivileged()
        if owner:
            os.chown(folder, owner["user"], owner["group"])

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [f"port={self._port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}"]
        flags = itertools.chain.from_iterable(("-c", option) for option in (*options, *self._settings))
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self.binaries / "postgres", "-D", self._folder / "data", *flags],
                stdout=log, stderr=log, cwd=self._folder, start_new_session=True, **_unprivileged(),
            )  # fmt: skip
        self._wait_until_it_answers()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT disconnects everybody, SIGQUIT is a crash."""
        if self._server is None:
            return
        self._server.send_signal(how)
        try:
            self._server.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None

    def remove(self) -> None:
        """Stop the server and delete its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, command: Sequence[str]) -> None:
        program = self.binaries / command[0]
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, cwd=self._folder, check=False, **_unprivileged()
        )
        if done.returncode:
            raise NoServer(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if time.monotonic() > give_up or self._server is None or self._server.poll() is not None:
                    raise NoServer(f"the server did not start: {self._last_words()}") from error
                time.sleep(0.05)
            else:
                return

    def _last_words(self) -> str:
        lines = (self._folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@contextlib.contextmanager
def cluster(*, durable: bool = False) -> Iterator[Cluster]:
    """A cluster of one's own, to be stopped, crashed and started again. Raises NoServer."""
    binaries = find_binaries()
    if binaries is None:
        install()
        binaries = find_binaries()
    if binaries is None:
        raise NoServer(f"no PostgreSQL server binaries found: install postgresql, or set {VARIABLE} to a server's URL")
    own = Cluster(binaries, durable=durable)
    try:
        own.create()
        own.start()
        yield own
    finally:
        own.remove()


@contextlib.contextmanager
def standby(primary: Cluster) -> Iterator[Cluster]:
    """A cluster that follows another one by streaming. `select pg_promote()` makes it one of its own."""
    own = Cluster(primary.binaries, durable=True)
    try:
        own.copy(primary)
        own.start()
        yield own
    finally:
        own.remove()


# --- what tests ask for --------------------------------------------------------------------------


def server() -> str:
    """The URL of this process's server, on which databases may be made. Raises NoServer."""
    found = _shared()
    if isinstance(found, NoServer):
        raise found
    return found


@functools.cache
def _shared() -> str | NoServer:
    """Found or started once, and stopped when the process exits. Not to be had is remembered too."""
    if given := os.environ.get(VARIABLE):
        return given
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    try:
        return stack.enter_context(cluster()).url
    except NoServer as error:
        return error


@contextlib.contextmanager
def fresh_database(url: str | None = None) -> Iterator[str]:
    """The URL of an empty database (or, where the role may not make one, of an empty schema)."""
    root = url or server()
    name = f"duly_test_{os.getpid()}_{time.monotonic_ns()}"
    with psycopg.connect(root, autocommit=True) as connection:
        try:
            connection.execute(f'create database "{name}"'.encode())
        except psycopg.errors.InsufficientPrivilege:
            connection.execute(f'create schema "{name}"'.encode())
            made, opened = "schema", _with_query(root, f"options=-csearch_path%3D{name}")
        else:
            made, opened = "database", urlunsplit(urlsplit(root)._replace(path=f"/{name}"))
    try:
        yield opened
    finally:
        with psycopg.connect(root, autocommit=True) as connection:
            how = f'drop database "{name}" with (force)' if made == "database" else f'drop schema "{name}" cascade'
            connection.execute(how.encode())


def _with_query(url: str, more: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=f"{parts.query}&{more}" if parts.query else more))


@contextlib.contextmanager
def postgres_or_skip() -> Iterator[str]:
    """An empty database for a test; without a server the test is skipped, or fails where one is required."""
    import pytest  # noqa: PLC0415 - benchmarks and the demo use this module without it

    try:
        server()
    except NoServer as error:
        give_up = pytest.fail if os.environ.get(REQUIRED) else pytest.skip
        give_up(f"PostgreSQL tests did not run: {error}")
    with fresh_database() as url:
        yield url
