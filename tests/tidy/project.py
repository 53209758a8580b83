"""The project as data for the tidy tests: its files, read once, and its Python modules, parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
NOT_OURS: Final = {
    ".coverage",
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "dist",
}


@dataclass(frozen=True)
class Module:
    """A Python file: its path from the root with forward slashes, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parse(path: str, text: str) -> Module:
    """A module from its text."""
    return Module(path, text, ast.parse(text))


@cache
def texts() -> dict[str, str]:
    """Every text file of the project by its path from the root."""
    found = {}
    for path in _files(ROOT):
        try:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


@cache
def modules() -> tuple[Module, ...]:
    """Every Python file of the project."""
    return tuple(parse(path, text) for path, text in texts().items() if path.endswith(".py"))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in NOT_OURS or path.match(".coverage.*"):
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path
