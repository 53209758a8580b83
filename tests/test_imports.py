"""What import-linter cannot say about imports: what a room may use at all, and what `import duly` costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from typing import Final

import pytest

from tests.tidy.project import Module, modules, texts

INNER_ROOMS: Final = ("src/duly/core/", "src/duly/flows/", "src/duly/ports/", "src/duly/errors.py")
HEAVY: Final = {
    "aiosmtplib",
    "asyncio",
    "asyncpg",
    "fastapi",
    "jinja2",
    "psycopg",
    "pycurl",
    "pydantic",
    "rich",
    "typer",
    "uvicorn",
    "uvloop",
}
#: Packages that come with another one, at its version.
PARTS: Final = {"fastapi": "starlette", "psycopg": "psycopg-pool", "pydantic": "pydantic-core"}

EVERY_MODULE: Final = """
import importlib, pkgutil, duly
for found in pkgutil.walk_packages(duly.__path__, "duly."):
    importlib.import_module(found.name)
    print(found.name)
"""


@pytest.mark.parametrize("module", [m for m in modules() if m.path.startswith(INNER_ROOMS)], ids=lambda m: m.path)
def test_inner_rooms_use_the_standard_library_only(module: Module) -> None:
    """Core, flows, ports and errors import nothing but Duly and the standard library."""
    assert set(_roots(module)) <= sys.stdlib_module_names | {"duly"}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("src/", ["postgres", "fast", "serve"]),
        ("tests/", ["postgres", "test"]),
        ("bench/", ["postgres", "fast", "bench"]),
        ("soak/", ["postgres", "test"]),
    ],
)
def test_what_is_imported_is_declared(folder: str, extras: list[str]) -> None:
    """Every package that a folder imports is named in pyproject.toml, where a fresh machine installs it from."""
    roots = {root for module in modules() if module.path.startswith(folder) for root in _roots(module)}
    foreign = roots - sys.stdlib_module_names - {"duly", "tests", "bench", "soak"}
    installed = packages_distributions()
    names = {root: {_normal(name) for name in installed.get(root, [root])} for root in foreign}
    assert [root for root in sorted(foreign) if not names[root] & _declared(extras)] == []


def _declared(extras: list[str]) -> set[str]:
    """Names of distributions: the dependencies, those of the extras, and what is a part of these."""
    project = tomllib.loads(texts()["pyproject.toml"])["project"]
    rows = project["dependencies"] + [row for extra in extras for row in project["optional-dependencies"][extra]]
    names = {_normal(re.split(r"[^\w.-]", row)[0]) for row in rows}
    return names | {PARTS[name] for name in names & PARTS.keys()}


def _normal(name: str) -> str:
    """A distribution's name in its one normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _roots(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str() as name):
                yield name.partition(".")[0]


def test_every_module_can_be_imported() -> None:
    """No module of Duly is broken, also one that nothing else imports."""
    names = _python(EVERY_MODULE).split()
    assert {"duly.core.states", "duly.ports"} <= set(names)


def test_importing_duly_is_light() -> None:
    """`import duly` in somebody's application loads no driver, no framework and no event loop."""
    loaded = _python("import sys, duly; print(*sys.modules)").split()
    assert HEAVY.isdisjoint(loaded)


def _python(program: str) -> str:
    """What a fresh interpreter prints when it runs the program."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout
