"""What every command shares: `--config`, `--json`, and the surface that it speaks through.

    @command(app)
    def status(surface: Surface, account: Annotated[str | None, typer.Option()] = None) -> None:
        "Counts and oldest ages for each state."          # the help text
        config = surface.config()                          # loaded; its warnings are on stderr
        ...
        surface.result({"states": states}, columns(...))   # JSON or text

A command's function takes a Surface first and its own options after it; `command` puts `--config` and
`--json` behind them. Both are also taken before the command (`duly --json status`).
"""

from __future__ import annotations

import functools
import getpass
import inspect
import os
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from duly.cli import output

if TYPE_CHECKING:
    from duly.runtime.config import Config

__all__ = [
    "WHY_CHARACTERS_MAX",
    "AccountOption",
    "ConfigOption",
    "Identity",
    "JsonOption",
    "LimitOption",
    "Surface",
    "WhyOption",
    "command",
    "operator",
    "stated",
]

P = ParamSpec("P")

LIST_ROWS_MAX: Final = 10_000_000
WHY_CHARACTERS_MAX: Final = 500

ConfigOption = Annotated[
    str | None,
    typer.Option("--config", metavar="PATH", help="The configuration file, instead of duly.toml in this folder."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Identity = Annotated[str, typer.Argument(metavar="ID", help="Our id, or your idempotency key with --account.")]
AccountOption = Annotated[str | None, typer.Option("--account", help="The account.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=LIST_ROWS_MAX, help="How many rows at most.")]
WhyOption = Annotated[str, typer.Option("--why", help="The reason, for the record.")]


@dataclass(frozen=True, slots=True)
class Surface:
    """What a command speaks through. `config_path` is None unless `--config` was given."""

    as_json: bool
    config_path: Path | None

    def config(self) -> Config:
        """Load the configuration and print its warnings. Raises ConfigError."""
        from duly.runtime.config import load

        config = load(self.config_path, os.environ)
        for warning in config.warnings:
            self.note(f"warning: {warning}")
        return config

    def result(self, document: Any, text: str) -> None:
        """Print what the command has to say: the document with `--json`, else the text."""
        if self.as_json:
            output.write_json(document)
        else:
            output.write_text(text)

    def note(self, text: str) -> None:
        """Print lines to stderr."""
        output.complain(text)

    def progress(self, label: str, total: int | None = None) -> AbstractContextManager[Callable[[int], None]]:
        """A progress bar on stderr; see `output.progress`."""
        return output.progress(label, total)


@dataclass(frozen=True, slots=True)
class Shared:
    """The options that stood before the command."""

    config: str | None
    as_json: bool


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[Concatenate[Surface, P], None]], Callable[Concatenate[Surface, P], None]]:
    """Register a function as a command of `app`. Its docstring is its help, and its name the command's."""

    def register(function: Callable[Concatenate[Surface, P], None]) -> Callable[Concatenate[Surface, P], None]:
        app.command(name)(_with_shared_options(function))
        return function

    return register


def _with_shared_options(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(context: typer.Context, config: str | None, as_json: bool, **own: Any) -> None:
        for name, value in own.items():
            _refuse_what_is_no_text(name, value)
        function(_surface(context, config, as_json), **own)

    # Typer reads options from the signature: the Surface goes, the shared options come.
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    shared = [
        _parameter("context", typer.Context),
        _parameter("config", ConfigOption, default=None),
        _parameter("as_json", JsonOption, default=False),
    ]
    ordered = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    return run


def _refuse_what_is_no_text(name: str, value: Any) -> None:
    """Bytes that are not UTF-8 reach us as surrogates: no database and no terminal takes them. Paths may hold them."""
    from duly.core.text import is_recordable
    from duly.errors import InputError

    if isinstance(value, str) and name != "file" and not is_recordable(value):
        raise InputError(f"{name.replace('_', '-')}: it holds bytes that are not UTF-8 text")


def _parameter(name: str, annotation: Any, *, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def operator() -> str:
    """Who gives the command, for the record: `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return output.plain(f"{user}@{platform.node()}")


def stated(why: str) -> str:
    """The reason for the record, on one line. Raises InputError if it says nothing."""
    from duly.core.text import one_line
    from duly.errors import InputError

    text = one_line(why, WHY_CHARACTERS_MAX)
    if not text:
        raise InputError("--why: it is blank; say in a few words why, for the record")
    return text


def _surface(context: typer.Context, config: str | None, as_json: bool) -> Surface:
    before: Shared = context.find_root().obj
    chosen = config or before.config
    return Surface(as_json or before.as_json, Path(chosen) if chosen else None)
