"""What holds for the texts of the project: no foreign word, no dead link, no page that is behind the code."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.project import ROOT, texts

# Each is spelt in two parts, so that this file does not hold it.
FOREIGN_WORDS: Final = [
    re.escape(first + second)
    for first, second in [
        ("../", "shared"),
        ("sub", "agent"),
        ("closing", " note"),
        ("issue", " #"),
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npmjs", ".com"),
        ("docker", ".io"),
        ("ghcr", ".io"),
        ("/opt/", "wheels"),
    ]
]
SOMEONES_FOLDERS: Final = [rf"(?<![\w./-])/{name}/" for name in ("work", "root", "home", "Users")]
FOREIGN: Final = re.compile("|".join(FOREIGN_WORDS + SOMEONES_FOLDERS), re.IGNORECASE)

PAGES: Final = {path: text for path, text in texts().items() if path.endswith(".md")}
GENERATORS: Final = sorted((ROOT / "tools").glob("*_page.py"))
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED_PATH: Final = re.compile(r"`((?:src|docs|tests|tools|bench|examples|deploy)/[^`\s*<>{}]*|\.ci/\w+)`")
MAKE_TARGET: Final = re.compile(r"`make ([a-z]+)")
CODE_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_no_text_holds_a_foreign_word() -> None:
    """No file names a package registry, a folder of somebody's machine, or what is no part of the project."""
    found = [f"{path}:{line}: {word}" for path, text in texts().items() for line, word in _foreign(text)]
    assert not found, "\n" + "\n".join(found)


def _foreign(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        yield from ((number, match.group()) for match in FOREIGN.finditer(line))


@pytest.mark.parametrize(
    "line", ["see .." + "/shared/x", "cd /wor" + "k/main", "https://pyp" + "i.org/duly", "fixes Issu" + "e #4"]
)
def test_foreign_words_are_found(line: str) -> None:
    """The search finds a foreign word wherever it stands in a line."""
    assert FOREIGN.search(line)


@pytest.mark.parametrize(
    "line", ["the work/sleep ratio", "src/duly/work/x", "https://example.com/home/", "an issue of weight"]
)
def test_plain_words_are_left_alone(line: str) -> None:
    """The search does not take a path inside the project or an address for somebody's folder."""
    assert not FOREIGN.search(line)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    """A link inside the project names a file, and a heading, that exist."""
    links = [link for link in LINK.findall(CODE_BLOCK.sub("", PAGES[page])) if not re.match(r"[a-z]+:", link)]
    assert [link for link in links if not _leads_somewhere(page, link)] == []


def test_the_index_leads_to_every_page() -> None:
    """No page of the documentation is left out of docs/index.md."""
    linked = {f"docs/{link}" for link in LINK.findall(PAGES["docs/index.md"])}
    assert {page for page in PAGES if page.startswith("docs/")} - linked <= {"docs/index.md"}


def _leads_somewhere(page: str, link: str) -> bool:
    name, _, heading = link.partition("#")
    target = (ROOT / page).parent / name if name else ROOT / page
    if not target.exists():
        return False
    return not heading or heading in _headings(target.read_text(encoding="utf-8"))


def _headings(text: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_in_the_prose_exists(page: str) -> None:
    """A file or folder of the project that a page names in code quotes is there."""
    assert [path for path in NAMED_PATH.findall(PAGES[page]) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_in_the_prose_exists(page: str) -> None:
    """A page sends nobody to a door that the Makefile does not have."""
    doors = set(re.findall(r"^([a-z]+):", texts()["Makefile"], re.MULTILINE))
    assert set(MAKE_TARGET.findall(PAGES[page])) <= doors


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda path: path.stem)
def test_generated_pages_are_fresh(generator: Path) -> None:
    """A page that is drawn from the code says what the code says now; `make docs` writes it again."""
    spec = importlib.util.spec_from_file_location(generator.stem, generator)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.PAGE.read_text(encoding="utf-8") == page.render()


def test_some_pages_are_generated() -> None:
    """The search for generators finds the one of the table of states."""
    assert "states_page" in {path.stem for path in GENERATORS}


def test_the_changelog_knows_this_version() -> None:
    """The version of pyproject.toml has its own heading in the changelog."""
    version = tomllib.loads(texts()["pyproject.toml"])["project"]["version"]
    assert re.search(rf"^## \[{re.escape(version)}\]", texts()["CHANGELOG.md"], re.MULTILINE)


def test_every_ignored_rule_has_a_reason() -> None:
    """Ruff runs with every rule on; each one that is off says why, on its own line."""
    section = texts()["pyproject.toml"].partition("[tool.ruff.lint]")[2].partition("[tool.mypy]")[0]
    rules = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]+\d*",', line)]
    assert 'select = ["ALL"]' in section
    assert rules
    assert [line for line in rules if not re.search(r",\s+# \w", line)] == []
