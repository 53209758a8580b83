"""The program: its commands, and the one place where an error becomes a line and an exit code.

    0    done
    1    refused or failed: one line on stderr, `duly: <reason>`; with --json nothing is on stdout
    2    wrong usage (Typer's own words)
    130  interrupted

An error that is not in our tree is a bug. It is one line too; DULY_DEBUG=1 shows where it came from.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from duly.cli import output
from duly.cli.surface import ConfigOption, JsonOption, Shared
from duly.errors import DulyError

__all__ = ["build", "main"]

#: Modules of `duly.cli.commands`, in the order of the help. Each has `register(app)`.
COMMANDS: Final = (
    "init",
    "config",
    "migrate",
    "import_",
    "next_",
    "tick",
    "work",
    "serve",
    "views",
    "preview",
    "send_test",
    "cancel",
    "reschedule",
    "reminders",
    "holds",
    "consent",
    "recipients",
    "accounts",
    "templates",
    "zones",
    "restore",
    "doctor",
    "simulate",
    "demo",
)
UNEXPECTED_CHARACTERS_MAX: Final = 300


class Edge(TyperGroup):
    """The group of all commands, and the edge at which no error passes as a traceback."""

    def invoke(self, context: Any) -> Any:
        """Run the command; turn what it raises into lines on stderr and an exit code."""
        output.soften()
        try:
            return super().invoke(context)
        except DulyError as error:
            output.complain(str(error))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except Exception as error:
            if _is_orderly(error):
                raise
            _complain_of_bug(error)
            raise typer.Exit(1) from None


def _is_orderly(error: Exception) -> bool:
    """Whether Typer knows what to do: wrong usage and exits carry an exit code; a closed pipe is quiet."""
    return hasattr(error, "exit_code") or isinstance(error, typer.Abort | BrokenPipeError)


def _complain_of_bug(error: Exception) -> None:
    if os.environ.get("DULY_DEBUG"):
        traceback.print_exception(error)
    text = " ".join(str(error).split())[:UNEXPECTED_CHARACTERS_MAX] or "no details"
    hint = "(run with DULY_DEBUG=1 for the traceback)"
    output.complain(f"unexpected {type(error).__name__}: {text} {hint}")


def _print_version(wanted: bool) -> None:
    if wanted:
        from duly import __version__

        output.write_text(f"duly {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
]


def build() -> typer.Typer:
    """The application with all its commands. Help is plain text where stdout is not a terminal."""
    app = typer.Typer(
        name="duly",
        cls=Edge,
        help="Durable reminder delivery by email and webhook, with a ledger that tells the truth.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        context: typer.Context,
        config: ConfigOption = None,
        as_json: JsonOption = False,
        _version: VersionOption = False,
    ) -> None:
        context.obj = Shared(config, as_json)

    for name in COMMANDS:
        importlib.import_module(f"duly.cli.commands.{name}").register(app)
    return app


def main() -> None:
    """The entry point of `duly`. Leaves with an exit code."""
    output.reopen()
    try:
        build()(prog_name="duly")
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # the help's text, which Typer writes, could not be written
        output.complain(f"standard output cannot be written: {error.strerror}")
        sys.exit(1)
