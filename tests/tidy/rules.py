"""The rules of the house as functions: a module goes in, complaints come out.

Each rule says where it holds, what it finds (a line and what is wrong there) and what to do instead. What
ruff, mypy and import-linter already check is not repeated here. An exception to a rule is a row in
`ALLOWED`, with its reason; a row that excuses nothing any more fails a test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tests.tidy.project import Module

FUNCTION_LINES_MAX: Final = 70
MODULE_LINES_MAX: Final = 500
TEST_MODULE_LINES_MAX: Final = 1_000

Complaints = Iterator[tuple[int, str]]


class Rule(NamedTuple):
    """One rule: where it holds (path prefixes, and those taken out again), and how it looks."""

    name: str
    where: tuple[str, ...]
    but_not: tuple[str, ...]
    find: Callable[[Module], Complaints]

    def holds_in(self, path: str) -> bool:
        """Whether the rule is about this file."""
        return path.startswith(self.where) and not path.startswith(self.but_not)


# --- size ----------------------------------------------------------------------------------------


def long_functions(module: Module) -> Complaints:
    """A function that does not fit on a screen is a list of steps that nobody wrote down."""
    for node in module.functions():
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield node.lineno, f"{node.name} has {lines} lines, over {FUNCTION_LINES_MAX}: name its steps"


def long_modules(module: Module) -> Complaints:
    """A long module holds two rooms."""
    most = TEST_MODULE_LINES_MAX if module.path.startswith("tests/") else MODULE_LINES_MAX
    lines = module.text.count("\n")
    if lines > most:
        yield 1, f"{lines} lines, over {most}: find the two rooms in it"


# --- names ---------------------------------------------------------------------------------------

VAGUE_WORDS: Final = {"manager", "helper", "helpers", "util", "utils"}
OTHER_WORDS: Final = {  # what others call it -> what the glossary calls it
    "job": "reminder or delivery",
    "jobs": "reminders or deliveries",
    "task": "reminder or delivery",
    "tasks": "reminders or deliveries",
    "tenant": "account",
    "tenants": "accounts",
}
VAGUE_VERBS: Final = {"process", "handle"}
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def vague_names(module: Module) -> Complaints:
    """A name says what the thing is, in the words of the glossary."""
    for line, name in _named(module.tree):
        words = [word.lower() for word in WORD.findall(name)]
        for word in words:
            if word in VAGUE_WORDS:
                yield line, f"{name}: say what it is"
            elif word in OTHER_WORDS:
                yield line, f"{name}: the glossary says {OTHER_WORDS[word]}"
        if name == "data2" or (words and words[0] in VAGUE_VERBS):
            yield line, f"{name}: say what is done"


def _named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name that the module gives to something, with its line. Names of others are theirs."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str() as name):
                yield node.lineno, name


LIMIT_WORDS: Final = {
    "max",
    "min",
    "limit",
    "timeout",
    "interval",
    "window",
    "margin",
    "grace",
    "patience",
    "size",
    "wait",
}
UNITS: Final = {"ms", "us", "ns", "kib", "mib"}
PLAIN_NUMBERS: Final = {"depth", "exponent", "percent", "port", "ratio", "version", "year"}


def limits_without_unit(module: Module) -> Complaints:
    """A constant that limits something says in which unit: LEASE_MARGIN_SECONDS, BATCH_ROWS_MAX."""
    for node in ast.walk(module.tree):
        name = _constant_number(node)
        words = set(name.lower().split("_"))
        if words & LIMIT_WORDS and not any(map(_is_unit, words - LIMIT_WORDS)):
            yield getattr(node, "lineno", 1), f"{name}: end it with its unit, as in {name}_SECONDS or {name}_ROWS"


def _constant_number(node: ast.AST) -> str:
    """The name of a constant that is given a number, or nothing."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            return name if name.isupper() and _is_number(value) else ""
    return ""


def _is_number(value: ast.expr | None) -> bool:
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def _is_unit(word: str) -> bool:
    """A unit of measure, a counted thing (a plural), or what is a number by itself."""
    return word in UNITS | PLAIN_NUMBERS or (word.endswith("s") and not word.endswith("ss"))


# --- time and chance -----------------------------------------------------------------------------

CLOCKS: Final = {
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "clock_gettime",
    "sleep",
}
WALL_CLOCKS: Final = {"now", "utcnow", "today"}
DICE: Final = {"random", "secrets"}
CHANCE: Final = {("uuid", "uuid1"), ("uuid", "uuid4"), ("os", "urandom")}
WALL_CLOCK_OWNERS: Final = {"datetime", "date", "dt"}


def clock_and_dice(module: Module) -> Complaints:
    """Time and chance are arguments, so that a simulation can choose them."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=attr) if attr in CLOCKS:
                yield node.lineno, f"time.{attr}: take the time as an argument"
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attr) if (
                attr in WALL_CLOCKS and owner in WALL_CLOCK_OWNERS
            ):
                yield node.lineno, f"{owner}.{attr}: take the time as an argument"
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if (owner, attr) in CHANCE:
                yield node.lineno, f"{owner}.{attr}: ids are derived, jitter is an argument"
            case ast.Import(names=names):
                yield from (
                    (node.lineno, f"import {a.name}: take a roll of the dice as an argument")
                    for a in names
                    if a.name in DICE
                )
            case ast.ImportFrom(module=str() as owner, names=names):
                yield from (
                    (node.lineno, f"from {owner} import {a.name}: take it as an argument")
                    for a in names
                    if _is_source(owner, a.name)
                )


def _is_source(owner: str, name: str) -> bool:
    return owner in DICE or (owner == "time" and name in CLOCKS) or (owner, name) in CHANCE


# --- SQL -----------------------------------------------------------------------------------------

SQL: Final = re.compile(
    r"\s*(select\s.+\sfrom\s|select\s+\w+\(|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|truncate\s|"
    r"(create|alter|drop)\s+(unique\s+|temp\w*\s+|or\s+replace\s+)*(table|index|view|database|schema|role|function)\s|"
    r"with\s+(recursive\s+)?\w+\s*(\([^)]*\)\s*)?as\s+(not\s+)?(materialized\s+)?\()",
    re.IGNORECASE | re.DOTALL,
)
SESSION_LINE: Final = re.compile(
    r"\s*(pragma\s|begin\b|commit\b|rollback\b|savepoint\s|release\s|select\s+set_config\()[^\n]*$", re.IGNORECASE
)


def sql_in_python(module: Module) -> Complaints:
    """Statements live in .sql files, named and commented. One-liners about the session may stay."""
    prose = _docstrings(module.tree)
    for node in ast.walk(module.tree):
        match node:
            case ast.Constant(value=str() as text) if (
                node not in prose and SQL.match(text) and not SESSION_LINE.match(text)
            ):
                yield node.lineno, f"{' '.join(text.split())[:40]!r}: move it into a .sql file and name it"


def _docstrings(tree: ast.Module) -> set[ast.Constant]:
    """Every string that stands alone as a statement."""
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}


# --- tests ---------------------------------------------------------------------------------------

CHECKING_CALL: Final = re.compile(r"(assert|check|expect|require|must|raises|warns|fail|verify|holds)(_|$)")


def _tests(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in module.functions() if node.name.startswith("test_"))


def tests_without_a_sentence(module: Module) -> Complaints:
    """A test says in one sentence what must hold."""
    for node in _tests(module):
        sentence = ast.get_docstring(node) or ""
        if not sentence.endswith((".", "!", "?")) or "\n\n" in sentence:
            yield node.lineno, f"{node.name}: say in one sentence, as its docstring, what must hold"


def tests_that_cannot_fail(module: Module) -> Complaints:
    """A test that checks nothing proves nothing."""
    for node in _tests(module):
        if not any(map(_checks, ast.walk(node))):
            yield node.lineno, f"{node.name}: nothing in it can fail; assert what must hold"


def _checks(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Raise():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return CHECKING_CALL.match(name.lstrip("_")) is not None
    return False


def patched_code(module: Module) -> Complaints:
    """Doubles are written from the contract and shipped in duly.testing; nothing is patched in."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names) if any(a.name in {"mock", "unittest.mock"} for a in names):
                yield node.lineno, "mock: use a double of duly.testing"
            case ast.ImportFrom(module="mock" | "unittest.mock"):
                yield node.lineno, "mock: use a double of duly.testing"
            case ast.ImportFrom(module="unittest", names=names) if any(a.name == "mock" for a in names):
                yield node.lineno, "mock: use a double of duly.testing"
            case ast.Attribute(value=ast.Name(id="monkeypatch"), attr="setattr" | "delattr" | "setitem" | "delitem"):
                yield node.lineno, f"monkeypatch.{node.attr}: pass a double of duly.testing instead"


# --- the list ------------------------------------------------------------------------------------

OURS: Final = ("src/", "tests/", "tools/", "bench/", "soak/")
OUTER_ROOMS: Final = ("src/duly/runtime/", "src/duly/cli/", "src/duly/testing/")

RULES: Final = (
    Rule("short functions", OURS, (), long_functions),
    Rule("short modules", OURS, (), long_modules),
    Rule("names that say it", OURS, (), vague_names),
    Rule("limits with units", OURS, (), limits_without_unit),
    Rule("no clock, no dice", ("src/",), OUTER_ROOMS, clock_and_dice),
    Rule("SQL in .sql files", ("src/",), (), sql_in_python),
    Rule("tests say what must hold", ("tests/",), (), tests_without_a_sentence),
    Rule("tests can fail", ("tests/",), (), tests_that_cannot_fail),
    Rule("doubles, not patches", ("tests/",), ("tests/cli/",), patched_code),
)

#: (rule, file, start of the complaint) -> why it may stay.
ALLOWED: Final[dict[tuple[str, str, str], str]] = {
    ("no clock, no dice", "src/duly/sim/chance.py", "import random"): "every stream of a simulation has a seed",
    ("names that say it", "tests/transports/test_smtp.py", "handle_DATA"): "aiosmtpd calls it by that name",
    ("no clock, no dice", "src/duly/stores/postgres/schema.py", "import secrets"): "init makes the namespace once",
    ("no clock, no dice", "src/duly/stores/sqlite/connect.py", "time.time_ns"): "it is the clock of this database",
    ("no clock, no dice", "src/duly/stores/sqlite/schema.py", "import secrets"): "init makes the namespace once",
}


def complaints(rule: Rule, module: Module) -> list[str]:
    """What the rule has against the module, one clear line each, without what is allowed."""
    return [f"{module.path}:{line}: {text}" for line, text in rule.find(module) if excuse(rule, module, text) is None]


def excuse(rule: Rule, module: Module, text: str) -> tuple[str, str, str] | None:
    """The row of ALLOWED that lets this complaint pass."""
    for row in ALLOWED:
        if (rule.name, module.path) == row[:2] and text.startswith(row[2]):
            return row
    return None
