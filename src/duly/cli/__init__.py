"""The command line: thin, over configuration, flows and read-only views.

`app` has the list of commands and the one place where an error becomes a line and an exit code; `surface`
has what every command shares; `output` turns values into text. A command's module imports its rooms inside
the function, so that `duly --version` and `duly work` start fast.
"""

from duly.cli.app import main

__all__ = ["main"]
