"""`duly init`: a configuration that works at once, and the database behind it.

The order is chosen so that a crash can be repaired: the secret first, then `duly.toml`, which is written
whole or not at all, then the database. If the last step fails, `duly migrate apply` does it again.
A secret that is already there is kept, also with --force: receivers verify with it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from duly.cli.surface import Surface, command, operator
from duly.errors import ConfigError, DulyError, InputError, SchemaError, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = ["register"]

DEFAULT_DATABASE: Final = "sqlite:///duly.db"
SECRET_FILE: Final = Path(".duly/hook.secret")
NAMESPACE_BYTES: Final = 16
SECRET_BYTES: Final = 32  # Standard Webhooks asks for 24 to 64

FILE: Final = """\
# Duly's configuration. Every key can also come from the environment, which wins:
# DULY_LEASE_SECONDS=90, DULY_PROVIDERS__HOOKS__RATE_PER_SECOND=50 (two underscores for each dot).
# `duly config` prints what is in effect, and where each value came from.

{database}
queue = "database"
lease_seconds = 60                      # must be longer than the longest timeout_seconds plus 2

# Every id is derived from it. Never change it: a changed one would send everything again.
namespace = "{namespace}"

[providers.hooks]                       # the name is yours
kind = "webhook"
channel = "webhook"
secret = "file:{secret}"       # signs requests (Standard Webhooks); or env:NAME
timeout_seconds = 10
# rate_per_second = 200                 # for each endpoint, shared by all workers; absent: no limit
# deduplicates = true                   # only if receivers drop a webhook-id that they have seen ...
# key_window = "P7D"                    # ... for at least so long
# allow_private_networks = true         # lets webhooks go to addresses inside your network

# [endpoints.acme]                      # what differs for one receiver
# url = "https://hooks.acme.example/in"
# secret = ["env:ACME_NEW", "env:ACME_OLD"]   # both sign while they rotate
# lookup_url = "https://hooks.acme.example/deliveries/{{delivery}}"   # only if it says there what it accepted

[providers.mail]
kind = "smtp"
channel = "email"
url = "smtp://localhost:2525"           # or smtp+starttls://user@host:587, smtps://user@host:465
# password = "env:SMTP_PASSWORD"
from = "Harbour Lofts <reminders@example.com>"

# [accounts.harbour-lofts]              # accounts also come into being with their first reminder
# zone = "America/New_York"
# on_doubt = "hold"                     # a message that may have been sent: hold | resend | close

[templates.inspection]
subject = "Inspection on {{{{ data.day }}}}"
text = "Hello {{{{ recipient.name }}}}, we visit unit {{{{ data.unit }}}} at {{{{ data.time }}}}."
"""

NEXT_STEPS: Final = """\
wrote {file}
{made} {database}

next:
  duly config                 what is in effect
  duly import reminders.csv   take reminders in (CSV or JSONL)
  duly up                     tick and deliver, until Ctrl-C
  duly status                 what is due, sent, waiting, in doubt"""

DatabaseOption = Annotated[
    str | None, typer.Option(metavar="URL", help=f"Where the ledger is, instead of {DEFAULT_DATABASE}.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing duly.toml. Secrets are kept.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app)(init)


def init(
    surface: Surface,
    database: DatabaseOption = None,
    force: ForceOption = False,
) -> None:
    """Write a commented duly.toml and create the database."""
    file = _file(surface)
    if file.exists() and not force:
        raise InputError(f"{file} is already there; edit it, or give --force to replace it")
    line = _database_line(database)
    text = FILE.format(database=line, namespace=_namespace(file, line), secret=SECRET_FILE)
    config = _checked(text, file)
    _write_secret(file.parent / SECRET_FILE)
    _write_whole(file, text, 0o600 if config.database.has_password else 0o644)
    document = {
        "config": str(file),
        "database": str(config.database),
        "secret_file": str(file.parent / SECRET_FILE),
        "applied": _create(config, file),
    }
    made = "created" if document["applied"] else "found"
    surface.result(document, NEXT_STEPS.format(file=file, made=made, database=config.database))


# --- what goes into the file ---------------------------------------------------------------------


def _file(surface: Surface) -> Path:
    from duly.runtime.config import FILE_NAME, named_file

    return named_file(surface.config_path, os.environ) or Path(FILE_NAME)


def _database_line(database: str | None) -> str:
    from duly.runtime.config import parse_database

    from_environment = os.environ.get("DULY_DATABASE")
    if database and from_environment and database != from_environment:
        raise InputError("--database and DULY_DATABASE differ, and the environment wins; give one of them")
    try:
        parse_database(database or DEFAULT_DATABASE, Path())
    except ValueError as error:
        raise InputError(f"--database: {error}") from None
    if from_environment:
        return f'# DULY_DATABASE is set, so the database comes from there.\n# database = "{DEFAULT_DATABASE}"'
    written = json.dumps(database or DEFAULT_DATABASE, ensure_ascii=False)
    return f"{f'database = {written}':<39} # or postgresql://user@host/db"


def _namespace(file: Path, database: str) -> str:
    """The replaced file's namespace, or the database's if it has one: with another, everything would be sent again."""
    return _in_file(file) or _in_database(file, database) or secrets.token_hex(NAMESPACE_BYTES)


def _in_file(file: Path) -> str | None:
    try:
        old = tomllib.loads(file.read_text("utf-8")).get("namespace")
    except (OSError, ValueError, RecursionError):
        return None
    return old if isinstance(old, str) else None


def _in_database(file: Path, database: str) -> str | None:
    """The namespace that the database holds. One that does not answer is met again, and said, when it is created."""
    import asyncio

    from duly.runtime.bootstrap import open_store

    async def ask() -> str:
        async with open_store(_checked(database, file)) as store:
            return await store.namespace()

    try:
        return asyncio.run(ask())
    except (StoreError, StoreUnavailable, SchemaError):
        return None


def _checked(text: str, file: Path) -> Config:
    from duly.runtime.config import parse

    return parse(text, file, os.environ)


# --- what goes onto the disk ---------------------------------------------------------------------


def _write_secret(path: Path) -> None:
    """Make the webhook secret, readable by its owner alone, unless there is one."""
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")
    with _named(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.with_name(".gitignore").write_text("*\n", "ascii")
        if not path.exists():
            _write_whole(path, secret + "\n", 0o600)


def _write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file that is there whole or not at all, also after a crash."""
    with _named(path):
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        Path(name).chmod(mode)
        Path(name).replace(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def _create(config: Config, file: Path) -> list[dict[str, Any]]:
    import asyncio

    from duly.stores import migrate

    try:
        steps = asyncio.run(migrate.apply(config.database.reveal(), config.namespace, by=operator()))
    except DulyError as error:
        repair = "mend that, then run `duly migrate apply`"
        raise type(error)(f"{file} is written, but the database is not ready: {error}; {repair}") from None
    return [{"number": step.number, "name": step.name} for step in steps]
