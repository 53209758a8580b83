"""What is wrong is said in one line that names it and says what to do, and nothing is half done."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import pytest

from tests.end_to_end.installation import (
    ACCOUNT,
    AT_ONCE,
    Installation,
    Run,
    reminder,
    require_discretion,
    settle_in,
    settle_on,
)

if TYPE_CHECKING:
    from tests.stores.postgres_server import Cluster

UTF16: Final = "idempotency_key".encode("utf-16")


class Wrong(NamedTuple):
    """What is made wrong, the command that meets it, and the words that its line must hold."""

    break_it: Callable[[Installation], object]
    arguments: tuple[str, ...]
    words: tuple[str, ...]


def _replace(old: str, new: str) -> Callable[[Installation], object]:
    def break_it(duly: Installation) -> None:
        assert old in duly.text
        duly.file.write_text(duly.text.replace(old, new))

    return break_it


def _set(**settings: str) -> Callable[[Installation], object]:
    return lambda duly: duly.settings.update(settings)


def _write(name: str, content: bytes) -> Callable[[Installation], object]:
    return lambda duly: (duly.folder / name).write_bytes(content)


def _folder(name: str) -> Callable[[Installation], object]:
    return lambda duly: (duly.folder / name).mkdir()


def _nothing(_: Installation) -> None:
    """Leave everything as it is."""


USAGES: Final = (
    *(("nonsense",), ("import",), ("show",), ("tick", "--nope"), ("list", "--limit", "many")),
    *(("work", "--processes", "0"), ("up", "--until-idle", "--patience", "-1")),
)
WRONG: Final = {
    # --- the configuration
    "unknown key": Wrong(
        _replace("lease_seconds = 6", "lease_secs = 6"),
        ("tick",),
        ("duly.toml: lease_secs: unknown key", 'did you mean "lease_seconds"?'),
    ),
    "unknown variable": Wrong(_set(DULY_LEESE_SECONDS="9"), ("tick",), ("DULY_LEESE_SECONDS", "DULY_LEASE_SECONDS")),
    "lease too short": Wrong(
        _replace("lease_seconds = 6", "lease_seconds = 3"),
        ("work",),
        ("duly.toml: lease_seconds: 3 is too short", "more than 4", "timeout_seconds"),
    ),
    "not TOML": Wrong(_replace("lease_seconds = 6", "lease_seconds 6"), ("tick",), ("duly.toml: line 2", "not TOML")),
    "no file": Wrong(lambda duly: duly.file.unlink(), ("status",), ("no duly.toml", "`duly init`")),
    "no such --config": Wrong(
        _nothing, ("--config", "other.toml", "status"), ("other.toml: no such file", "another --config")
    ),
    "--config is a folder": Wrong(_folder("conf"), ("--config", "conf", "status"), ("conf: is a folder",)),
    "secret not set": Wrong(
        lambda duly: duly.settings.pop("HOOK_SECRET"),
        ("work",),
        ("providers.hooks.secret", "HOOK_SECRET", "is not set"),
    ),
    "secret of no known form": Wrong(_set(HOOK_SECRET="prvt"), ("work",), ("providers.hooks.secret", "whsec_")),
    "template does not compile": Wrong(
        _replace("{{ recipient.name }}", "{{ recipient.name }"), ("import", "-"), ("template", "visit")
    ),
    "template takes the unknown": Wrong(
        _replace("{{ recipient.name }}", "{{ receiver.name }}"), ("import", "-"), ("visit", "receiver")
    ),
    "no provider": Wrong(
        lambda duly: duly.file.write_text(f'database = "{duly.database}"\n'),
        ("work",),
        ("[providers.NAME]", "duly.toml"),
    ),
    # --- the database
    "no database file": Wrong(
        lambda duly: (duly.folder / "duly.db").unlink(), ("tick",), ("duly.db", "`duly migrate apply`")
    ),
    "an empty database file": Wrong(_write("duly.db", b""), ("work",), ("duly.db", "`duly migrate apply`")),
    "a file that is no database": Wrong(
        _write("duly.db", b"hello" * 500), ("list",), ("duly.db", "not a SQLite database")
    ),
    "a folder that is not there": Wrong(
        _replace("sqlite:///duly.db", "sqlite:///gone/duly.db"),
        ("migrate", "apply"),
        ("gone", "check that its directory exists"),
    ),
    "another installation's database": Wrong(_set(DULY_NAMESPACE="another"), ("tick",), ("namespace", "duly.toml")),
    # --- files to import
    "no such file": Wrong(_nothing, ("import", "rows.csv"), ("rows.csv", "No such file")),
    "a folder to import": Wrong(_folder("rows"), ("import", "rows"), ("rows", "directory")),
    "UTF-16": Wrong(_write("rows.csv", UTF16), ("import", "rows.csv"), ("UTF-16", "save it as UTF-8")),
    "a header without a needed column": Wrong(
        _write("rows.csv", b"account;template\n"), ("import", "rows.csv"), ("header", "idempotency_key")
    ),
    "a header with an unknown column": Wrong(
        _write("rows.csv", b"idempotency_key,account,template,notify_at,to.emial\n"),
        ("import", "rows.csv"),
        ("to.emial", 'did you mean "to.email"?'),
    ),
    "an unknown format": Wrong(_nothing, ("import", "-", "--format", "xml"), ("--format", "xml", "jsonl, csv")),
    # --- names
    "no such id": Wrong(_nothing, ("show", "a" * 26), ("a" * 26,)),
    "a key without its account": Wrong(_nothing, ("explain", "visit-1"), ("visit-1", "account")),
    "no such key": Wrong(_nothing, ("cancel", "visit-1", "--account", ACCOUNT), ("visit-1", ACCOUNT)),
    "no such state": Wrong(_nothing, ("list", "--status", "gone"), ("--status", "gone", "ready")),
}


class Refusal(NamedTuple):
    """A run that was refused, and the files before and after it."""

    run: Run
    before: set[str]
    after: set[str]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Refusal]:
    """Every wrong thing in an installation of its own, side by side."""

    def refuse(name: str) -> Refusal:
        folder = tmp_path_factory.mktemp("refusal")
        with settle_in("sqlite", folder) as duly:
            wrong = WRONG[name]
            wrong.break_it(duly)
            before = _files(folder)
            return Refusal(duly.run(*wrong.arguments, code=1), before, _files(folder))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(WRONG, pool.map(refuse, WRONG), strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_one_line_names_it_and_says_what_to_do(refusals: dict[str, Refusal], name: str) -> None:
    """Whatever is wrong gives exit code 1, nothing on stdout, and exactly one line with its name and the remedy."""
    _require_one_line(refusals[name].run, *WRONG[name].words)


@pytest.mark.parametrize("name", WRONG)
def test_nothing_is_half_written(refusals: dict[str, Refusal], name: str) -> None:
    """What was refused has left no file behind."""
    assert refusals[name].after == refusals[name].before


def _require_one_line(run: Run, *words: str) -> None:
    assert run.out == ""
    assert len(run.lines) == 1, run.err
    assert run.err.startswith("duly: ")
    assert [word for word in words if word not in run.err] == [], run.err


def _files(folder: Path) -> set[str]:
    """The files of the folder; SQLite's own companions come and go."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("duly.db-")}


def test_wrong_usage_is_2(duly_on_sqlite: Installation) -> None:
    """What cannot be understood gives exit code 2, a hint on stderr, and nothing on stdout."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(lambda arguments: duly_on_sqlite.run(*arguments, code=2), USAGES))
    assert [run.out for run in runs] == [""] * len(USAGES)
    assert all("Usage: duly" in run.err for run in runs)


# --- PostgreSQL ----------------------------------------------------------------------------------


def test_pending_migrations_stop_everything(tmp_path: Path) -> None:
    """On an empty PostgreSQL database every command says what to run, and nothing is created."""
    pytest.importorskip("psycopg")
    from tests.stores.postgres_server import postgres_or_skip  # noqa: PLC0415 - needs the driver

    with postgres_or_skip() as url:
        duly = Installation(tmp_path, "postgresql:///")
        duly.settings["DULY_DATABASE"] = url
        for command in (["work"], ["import", "-"]):
            _require_one_line(duly.run(*command, code=1), "`duly migrate apply`")
        duly.run("migrate", "apply")
        assert duly.told("tick")["due"] == 0


def test_a_wrong_password_is_one_line(own_cluster: Cluster, tmp_path: Path) -> None:
    """A server that refuses the password is named with the role, at once, and the password is not printed."""
    duly = Installation(tmp_path, "postgresql:///")
    duly.settings["DULY_DATABASE"] = own_cluster.url.replace(":not-a-secret@", ":prvt-wrong@")
    run = duly.run("work", code=1)
    _require_one_line(run, "password authentication failed", "postgres", "check the database's URL")


def test_no_such_database_is_one_line(own_cluster: Cluster, tmp_path: Path) -> None:
    """A database that the server does not have is named."""
    duly = Installation(tmp_path, "postgresql:///")
    duly.settings["DULY_DATABASE"] = own_cluster.url.removesuffix("/postgres") + "/nowhere"
    _require_one_line(duly.run("tick", code=1), "nowhere", "does not exist")


def test_a_role_without_rights_is_one_line(own_cluster: Cluster, tmp_path: Path) -> None:
    """A role that may not read the tables is told so in one line, without a word of the statement."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(own_cluster.url, autocommit=True) as admin:
        admin.execute("create database rights")
        admin.execute("create role reader login password 'prvt-reader'")
    url = own_cluster.url.removesuffix("/postgres") + "/rights"
    duly = settle_on(url, tmp_path)
    duly.settings["DULY_DATABASE"] = url.replace("postgres:not-a-secret@", f"reader:{quote('prvt-reader')}@")
    for command in (["tick"], ["import", "-"]):
        run = duly.run(*command, stdin=json.dumps(reminder("r", email="r@prvt.example.com")), code=1)
        _require_one_line(run, "permission denied")


# --- pipes ---------------------------------------------------------------------------------------


def _run_with_stdout(duly: Installation, stdout: int, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        duly.command(arguments), stdout=stdout, stderr=subprocess.PIPE,
        cwd=duly.folder, env=duly.environ(), text=True, timeout=120, check=False,
    )  # fmt: skip
    require_discretion(done.stderr)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("--help",)], ids=" ".join)
def test_a_reader_that_left_is_no_accident(duly_on_sqlite: Installation, arguments: tuple[str, ...]) -> None:
    """`duly list | head -0` is quiet: no traceback and no complaint."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, said = _run_with_stdout(duly_on_sqlite, writer, *arguments)
    finally:
        os.close(writer)
    assert (code in (0, 1, 141), said) == (True, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_line(duly_on_sqlite: Installation) -> None:
    """An output that cannot be written is one line that says why."""
    for arguments in (["list", "--json"], ["--help"]):
        with Path("/dev/full").open("wb") as full:
            code, said = _run_with_stdout(duly_on_sqlite, full.fileno(), *arguments)
        assert (code, said.count("\n")) == (1, 1)
        assert "No space left" in said


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_stops_nothing(duly_on_sqlite: Installation, closed: str) -> None:
    """A supervisor may close standard streams: a tick needs none of them."""
    code, said = _run_in_shell(duly_on_sqlite, closed, "tick")
    assert (code, said) == (0, "")


def test_no_stdin_is_one_line(duly_on_sqlite: Installation) -> None:
    """`duly import -` without a standard input says so."""
    code, said = _run_in_shell(duly_on_sqlite, "<&-", "import", "-")
    assert (code, said.count("\n")) == (1, 1)
    assert "standard input is closed" in said


def _run_in_shell(duly: Installation, redirection: str, *arguments: str) -> tuple[int, str]:
    script = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *duly.command(arguments)]
    done = subprocess.run(
        script, capture_output=True, cwd=duly.folder, env=duly.environ(), text=True, timeout=120, check=False
    )
    require_discretion(done.stderr)
    return done.returncode, done.stderr
