"""The rules of `rules.py` hold in every module, and each of them finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.tidy.project import modules, parse
from tests.tidy.rules import ALLOWED, FUNCTION_LINES_MAX, MODULE_LINES_MAX, RULES, Rule, complaints, excuse

BY_NAME = {rule.name: rule for rule in RULES}

#: rule -> samples that break it
BROKEN = {
    "short functions": ["def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX],
    "short modules": ["x = 1\n" * (MODULE_LINES_MAX + 1)],
    "names that say it": [
        "class LeaseManager: ...",
        "class HTTPHelper: ...",
        "def f(date_utils): ...",
        "def process_rows(): ...",
        "handle = 1",
        "data2 = 1",
        "self.job_id = 1",
        "def f(tenant): ...",
        "import asyncio as tasks",
    ],
    "limits with units": ["BODY_MAX = 10", "TIMEOUT: Final = 2.5", "ADDRESS_SIZE = 2 * 1024"],
    "no clock, no dice": [
        "import time\ntime.monotonic()",
        "from time import time",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "import random",
        "from secrets import token_hex",
        "uuid.uuid4()",
        "from os import urandom",
    ],
    "SQL in .sql files": [
        "run('select id from work')",
        "run('SELECT pg_advisory_lock(1)')",
        "run(f'''\n  insert into {table} values (1)''')",
        "run('update work set state = 1')",
        "run('with due as (select 1) select 1')",
        "run('create unique index i on work (id)')",
        "run('begin;\\nselect id from work')\nrun('delete from work')",
    ],
    "tests say what must hold": [
        "def test_x():\n    assert x",
        "async def test_x():\n    'no full stop'\n    assert x",
        "def test_x():\n    '''One.\n\n    Two.'''\n    assert x",
    ],
    "tests can fail": ["def test_x():\n    'It runs.'\n    work()", "class TestX:\n    def test_y(self): ..."],
    "doubles, not patches": [
        "from unittest.mock import patch",
        "from unittest import mock",
        "import unittest.mock",
        "monkeypatch.setattr(deliver, 'admit', no)",
    ],
}

#: rule -> samples that look alike and are fine
FINE = {
    "short functions": ["def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)],
    "short modules": ["x = 1\n" * MODULE_LINES_MAX],
    "names that say it": ["lease = 1", "def processes(): ...", "asyncio.Task()", "curl.handle()", "robot = 1"],
    "limits with units": ["BODY_BYTES_MAX = 10", "TIMEOUT_MS = 5", "MAX = timedelta(1)", "PORT = 80", "body_max = 1"],
    "no clock, no dice": [
        "clock.reading()",
        "import time\ntime.strptime('1', '%H')",
        "batch.now",
        "uuid.UUID(bytes=x)",
    ],
    "SQL in .sql files": [
        "'''Select a batch from the work that is ready.'''",
        "say('selected rows')",
        "run('begin immediate')",
        "run('PRAGMA journal_mode = wal')",
        "run(\"select set_config('application_name', %s, false)\")",
    ],
    "tests say what must hold": ["def test_x():\n    'It holds.'\n    assert x", "def make(): ..."],
    "tests can fail": [
        "def test_x():\n    with pytest.raises(ValueError):\n        work()",
        "def test_x():\n    check_ledger(store)",
        "def test_x():\n    assert x",
    ],
    "doubles, not patches": ["monkeypatch.setenv('X', '1')", "import unittest"],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_house_keeps_the_rule(rule: Rule) -> None:
    """No module of the project breaks the rule."""
    found = [line for module in modules() if rule.holds_in(module.path) for line in complaints(rule, module)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BROKEN.items() for text in texts])
def test_the_rule_bites(name: str, text: str) -> None:
    """Each rule complains about each sample that breaks it."""
    assert list(BY_NAME[name].find(parse("sample.py", text)))


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FINE.items() for text in texts])
def test_the_rule_lets_pass(name: str, text: str) -> None:
    """No rule complains about a sample that is fine."""
    assert list(BY_NAME[name].find(parse("sample.py", text))) == []


def test_every_rule_has_samples() -> None:
    """A new rule comes with samples of both kinds."""
    assert BROKEN.keys() == FINE.keys() == BY_NAME.keys()


def test_every_exception_is_needed() -> None:
    """A row of ALLOWED that excuses nothing any more is taken out."""
    used = {
        excuse(rule, module, text)
        for rule in RULES
        for module in modules()
        if rule.holds_in(module.path)
        for _, text in rule.find(module)
    }
    assert set(ALLOWED) <= used
