"""The command line's manners, and its first commands: `init`, `config` and `migrate`."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import pytest
import typer
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.cli.output import columns, plain, write_json
from duly.cli.surface import Surface, command
from duly.errors import ConfigError, DulyError

LEAST: Final = 'database = "sqlite:///duly.db"\n'


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away every variable that would configure the program, also those that are meant for tests."""
    for name in [name for name in os.environ if name.startswith("DULY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def duly(*arguments: str, environ: Mapping[str, str] | None = None) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(build(), arguments, env=dict(environ or {}), catch_exceptions=False)


def start(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the program as an operator does."""
    environ = {"PATH": os.environ["PATH"], **options.pop("environ", {})}
    program = [sys.executable, "-m", "duly", *arguments]
    return subprocess.run(
        program, capture_output=True, text=True, timeout=120, check=False, env=environ, encoding="utf-8", **options
    )


# --- manners -------------------------------------------------------------------------------------


def test_the_version_is_the_packages() -> None:
    """`--version` prints the installed version and loads none of the heavy rooms."""
    run = start("--version")
    assert (run.returncode, run.stdout, run.stderr) == (0, "duly 0.1.0\n", "")
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "duly", "--version"], capture_output=True, text=True, check=True
    ).stderr
    assert not [
        room for room in ("pydantic", "rich", "jinja2", "psycopg", "pycurl", "orjson") if f" {room}\n" in loaded
    ]


@pytest.mark.parametrize("arguments", [["nonsense"], ["config", "--nope"], ["config", "more"], ["migrate", "undo"], []])
@pytest.mark.usefixtures("folder")
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    """What Typer refuses is wrong usage, with nothing on stdout."""
    answer = duly(*arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "Usage: " in answer.stderr


def test_help_is_plain_ascii_where_nobody_looks() -> None:
    """Help that goes into a pipe holds no boxes and no colours."""
    run = start("--help", environ={"LC_ALL": "C"})
    assert run.returncode == 0
    assert run.stdout.isascii()
    assert "\x1b" not in run.stdout


@pytest.mark.usefixtures("folder")
def test_without_a_configuration_the_next_step_is_named() -> None:
    """A command with nothing to go by fails in one line, and with --json leaves stdout empty."""
    line = "duly: no duly.toml in this folder: run `duly init`, or give --config\n"
    for arguments in (["config"], ["config", "--json"], ["--json", "config"]):
        answer = duly(*arguments)
        assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "", line)


def test_config_is_taken_before_and_after_the_command(folder: Path) -> None:
    """--config means the same on both sides of the command; the one behind it wins."""
    (folder / "a.toml").write_text('database = "sqlite:///a.db"')
    (folder / "b.toml").write_text('database = "sqlite:///b.db"')
    databases = [
        json.loads(duly(*arguments).stdout)["config"]["database"].rpartition("/")[2]
        for arguments in (
            ["--config", "a.toml", "config", "--json"],
            ["--json", "config", "--config", "b.toml"],
            ["--config", "a.toml", "--json", "config", "--config", "b.toml"],
        )
    ]
    assert databases == ["a.db", "b.db", "b.db"]


def program_that(act: Callable[[Surface], None]) -> Result:
    """The answer of a program with one more command, which does this."""
    app = build()
    command(app, "act")(act)
    return CliRunner().invoke(app, ["act"], catch_exceptions=False)


def raising(error: BaseException) -> Callable[[Surface], None]:
    """A command that raises."""

    def act(_: Surface) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (ConfigError("a: wrong\nb: wrong too"), 1, "duly: a: wrong\nduly: b: wrong too\n"),
        (DulyError("\x1b[31mred\x00"), 1, "duly: ?[31mred?\n"),
        (
            KeyError("x\ny"),
            1,
            "duly: unexpected KeyError: 'x\\ny' (run with DULY_DEBUG=1 for the traceback)\n",
        ),
        (RuntimeError("a\nb"), 1, "duly: unexpected RuntimeError: a b (run with DULY_DEBUG=1 for the traceback)\n"),
        (
            RecursionError(),
            1,
            "duly: unexpected RecursionError: no details (run with DULY_DEBUG=1 for the traceback)\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(7), 7, ""),
    ],
)
def test_every_error_ends_at_the_edge(error: BaseException, code: int, stderr: str) -> None:
    """Errors of ours, bugs, interrupts and exits each end in their exit code, and never in a traceback."""
    answer = program_that(raising(error))
    assert (answer.exit_code, answer.stdout, answer.stderr) == (code, "", stderr)


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With DULY_DEBUG a bug shows where it came from."""
    monkeypatch.setenv("DULY_DEBUG", "1")
    answer = program_that(raising(RuntimeError("here")))
    assert answer.exit_code == 1
    assert "raise error\nRuntimeError: here\nduly: unexpected RuntimeError: here" in answer.stderr


def test_a_closed_pipe_is_quiet(folder: Path) -> None:
    """A reader that leaves early gets no complaint about it."""
    templates = "".join(f"[templates.t{number}]\ntext = '{'x' * 100}'\n" for number in range(2_000))
    (folder / "duly.toml").write_text(LEAST + templates)
    with subprocess.Popen(
        [sys.executable, "-m", "duly", "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.read(10)
        program.stdout.close()
        assert program.stderr.read() == b""


def test_a_character_that_cannot_be_written_is_escaped(folder: Path) -> None:
    """On a terminal or pipe without UTF-8, text is escaped and nothing fails."""
    (folder / "duly.toml").write_text(LEAST + '[templates.t]\ntext = "h\u00e9"\n', "utf-8")
    run = start("config", cwd=folder, environ={"PYTHONIOENCODING": "ascii"})
    assert (run.returncode, run.stderr) == (0, "")
    assert '"h\\xe9"' in run.stdout


def test_json_is_one_document_with_times_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    """A document is one line, and its times are RFC 3339 ending in Z."""
    write_json({"at": datetime(2026, 12, 1, 14, 0, tzinfo=UTC), "name": "h\u00e9"})
    assert capsys.readouterr().out == '{"at":"2026-12-01T14:00:00Z","name":"h\u00e9"}\n'


def test_columns_line_up_and_hold_no_control_characters() -> None:
    """A cell cannot break its line or move the cursor, and an absent one is empty."""
    assert columns(("A", "LONG"), [("x\ny", None), (1, "\x1b[2J\u202e")]) == "A    LONG\nx?y\n1    ?[2J?"
    assert plain(None) == ""


def test_a_command_has_its_own_options_and_the_shared_ones() -> None:
    """The decorator gives a command --config and --json beside its own, and the Surface that they make."""
    seen: list[tuple[Surface, int]] = []
    app = build()

    @command(app)
    def count(surface: Surface, times: Annotated[int, typer.Option(min=1)] = 3) -> None:
        seen.append((surface, times))
        surface.result({"times": times}, f"{times} times")

    answer = CliRunner().invoke(app, ["count", "--times", "4", "--config", "x.toml", "--json"])
    assert (answer.stdout, seen) == ('{"times":4}\n', [(Surface(as_json=True, config_path=Path("x.toml")), 4)])
    assert CliRunner().invoke(app, ["count"]).stdout == "3 times\n"
    assert CliRunner().invoke(app, ["count", "--times", "0"]).exit_code == 2


# --- config --------------------------------------------------------------------------------------


def test_config_says_where_values_came_from(folder: Path) -> None:
    """The table tells file, environment and default apart."""
    (folder / "duly.toml").write_text(LEAST)
    answer = duly("config", environ={"DULY_LEASE_SECONDS": "70"})
    rows = [line.split() for line in answer.stdout.splitlines()]
    assert ["lease_seconds", "70.0", "environment:", "DULY_LEASE_SECONDS"] in rows
    assert ["queue", '"database"', "default"] in rows
    assert ["database", f'"sqlite:///{folder}/duly.db"', "file"] in rows


def test_config_never_prints_a_secret(folder: Path) -> None:
    """A literal secret and a password work, are warned of by their keys, and are printed nowhere."""
    (folder / "duly.toml").write_text(
        'database = "postgresql://me:dbsecret@db/x"\n[providers.h]\nkind = "webhook"\nsecret = "whsec_topsecret"\n'
    )
    for arguments in (["config"], ["config", "--json"]):
        answer = duly(*arguments)
        assert answer.exit_code == 0
        assert "secret" not in (answer.stdout + answer.stderr).replace("providers.h.secret", "").replace(
            '"secret":"***"', ""
        ).replace("the secret stands", "")
    assert json.loads(answer.stdout)["config"]["providers"]["h"]["secret"] == "***"
    assert [line.split(": ")[:4] for line in answer.stderr.splitlines()] == [
        ["duly", "warning", "duly.toml", "providers.h.secret"],
        ["duly", "warning", "duly.toml", "database"],
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "duly: duly.toml: database: missing; "),
        (b'a = "\xe9"', "duly: duly.toml: not UTF-8 text (byte 5)"),
        (b"x" * 1_100_000, "duly: duly.toml: larger than 1 MiB"),
        (b"[providers", "duly: duly.toml: line 1, column 11: not TOML: "),
        (LEAST.encode() + b"lease_secnds = 5", 'duly: duly.toml: lease_secnds: unknown key; did you mean "lease'),
        (b'database = "mysql://me:pw@h/d"', "duly: duly.toml: database: not a database URL; "),
        (LEAST.encode() + b"lease_seconds = [1]", "duly: duly.toml: lease_seconds: expected a number, got a list"),
    ],
)
def test_a_wrong_file_fails_in_its_first_line(content: bytes, line: str, folder: Path) -> None:
    """Whatever is wrong with the file, the first line on stderr says it and stdout is empty."""
    (folder / "duly.toml").write_bytes(content)
    answer = duly("config", "--json")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith(line)


def test_config_works_where_the_secrets_are_not(folder: Path) -> None:
    """Secrets are looked up when they are used, so looking at the configuration does not need them."""
    (folder / "duly.toml").write_text(LEAST + '[providers.h]\nkind = "webhook"\nsecret = "env:NOT_SET"\n')
    answer = duly("config", "--json")
    assert json.loads(answer.stdout)["config"]["providers"]["h"]["secret"] == "env:NOT_SET"


# --- init ----------------------------------------------------------------------------------------


def test_init_makes_an_installation_that_works(folder: Path) -> None:
    """After `duly init` the configuration loads, its secret can be read, and the schema is as it should be."""
    answer = duly("init")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert "duly up" in answer.stdout
    written = tomllib.loads((folder / "duly.toml").read_text())
    assert len(written["namespace"]) == 32
    secret = folder / ".duly" / "hook.secret"
    assert secret.read_text().startswith("whsec_")
    assert (stat.S_IMODE(secret.stat().st_mode), stat.S_IMODE(secret.parent.stat().st_mode)) == (0o600, 0o700)
    assert duly("config").exit_code == 0
    verified = duly("migrate", "verify", "--json")
    assert (verified.exit_code, verified.stdout) == (0, '{"problems":[]}\n')


def test_init_writes_its_namespace_into_the_database(folder: Path) -> None:
    """The namespace of the file is the database's, because every id comes from it."""
    assert duly("init").exit_code == 0
    with sqlite3.connect(folder / "duly.db") as connection:
        stored = connection.execute("select namespace from installation").fetchall()
    connection.close()
    assert stored == [(tomllib.loads((folder / "duly.toml").read_text())["namespace"],)]


def test_init_answers_in_json(folder: Path) -> None:
    """With --json, init names what it wrote, in one document."""
    done = json.loads(duly("init", "--json").stdout)
    assert done["config"] == "duly.toml"
    assert done["secret_file"] == ".duly/hook.secret"
    assert done["database"] == f"sqlite:///{folder}/duly.db"
    assert done["applied"][0] == {"number": 1, "name": "ledger"}


def test_init_does_not_overwrite(folder: Path) -> None:
    """An existing file is left as it is, and the answer names --force."""
    (folder / "duly.toml").write_text("mine")
    answer = duly("init", "--json")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == "duly: duly.toml is already there; edit it, or give --force to replace it\n"
    assert (folder / "duly.toml").read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == ["duly.toml"]


def test_init_by_force_keeps_what_must_not_change(folder: Path) -> None:
    """--force replaces the file, and keeps namespace and secret: with others, messages would be sent again."""
    assert duly("init").exit_code == 0
    before = tomllib.loads((folder / "duly.toml").read_text())["namespace"]
    secret = (folder / ".duly" / "hook.secret").read_text()
    (folder / "duly.toml").write_text((folder / "duly.toml").read_text() + "# mine\n")
    assert duly("init", "--force").exit_code == 0
    text = (folder / "duly.toml").read_text()
    assert "# mine" not in text
    assert tomllib.loads(text)["namespace"] == before
    assert (folder / ".duly" / "hook.secret").read_text() == secret


def test_init_takes_over_an_existing_database(folder: Path) -> None:
    """Where the file was lost and the database was not, the new file has the database's namespace."""
    assert duly("init").exit_code == 0
    before = tomllib.loads((folder / "duly.toml").read_text())["namespace"]
    (folder / "duly.toml").unlink()
    assert json.loads(duly("init", "--json").stdout)["applied"] == []
    assert tomllib.loads((folder / "duly.toml").read_text())["namespace"] == before


def test_init_by_force_replaces_a_broken_file(folder: Path) -> None:
    """A file that cannot be read at all is no obstacle to --force."""
    (folder / "duly.toml").write_bytes(b"\xff[[[")
    assert duly("init", "--force").exit_code == 0
    assert duly("config").exit_code == 0


def test_init_writes_where_config_says(folder: Path) -> None:
    """--config names the file to write; the database and the secret stand beside it."""
    (folder / "conf").mkdir()
    assert duly("init", "--config", "conf/mine.toml", "--database", "sqlite:///ledger.db").exit_code == 0
    assert {path.name for path in (folder / "conf").iterdir()} >= {"mine.toml", ".duly", "ledger.db"}


def test_init_keeps_a_password_from_other_eyes(folder: Path) -> None:
    """A file that holds a password is its owner's alone, and a database that is down is said, with what to do."""
    answer = duly("init", "--database", "postgresql://me:dbsecret@127.0.0.1:1/x")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("duly: duly.toml is written, but the database is not ready: ")
    assert answer.stderr.endswith("; mend that, then run `duly migrate apply`\n")
    assert "dbsecret" not in answer.stderr
    assert stat.S_IMODE((folder / "duly.toml").stat().st_mode) == 0o600


def test_init_takes_the_database_from_the_environment(folder: Path) -> None:
    """With DULY_DATABASE set, init creates that one and does not copy its URL into the file."""
    environ = {"DULY_DATABASE": f"sqlite:///{folder}/other.db"}
    assert duly("init", environ=environ).exit_code == 0
    assert (folder / "other.db").exists()
    assert "database" not in tomllib.loads((folder / "duly.toml").read_text())
    answer = duly("init", "--force", "--database", "sqlite:///x.db", environ=environ)
    assert "--database and DULY_DATABASE differ" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--database", "nonsense"], "duly: --database: not a database URL; "),
        (["--database", 'sqlite:///a"\nqueue = "x'], "duly: --database: a URL holds no blanks"),
        (["--database", "sqlite:///\U0001f600\x7f.db"], "duly: --database: a URL holds no blanks"),
        (["--config", "none/duly.toml"], "duly: none/.duly/hook.secret cannot be written: no such file or directory"),
    ],
)
def test_init_refuses_before_it_writes(arguments: list[str], line: str, folder: Path) -> None:
    """What cannot work is refused in one line, and nothing is left behind."""
    answer = duly("init", *arguments)
    assert answer.exit_code == 1
    assert answer.stderr.startswith(line)
    assert list(folder.iterdir()) == []


# --- migrate -------------------------------------------------------------------------------------


def test_migrations_are_planned_applied_and_verified(folder: Path) -> None:
    """What plan shows, apply does, once, and verify agrees."""
    (folder / "duly.toml").write_text(LEAST + 'namespace = "n1"\n')
    steps = json.loads(duly("migrate", "plan", "--json").stdout)["pending"]
    assert steps[0] == {"number": 1, "name": "ledger"}
    assert json.loads(duly("migrate", "apply", "--json").stdout) == {"applied": steps}
    assert json.loads(duly("migrate", "apply", "--json").stdout) == {"applied": []}
    assert json.loads(duly("migrate", "plan", "--json").stdout) == {"pending": []}
    assert duly("migrate", "verify").stdout == "the schema is as it should be\n"


def test_a_changed_schema_is_found(folder: Path) -> None:
    """A verify names what differs, on stdout also with --json, and exits 1 with one line on stderr."""
    assert duly("init").exit_code == 0
    with sqlite3.connect(folder / "duly.db") as connection:
        connection.execute("drop view ledger")
    connection.close()
    answer = duly("migrate", "verify", "--json")
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["problems"]
    assert answer.stderr.startswith("duly: the schema is not as it should be (")
