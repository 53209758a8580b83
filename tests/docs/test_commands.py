"""The page of commands has every command with every option, and no page names one that is not there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from duly.cli.app import build

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/reference/commands.md"
PAGES: Final = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
}
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
BLOCK: Final = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Inside a block: up to what the shell takes for itself, and without what is quoted.
TYPED: Final = re.compile(r"(?<![\w./-])duly ([a-z](?:\"[^\"\n]*\"|[^\n;&<>])*)")
QUOTED: Final = re.compile(r"\"[^\"]*\"")


def options(command: Any) -> list[frozenset[str]]:
    """The names of each option."""
    return [frozenset(one.opts + one.secondary_opts) for one in command.params if one.param_type_name == "option"]


def walk(group: Any, path: str = "") -> Iterator[tuple[str, list[frozenset[str]]]]:
    for name, command in group.commands.items():
        whole = f"{path} {name}".strip()
        yield from walk(command, whole) if hasattr(command, "commands") else [(whole, options(command))]


DULY: Final = get_command(build())
#: What may stand before every command too, and what stands behind each.
ROOT_OPTIONS: Final = frozenset({"--help", "-h"}.union(*options(DULY)))
SHARED: Final = frozenset({"--config", "--json", "--help"})
#: command -> the names of each of its own options
COMMANDS: Final = {path: [one for one in names if not one & SHARED] for path, names in walk(DULY)}


def named(words: list[str]) -> list[str]:
    """The commands, or groups of them, that words begin with: `accounts pause|resume NAME` names two."""
    found = [""]
    for word in words:
        longer = [f"{path} {part}".strip() for path in found for part in word.split("|")]
        if not all(any(f"{known} ".startswith(f"{one} ") for known in COMMANDS) for one in longer):
            break
        found = longer
    return [path for path in found if path]


def spans(text: str) -> list[str]:
    """What stands in code quotes."""
    return [" ".join(span.replace("\\|", "|").split()) for span in re.findall(r"`([^`]+)`", text)]


def documented() -> dict[str, set[str]]:
    """Each command of the page's table, with the options that stand in its row."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `duly "):
            for command, names in _row(re.split(r"(?<!\\)\|", line)[1]):
                found[command] |= names
    return found


def _row(cell: str) -> Iterator[tuple[str, set[str]]]:
    """What does not begin with `duly` is about all commands of its row."""
    parts = spans(cell)
    shared = {name for part in parts if not part.startswith("duly ") for name in OPTION.findall(part)}
    for part in parts:
        if part.startswith("duly "):
            yield from ((command, {*OPTION.findall(part), *shared}) for command in named(part.split()[1:]))


def mentions(text: str) -> Iterator[str]:
    """What stands behind `duly` wherever a page tells somebody to type it."""
    for block in BLOCK.findall(text):
        yield from (one.partition(" |")[0].strip() for one in TYPED.findall(block))
    for span in spans(BLOCK.sub("", text)):
        if re.match(r"duly [a-z]", span):
            yield span.removeprefix("duly ")


def wrong(mention: str) -> list[str]:
    """A mention that begins with no command, or the options that its command does not have."""
    commands = named(mention.split())
    if not (commands and COMMANDS.keys() >= set(commands)) and commands != [mention]:  # a group may stand alone
        return [mention]
    known = ROOT_OPTIONS.union(*(names for command in commands for names in COMMANDS.get(command, [])))
    return [f"{mention}: {name}" for name in OPTION.findall(QUOTED.sub("", mention)) if name not in known]


def test_the_page_has_every_command() -> None:
    """The commands of the page's table are those of the program."""
    assert set(documented()) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_every_option(command: str) -> None:
    """A command's row has each of its options, by one of its names, and no other."""
    names = documented()[command]
    assert names <= SHARED.union(*COMMANDS[command])
    assert [sorted(one) for one in COMMANDS[command] if not one & names] == []


def test_the_page_has_what_stands_before_commands() -> None:
    """The options of the program itself stand in the page's prose."""
    prose = PAGE.read_text(encoding="utf-8").partition("| command |")[0]
    assert {name for span in spans(prose) for name in re.findall(r"-[-a-z]+", span)} >= ROOT_OPTIONS


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_what_is_not_there(page: str) -> None:
    """Every command and option that a page tells to type exists."""
    assert [one for mention in mentions(PAGES[page]) for one in wrong(mention)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`duly frob ID`", ["frob ID"]),
        ("`duly holds decode`, `duly holds`", ["holds decode"]),
        ("`duly\nshow --frob`", ["show --frob: --frob"]),
        ("```sh\nduly list --json |\n  duly holds list --frob > x\n```\n", ["holds list --frob: --frob"]),
        ('```console\n$ duly cancel ID --why "--frob"; duly tick --why\n```\n', ["tick --why: --why"]),
        ("`duly accounts pause\\|resume NAME --why TEXT`, `duly --version`, `duly.toml`", []),
    ],
)
def test_what_is_not_there_is_found(text: str, found: list[str]) -> None:
    """The search sees spans and blocks, several lines, and what the shell puts between commands."""
    assert [one for mention in mentions(text) for one in wrong(mention)] == found


def test_the_page_has_every_event_of_a_worker() -> None:
    """The names of the table of log lines are those that the code writes."""
    code = (ROOT / "src/duly/runtime/telemetry.py").read_text(encoding="utf-8")
    table = PAGE.read_text(encoding="utf-8").partition("| event | level |")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    written = re.findall(r"_log\.\w+\(\"(\w+)\"", code)
    assert len(written) > 10
    assert {name for row in rows for name in spans(row)} == set(written)
